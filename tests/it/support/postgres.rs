//! A private PostgreSQL: its own port, its own folder, gone with the test run.
//!
//! One server serves the whole run. Nobody drops a static value, so it ends otherwise: it is the child
//! of a shell that waits for the end of its input, which is the end of this process, however it comes.
//! Each test gets a database of its own, a copy of one that was brought up to date once.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES as MIGRATIONS;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::support::free_port;
use crate::support::need::POSTGRES;

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(60);
/// Ports to try: between finding one free and using it, somebody else may take it.
const STARTS_MAX: u32 = 5;
/// What is safe to do without where the data is thrown away.
const CARELESS: [&str; 3] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
];
/// The database that the others are copies of.
const TEMPLATE: &str = "template_catraca";
/// Starts and stops the server as its input says, and at its end stops it for good and removes its
/// folder. `$1` is the folder; the rest is the server.
const KEEPER: &str = r#"
folder="$1"; shift
server=""
stop() {
  [ -z "$server" ] || kill -QUIT "$server" 2>/dev/null
  wait
  server=""
}
while read -r word; do
  case "$word" in
    start) "$@" >>"$folder/log" 2>&1 & server=$!; echo "$server" ;;
    stop) stop; echo stopped ;;
  esac
done
stop
rm -rf "$folder"
"#;

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub(crate) port: u16,
    pid: String,
    programs: PathBuf,
    databases: AtomicU32,
    template: OnceCell<()>,
}

/// A new database with our schema on the server of this run. `None` where this machine has no
/// PostgreSQL and may do without.
pub(crate) async fn database() -> Option<String> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    let server = SHARED.get_or_init(|| Server::start(&CARELESS)).as_ref()?;
    Some(server.database().await)
}

