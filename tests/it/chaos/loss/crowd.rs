//! The same at size: a full line, calls and purchases under way, all data gone, and everybody comes
//! back as pages do. Meanwhile the server is told ten times a second to forget our scripts.
//!
//! `CATRACA_LOSS_FANS` says how many fans; `./dev drill loss` runs it with two million.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::time::Duration;

use catraca::base::ids::{Edition, FanId, Generation, IdSource, Number, Place as InLine};
use catraca::base::limits::BATCH_MAX;
use catraca::room::Store as RoomStore;
use catraca::room::in_redis::InRedis;
use catraca::room::model::command::{
    Change, Claimed, Command, Joined, Joining, LedgerEntry, Origin, Outcome, Restored, Restoring,
    RoomState,
};
use serde_json::json;
use tokio::time::Instant;

use crate::chaos::loss::fans::{Fans, Kind, Way};
use crate::chaos::loss::faults::mended;
use crate::chaos::loss::place::{Place, show, within};
use crate::chaos::loss::{TAIL_MAX, judged, ledger};
use crate::support::need::REDIS;
use crate::support::redis::Server;

/// How many fans, where nobody says.
const FANS: usize = 100_000;
/// The variable that says.
const FANS_VARIABLE: &str = "CATRACA_LOSS_FANS";
/// As the default of a show.
const RESTORE_PER_S: usize = 20_000;
/// Every so manieth comes back only when serving has passed.
const LATE_EVERY: u64 = 10;
/// The room is called from for so long before the loss, and after the line is whole again.
const LIFE: Duration = Duration::from_secs(3);
/// Deadlines that the promise names, times three.
const MENDED_MAX: Duration = Duration::from_secs(3 * 15);
/// Beyond the time at the rate at which fans may come back.
const BACK_MAX: Duration = Duration::from_secs(3 * 20);

/// Everybody, by number, and what they did.
struct Crowd {
    store: InRedis,
    fans: BTreeMap<u64, FanId>,
    /// Ends that were answered, and when.
    ends: BTreeMap<FanId, Instant>,
    seen: u64,
}

impl Crowd {
    async fn say(&self, command: Command) -> Outcome {
        self.store.apply(&show(), &command).await.unwrap()
    }

    async fn join(&mut self, count: usize) {
        let ids = IdSource::random();
        let mut left = count;
        while 0 < left {
            let fans: Vec<FanId> = (0..left.min(BATCH_MAX)).map(|_| ids.fan()).collect();
            left -= fans.len();
            let origin = Origin::Minted;
            let joining = fans.iter().map(|&fan| Joining { fan, origin }).collect();
            let Outcome::Joined(joined) = self.say(Command::Join { joining }).await else {
                panic!("another answer");
            };
            for (fan, joined) in fans.into_iter().zip(joined) {
                let Joined::New { number } = joined else {
                    panic!("{joined:?}");
                };
                assert_eq!(
                    self.fans.insert(number.0, fan),
                    None,
                    "{number} was given twice"
                );
            }
        }
    }

