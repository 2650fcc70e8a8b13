//! A primary is cut off from everybody but one gateway and one admitter, and lives on.
//!
//! ```text
//!            ┌── gateway, admitter ──► old primary ──┤ cable ├── replicas, sentinels
//!  fans ─────┤                                                      │
//!            └── the rest of Catraca ───────────────────────► new primary
//! ```
//!
//! It stops in the time that `deploy/redis/replicated.conf` gives it, and nobody is called at the new
//! one before. Promises 2, 4 and 6 hold for each of the two alone.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use catraca::room::keys::Key;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::chaos::joiners::Joiners;
use crate::chaos::site::{Answer, change_show, create_show};
use crate::chaos::watched::Lone;
use crate::support::client::Client;
use crate::support::cut::{Cut, Still};
use crate::support::free_port;
use crate::support::need::{Need, on_both};
use crate::support::sale::SHOW;
use crate::support::until;

/// `min-replicas-max-lag` as deployed, and a second, for replicas say once in one that they are there.
const WRITES_ON_MAX: Duration = Duration::from_secs(11);
/// One for all processes: a pass of one gateway is good at another.
const SECRET: (&str, &str) = ("CATRACA__KEYS__SECRET", "a secret of thirty-two characters");

/// A gateway and an admitter on one side of the cut.
struct Side {
    door: Client,
    admin: Client,
    joiners: Joiners,
    _roles: [Child; 2],
}

impl Side {
    fn start(folder: &Path, url: &str) -> Self {
        let [listen, admin] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let role = |role: &str, admin: &str| {
            Command::new(env!("CARGO_BIN_EXE_catraca"))
                .args([role, "--data-dir"])
                .arg(folder)
                .envs([
                    SECRET,
                    ("CATRACA__ROOM__URL", url),
                    ("CATRACA__GATEWAY__LISTEN", &listen),
                    ("CATRACA__GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
                    ("CATRACA__ADMIN__LISTEN", admin),
                    ("RUST_LOG", "off"),
                ])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap()
        };
        let roles = [role("gateway", "127.0.0.1:0"), role("admitter", &admin)];
        Self {
            door: Client::of(format!("http://{listen}")),
            admin: Client::of(format!("http://{admin}")),
            joiners: Joiners::default(),
            _roles: roles,
        }
    }

    async fn is_ready(&self) {
        until("the admitter is ready", || async {
            let ready = self.admin.try_ask("GET /readyz", &[], &().into()).await;
            (ready.ok()?.0 == 200).then_some(())
        })
        .await;
    }

    async fn join(&self) -> Answer {
        self.joiners.join(&self.door).await
    }

    /// The board as this side has it; null while there is none.
    async fn board(&self) -> Value {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let board = self.door.try_ask(&line, &[], &().into()).await;
        board.map_or(Value::Null, |(_, board)| board)
    }

    /// How a fan stands, as soon as somebody says.
    async fn status(&self, pass: &str) -> Value {
        let line = format!("GET /v1/shows/{SHOW}/status");
        until("the status is answered", || async {
            let headers = [("x-catraca-pass", pass)];
            let (status, body) = self.door.try_ask(&line, &headers, &().into()).await.ok()?;
            (status == 200).then_some(body)
        })
        .await
    }
}

/// What everybody shares, and the two sides of a cut.
struct Split {
    folder: TempDir,
    new: Side,
    old: Side,
}

impl Split {
    /// The leader is on the side that will be cut off, and calls with every tick: as many as the rate
    /// allows, whose slots lapse as fast.
    async fn open(new: &str, old: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let old = Side::start(folder.path(), old);
        old.is_ready().await;
        create_show(folder.path(), &old.admin).await;
        let more = r#"{"rate": 20, "capacity": 20, "claim_ms": 1000}"#;
        change_show(folder.path(), &old.admin, more).await;
        let new = Side::start(folder.path(), new);
        new.is_ready().await;
        Self { folder, new, old }
    }

    /// Both live until the old one refuses to write; says how long it wrote on. Nobody is called at
    /// the new one before.
    async fn both_live(&self, since: Instant) -> Duration {
        let both = Cell::new(false);
        let took = until("the old primary stops", || async {
            let board = self.new.board().await;
            let is_new = board["generation"] == 2;
            let (new, old) = (self.new.join().await, self.old.join().await);
            let is_called = is_new && board["state"] == "open";
            assert!(!is_called || old.status != 201, "both call");
            both.set(both.get() || is_new && (new.status, old.status) == (201, 201));
            let is_over = old.says() == ("room-unavailable", "too_few_replicas");
            is_over.then(|| since.elapsed())
        })
        .await;
        assert!(both.get(), "there was no split");
        took
    }