impl Server {
    /// Starts one with these settings. `None` where this machine has none and may do without.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        Self::start_in(&anywhere(), settings)
    }

    /// The same, with all that it keeps in this folder.
    pub(crate) fn start_in(parent: &Path, settings: &[&str]) -> Option<Self> {
        let program = POSTGRES.find()?;
        let programs = fs::canonicalize(program).unwrap().parent()?.to_owned();
        for _ in 0..STARTS_MAX {
            let folder = folder_in(parent);
            run(Command::new(programs.join("initdb"))
                .args(["--auth=trust", "--username=catraca", "--no-sync"])
                .args(["--encoding=UTF8", "--locale=C", "--pgdata"])
                .arg(folder.join("data")));
            let mut server = Self::keep(&folder, &programs, settings);
            if server.begin() {
                return Some(server);
            }
        }
        panic!("PostgreSQL does not start");
    }

    /// Another one that follows this one: a copy of all it has, and from then on of all it writes.
    pub(crate) fn follow(&self, settings: &[&str]) -> Self {
        for _ in 0..STARTS_MAX {
            let folder = folder_in(&anywhere());
            run(Command::new(self.programs.join("pg_basebackup"))
                .args(["--host=127.0.0.1", "--username=catraca", "--no-sync"])
                .args(["--write-recovery-conf", "--checkpoint=fast"])
                .arg(format!("--port={}", self.port))
                .arg("--pgdata")
                .arg(folder.join("data")));
            let mut server = Self::keep(&folder, &self.programs, settings);
            if server.begin() {
                return server;
            }
        }
        panic!("PostgreSQL does not follow");
    }

    fn keep(folder: &Path, programs: &Path, settings: &[&str]) -> Self {
        let port = free_port();
        let mut keeper = Command::new("sh");
        keeper
            .args(["-c", KEEPER, "keeper"])
            .arg(folder)
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(folder.join("data"))
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args([
                "-c",
                "unix_socket_directories=",
                "-c",
                "max_connections=300",
            ])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut keeper = as_owner(&mut keeper).spawn().unwrap();
        Self {
            orders: keeper.stdin.take(),
            answers: BufReader::new(keeper.stdout.take().unwrap()),
            keeper,
            port,
            pid: String::new(),
            programs: programs.to_owned(),
            databases: AtomicU32::new(0),
            template: OnceCell::new(),
        }
    }

    /// Starts it, again after [`Server::end`]; false where it does not answer.
    pub(crate) fn begin(&mut self) -> bool {
        self.pid = self.order("start");
        let end = Instant::now() + START_MAX;
        while Instant::now() < end {
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.status().unwrap().success() {
                return true;
            }
            let mut alive = Command::new("kill");
            let alive = alive.args(["-0", &self.pid]).stderr(Stdio::null()).status();
            if !alive.unwrap().success() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Ends it at once, as `pg_ctl stop -m immediate` does.
    pub(crate) fn end(&mut self) {
        assert_eq!(self.order("stop"), "stopped");
    }

    /// Lets no file grow beyond so many bytes, much as if the disk were full: that needs no disk of its
    /// own, and so nobody's leave. `None`: there is space again.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let limit = format!("--fsize={limit}:unlimited");
        for pid in self.processes() {
            let mut set = Command::new("prlimit");
            // As its user: even root may lack the right. One that has ended needs no limit.
            drop(
                as_owner(set.args(["--pid", &pid, &limit]))
                    .output()
                    .unwrap(),
            );
        }
    }

    /// The server and its sessions, the server first: what it starts later is as it is.
    fn processes(&self) -> Vec<String> {
        let mut found = vec![self.pid.clone()];
        for entry in fs::read_dir("/proc").unwrap() {
            let entry = entry.unwrap();
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
                continue; // no process, or one that has ended
            };
            let (_, rest) = stat.rsplit_once(')').unwrap();
            if rest.split(' ').nth(2) == Some(self.pid.as_str()) {
                found.push(entry.file_name().into_string().unwrap());
            }
        }
        found
    }

    fn order(&mut self, word: &str) -> String {
        let orders = self.orders.as_mut().unwrap();
        writeln!(orders, "{word}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// A database with our schema, and nothing in it.
    pub(crate) async fn database(&self) -> String {
        let template = async {
            let mut connection = self.connect("postgres").await;
            execute(&mut connection, &format!("create database {TEMPLATE}")).await;
            let database = Postgres::open(&self.url(TEMPLATE), MIGRATIONS).await;
            database.unwrap().close().await;
        };
        self.template.get_or_init(|| template).await;
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.connect("postgres").await;
        let copy = format!("create database {name} template {TEMPLATE}");
        execute(&mut connection, &copy).await;
        self.url(&name)
    }

    /// The URL of a database of this server.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://catraca@127.0.0.1:{}/{database}", self.port)
    }

    /// A plain connection, to look inside and to meddle.
    pub(crate) async fn connect(&self, database: &str) -> PgConnection {
        connect(&self.url(database)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        drop(self.keeper.wait());
    }
}

/// A plain connection to the database of this URL.
pub(crate) async fn connect(url: &str) -> PgConnection {
    let options = PgConnectOptions::from_str(url).unwrap();
    options.connect().await.unwrap()
}

/// Runs a statement that a test has put together.
pub(crate) async fn execute(connection: &mut PgConnection, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

/// How the server would carry out statements after each step of a history, planned for their parameters and for
/// any: `check` is told when, which statement, and the plan.
pub(crate) async fn plans(
    db: &mut PgConnection,
    history: &[(&str, &str)],
    statements: &[&str],
    check: impl Fn(&str, &str, &str),
) {
    for (what, step) in history {
        execute(db, step).await;
        for mode in ["force_custom_plan", "force_generic_plan"] {
            execute(db, &format!("set plan_cache_mode = {mode}")).await;
            for statement in statements {
                let plan = plan(db, statement).await;
                check(&format!("{what}, {mode}"), statement, &plan);
            }
        }
    }
}

/// How the server would carry out a statement, whatever its parameters.
async fn plan(db: &mut PgConnection, statement: &str) -> String {
    let numbers = statement.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse::<usize>().ok()
    });
    let count = numbers.max().unwrap();
    execute(db, &format!("prepare meant as {statement}")).await;
    let types = "select parameter_types::text[] from pg_prepared_statements where name = 'meant'";
    let types: Vec<String> = sqlx::query_scalar(types).fetch_one(&mut *db).await.unwrap();
    assert_eq!(types.len(), count);
    let any = |kind: &String| if kind.ends_with("[]") { "'{1}'" } else { "'1'" };
    let values: Vec<&str> = types.iter().map(any).collect();
    let explain = format!("explain (costs off) execute meant ({})", values.join(", "));
    let lines = lines(db, explain).await;
    execute(db, "deallocate meant").await;
    lines.join("\n")
}

/// What a statement says that answers with lines.
pub(crate) async fn lines(db: &mut PgConnection, statement: String) -> Vec<String> {
    let rows = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_all(db);
    rows.await.unwrap()
}

/// A new folder that the server's user may use.
pub(crate) fn open_folder() -> TempDir {
    open_folder_in(&anywhere())
}

fn open_folder_in(parent: &Path) -> TempDir {
    let folder = tempfile::tempdir_in(parent).unwrap();
    give(folder.path());
    folder
}

/// One that the server's keeper removes.
fn folder_in(parent: &Path) -> PathBuf {
    open_folder_in(parent).keep()
}

/// Where folders are made. Root's own may be closed to the server's user.
fn anywhere() -> PathBuf {
    match owner() {
        None => std::env::temp_dir(),
        Some(_) => PathBuf::from("/tmp"),
    }
}

/// Makes a file or a folder the server's user's.
pub(crate) fn give(path: &Path) {
    if let Some((uid, gid)) = owner() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// Whom the server runs as, where we are root: it refuses to be root.
fn owner() -> Option<(u32, u32)> {
    let ours = tempfile::tempfile().unwrap().metadata().unwrap().uid();
    if ours != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(name))?;
        let mut parts = line.split(':').skip(2).map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    let owner = of("postgres:").or_else(|| of("nobody:"));
    Some(owner.expect("a user for PostgreSQL"))
}

fn as_owner(command: &mut Command) -> &mut Command {
    match owner() {
        None => command,
        Some((uid, gid)) => command.uid(uid).gid(gid).current_dir("/"),
    }
}

fn run(command: &mut Command) {
    let output = as_owner(command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{:?}: {said}",
        command.get_program()
    );
}
