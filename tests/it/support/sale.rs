//! A small sale: the whole system in this process, a crowd before it, the checker behind it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use catraca::app::backends::Backends;
use catraca::app::data_dir::DataDir;
use catraca::app::database::Database;
use catraca::app::{self, App};
use catraca::base::ids::ShowId;
use catraca::base::secret::Secret;
use catraca::base::time::{Clock, SystemClock};
use catraca::check::{self, Finding, Paths, Verdict};
use catraca::config::Config;
use catraca::config::layers;
use catraca::show::settings::Settings;
use catraca::show::{Change, Put};
use catraca::supervisor;
use clap::Parser;
use loadtest::cli::{Cli, Verb};
use loadtest::report::Report;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::client::Client;
use crate::support::process::run_in;
use crate::support::until;

/// The one show.
pub(crate) const SHOW: &str = "small-sale";
/// Joining is possible for so long before the calling begins.
const EARLY_MS: u64 = 1_500;
/// How long all groups may take to the end of the log once nobody dies any more.
const CALM_MAX: Duration = Duration::from_secs(180);
/// The promise of which [`at_the_end`] leaves one half.
const RATE: u8 = 4;

/// A running system on free ports, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Running {
    /// Fans ask here.
    pub(crate) gateway: SocketAddr,
    /// Operators ask here.
    pub(crate) admin: SocketAddr,
    pub(crate) folder: PathBuf,
    database: Database,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<supervisor::Verdict>,
}

/// The settings of the small sale; `changes` are members that differ.
pub(crate) fn settings(changes: &Value) -> Value {
    let price = json!({ "amount": 120.00, "currency": "BRL" });
    let mut settings = json!({
        "name": "Small Sale",
        "starts_at": "2027-05-01T21:00:00-03:00",
        // Ten windows are longer than any sale here: how steadily a busy machine calls is judged
        // elsewhere.
        "rate": 100,
        "window_ms": 5_000,
        "capacity": 16,
        "claim_ms": 2_500,
        "ticket_ttl_ms": 6_000,
        "hold_ms": 5_000,
        "sections": [
            { "name": "Floor", "seats": 14, "price": price },
            { "name": "Stand", "seats": 10, "numbered": true, "price": price },
        ],
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }
    settings
}

/// A configuration on free ports, as `catraca demo` has it.
pub(crate) fn config(folder: &Path) -> Config {
    let text = |text: &str| toml::Value::String(text.to_owned());
    let any_port = || text("127.0.0.1:0");
    let flags = [
        ("data_dir", text(&folder.display().to_string())),
        ("gateway.listen", any_port()),
        ("admin.listen", any_port()),
        ("orders.listen", any_port()),
        (
            "gateway.trusted_proxies",
            toml::Value::Array(vec![text("127.0.0.0/8")]),
        ),
        ("orders.sandbox_slow_ms", toml::Value::Integer(1_000)),
    ];
    layers::load(None, &[], &flags).unwrap().config
}

impl Running {
    /// Starts everything, with `bend` done to it, and a show that opens soon.
    pub(crate) async fn start(
        folder: &Path,
        changes: &Value,
        bend: fn(&mut Backends, &Path),
    ) -> Self {
        let config = config(folder);
        let data_dir = DataDir::take(folder).unwrap();
        let mut backends = Backends::open(&config, &data_dir).await.unwrap();
        bend(&mut backends, folder);
        let database = backends.database.clone();
        let app = app::assemble(&config, data_dir, backends).await.unwrap();
        create(&app, settings(changes)).await;
        let (stop, asked) = oneshot::channel();
        let (gateway, admin) = (app.addresses.gateway, app.addresses.admin);
        let ended = tokio::spawn(app.run(async {
            let _dropped = asked.await;
        }));
        let running = Self {
            gateway,
            admin,
            folder: folder.to_owned(),
            database,
            stop,
            ended,
        };
        shows_its_seats(&running.client()).await;
        running
    }

    /// Somebody who asks the gateway.
    pub(crate) fn client(&self) -> Client {
        Client::of(format!("http://{}", self.gateway))
    }

    /// Runs a statement in the shop's database.
    pub(crate) async fn sql(&self, statement: &'static str) {
        let Database::Sqlite(db) = &self.database else {
            panic!("a sale is kept in a file");
        };
        sqlx::query(statement).execute(&db.write).await.unwrap();
    }

    /// Sends a crowd and waits until it has gone.
    pub(crate) async fn crowd(&self, words: &str) -> Report {
        crowd(self.gateway, &self.folder, words).await
    }

    /// Stops as on SIGTERM.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        let verdict = self.ended.await.unwrap();
        assert!(matches!(verdict, supervisor::Verdict::Asked), "{verdict:?}");
    }
}

async fn create(app: &App, mut document: Value) {
    let now = SystemClock.now();
    document["early_at"] = json!(now);
    document["opens_at"] = json!(now.plus_ms(EARLY_MS));
    // Read as text: amounts of money are read from their digits.
    let settings: Settings = serde_json::from_str(&document.to_string()).unwrap();
    settings.check().unwrap();
    let change = Change {
        who: "test".to_owned(),
        role: "admin".to_owned(),
        action: "create".to_owned(),
        detail: document.to_string(),
        at: now,
    };
    let show: ShowId = SHOW.parse().unwrap();
    let put = app.shows.put(&show, &change, &settings, None).await;
    assert!(matches!(put.unwrap(), Put::Created(_)));
    app.changed.notify_one();
}