    /// The called come in. A third of them buys, a third leaves, the others stay.
    async fn live(&mut self, place: &Place, until: Instant) {
        while Instant::now() < until {
            let serving = place.board().await.map_or(0, |board| board.serving.0);
            let called: Vec<FanId> = self
                .fans
                .range(self.seen + 1..serving.max(self.seen) + 1)
                .map(|(_, fan)| *fan)
                .collect();
            self.seen = self.seen.max(serving);
            for fans in called.chunks(BATCH_MAX) {
                let fans = fans.to_vec();
                let claim = Command::Claim { fans: fans.clone() };
                let Outcome::Claimed(claimed) = self.say(claim).await else {
                    panic!("another answer");
                };
                for (n, (fan, claimed)) in fans.into_iter().zip(claimed).enumerate() {
                    assert!(matches!(claimed, Claimed::Admitted { .. }), "{claimed:?}");
                    match n % 3 {
                        0 => drop(self.say(Command::Consume { fan }).await),
                        1 => drop(self.say(Command::Leave { fan }).await),
                        _ => continue,
                    }
                    self.ends.insert(fan, Instant::now());
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Everybody but the late shows the pass, each when their turn to come back has come.
    async fn come_back(&self, serving: u64) -> usize {
        let begun = Instant::now();
        let ahead: Vec<(u64, FanId)> = self
            .fans
            .iter()
            .filter(|(number, _)| !number.is_multiple_of(LATE_EVERY) || **number <= serving)
            .map(|(number, fan)| (*number, *fan))
            .collect();
        let mut count = 0;
        for part in ahead.chunks(BATCH_MAX) {
            let after_ms = count as u64 * 1_000 / RESTORE_PER_S as u64;
            tokio::time::sleep_until(begun + Duration::from_millis(after_ms)).await;
            for restored in self.restore(part).await {
                assert!(
                    !matches!(restored, Restored::Void | Restored::Ahead),
                    "{restored:?}"
                );
            }
            count += part.len();
        }
        count
    }

    async fn restore(&self, fans: &[(u64, FanId)]) -> Vec<Restored> {
        let pass = |(number, fan): &(u64, FanId)| Restoring {
            fan: *fan,
            number: Number(*number),
            edition: Edition(1),
            generation: Generation(1),
            place: None,
        };
        let restoring = fans.iter().map(pass).collect();
        match self.say(Command::Restore { restoring }).await {
            Outcome::Restored(restored) => restored,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_line_comes_back() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let count = env::var(FANS_VARIABLE).map_or(FANS, |fans| fans.parse().unwrap());
    let address = server.address();
    let forgetful = tokio::spawn(forget_scripts(server.url()));
    let settings = json!({
        "name": "Lost Show", "rate": 500, "capacity": 4_000, "ticket_ttl_ms": 120_000,
        "restore_per_s": RESTORE_PER_S, "stock_guard": false,
    });
    let mut place = Place::open(server, settings).await;
    let mut crowd = Crowd {
        store: InRedis::connect(&format!("redis://{address}/"))
            .await
            .unwrap(),
        fans: BTreeMap::new(),
        ends: BTreeMap::new(),
        seen: 0,
    };
    let begun = Instant::now();
    crowd.join(count).await;
    let joined_in = begun.elapsed();
    let mut sample = the_last_in_line(&place).await;
    crowd.live(&place, Instant::now() + LIFE).await;
    let waiting = place.board().await.unwrap().waiting;

    let struck = Instant::now();
    place.servers[0].tell(&["FLUSHALL"]);
    let lost_in = struck.elapsed(); // two million fans are not gone at once
    mended(&place, 2).await;
    let mended_in = struck.elapsed();
    assert!(mended_in <= MENDED_MAX, "{mended_in:?}");
    let serving = place.board().await.unwrap().serving.0;
    let back = all_come_back(&crowd, &mut sample, &place, serving).await;
    let back_in = struck.elapsed() - mended_in;
    let most = Duration::from_millis(waiting * 1_000 / RESTORE_PER_S as u64) + BACK_MAX;
    assert!(back_in <= most, "{back_in:?}, at most {most:?}");
    within("calls go on", most + Duration::from_secs(60), async || {
        sample.round(&place, false).await;
        (place.board().await?.state == RoomState::Open).then_some(())
    })
    .await;
    assert!(
        sample.all.iter().all(|fan| fan.generation == 2),
        "{:?}",
        sample.all
    );

    tokio::time::sleep(LIFE).await;
    let late = the_late_are_next(&crowd, &place, serving).await;
    place.set(json!({ "rate": 0 })).await;
    place.copied().await;
    forgetful.abort();
    let entries = ledger(&place).await;
    let (lost, tail) = tail(&crowd, &entries, struck);
    in_order(&entries, &late);
    let (broken, unproved) = judged(&place, &sample).await;
    assert!(broken.is_empty(), "{broken:?}");
    // What is said to be missing at most is what was missing, and little more.
    let [said] = unproved[..] else {
        panic!("one loss: {unproved:?}");
    };
    assert!(
        tail <= said && said <= TAIL_MAX + lost_in,
        "{tail:?} lost, said: {said:?}"
    );
    eprintln!(
        "loss of {count} fans: joined in {joined_in:.1?}, mended in {mended_in:.1?}, {back} back in \
         {back_in:.1?}, {} late ones next when they came; {} ends answered, {lost} of them to be said \
         again, the first {tail:.1?} before the loss; unproved: {said:.1?}",
        late.len(),
        crowd.ends.len(),
    );
}

/// The crowd comes back to the room, the sample through the gateway.
async fn all_come_back(crowd: &Crowd, sample: &mut Fans, place: &Place, serving: u64) -> usize {
    let coming = crowd.come_back(serving);
    tokio::pin!(coming);
    loop {
        let round = async {
            sample.round(place, false).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        tokio::select! {
            back = &mut coming => return back,
            () = round => {}
        }
    }
}

/// The last in line speak to the gateway.
async fn the_last_in_line(place: &Place) -> Fans {
    let mut sample = Fans::default();
    for way in [Way::Poller, Way::Page, Way::Poller, Way::Page] {
        let mut fan = sample
            .join_one(place, (Kind::Waiting, way, "waiting"))
            .await;
        fan.generation = 1;
        sample.all.push(fan);
    }
    sample
}

/// Serving has passed some of the late. They show their passes now, and are called before others.
async fn the_late_are_next(crowd: &Crowd, place: &Place, before: u64) -> BTreeSet<FanId> {
    let board = place.board().await.unwrap();
    let late: Vec<(u64, FanId)> = crowd
        .fans
        .range(before + 1..=board.serving.0.max(before + 1))
        .filter(|(number, _)| number.is_multiple_of(LATE_EVERY))
        .map(|(number, fan)| (*number, *fan))
        .collect();
    assert!(
        !late.is_empty(),
        "serving {}, was {}",
        board.serving,
        crowd.seen
    );
    for part in late.chunks(BATCH_MAX) {
        for restored in crowd.restore(part).await {
            assert_eq!(restored, Restored::Returned);
        }
    }
    let late: BTreeSet<FanId> = late.into_iter().map(|(_, fan)| fan).collect();
    within("the late are called", Duration::from_secs(30), async || {
        let fans = late.iter().take(BATCH_MAX).copied().collect();
        let Outcome::Claimed(claimed) = crowd.say(Command::Claim { fans }).await else {
            panic!("another answer");
        };
        let is_in = |claimed: &Claimed| matches!(claimed, Claimed::Admitted { .. });
        claimed.iter().all(is_in).then_some(())
    })
    .await;
    late
}

/// Ends that were answered and that the ledger lacks, and how long before the loss the first was.
fn tail(crowd: &Crowd, entries: &[LedgerEntry], struck: Instant) -> (usize, Duration) {
    let copied: BTreeSet<FanId> = entries
        .iter()
        .filter_map(|entry| match &entry.change {
            Change::Ended { fan, .. } => Some(*fan),
            _ => None,
        })
        .collect();
    let lost = crowd.ends.iter().filter(|(fan, _)| !copied.contains(*fan));
    let lost: Vec<Duration> = lost.map(|(_, at)| struck - *at).collect();
    (lost.len(), lost.into_iter().max().unwrap_or_default())
}

/// After the loss, but for those who came late or whose call was lost, numbers rise.
fn in_order(entries: &[LedgerEntry], late: &BTreeSet<FanId>) {
    let mut last = InLine(0);
    for entry in entries
        .iter()
        .filter(|entry| Generation(1) < entry.generation)
    {
        let Change::Called(called) = &entry.change else {
            continue;
        };
        for (fan, place) in called.fans.iter().filter(|(fan, _)| !late.contains(fan)) {
            assert!(last < *place, "{fan}: {place} was called after {last}");
            last = *place;
        }
    }
}

/// Ten times a second.
async fn forget_scripts(url: String) {
    let client = redis::Client::open(url).unwrap();
    let connection = client.get_multiplexed_async_connection().await;
    let mut connection = connection.unwrap();
    loop {
        let flush = redis::cmd("SCRIPT").arg("FLUSH").to_owned();
        // A server that lets go of two million fans may answer later than this client waits.
        drop(flush.exec_async(&mut connection).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
