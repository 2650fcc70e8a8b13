//! Row 12: what a join and a poll cost while few, many and very many wait. Each length is a show of its
//! own; they take turns, and the peer is our own shortest line. What a join's script takes of it is held to the
//! same bound: it is where the length is felt.

use crate::bench::machine::median;
use crate::bench::room::Stage;
use crate::bench::room::joins::{Filler, micros};
use crate::bench::room::polls::Polls;
use crate::bench::table::{Must, Row};

/// Times that each line is measured.
const RUNS: usize = 5;
/// How long it is polled each time.
const SECONDS: u32 = 4;

/// A line and what was measured at it.
struct Line<'a> {
    show: String,
    fans: usize,
    filler: Filler,
    polls: Polls<'a>,
    joined: Vec<f64>,
    written: Vec<f64>,
    polled: Vec<f64>,
}

impl<'a> Line<'a> {
    /// Those who poll are the first of it.
    fn of(stage: Stage<'a>, fans: usize) -> anyhow::Result<Self> {
        let show = format!("bench-{fans}");
        let settings = r#"{"name": "Bench", "rate": 1, "waiting_max": 20000000}"#;
        stage.admitter.create(&show, settings)?;
        let pollers = stage.scale.pollers.min(fans);
        let polls = Polls::of(stage, &show, pollers)?;
        let mut filler = Filler::open(stage.room, stage.program, &show)?;
        filler.join(fans - pollers)?;
        Ok(Self {
            show,
            fans,
            filler,
            polls,
            joined: Vec::new(),
            written: Vec::new(),
            polled: Vec::new(),
        })
    }

    fn measure(&mut self, stage: Stage<'_>) -> anyhow::Result<()> {
        let (probe, per_s) = (stage.scale.probe, stage.scale.polls_per_s / 4);
        self.joined.push(self.polls.joins(&self.show, probe)?);
        self.filler.shorten(self.fans)?;
        let before = stage.room.cpu()?;
        self.filler.join(probe)?;
        self.written.push(micros(stage.room.cpu()? - before, probe));
        self.filler.shorten(self.fans)?;
        self.polled.push(self.polls.run(per_s, SECONDS)?.1);
        Ok(())
    }
}

/// Row 12.
pub(super) fn rows(stage: Stage<'_>) -> anyhow::Result<Vec<Row>> {
    if !stage.wants(12) {
        return Ok(Vec::new());
    }
    let lines = stage.scale.lines.iter().map(|fans| Line::of(stage, *fans));
    let mut lines: Vec<Line<'_>> = lines.collect::<anyhow::Result<_>>()?;
    for _ in 0..RUNS {
        for line in &mut lines {
            line.measure(stage)?;
        }
    }
    let mut rows = Vec::new();
    for (what, unit, of) in [
        (
            "a join",
            "µs of gateway and Redis CPU a join",
            (|line: &Line<'_>| median(line.joined.clone())) as fn(&Line<'_>) -> f64,
        ),
        ("of it join.lua", "µs of Redis CPU a join", |line| {
            median(line.written.clone())
        }),
        ("a poll", "µs of gateway CPU a poll", |line| {
            median(line.polled.clone())
        }),
    ] {
        let shortest = lines.first().map_or(f64::NAN, of);
        rows.extend(lines.iter().map(|line| Row {
            number: 12,
            what: format!("{what} while {} wait", line.fans),
            ours: of(line),
            peer: shortest,
            ratio: of(line) / shortest,
            unit,
            must: Must::AtMost(1.2),
            note: "peer: the same with the shortest line".to_owned(),
        }));
    }
    Ok(rows)
}
