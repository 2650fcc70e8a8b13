//! Joins: what Redis spends on one, and what it keeps of one.
//!
//! One operation of ours: a 512th of a call of `join.lua`, the script as it ships, against a room that
//! Catraca's own admitter has made. One of the peer: an EVALSHA of the script that everybody writes
//! first, sixteen in a pipeline. Both get the same ids, 16 random bytes each.

use std::time::Duration;

use anyhow::{bail, ensure};

use crate::bench::machine::median;
use crate::bench::resp::{Connection, Reply, write_command};
use crate::bench::room::Stage;
use crate::bench::system::{NAIVE, Program, RoomServer};
use crate::bench::table::{Must, Row};

/// Fans in one call of ours, as a gateway under load sends them.
const BATCH: usize = 512;
/// Calls of the peer in one pipeline.
const PIPELINE: usize = 16;
/// Times that each side runs; the two take turns.
const RUNS: usize = 3;
/// One in so many joins is a repeated one, in row 2.
const REPEATED: usize = 20;
/// The show of these runs. Its hash tag is in every key.
const SHOW: &str = "bench";
/// Whether the room looks an id up before it gives a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// From an idempotency key or a pass: the room may know them.
    Known,
    /// Made by the very request that joins.
    Minted,
}

/// Ids of 16 bytes that look random and are the same in every run.
#[derive(Debug)]
struct Ids16(u64);

impl Ids16 {
    const fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    /// xorshift*: nothing here is secret.
    fn half(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

impl Iterator for Ids16 {
    type Item = [u8; 16];

    fn next(&mut self) -> Option<[u8; 16]> {
        let halves = u128::from(self.half()) << 64 | u128::from(self.half());
        Some(halves.to_be_bytes())
    }
}

/// So many joins, of which every `repeated`-th is by somebody who has joined before; 0: none.
fn ids(count: usize, repeated: usize) -> Vec<[u8; 16]> {
    let mut ids: Vec<[u8; 16]> = Ids16::new().take(count).collect();
    if 0 < repeated {
        for at in (repeated..count).step_by(repeated) {
            ids[at] = ids[at / 2];
        }
    }
    ids
}

/// Joins of ours, call by call, in one show.
#[derive(Debug)]
pub(super) struct Filler {
    redis: Connection,
    join: String,
    keys: Vec<String>,
    ids: Ids16,
}

impl Filler {
    pub(super) fn open(room: &RoomServer, program: &Program, show: &str) -> anyhow::Result<Self> {
        let mut redis = room.connection()?;
        let loaded = redis.ask(&[b"SCRIPT", b"LOAD", program.join.as_bytes()])?;
        let keys = ["room", "seq", "queue", "returned", "standby", "admissions"];
        Ok(Self {
            redis,
            join: loaded.text(),
            keys: keys.map(|key| format!("catraca:{{{show}}}:{key}")).to_vec(),
            ids: Ids16::new(),
        })
    }

    /// Empties the line. The room itself stays.
    fn empty(&mut self) -> anyhow::Result<()> {
        self.redis.say(&format!("DEL {}", self.keys[2]))?;
        // A room that has lost its counter gives no numbers.
        self.redis.say(&format!("SET {} 0", self.keys[1])).map(drop)
    }

    /// Sends everybody away who came later than so many.
    pub(super) fn shorten(&mut self, fans: usize) -> anyhow::Result<()> {
        let (seq, queue) = (&self.keys[1], &self.keys[2]);
        let late = format!("ZREMRANGEBYSCORE {queue} ({fans} +inf");
        self.redis.say(&late)?;
        self.redis.say(&format!("SET {seq} {fans}")).map(drop)
    }

    /// So many more fans join, whatever it costs.
    pub(super) fn join(&mut self, fans: usize) -> anyhow::Result<()> {
        let ids: Vec<[u8; 16]> = self.ids.by_ref().take(fans).collect();
        for call in self.calls(&ids, Ids::Known) {
            // Near the ceiling the room is busy until the admitter has raised it.
            while self.send(&call)?.contains("busy") {
                pause();
            }
        }
        Ok(())
    }

    fn calls(&self, ids: &[[u8; 16]], kind: Ids) -> Vec<Vec<u8>> {
        let letter = if kind == Ids::Known { "k" } else { "m" };
        let call = |batch: &[[u8; 16]]| {
            let letters = letter.repeat(batch.len());
            let mut words: Vec<&[u8]> = vec![b"EVALSHA", self.join.as_bytes(), b"6"];
            words.extend(self.keys.iter().map(String::as_bytes));
            words.push(letters.as_bytes());
            words.extend(batch.iter().map(<[u8; 16]>::as_slice));
            let mut call = Vec::new();
            write_command(&mut call, &words);
            call
        };
        ids.chunks(BATCH).map(call).collect()
    }

    /// The first and the last answer of a call.
    fn send(&mut self, call: &[u8]) -> anyhow::Result<String> {
        let reply = self.redis.send(call, 1)?.pop();
        let Some(Reply::Many(words)) = reply else {
            bail!("a join is answered {reply:?}");
        };
        let word = |at: usize| words.get(at).map(Reply::text).unwrap_or_default();
        ensure!(word(0) == "joined", "a join is answered {}", word(0));
        Ok(format!(
            "{} {}",
            word(1),
            word(words.len().saturating_sub(2))
        ))
    }
}

/// Both sides on one server.
#[derive(Debug)]
struct Sides<'a> {
    room: &'a RoomServer,
    redis: Connection,
    own: Filler,
    naive: String,
}

impl<'a> Sides<'a> {
    fn open(room: &'a RoomServer, program: &Program) -> anyhow::Result<Self> {
        let mut redis = room.connection()?;
        let naive = redis.ask(&[b"SCRIPT", b"LOAD", NAIVE.as_bytes()])?.text();
        Ok(Self {
            room,
            redis,
            own: Filler::open(room, program, SHOW)?,
            naive,
        })
    }

