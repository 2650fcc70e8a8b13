//! Status polls of fans in line: what they cost the gateway, and that they cost Redis nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;

use crate::bench::machine::median;
use crate::bench::room::joins::{Filler, micros};
use crate::bench::room::{Scale, wire};
use crate::bench::system::{Program, Role, RoomServer};
use crate::bench::table::{Must, Row};

/// The show of these runs, and its rate once it is open.
const SHOW: &str = "bench-polls";
/// Times that row 10 polls with and without calls; the two take turns.
const RUNS: usize = 3;
/// How long lines of row 12, and row 4, are polled.
const SECONDS: u32 = 4;
/// Fans ahead of those who poll: enough for every call of row 10.
const AHEAD: usize = 60_000;

/// Gateway, room and the fans who poll.
struct Polls<'a> {
    runtime: Runtime,
    room: &'a RoomServer,
    gateway: &'a Role,
    fans: Arc<Vec<Vec<u8>>>,
}

impl Polls<'_> {
    /// p99 in milliseconds, and the gateway's CPU for a poll in microseconds.
    fn run(&self, per_s: u32, seconds: u32) -> anyhow::Result<(f64, f64)> {
        let before = self.gateway.cpu()?;
        let polling = wire::poll(self.gateway.door, &self.fans, per_s, seconds);
        let polled = self.runtime.block_on(polling)?;
        let spent = self.gateway.cpu()? - before;
        let p99 = Duration::from_micros(polled.latency.value_at_quantile(0.99));
        let count = usize::try_from(polled.answered)?;
        Ok((p99.as_secs_f64() * 1e3, micros(spent, count)))
    }

    /// Commands that the server has carried out, those inside scripts included.
    fn commands(&self) -> anyhow::Result<i64> {
        let info = self.room.connection()?.say("INFO stats")?.text();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        Ok(line.context("no count of commands")?.trim().parse()?)
    }
}

/// Rows 4, 10 and 12.
pub(super) fn rows(
    room: &RoomServer,
    admitter: &Role,
    gateway: &Role,
    program: &Program,
    scale: &Scale,
) -> anyhow::Result<Vec<Row>> {
    let settings =
        r#"{"name": "Bench", "rate": 500, "stock_guard": false, "waiting_max": 20000000}"#;
    admitter.create(SHOW, settings)?;
    gateway.wait_for_show(SHOW)?;
    let mut filler = Filler::open(room, program, SHOW)?;
    filler.join(AHEAD.min(scale.joins))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fans = runtime.block_on(wire::join(gateway.door, SHOW, scale.pollers))?;
    let polls = Polls {
        runtime,
        room,
        gateway,
        fans,
    };
    polls.run(scale.polls_per_s, 1)?; // warm
    let mut rows = vec![no_commands(&polls, scale)?];
    rows.push(beside_calls(&polls, admitter, scale)?);
    rows.extend(flat(&polls, &mut filler, scale)?);
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
fn no_commands(polls: &Polls<'_>, scale: &Scale) -> anyhow::Result<Row> {
    let before = polls.commands()?;
    polls.run(scale.polls_per_s, SECONDS)?;
    let polled = polls.commands()? - before;
    let before = polls.commands()?;
    polls.run(1, SECONDS)?; // as long, without polls worth speaking of
    let idle = polls.commands()? - before;
    let count = f64::from(scale.polls_per_s * SECONDS);
    Ok(Row {
        number: 4,
        what: "Redis commands for a poll of a fan in line".to_owned(),
        ours: ((polled - idle) as f64 / count).abs(),
        peer: f64::NAN,
        ratio: ((polled - idle) as f64 / count).abs(),
        unit: "commands",
        must: Must::AtMost(0.01),
        note: format!(
            "{polled} commands in {SECONDS} s with {count} polls, {idle} in {SECONDS} s without; no \
             peer: one that asks for a rank has 1"
        ),
    })
}

/// Row 10.
fn beside_calls(polls: &Polls<'_>, admitter: &Role, scale: &Scale) -> anyhow::Result<Row> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        admitter.verb(SHOW, "pause")?;
        without.push(polls.run(scale.polls_per_s, scale.polls_s)?.0);
        admitter.verb(SHOW, "open")?;
        with.push(polls.run(scale.polls_per_s, scale.polls_s)?.0);
    }
    admitter.verb(SHOW, "pause")?;
    let (with, without) = (median(with), median(without));
    Ok(Row {
        number: 10,
        what: format!("p99 of {} polls/s beside 500 calls/s", scale.polls_per_s),
        ours: with,
        peer: without,
        ratio: with / without,
        unit: "ms",
        must: Must::AtMost(1.5),
        note: "peer: the same while the show is paused; gateway, room and admitter share a core"
            .to_owned(),
    })
}

/// Row 12: a poll while so many wait. The peer is our own shortest line.
fn flat(polls: &Polls<'_>, filler: &mut Filler, scale: &Scale) -> anyhow::Result<Vec<Row>> {
    let (mut rows, mut first) = (Vec::new(), None);
    filler.empty()?;
    for line in &scale.lines {
        filler.join(line.saturating_sub(filler.joined()))?;
        let spent = polls.run(scale.polls_per_s / 4, SECONDS)?.1;
        let shortest = *first.get_or_insert(spent);
        rows.push(Row {
            number: 12,
            what: format!("a poll while {line} wait"),
            ours: spent,
            peer: shortest,
            ratio: spent / shortest,
            unit: "µs of gateway CPU a poll",
            must: Must::AtMost(1.2),
            note: "peer: the same with the shortest line".to_owned(),
        });
    }
    Ok(rows)
}
