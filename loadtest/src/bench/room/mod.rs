//! The room beside the script that everybody writes first, and beside nothing at all.
//!
//! What is measured runs on one core, who measures on another. CPU time comes from /proc, to the
//! nanosecond; what is compared takes turns, three times each, and the middle counts.
//!
//! A bench is the one part of this package that reads files of the program: `lua/room/join.lua` and the parts
//! that its head names, which it sends as the head says. Everything else it does from outside.

mod draw;
mod joins;
mod lines;
mod polls;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::bench::machine;
use crate::bench::system::{Program, Role, RoomServer};
use crate::bench::table::{Table, expect_known, machine_of};

/// The rows that are measured here. The first is of a draw, and no row of the design.
const ROWS: [u8; 7] = [draw::ROW, 1, 2, 4, 9, 10, 12];

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

/// A script as the program runs it: the parts that its head names stand before it.
fn script(path: &Path) -> anyhow::Result<String> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let own = read(path)?;
    let parts = path.with_file_name("../part");
    let named = own.lines().find_map(|line| line.strip_prefix("-- PARTS: "));
    let named = named.into_iter().flat_map(|names| names.split(", "));
    let mut whole = String::new();
    for name in named {
        whole.push_str(&read(&parts.join(format!("{name}.lua")))?);
    }
    Ok(whole + &own)
}

/// Carries out `loadtest bench room` and says the table.
///
/// # Errors
/// Something that is needed is missing, or did not do what it was asked.
pub fn run(args: &RoomArgs) -> anyhow::Result<String> {
    let scale = Scale::of(args);
    expect_known(&args.rows, &ROWS)?;
    let program = Program {
        catraca: args.catraca.clone(),
        join: script(&args.join)?,
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
    let mut rows = Vec::new();
    if args.rows.contains(&draw::ROW) {
        rows.push(draw::row(&args.catraca, folder)?);
    }
    if args.rows == [draw::ROW] {
        return Ok(Table {
            server: "no server".to_owned(),
            machine: machine_of(),
            rows,
        });
    }
    let room = RoomServer::start(&args.server, folder)?;
    let admitter = Role::start("admitter", &program.catraca, &room, folder, "")?;
    let gateway = Role::start("gateway", &program.catraca, &room, folder, "")?;
    let stage = Stage {
        room: &room,
        admitter: &admitter,
        gateway: &gateway,
        program,
        scale,
        wanted: &args.rows,
    };
    rows.extend(joins::rows(stage)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_with_the_parts_that_its_head_names() {
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
        let read = |name: &str| fs::read_to_string(lua.join(name)).unwrap();
        let sent = script(&lua.join("room/join.lua")).unwrap();
        let parts =
            ["whole", "fans", "memory", "may"].map(|part| read(&format!("part/{part}.lua")));
        assert_eq!(sent, parts.concat() + &read("room/join.lua"));
    }
}