/// Creates the show by the command line, and waits until who asks at the gateway sees its seats.
pub(crate) async fn create_by_hand(folder: &Path, admin: &str, door: &Client, document: &Value) {
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    let env = [
        ("CATRACA_ADMIN", admin),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let created = run_in(folder, &["show", "create", SHOW, "show.json"], &env).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    shows_its_seats(door).await;
}

async fn shows_its_seats(door: &Client) {
    until("the board shows the seats", || async {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let (_, board) = door.ask(&line, &[], &Value::Null).await;
        board["stock"]["left"].as_u64()
    })
    .await;
}

/// Sends a crowd to a gateway; its history and report go into the data folder. `words` are flags of
/// `loadtest crowd`.
pub(crate) async fn crowd(gateway: SocketAddr, folder: &Path, words: &str) -> Report {
    let path = |name: &str| folder.join(name).display().to_string();
    let base = format!(
        "loadtest crowd --fast --url http://{gateway} --show {SHOW} --section Floor,Stand \
         --fans 70 --connections 16 --arrive-s 1.5 --think-s 0.2..0.8 --no-ticket 0.05 \
         --buy 0.8 --silent 0 --claim-ms 2500 --for-s 60"
    );
    let mut line: Vec<String> = base.split_whitespace().map(str::to_owned).collect();
    for (flag, value) in [
        ("--report", path("crowd")),
        ("--history", path("history.ndjson")),
        ("--mail-dir", path("mailbox")),
    ] {
        line.extend([flag.to_owned(), value]);
    }
    for pair in words.split_whitespace().collect::<Vec<_>>().chunks(2) {
        // A flag that is there already takes the other value.
        match line.iter().position(|word| word == pair[0]) {
            Some(at) => pair[1].clone_into(&mut line[at + 1]),
            None => line.extend(pair.iter().map(|word| (*word).to_owned())),
        }
    }
    let Verb::Crowd(arguments) = Cli::try_parse_from(line).unwrap().verb else {
        panic!("the line is a crowd's");
    };
    let settings = arguments.settings().unwrap();
    Box::pin(loadtest::crowd::run(settings)).await.unwrap()
}

/// What the checker says of each promise, as `catraca check --history …` would.
pub(crate) async fn verdicts(folder: &Path) -> Vec<Verdict> {
    verdicts_on(folder, None).await
}

/// The same of a sale whose database is at this address.
pub(crate) async fn verdicts_on(folder: &Path, database: Option<&str>) -> Vec<Verdict> {
    let paths = Paths {
        data_dir: folder.to_owned(),
        database: database.map(Secret::new),
        histories: vec![folder.join("history.ndjson")],
    };
    check::judge(&check::load(&paths).await.unwrap())
}

/// The numbers of the promises of which the checker says this.
pub(crate) fn found(verdicts: &[Verdict], finding: Finding) -> Vec<u8> {
    let with = |verdict: &&Verdict| verdict.finding() == finding;
    let numbers = verdicts.iter().filter(with);
    numbers.map(|verdict| verdict.promise.number()).collect()
}

/// What the checker says once nothing is on its way any more: that nothing is broken, and all is judged but the
/// rate from below. That takes ten windows in which nothing else limits, and no sale of ours has them.
pub(crate) async fn at_the_end(folder: &Path, database: Option<&str>) -> Vec<Verdict> {
    let end = Instant::now() + CALM_MAX;
    loop {
        let verdicts = verdicts_on(folder, database).await;
        let mut unproved = found(&verdicts, Finding::Unproved);
        unproved.retain(|promise| *promise != RATE);
        let broken = found(&verdicts, Finding::Broken);
        if broken.is_empty() && unproved.is_empty() {
            return verdicts;
        }
        let told = check::render(&verdicts);
        assert!(Instant::now() < end, "broken {broken:?}\n{told}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until the checker says that exactly these promises are broken and exactly these unproved:
/// events and ledger entries may still be on their way when a crowd has gone.
///
/// # Errors
/// What it says instead, when waiting no longer helps.
pub(crate) async fn expect(folder: &Path, broken: &[u8], unproved: &[u8]) -> Result<(), String> {
    for _ in 0..100 {
        if is_as(&verdicts(folder).await, broken, unproved) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let verdicts = verdicts(folder).await;
    Err(format!(
        "expected broken {broken:?} and unproved {unproved:?}, found {:?} and {:?}\n{}",
        found(&verdicts, Finding::Broken),
        found(&verdicts, Finding::Unproved),
        check::render(&verdicts)
    ))
}

fn is_as(verdicts: &[Verdict], broken: &[u8], unproved: &[u8]) -> bool {
    found(verdicts, Finding::Broken) == broken && found(verdicts, Finding::Unproved) == unproved
}
