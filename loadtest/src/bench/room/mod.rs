//! The room beside the script that everybody writes first, and beside nothing at all.
//!
//! What is measured runs on one core, who measures on another. CPU time comes from /proc, to the
//! nanosecond; what is compared takes turns, three times each, and the middle counts.
//!
//! A bench is the one part of this package that reads a file of the program: `lua/room/join.lua`, which
//! it sends as the head of the script says. Everything else it does from outside.

mod joins;
mod lines;
mod machine;
mod polls;
mod resp;
mod system;
mod wire;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;

use crate::bench::room::system::{Program, Role, RoomServer};

/// The rows that are measured here.
const ROWS: [u8; 6] = [1, 2, 4, 9, 10, 12];

/// Words of `loadtest bench room`.
#[derive(Debug, Args)]
pub struct RoomArgs {
    /// The program `catraca`, a release build.
    #[arg(long, value_name = "FILE", default_value = "target/release/catraca")]
    pub catraca: PathBuf,
    /// The script of a join, as that program carries it.
    #[arg(long, value_name = "FILE", default_value = "lua/room/join.lua")]
    pub join: PathBuf,
    /// The server: redis-server or valkey-server.
    #[arg(long, value_name = "FILE", default_value = "redis-server")]
    pub server: PathBuf,
    /// Where the table goes as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// These rows only, by their numbers in docs/performance.md, as in 4,10.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = ROWS)]
    pub rows: Vec<u8>,
    /// A hundredth of everything, to see that it runs.
    #[arg(long)]
    pub small: bool,
}

/// How much of everything.
#[derive(Debug)]
struct Scale {
    /// Distinct ids of rows 1, 2 and 9.
    joins: usize,
    /// Lines of row 12.
    lines: Vec<usize>,
    /// Joins that are measured at each of them, each time.
    probe: usize,
    /// Fans who poll, in rows 4, 10 and 12.
    pollers: usize,
    /// Polls a second of row 10.
    polls_per_s: u32,
    /// How long row 10 polls, each time.
    polls_s: u32,
}

impl Scale {
    fn of(args: &RoomArgs) -> Self {
        let share = if args.small { 100 } else { 1 };
        Self {
            joins: 1_048_576 / share,
            lines: [10_000, 100_000, 1_000_000, 2_000_000]
                .map(|line| line / share)
                .to_vec(),
            probe: 40_960 / share,
            pollers: 20_000 / share,
            polls_per_s: 20_000 / u32::try_from(share).unwrap_or(1),
            polls_s: if args.small { 1 } else { 10 },
        }
    }
}

/// What is measured, and how much of it.
#[derive(Debug, Clone, Copy)]
struct Stage<'a> {
    room: &'a RoomServer,
    admitter: &'a Role,
    gateway: &'a Role,
    program: &'a Program,
    scale: &'a Scale,
    /// Rows by number.
    wanted: &'a [u8],
}

impl Stage<'_> {
    fn wants(&self, row: u8) -> bool {
        self.wanted.contains(&row)
    }
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    number: u8,
    what: String,
    ours: f64,
    peer: f64,
    ratio: f64,
    unit: &'static str,
    must: Must,
    /// What each side does for one operation, or which peer is missing.
    note: String,
}

/// What a ratio must be.
#[derive(Debug, Clone, Copy, Serialize)]
enum Must {
    AtLeast(f64),
    AtMost(f64),
    /// Told for comparison.
    Nothing,
}

impl Must {
    /// The bound in words, and whether it is kept.
    fn tell(self, ratio: f64) -> (String, &'static str) {
        let word = |kept: bool| if kept { "kept" } else { "missed" };
        match self {
            Self::AtLeast(least) => (format!("≥ {least}"), word(least <= ratio)),
            Self::AtMost(most) => (format!("≤ {most}"), word(ratio <= most)),
            Self::Nothing => (String::new(), ""),
        }
    }
}

/// Everything that a run came to.
#[derive(Debug, Serialize)]
struct Table {
    server: String,
    machine: String,
    rows: Vec<Row>,
}

/// Carries out `loadtest bench room` and says the table.
///
/// # Errors
/// Something that is needed is missing, or did not do what it was asked.
pub fn run(args: &RoomArgs) -> anyhow::Result<String> {
    let scale = Scale::of(args);
    if let Some(row) = args.rows.iter().find(|row| !ROWS.contains(row)) {
        bail!("row {row} is not measured here; those that are: {ROWS:?}");
    }
    let program = Program {
        catraca: args.catraca.clone(),
        join: std::fs::read_to_string(&args.join)
            .with_context(|| format!("reading {}", args.join.display()))?,
    };
    machine::pin_self()?;
    let folder = std::env::temp_dir().join(format!("catraca-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let table = measure(args, &program, &scale, &folder);
    std::fs::remove_dir_all(&folder)?;
    let table = table?;
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&table)?)?;
    }
    Ok(table.render())
}

fn measure(
    args: &RoomArgs,
    program: &Program,
    scale: &Scale,
    folder: &std::path::Path,
) -> anyhow::Result<Table> {
    let room = RoomServer::start(&args.server, folder)?;
    let admitter = Role::start("admitter", &program.catraca, &room, folder)?;
    let gateway = Role::start("gateway", &program.catraca, &room, folder)?;
    let stage = Stage {
        room: &room,
        admitter: &admitter,
        gateway: &gateway,
        program,
        scale,
        wanted: &args.rows,
    };
    let mut rows = joins::rows(stage)?;
    rows.extend(polls::rows(stage)?);
    rows.extend(lines::rows(stage)?);
    rows.sort_by_key(|row| row.number);
    Ok(Table {
        server: server_of(&room)?,
        machine: machine_of(),
        rows,
    })
}

fn server_of(room: &RoomServer) -> anyhow::Result<String> {
    let info = room.connection()?.say("INFO server")?.text();
    let says = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(|version| version.trim().to_owned())
    };
    let valkey = says("valkey_version:").map(|version| format!("Valkey {version}"));
    let redis = says("redis_version:").map(|version| format!("Redis {version}"));
    valkey.or(redis).context("no version")
}

fn machine_of() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |line| line.trim_start_matches(['\t', ' ', ':']));
    format!("{cores} core seen after pinning, {model}")
}

impl Table {
    fn render(&self) -> String {
        let mut text = format!("{}; {}\n\n", self.server, self.machine);
        text.push_str("| row | what | ours | peer | unit | ratio | must | | one operation |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let (must, kept) = row.must.tell(row.ratio);
            text.push_str(&format!(
                "| {} | {} | {:.3} | {:.3} | {} | {:.2} | {must} | {} | {} |\n",
                row.number, row.what, row.ours, row.peer, row.unit, row.ratio, kept, row.note
            ));
        }
        text
    }
}
