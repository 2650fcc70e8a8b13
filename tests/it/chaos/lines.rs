//! Lines in front of one server: a show for each rate that the drill is about, fans who keep coming,
//! an operator, and a clock that can be set.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use catraca::base::ids::{IdSource, ShowId};
use catraca::base::limits::BATCH_MAX;
use catraca::base::time::{Clock, SystemClock, Timestamp};
use catraca::driver::schema::CATRACA;
use catraca::driver::sqlite::Sqlite;
use catraca::room::Store as _;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::keys::Key;
use catraca::room::model::command::{Command, Joining, Measured, Origin, Tick};
use catraca::show::in_sqlite::InSqlite;
use catraca::show::settings::Settings;
use catraca::show::{Change, Put, Store as _};

use crate::chaos::crew::Program;
use crate::chaos::stalls::Stall;
use crate::support::need::Need;
use crate::support::redis::Server;

/// A show of the drill: its name, rate, window and capacity.
type Line = (&'static str, u64, u64, Option<u64>);

/// The rates of the drill, and one line that its capacity holds back.
pub(crate) const LINES: [Line; 6] = [
    ("one", 1, 1_000, None),
    ("fifty", 50, 1_000, None),
    ("five-hundred", 500, 1_000, None),
    ("two-thousand", 2_000, 1_000, None),
    ("thirty-a-minute", 30, 60_000, None),
    ("full", 500, 1_000, Some(100)),
];
/// Fans who always wait: as many as are called in so long.
const AHEAD_MS: u64 = 12_000;
/// A memory disk, where there is one: the drill is about leaders, not about other people's disks.
const MEMORY_DISK: &str = "/dev/shm";
/// A step of the server's clock, and who calls a whole rate at once, spoil what the room counts for a
/// window, and a little more.
const AFTER_MS: i64 = 1_500;

/// Everything of one drill but its admitters.
pub(crate) struct Lines {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) database: Sqlite,
    server: Server,
    shows: InSqlite,
    room: InRedis,
    redis: Mutex<redis::Connection>,
    ids: IdSource,
    /// Stretches of room time, by line, in which nobody can be blamed for too few calls.
    excused: Mutex<BTreeMap<usize, Vec<Stall>>>,
}

pub(crate) fn id(line: usize) -> ShowId {
    LINES[line].0.parse().unwrap()
}

