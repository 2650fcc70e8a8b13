//! A private PostgreSQL for a bench: its own folder and port, every commit on disk, gone at the end.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use anyhow::{Context, bail, ensure};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

/// How long the server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(60);
/// What the shop tells its sessions, as far as it changes plans.
const SESSION: [(&str, &str); 3] = [
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];
/// Where the schema stands in the tree.
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/postgres");

/// A server that runs until this value goes.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// Starts one from the programs beside `postgres`, pinned to the first core where there is
    /// `taskset`, and makes our schema in it.
    ///
    /// # Errors
    /// Where it does not start.
    pub(super) async fn start(postgres: &Path) -> anyhow::Result<Self> {
        let postgres = fs::canonicalize(postgres)
            .with_context(|| format!("no PostgreSQL at {}", postgres.display()))?;
        let programs = postgres.parent().context("postgres stands in no folder")?;
        let owner = owner()?;
        let folder = PathBuf::from(format!("/tmp/catraca-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        if let Some((uid, gid)) = owner {
            chown(&folder, Some(uid), Some(gid))?;
        }
        let made = as_owner(&mut Command::new(programs.join("initdb")), owner)
            .args(["--auth=trust", "--username=catraca", "--encoding=UTF8"])
            .args(["--locale=C", "--pgdata"])
            .arg(folder.join("data"))
            .output()?;
        ensure!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(folder.join("log"))?;
        let child = as_owner(&mut Command::new(&postgres), owner)
            .arg("-D")
            .arg(folder.join("data"))
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories="])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let server = Self {
            child,
            folder,
            port,
        };
        let mut connection = server.first_connection().await?;
        pin("0", server.child.id());
        pin("1", std::process::id());
        let mut files: Vec<PathBuf> = fs::read_dir(MIGRATIONS)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        for file in files {
            let sql = sqlx::AssertSqlSafe(fs::read_to_string(file)?);
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        }
        Ok(server)
    }

    /// The URL of a database of this server.
    pub(super) fn url(&self, database: &str) -> String {
        format!("postgres://catraca@127.0.0.1:{}/{database}", self.port)
    }

    /// A plain connection.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub(super) async fn connect(&self) -> anyhow::Result<PgConnection> {
        let options: PgConnectOptions = self.url("postgres").parse()?;
        Ok(PgConnection::connect_with(&options.options(SESSION)).await?)
    }

    /// What it calls itself.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) async fn version(&self) -> anyhow::Result<String> {
        let query = "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)";
        let mut connection = self.connect().await?;
        Ok(sqlx::query_scalar(query).fetch_one(&mut connection).await?)
    }

    /// CPU seconds that the server has used, its processes that live now included.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub(super) fn cpu_s(&self) -> anyhow::Result<f64> {
        let mut ticks = 0_u64;
        for entry in fs::read_dir("/proc")? {
            let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else {
                continue;
            };
            let Some((head, rest)) = stat.rsplit_once(") ") else {
                continue;
            };
            let cells: Vec<&str> = rest.split(' ').collect();
            let pid = head.split(' ').next().unwrap_or_default();
            let me = self.child.id().to_string();
            if pid == me || cells.get(1) == Some(&me.as_str()) {
                let cell = |i: usize| cells.get(i).and_then(|cell| cell.parse::<u64>().ok());
                ticks += cell(11).unwrap_or(0) + cell(12).unwrap_or(0);
            }
        }
        let ticks = u32::try_from(ticks).context("too much CPU")?;
        Ok(f64::from(ticks) / 100.0)
    }

    async fn first_connection(&self) -> anyhow::Result<PgConnection> {
        let end = Instant::now() + START_MAX;
        loop {
            match self.connect().await {
                Ok(connection) => return Ok(connection),
                Err(_) if Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => bail!("PostgreSQL does not start: {error:#}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A bench has nothing to save: SIGQUIT ends it at once, with all its processes.
        let pid = self.child.id().to_string();
        drop(Command::new("kill").args(["-QUIT", &pid]).status());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Keeps a process on a core; where that cannot be done, figures are less steady.
pub(super) fn pin(core: &str, pid: u32) {
    let mut taskset = Command::new("taskset");
    taskset.args(["-a", "-p", "-c", core, &pid.to_string()]);
    drop(taskset.stdout(Stdio::null()).stderr(Stdio::null()).status());
}

/// Whom the server runs as, where we are root: it refuses to be root.
fn owner() -> anyhow::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(name))?;
        let mut cells = line.split(':').skip(2).map(str::parse);
        Some((cells.next()?.ok()?, cells.next()?.ok()?))
    };
    let owner = of("postgres:").or_else(|| of("nobody:"));
    Ok(Some(owner.context("no user for PostgreSQL to run as")?))
}

fn as_owner(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    match owner {
        None => command,
        Some((uid, gid)) => command.uid(uid).gid(gid).current_dir("/"),
    }
}
