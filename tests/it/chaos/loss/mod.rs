//! Promise 3 with real servers: every fault that takes a room's data, against every way a fan can
//! stand.
//!
//! `faults.rs` has the rows, `fans.rs` the columns, `place.rs` the room, SQL, admitters and gateway.
//! All rows are played at the same time, each in a place of its own.

mod crowd;
mod fans;
pub(crate) mod fate;
mod faults;
mod place;
mod sale;
mod slow_disk;

use std::collections::BTreeMap;
use std::time::Duration;

use catraca::admitter::ledger::entry_of;
use catraca::base::ids::{Edition, FanId, Generation};
use catraca::check::{self, Finding, Paths, Verdict};
use catraca::room::model::command::{Change, LedgerEntry, RoomState};
use serde_json::json;
use tokio::time::Instant;

use crate::chaos::loss::fans::{Fans, Kind, Way};
use crate::chaos::loss::faults::{Fault, mended};
use crate::chaos::loss::place::{Place, RESTORE_PER_S, show, within};
use crate::support::need::{Need, REDIS, VALKEY};

/// What is left of the room's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Everything: what was not copied is copied by the mender.
    All,
    /// The queue, but perhaps not its end.
    Queue,
    Nothing,
}

/// A row: a fault, on this server, the generation it leads to at least, and what it leaves.
struct Row(Fault, &'static Need, u64, Left);

const ROWS: &[Row] = &[
    Row(Fault::Flush, &REDIS, 2, Left::Nothing),
    Row(Fault::Flush, &VALKEY, 2, Left::Nothing),
    Row(Fault::EmptyRestart, &REDIS, 2, Left::Nothing),
    Row(Fault::Killed("everysec"), &REDIS, 2, Left::Queue),
    Row(Fault::Killed("always"), &REDIS, 2, Left::All),
    Row(Fault::Killed("always"), &VALKEY, 2, Left::All),
    Row(Fault::KilledOnASlowDisk, &REDIS, 2, Left::Queue),
    Row(Fault::RewindingFailover, &REDIS, 2, Left::Queue),
    Row(Fault::RewindingFailover, &VALKEY, 2, Left::Queue),
    Row(Fault::ThereAndBack, &REDIS, 3, Left::All),
    Row(Fault::OldReplica, &REDIS, 3, Left::Nothing),
    Row(Fault::GatewayKilled, &REDIS, 2, Left::Nothing),
    Row(Fault::SqlStopped, &REDIS, 2, Left::Nothing),
    Row(Fault::MenderKilled, &REDIS, 21, Left::Nothing),
    Row(Fault::TwoMenders, &REDIS, 3, Left::Nothing),
];

/// Deadlines that the promise names, times three: the machine is busy.
const MENDED_MAX: Duration = Duration::from_secs(3 * 15);
const BACK_SLACK_MAX: Duration = Duration::from_secs(3 * 20);
/// For so long before a loss is found entries may be missing: a second, times three.
const TAIL_MAX: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_takes_nobodys_place() {
    let here = tokio::task::LocalSet::new();
    let mut plays = Vec::new();
    for Row(fault, need, generation, left) in ROWS {
        if let Some(server) = fault.server(need) {
            let name = format!("{fault:?} on {}", need.what);
            let play = play(server, need, *fault, (*generation, *left));
            plays.push((name, here.spawn_local(play)));
        }
    }
    let mut failed = Vec::new();
    here.run_until(async {
        for (name, play) in plays {
            match play.await {
                Ok(figures) => eprintln!("{name}: {figures}"),
                Err(_) => failed.push(name),
            }
        }
    })
    .await;
    assert!(failed.is_empty(), "failed, as said above: {failed:?}");
}

async fn play(
    server: crate::support::redis::Server,
    need: &'static Need,
    fault: Fault,
    (generation, left): (u64, Left),
) -> String {
    let settings = json!({
        "name": "Lost Show", "rate": 100, "capacity": 100, "claim_ms": 5_000,
        "ticket_ttl_ms": 2_000, "restore_per_s": RESTORE_PER_S, "stock_guard": false,
    });
    let mut place = Place::open(server, settings).await;
    let mut fans = Fans::stand(&mut place).await;
    let waiting = place.board().await.unwrap().waiting;
    let issued = place.board().await.unwrap().issued.0;

    if fault != Fault::OldReplica {
        fans.leave_last(&place).await;
    }
    let struck = Instant::now();
    fault.strike(&mut place, need).await;
    mended(&place, generation).await;
    let mended_in = struck.elapsed();
    let is_timed = !matches!(
        fault,
        Fault::MenderKilled | Fault::ThereAndBack | Fault::OldReplica
    );
    assert!(!is_timed || mended_in <= MENDED_MAX, "{mended_in:?}");

    // Who is new gets a number above all others, at once.
    let newcomer = fans
        .join_one(&place, (Kind::Waiting, Way::Poller, "admitted"))
        .await;
    assert!(issued < newcomer.number, "{newcomer:?}");
    fans.all.push(newcomer);

    let back_in = come_back(&place, &mut fans).await;
    let most = Duration::from_millis(waiting * 1_000 / RESTORE_PER_S) + BACK_SLACK_MAX;
    assert!(back_in <= most, "{back_in:?}, at most {most:?}");
    let board = place.board().await.unwrap();
    assert_eq!(
        (board.live, board.state),
        (2, RoomState::Open),
        "full all the time"
    );

    place.set(json!({ "capacity": 1_000 })).await;
    everybody_in_turn(&place, &mut fans).await;
    place.copied().await;
    judge(&place, &fans, (left, mended_in + TAIL_MAX)).await;
    format!("mended in {mended_in:.1?}, the last fan back in {back_in:.1?}")
}

/// Everybody but the late comes back; says when the last had. Waits until calls go on.
async fn come_back(place: &Place, fans: &mut Fans) -> Duration {
    let begun = Instant::now();
    let generation = place.board().await.unwrap().generation.0;
    let mut back_in = None;
    within("the line is whole", Duration::from_secs(120), async || {
        fans.round(place, false).await;
        let is_back = |fan: &fans::Fan| {
            fan.way == Way::Late || fan.kind == Kind::OlderEdition || fan.generation == generation
        };
        if fans.all.iter().all(is_back) {
            back_in.get_or_insert_with(|| begun.elapsed());
        }
        let is_open = place.board().await?.state == RoomState::Open;
        (is_open && back_in.is_some()).then_some(())
    })
    .await;
    back_in.unwrap()
}

/// Room is made: all are called, and the late, whom serving has passed, are next.
async fn everybody_in_turn(place: &Place, fans: &mut Fans) {
    for late_come in [false, true] {
        within(
            "everybody's turn has come",
            Duration::from_secs(60),
            async || {
                fans.round(place, late_come).await;
                let is_done = |fan: &fans::Fan| {
                    let is_out = fan.way == Way::Late && !late_come;
                    is_out || fan.told == fan.expected || fan.kind == Kind::LeavesLast
                };
                let last = fans.all.iter().map(|fan| fan.number).max()?;
                let is_passed = last <= place.board().await?.serving.0;
                (is_passed && fans.all.iter().all(is_done)).then_some(())
            },
        )
        .await;
    }
}

/// The ledger in SQL.
async fn ledger(place: &Place) -> Vec<LedgerEntry> {
    let after = (Generation(0), 0);
    let id = show();
    let rows = place.sql.ledger(&id, Edition(1), after, 100_000).await;
    rows.unwrap()
        .iter()
        .map(|row| entry_of(row).unwrap())
        .collect()
}

/// `most`: for so long entries may be missing.
async fn judge(place: &Place, fans: &Fans, (left, most): (Left, Duration)) {
    let ledger = ledger(place).await;
    let mut numbers = BTreeMap::new();
    for fan in fans.all.iter().filter(|fan| fan.kind != Kind::OlderEdition) {
        assert_eq!(numbers.insert(fan.number, fan.id), None, "{fan:?}");
        let first = fan.tickets.first();
        assert!(
            fan.tickets.iter().all(|ticket| Some(ticket) == first),
            "{fan:?}"
        );
        ends_hold(fan, &ledger);
        if fan.kind == Kind::LeavesLast {
            // Copied by the mender where it could be found; else it must be said again.
            assert!(left != Left::All || fan.told == fan.expected, "{fan:?}");
        }
    }
    let (broken, unproved) = judged(place, fans).await;
    assert!(broken.is_empty(), "{broken:?}");
    let is_truthful = !unproved.is_empty() && unproved.iter().all(|said| *said <= most);
    assert!(is_truthful, "at most {most:?}: {unproved:?}");
}

/// The promises that the checker says were broken, and of how much time it says that a loss leaves
/// something unproved: one length for each loss.
async fn judged(place: &Place, fans: &Fans) -> (Vec<Verdict>, Vec<Duration>) {
    let verdicts = verdicts(place, fans).await;
    let lost = verdicts
        .iter()
        .find(|verdict| verdict.promise.number() == 3);
    let lengths = lost.unwrap().unproved.iter().filter_map(|text| {
        let (_, said) = text.split_once("entries of the ")?;
        let (ms, _) = said.split_once(" ms until")?;
        Some(Duration::from_millis(ms.parse().unwrap()))
    });
    let lengths = lengths.collect();
    let is_broken = |verdict: &Verdict| verdict.finding() == Finding::Broken;
    let broken = verdicts.into_iter().filter(is_broken).collect();
    (broken, lengths)
}

/// Nobody is called after an end that the ledger holds.
fn ends_hold(fan: &fans::Fan, ledger: &[LedgerEntry]) {
    let mut has_ended = false;
    for entry in ledger {
        match &entry.change {
            Change::Ended { fan: ended, .. } if *ended == fan.id => has_ended = true,
            Change::Called(called) => {
                let is_called = |(other, _): &(FanId, _)| *other == fan.id;
                assert!(!has_ended || !called.fans.iter().any(is_called), "{fan:?}");
            }
            _ => {}
        }
    }
}

async fn verdicts(place: &Place, fans: &Fans) -> Vec<Verdict> {
    let history: String = fans
        .history
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    let path = place.folder().join("history.ndjson");
    std::fs::write(&path, history).unwrap();
    let paths = Paths {
        data_dir: place.folder().to_owned(),
        database: None,
        histories: vec![path],
    };
    check::judge(&check::load(&paths).await.unwrap())
}