impl Lines {
    /// Opens the shows. `None` where this machine has no such server and may do without.
    pub(crate) async fn open(need: &Need, program: Program) -> Option<Self> {
        let server = Server::start(need)?;
        let folder = if Path::new(MEMORY_DISK).is_dir() {
            tempfile::tempdir_in(MEMORY_DISK).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let clock = match program {
            Program::Shipped => ScriptClock::Server,
            Program::WrongClock => ScriptClock::Stepped,
        };
        let path = folder.path().join("catraca.db");
        let database = Sqlite::open(&path, CATRACA).await.unwrap();
        let lines = Self {
            shows: InSqlite::new(database.clone()),
            database,
            room: InRedis::connect_on(&server.url(), clock).await.unwrap(),
            redis: Mutex::new(server.connection()),
            server,
            folder,
            ids: IdSource::random(),
            excused: Mutex::default(),
        };
        for line in 0..LINES.len() {
            lines.create(line).await;
        }
        Some(lines)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let url = self.server.url();
        url.trim_start_matches("redis://")
            .trim_end_matches('/')
            .parse()
            .unwrap()
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    async fn create(&self, line: usize) {
        let (name, rate, window_ms, capacity) = LINES[line];
        let settings = serde_json::json!({
            "name": name, "rate": rate, "window_ms": window_ms, "capacity": capacity,
            "claim_ms": 1_000, "stock_guard": false,
        });
        let settings: Settings = serde_json::from_value(settings).unwrap();
        settings.check().unwrap();
        let (show, now) = (id(line), SystemClock.now());
        let (created, opened) = (self.change(now, "create"), self.change(now, "open"));
        let put = self.shows.put(&show, &created, &settings, None).await;
        assert!(matches!(put.unwrap(), Put::Created(_)));
        let shown = self.shows.verb(&show, &opened, "open").await;
        shown.unwrap().unwrap();
    }

    fn change(&self, at: Timestamp, action: &str) -> Change {
        Change {
            who: "drill".to_owned(),
            role: "admin".to_owned(),
            action: action.to_owned(),
            detail: "{}".to_owned(),
            at,
        }
    }

    /// The operator changes a line's rate and window, live.
    pub(crate) async fn set(&self, line: usize, rate: u64, window_ms: u64) {
        let id = id(line);
        let show = self.shows.get(&id).await.unwrap().unwrap();
        let settings = Settings {
            rate,
            window_ms,
            ..show.settings
        };
        let change = self.change(Timestamp::from_unix_ms(self.now(line)), "set");
        let expected = Some(show.version);
        let put = self.shows.put(&id, &change, &settings, expected).await;
        assert!(matches!(put.unwrap(), Put::Changed(_)));
    }

    /// Lets fans join until as many wait as should; forever.
    pub(crate) async fn keep_coming(&self) {
        loop {
            for (line, (_, rate, window_ms, _)) in LINES.iter().enumerate() {
                let wanted = (rate * AHEAD_MS / window_ms).max(20);
                let waiting = self.ask::<u64>("ZCARD", line, Key::Queue, &[]);
                for batch in Self::batches(wanted.saturating_sub(waiting)) {
                    self.join(line, batch).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    fn batches(fans: u64) -> Vec<usize> {
        let fans = usize::try_from(fans).unwrap();
        let full = std::iter::repeat_n(BATCH_MAX, fans / BATCH_MAX);
        full.chain(Some(fans % BATCH_MAX).filter(|rest| 0 < *rest))
            .collect()
    }

    async fn join(&self, line: usize, fans: usize) {
        let joining = (0..fans).map(|_| Joining {
            fan: self.ids.fan(),
            origin: Origin::Minted,
        });
        let joining = joining.collect();
        // A room that is not born yet, or a server that is slow: they come again.
        drop(self.room.apply(&id(line), &Command::Join { joining }).await);
    }

    /// Who leads a line; none whose lease still runs.
    pub(crate) fn holder(&self, line: usize) -> Option<String> {
        let fields = ["holder", "lease_until"];
        let (holder, until): (Option<String>, Option<i64>) =
            self.ask("HMGET", line, Key::Room, &fields);
        holder.filter(|_| until.is_some_and(|until| self.now(line) < until))
    }

    /// One who says to be the holder asks for as many fans as a tick may call.
    pub(crate) async fn tick_as_holder(&self, line: usize) {
        let holder: Option<String> = self.ask("HGET", line, Key::Room, &["holder"]);
        let tick = Tick {
            holder: holder.unwrap_or_default(),
            want: 500,
            lease_ttl_ms: 2_000,
            measured: Measured::default(),
            drawn: None,
        };
        drop(self.room.apply(&id(line), &Command::Tick(tick)).await);
    }

    /// Room time of a line, milliseconds.
    pub(crate) fn now(&self, line: usize) -> i64 {
        let fields = ["offset_ms", "last_ms"];
        let (offset, last): (Option<i64>, Option<i64>) =
            self.ask("HMGET", line, Key::Room, &fields);
        let told = self.told(line);
        (told + offset.unwrap_or(0)).max(last.unwrap_or(0))
    }

    /// What the scripts of a line take for the server's time.
    fn told(&self, line: usize) -> i64 {
        let mut redis = self.redis.lock().unwrap();
        let (s, us): (i64, i64) = redis::cmd("TIME").query(&mut redis).unwrap();
        let ahead: Option<i64> = redis::cmd("GET")
            .arg(clock_key(line))
            .query(&mut redis)
            .unwrap();
        s * 1_000 + us / 1_000 + ahead.unwrap_or(0)
    }

    /// Room time of every line.
    pub(crate) fn all_now(&self) -> Vec<i64> {
        (0..LINES.len()).map(|line| self.now(line)).collect()
    }

    /// Somebody called fans in the leader's name since then, as many at once as the quota gave.
    pub(crate) fn excuse_since(&self, since: &[i64]) {
        let mut excused = self.excused.lock().unwrap();
        for (line, (from, to)) in since.iter().zip(self.all_now()).enumerate() {
            excused
                .entry(line)
                .or_default()
                .push((*from, to + AFTER_MS));
        }
    }

    /// Sets the server's clock, as far as the scripts see it.
    pub(crate) fn step_clock(&self, by_ms: i64) {
        for line in 0..LINES.len() {
            let before = self.now(line);
            {
                let mut redis = self.redis.lock().unwrap();
                let step = redis::cmd("INCRBY")
                    .arg(clock_key(line))
                    .arg(by_ms)
                    .exec(&mut redis);
                step.unwrap();
            }
            let after = self.now(line).max(before) + AFTER_MS;
            let mut excused = self.excused.lock().unwrap();
            excused.entry(line).or_default().push((before, after));
        }
    }

    /// The machine stood still in these stretches of its own time, most of them since the clock was
    /// set last.
    pub(crate) fn excuse(&self, stalls: &[Stall]) {
        for line in 0..LINES.len() {
            let ahead = self.now(line) - SystemClock.now().as_millis();
            let stretches = stalls.iter().map(|(from, to)| (from + ahead, to + ahead));
            let mut excused = self.excused.lock().unwrap();
            excused.entry(line).or_default().extend(stretches);
        }
    }

    /// What is excused, as a history for the checker.
    pub(crate) fn history(&self) -> String {
        let mut text = String::new();
        for (line, stretches) in self.excused.lock().unwrap().iter() {
            for (from, to) in stretches {
                let stall = serde_json::json!({
                    "op": "stall", "show": LINES[*line].0, "fan_no": 0, "outcome": "ok",
                    "sent_us": from * 1_000, "done_us": to * 1_000,
                });
                text.push_str(&format!("{stall}\n"));
            }
        }
        text
    }

    fn ask<T: redis::FromRedisValue>(
        &self,
        command: &str,
        line: usize,
        key: Key,
        args: &[&str],
    ) -> T {
        let mut redis = self.redis.lock().unwrap();
        let key = key.of(&id(line));
        let answer = redis::cmd(command).arg(key).arg(args).query(&mut redis);
        answer.unwrap()
    }
}

fn clock_key(line: usize) -> String {
    format!("catraca:{{{}}}:clock", LINES[line].0)
}