    /// Who was given a number by the old one has it at the new one, for the pass says it.
    async fn has_everybody(&self, joined: &[(u64, String)]) {
        for (number, pass) in joined.iter().step_by(1 + joined.len() / 20) {
            let status = self.new.status(pass).await;
            let is_over = matches!(status["state"].as_str(), Some("admitted" | "gone"));
            assert!(is_over || status["place"] == *number, "{number}: {status}");
        }
    }
}

/// What the old primary's own admitter had called when it stopped, and nobody has copied (`check` judges
/// the rest): promises 4 and 6, for this primary alone. Read as it stands, for scripts set the room's
/// clock and may not here.
fn calls_are_bounded(old: &str) {
    let mut connection = redis::Client::open(old).unwrap().get_connection().unwrap();
    let ledger = Key::Ledger.of(&SHOW.parse().unwrap());
    let mut all = redis::cmd("XRANGE");
    all.arg(ledger).arg("-").arg("+");
    let entries: Vec<(String, BTreeMap<String, Vec<u8>>)> = all.query(&mut connection).unwrap();
    let called = entries.into_iter().map(|(_, entry)| entry);
    let called: Vec<_> = called
        .filter(|entry| entry["change"] == b"called")
        .collect();
    let number = |entry: &BTreeMap<String, Vec<u8>>, name: &str| -> u64 {
        String::from_utf8_lossy(&entry[name]).parse().unwrap()
    };
    for last in &called {
        let end = number(last, "at");
        let window = end - number(last, "window_ms")..=end;
        let within = called
            .iter()
            .filter(|call| window.contains(&number(call, "at")));
        let count: usize = within.map(|call| call["fans"].len() / 16).sum();
        assert!(
            count as u64 <= number(last, "rate"),
            "{count} calls in a window"
        );
        assert!(number(last, "live") <= number(last, "capacity"), "{last:?}");
    }
    eprintln!(
        "the old primary called fans {} times of which nobody knows",
        called.len()
    );
}

async fn splits(need: &Need) {
    let Some(lone) = Lone::start(need, &[]) else {
        return;
    };
    let cable = Cut::before(lone.primary.address()).await;
    let watched = lone.watched_at(cable.address().port()).await;
    let login = watched.deployed.login("catraca");
    let direct = format!("redis://{login}@127.0.0.1:{}", watched.servers[0].port());
    let split = Split::open(&watched.url, &direct).await;
    let Split { folder, new, old } = &split;
    let stop = CancellationToken::new();
    let joining = [new, old].map(|side| {
        let (joiners, door) = (side.joiners.clone(), side.door.clone());
        tokio::spawn(joiners.keep_joining(door, stop.clone()))
    });
    until("fans join at both doors", || async {
        let many = |side: &&Side| 50 <= side.joiners.joined().len();
        [new, old].iter().all(many).then_some(())
    })
    .await;

    let serving = async || old.board().await["serving"].as_u64().unwrap();
    cable.stand(Still::All);
    let (before, called) = (old.joiners.joined().len(), serving().await);
    let took = split.both_live(Instant::now()).await;
    let apart = old.joiners.joined().split_off(before);
    eprintln!(
        "the old primary wrote on for {took:.1?}, {} joins",
        apart.len()
    );
    assert!(took <= 3 * WRITES_ON_MAX, "{took:?}");
    assert!(
        called < serving().await,
        "nobody was called at the old primary"
    );
    calls_are_bounded(&direct);

    cable.stand(Still::None);
    until("the old primary follows", || async {
        (old.join().await.says() == ("room-unavailable", "read_only")).then_some(())
    })
    .await;
    until("fans are called again", || async {
        (new.board().await["state"] == "open").then_some(())
    })
    .await;
    stop.cancel();
    for joining in joining {
        joining.await.unwrap();
    }
    split.has_everybody(&apart).await;
    assert_eq!(
        new.board().await["generation"],
        2,
        "the old one was left alone"
    );
    let all = [new, old].map(|side| side.joiners.joined()).concat();
    let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
    let distinct: BTreeSet<&u64> = numbers.iter().collect();
    assert_eq!(distinct.len(), numbers.len(), "a number was given twice");
    for side in [new, old] {
        side.joiners.promises_are_kept(folder.path()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_stops_in_time_and_no_number_is_given_twice() {
    on_both(splits).await;
}
