//! Status polls of fans in line: what they cost the gateway, and that they cost Redis nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use tokio::runtime::Runtime;

use crate::bench::machine::median;
use crate::bench::room::joins::{Filler, micros};
use crate::bench::room::{Stage, wire};
use crate::bench::table::{Must, Row};

/// The show of these runs, and its rate once it is open.
const SHOW: &str = "bench-polls";
const RATE: u32 = 500;
/// Times that row 10 polls with and without calls; the two take turns.
const RUNS: usize = 3;
/// How long row 4 polls.
const SECONDS: u32 = 4;
/// Fans ahead of those who poll: enough for every call of row 10.
const AHEAD: usize = 60_000;

/// Gateway, room and the fans who poll.
pub(super) struct Polls<'a> {
    runtime: Runtime,
    stage: Stage<'a>,
    fans: Arc<Vec<Vec<u8>>>,
}

impl<'a> Polls<'a> {
    /// So many fans join a show through the gateway, to poll there.
    pub(super) fn of(stage: Stage<'a>, show: &str, fans: usize) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        stage.gateway.wait_for_show(show)?;
        let joining = wire::join(stage.gateway.door, show, fans);
        let fans = runtime.block_on(joining)?;
        Ok(Self {
            runtime,
            stage,
            fans,
        })
    }

    /// p99 in milliseconds, and the gateway's CPU for a poll in microseconds.
    pub(super) fn run(&self, per_s: u32, seconds: u32) -> anyhow::Result<(f64, f64)> {
        let gateway = self.stage.gateway;
        let before = gateway.cpu()?;
        let polling = wire::poll(gateway.door, &self.fans, per_s, seconds);
        let polled = self.runtime.block_on(polling)?;
        let spent = gateway.cpu()? - before;
        let p99 = Duration::from_micros(polled.latency.value_at_quantile(0.99));
        let count = usize::try_from(polled.answered)?;
        Ok((p99.as_secs_f64() * 1e3, micros(spent, count)))
    }

    /// The CPU of gateway and server together for a join in microseconds, where so many more join by HTTP.
    pub(super) fn joins(&self, show: &str, fans: usize) -> anyhow::Result<f64> {
        let (gateway, room) = (self.stage.gateway, self.stage.room);
        let before = gateway.cpu()? + room.cpu()?;
        self.runtime
            .block_on(wire::join(gateway.door, show, fans))?;
        Ok(micros(gateway.cpu()? + room.cpu()? - before, fans))
    }

    /// Scripts that the server has run.
    fn scripts(&self) -> anyhow::Result<i64> {
        let info = self.stage.room.connection()?.say("INFO commandstats")?;
        let info = info.text();
        let calls = ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="].map(|name| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split(',').next())
                .map_or(Ok(0), str::parse)
        });
        let [by_hash, by_text]: [Result<i64, _>; 2] = calls;
        Ok(by_hash? + by_text?)
    }

    /// The place up to which fans were called.
    fn serving(&self) -> anyhow::Result<i64> {
        let line = format!("HGET catraca:{{{SHOW}}}:room serving");
        self.stage.room.connection()?.say(&line)?.number()
    }
}

/// Rows 4 and 10.
pub(super) fn rows(stage: Stage<'_>) -> anyhow::Result<Vec<Row>> {
    if !stage.wants(4) && !stage.wants(10) {
        return Ok(Vec::new());
    }
    let settings = format!(
        r#"{{"name": "Bench", "rate": {RATE}, "stock_guard": false, "waiting_max": 20000000}}"#
    );
    stage.admitter.create(SHOW, &settings)?;
    let mut filler = Filler::open(stage.room, stage.program, SHOW)?;
    filler.join(AHEAD)?;
    let polls = Polls::of(stage, SHOW, stage.scale.pollers)?;
    polls.run(stage.scale.polls_per_s, 1)?; // warm
    let mut rows = Vec::new();
    if stage.wants(4) {
        rows.push(no_commands(&polls)?);
    }
    if stage.wants(10) {
        rows.push(beside_calls(&polls)?);
    }
    Ok(rows)
}

/// Row 4. Nobody is to call a script but the gateway: the admitter stands still.
#[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
fn no_commands(polls: &Polls<'_>) -> anyhow::Result<Row> {
    let per_s = polls.stage.scale.polls_per_s;
    let count_at = |per_s: u32| {
        let before = polls.scripts()?;
        polls.run(per_s, SECONDS)?;
        anyhow::Ok(polls.scripts()? - before)
    };
    polls.stage.admitter.stand_still()?;
    let counted = count_at(per_s).and_then(|polled| Ok((polled, count_at(1)?)));
    polls.stage.admitter.go_on()?;
    let (polled, idle) = counted?;
    let count = f64::from(per_s * SECONDS);
    let each = (polled - idle).max(0) as f64 / count;
    Ok(Row {
        number: 4,
        what: "scripts that Redis runs for a poll of a fan in line".to_owned(),
        ours: each,
        peer: f64::NAN,
        ratio: each,
        unit: "scripts",
        // 0, but for a read of the board that falls into the one time and not into the other.
        must: Must::AtMost(0.001),
        note: format!(
            "INFO commandstats: {polled} in {SECONDS} s with {count} polls, {idle} in {SECONDS} s \
             with {SECONDS}; the board is read once a second; no peer: one that asks for a rank \
             has 1"
        ),
    })
}

/// Row 10.
fn beside_calls(polls: &Polls<'_>) -> anyhow::Result<Row> {
    let (scale, admitter) = (polls.stage.scale, polls.stage.admitter);
    let run = || polls.run(scale.polls_per_s, scale.polls_s);
    let (mut with, mut without, mut called) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        admitter.verb(SHOW, "pause")?;
        without.push(run()?.0);
        admitter.verb(SHOW, "open")?;
        let before = polls.serving()?;
        with.push(run()?.0);
        called += polls.serving()? - before;
    }
    admitter.verb(SHOW, "pause")?;
    let due = i64::from(RATE * scale.polls_s) * i64::try_from(RUNS)?;
    ensure!(
        due / 2 <= called,
        "{called} fans were called beside the polls, where {due} were due"
    );
    let (with, without) = (median(with), median(without));
    Ok(Row {
        number: 10,
        what: format!("p99 of {} polls/s beside {RATE} calls/s", scale.polls_per_s),
        ours: with,
        peer: without,
        ratio: with / without,
        unit: "ms",
        must: Must::AtMost(1.5),
        note: format!(
            "peer: the same while the show is paused; {called} of {due} calls; gateway, room and \
             admitter share a core"
        ),
    })
}
