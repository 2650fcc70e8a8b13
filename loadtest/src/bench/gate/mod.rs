//! The gateway beside what a shop would put there else: nginx, a handmade room in nginx, haproxy.
//!
//! Gateway, peers and Redis run on one core; the crowd and the shop behind the doors on the other. What
//! is compared takes turns, three times each, asked by the same crowd with the same bytes, and the
//! middle counts. CPU time comes from /proc, to the nanosecond. The crowd is a trusted proxy and names
//! an address for each fan, so the gateway's limits are on and count; the peers have none.

mod crowd;
mod fans;
mod gated;
mod idle;
mod open;
mod peers;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use crate::bench::gate::peers::{Nginx, Peers};
use crate::bench::machine;
use crate::bench::system::{Role, RoomServer};
use crate::bench::table::{Must, Row, Table, expect_known, machine_of};

/// The rows that are measured here.
const ROWS: [u8; 6] = [3, 5, 6, 7, 8, 15];
/// The show whose fans stand in line, and poll.
const LINE: &str = "bench-line";
/// The show that fans join while it is measured.
const JOINS: &str = "bench-joins";
/// The show that calls its fans, and opens the shop.
const SHOP: &str = "bench-shop";

/// Settings of both: fans join and wait.
const WAITING: &str = r#"{"name": "Bench", "rate": 1, "waiting_max": 20000000}"#;

/// Words of `loadtest bench gate`.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The program `catraca`, a release build.
    #[arg(long, value_name = "FILE", default_value = "target/release/catraca")]
    pub catraca: PathBuf,
    /// The room's server: redis-server or valkey-server.
    #[arg(long, value_name = "FILE", default_value = "redis-server")]
    pub server: PathBuf,
    /// nginx; the shop behind the doors runs on it, so it must be there.
    #[arg(long, value_name = "FILE", default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// The folder with nginx's Lua module. Without the module, rows 6 and 8 have no peer.
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/nginx/modules")]
    pub nginx_modules: PathBuf,
    /// haproxy, for information.
    #[arg(long, value_name = "FILE", default_value = "/usr/sbin/haproxy")]
    pub haproxy: PathBuf,
    /// These rows only, by their numbers in docs/performance.md, as in 7,8.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = ROWS)]
    pub rows: Vec<u8>,
    /// Where the table goes as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How much of everything.
    #[arg(long, value_enum, default_value = "full")]
    pub size: Size,
}

/// How much of everything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Seconds: to see that it runs.
    Small,
    /// As many fans and tickets as `full`, asked less often.
    Medium,
    /// What the bounds are meant for.
    Full,
}

/// How much of everything.
#[derive(Debug)]
struct Scale {
    /// Fans who poll, and polls in a turn.
    pollers: usize,
    polls: usize,
    /// Joins in a turn.
    joins: usize,
    /// Live tickets, and how often each is used.
    tickets: usize,
    uses: usize,
    /// How many of its uses after the first are measured, for all of them.
    later: usize,
    /// Connections that lie idle.
    idle: usize,
}

impl Scale {
    fn of(size: Size) -> Self {
        match size {
            Size::Small => Self {
                pollers: 2_000,
                polls: 10_000,
                joins: 5_000,
                tickets: 1_000,
                uses: 5,
                later: 4,
                idle: 1_000,
            },
            Size::Medium => Self {
                pollers: 30_000,
                polls: 100_000,
                joins: 60_000,
                tickets: 10_000,
                uses: 50,
                later: 8,
                idle: 10_000,
            },
            Size::Full => Self {
                pollers: 30_000,
                polls: 200_000,
                joins: 150_000,
                tickets: 10_000,
                uses: 50,
                later: 49,
                idle: 10_000,
            },
        }
    }
}

/// What is measured, and who measures.
struct Site<'a> {
    args: &'a GateArgs,
    scale: Scale,
    folder: &'a Path,
    runtime: Runtime,
    admitter: Role,
    gateway: Role,
    /// Behind every door, on the core of who measures.
    shop: Nginx,
    /// The last to go: roles that end say so in it.
    room: RoomServer,
}

impl Site<'_> {
    fn wants(&self, row: u8) -> bool {
        self.args.rows.contains(&row)
    }

    /// What every row's peers are started with.
    fn peers(&self) -> Peers<'_> {
        Peers {
            args: self.args,
            folder: self.folder,
            shop: self.shop.door,
        }
    }
}

/// Carries out `loadtest bench gate` and says the table.
///
/// # Errors
/// Something that is needed is missing, or did not do what it was asked.
pub fn run(args: &GateArgs) -> anyhow::Result<String> {
    expect_known(&args.rows, &ROWS)?;
    machine::pin_self()?;
    let folder = std::env::temp_dir().join(format!("catraca-bench-gate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let table = measure(args, &folder);
    std::fs::remove_dir_all(&folder)?;
    let table = table?;
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&table)?)?;
    }
    Ok(table.render())
}

fn measure(args: &GateArgs, folder: &Path) -> anyhow::Result<Table> {
    let room = RoomServer::start(&args.server, folder)?;
    let nowhere = ([127, 0, 0, 1], 9).into();
    let behind = Peers {
        args,
        folder,
        shop: nowhere,
    };
    let shop = behind.shop();
    let shop = shop.context("the shop behind the doors is nginx (Debian: nginx)")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let site = Site {
        scale: Scale::of(args.size),
        admitter: Role::start("admitter", &args.catraca, &room, folder, "")?,
        gateway: gateway(args, &room, folder, &shop)?,
        args,
        folder,
        runtime,
        room,
        shop,
    };
    for show in [LINE, JOINS] {
        site.admitter.create(show, WAITING)?;
        site.gateway.wait_for_show(show)?;
    }
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(open::rows(&site)?);
    rows.extend(gated::rows(&site)?);
    rows.extend(idle::rows(&site)?);
    rows.sort_by_key(|row| row.number);
    Ok(Table {
        server: format!("Redis for the rooms: {}", args.server.display()),
        machine: machine_of(),
        rows,
    })
}

/// A row that tells how much less CPU we need for the same.
fn row(
    number: u8,
    (what, unit): (&str, &'static str),
    (ours, peer): (f64, f64),
    must: Must,
    note: String,
) -> Row {
    Row {
        number,
        what: what.to_owned(),
        ours,
        peer,
        ratio: peer / ours,
        unit,
        must,
        note,
    }
}

/// A gateway before the shop.
fn gateway(
    args: &GateArgs,
    room: &RoomServer,
    folder: &Path,
    shop: &Nginx,
) -> anyhow::Result<Role> {
    let config = format!(
        "[upstreams.bench]\nurl = \"http://{}\"\ngate = \"ticket\"\nshow = \"{SHOP}\"\n\
         [[routes]]\npath = \"/shop/{{*rest}}\"\nmethods = [\"GET\"]\nupstream = \"bench\"\n",
        shop.door
    );
    Role::start("gateway", &args.catraca, room, folder, &config)
}
