//! What a drill came to: the ledger judged by `catraca check`, which shares no code with the room, and
//! what the ledger says of each death.

use std::fmt;

use catraca::check::{self, Finding, Paths, Verdict};

use crate::chaos::lines::{LINES, Lines, id};

/// A leader's death, as one line felt it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    pub(crate) line: usize,
    /// Room time.
    pub(crate) at: i64,
}

/// What is asserted, and what is printed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) kills: usize,
    /// Promises 4, 5 and 6.
    pub(crate) verdicts: Vec<Verdict>,
    /// From each death to the successor's first call, where the rate is high enough to say, sorted.
    pub(crate) gaps_ms: Vec<i64>,
    /// Entries with a lower token than an earlier one.
    pub(crate) tokens_fell: i64,
    /// Rooms that were lost or mended.
    pub(crate) generations: i64,
    pub(crate) calls: i64,
    pub(crate) faults: usize,
}

impl Outcome {
    /// The promises that have a counter-example.
    pub(crate) fn broken(&self) -> Vec<&Verdict> {
        let is_broken = |verdict: &&Verdict| verdict.finding() == Finding::Broken;
        self.verdicts.iter().filter(is_broken).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, kills, calls, faults) = (&self.name, self.kills, self.calls, self.faults);
        writeln!(
            f,
            "{name}: {kills} leaders killed, {faults} requests cut, {calls} ticks with calls"
        )?;
        let gap = |share: usize| {
            let at = (self.gaps_ms.len().max(1) - 1) * share / 100;
            self.gaps_ms
                .get(at)
                .map_or("none".to_owned(), i64::to_string)
        };
        writeln!(
            f,
            "  ms from a death to the successor's first call: median {}, 99 % {}, longest {}, of {}",
            gap(50),
            gap(99),
            gap(100),
            self.gaps_ms.len()
        )?;
        for verdict in &self.verdicts {
            let word = verdict.finding().word();
            let saw = verdict.looked_at.join(", ");
            writeln!(f, "  promise {} {word}: {saw}", verdict.promise.number())?;
            for why in verdict.broken.iter().chain(&verdict.unproved) {
                writeln!(f, "    {why}")?;
            }
        }
        Ok(())
    }
}

/// Judges what is stored.
pub(crate) async fn judge(name: String, lines: &Lines, deaths: &[Death]) -> Outcome {
    let folder = lines.folder.path();
    let history = folder.join("history.ndjson");
    std::fs::write(&history, lines.history()).unwrap();
    let paths = Paths {
        data_dir: folder.to_owned(),
        database: None,
        histories: vec![history],
    };
    let mut verdicts = check::judge(&check::load(&paths).await.unwrap());
    verdicts.retain(|verdict| (4..=6).contains(&verdict.promise.number()));
    let mut gaps_ms = Vec::new();
    for death in deaths {
        gaps_ms.extend(gap(lines, *death).await);
    }
    gaps_ms.sort_unstable();
    Outcome {
        name,
        kills: deaths.len(),
        verdicts,
        gaps_ms,
        tokens_fell: number(
            lines,
            "select count(*) from (select token - lag(token) over \
             (partition by show order by generation, seq) as step from room_ledger) where step < 0",
        )
        .await,
        generations: number(lines, "select max(generation) from room_ledger").await,
        calls: number(
            lines,
            "select count(*) from room_ledger where kind = 'called'",
        )
        .await,
        faults: 0,
    }
}

/// From a death to the next call. Lines whose rate, capacity or window alone make them wait say
/// nothing.
async fn gap(lines: &Lines, death: Death) -> Option<i64> {
    let (_, rate, window_ms, capacity) = LINES[death.line];
    if rate < 50 || window_ms != 1_000 || capacity.is_some() {
        return None;
    }
    let next: Option<i64> = sqlx::query_scalar(
        "select min(at_ms) from room_ledger where show = ? and kind = 'called' and ? < at_ms",
    )
    .bind(id(death.line).as_str().to_owned())
    .bind(death.at)
    .fetch_one(&lines.database.read)
    .await
    .unwrap();
    Some(next.expect("calls after every death") - death.at)
}

async fn number(lines: &Lines, statement: &'static str) -> i64 {
    let number = sqlx::query_scalar(statement);
    number.fetch_one(&lines.database.read).await.unwrap()
}