    fn empty(&mut self) -> anyhow::Result<()> {
        self.own.empty()?;
        self.redis.say("DEL naive:seq naive:queue").map(drop)
    }

    /// Microseconds of the server's CPU for each join of ours.
    fn ours(&mut self, ids: &[[u8; 16]], kind: Ids) -> anyhow::Result<f64> {
        let calls = self.own.calls(ids, kind);
        let before = self.room.cpu()?;
        for call in &calls {
            let answers = self.own.send(call)?;
            ensure!(
                !answers.contains("busy"),
                "the ceiling is too low for a bench"
            );
        }
        Ok(micros(self.room.cpu()? - before, ids.len()))
    }

    /// The same for the peer.
    fn naive(&mut self, ids: &[[u8; 16]]) -> anyhow::Result<f64> {
        let mut pipelines = Vec::new();
        for pipeline in ids.chunks(PIPELINE) {
            let mut calls = Vec::new();
            for id in pipeline {
                let sha = self.naive.as_bytes();
                write_command(
                    &mut calls,
                    &[b"EVALSHA", sha, b"2", b"naive:seq", b"naive:queue", id],
                );
            }
            pipelines.push((calls, pipeline.len()));
        }
        let before = self.room.cpu()?;
        for (calls, count) in &pipelines {
            self.redis.send(calls, *count)?;
        }
        Ok(micros(self.room.cpu()? - before, ids.len()))
    }

    fn memory(&mut self, key: &str) -> anyhow::Result<i64> {
        let line = format!("MEMORY USAGE {key} SAMPLES 0");
        self.redis.say(&line)?.number()
    }
}

/// While a ceiling is raised.
#[expect(clippy::disallowed_methods, reason = "a bench is alone on its thread")]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

#[expect(clippy::cast_precision_loss, reason = "a count of joins")]
pub(super) fn micros(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e6 / count as f64
}

/// Rows 1 and 2, and 9 on the way.
pub(super) fn rows(stage: Stage<'_>) -> anyhow::Result<Vec<Row>> {
    if ![1, 2, 9].iter().any(|row| stage.wants(*row)) {
        return Ok(Vec::new());
    }
    stage.admitter.create(
        SHOW,
        r#"{"name": "Bench", "rate": 1, "waiting_max": 20000000}"#,
    )?;
    let scale = stage.scale;
    let mut sides = Sides::open(stage.room, stage.program)?;
    let (mut rows, mut bytes) = (Vec::new(), None);
    for (number, repeated, kind, must) in [
        (1, 0, Ids::Known, Must::AtLeast(1.9)),
        (1, 0, Ids::Minted, Must::Nothing),
        (2, REPEATED, Ids::Known, Must::AtLeast(1.7)),
    ] {
        let counts_bytes = bytes.is_none() && stage.wants(9);
        if !stage.wants(number) && !counts_bytes {
            continue;
        }
        let ids = ids(scale.joins, repeated);
        let (mut ours, mut naive) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            sides.empty()?;
            naive.push(sides.naive(&ids)?);
            ours.push(sides.ours(&ids, kind)?);
        }
        if counts_bytes {
            let own = sides.memory(&format!("catraca:{{{SHOW}}}:queue"))?;
            bytes = Some((own, sides.memory("naive:queue")?));
        }
        let (ours, naive) = (median(ours), median(naive));
        let what = match (kind, repeated) {
            (Ids::Minted, _) => "joins with an id of this very request (no look-up needed)",
            (Ids::Known, 0) => "joins, every id looked up",
            (Ids::Known, _) => "the same, 5 % of them repeated",
        };
        rows.push(Row {
            number,
            what: what.to_owned(),
            ours,
            peer: naive,
            ratio: naive / ours,
            unit: "µs of Redis CPU a join",
            must,
            note: format!(
                "ours: 1/{BATCH} of a call of join.lua; peer: ZSCORE, INCR, ZADD by EVALSHA, {PIPELINE} in a pipeline"
            ),
        });
    }
    rows.extend(bytes.map(|(own, naive)| bytes_row(own, naive, scale.joins)));
    rows.retain(|row| stage.wants(row.number));
    sides.empty()?;
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a test run")]
fn bytes_row(own: i64, naive: i64, fans: usize) -> Row {
    let each = |bytes: i64| bytes as f64 / fans as f64;
    Row {
        number: 9,
        what: "bytes of the line for each waiting fan".to_owned(),
        ours: each(own),
        peer: each(naive),
        ratio: own as f64 / naive as f64,
        unit: "bytes",
        must: Must::AtMost(1.05),
        note: "MEMORY USAGE … SAMPLES 0 of the queue; peer: a bare zset with the same ids"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_distinct_but_for_those_that_repeat() {
        let distinct = |ids: &[[u8; 16]]| ids.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&ids(10_000, 0)), 10_000);
        assert_eq!(distinct(&ids(10_000, REPEATED)), 10_000 - 499);
    }
}
