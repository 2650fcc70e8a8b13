//! Promise 4: in any window at most N fans are called, and while fans wait and nothing else limits,
//! hardly fewer.
//!
//! The upper bound is held against every call. The lower one can only be judged where the ledger and
//! the shop show that nothing but the rate held the calls back: both ends of a gap between calls say
//! so, fans were left in line, the room was not full, enough seats were left for everybody inside, no
//! operator interfered, no process was replaced, and whoever drove the run did not write down that the
//! machine itself stood still. How much time that makes is part of the verdict.

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::check::doubts;
use crate::check::facts::{Facts, Show};
use crate::check::ledger::{Called, Change, Entry, Why};
use crate::check::verdict::{Promise, Verdict, grouped};
use crate::event::Event;

/// An operator's act reaches the room a little later.
const ACT_MS: u64 = 5_000;
/// Windows over which the lower bound holds.
const WINDOWS: u64 = 10;
/// Seats that a fan inside may take, while no order has shown more.
const SEATS_PER_FAN_MIN: usize = 2;

/// The calls of one tick.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    entry: &'a Entry,
    called: &'a Called,
    /// Fans whose turn ended between this tick and the next with calls.
    ended_after: usize,
}

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::ExactRate);
    let (mut count, mut judged_ms, mut stood) = (0, 0, 0);
    for (id, show) in &facts.shows {
        let limits = Limits {
            show,
            stock: Stock::of(facts, id, show),
            stalls: stalls(facts, id),
        };
        stood += limits.stalls.len();
        for edition in show.editions() {
            let calls = calls(edition);
            count += calls
                .iter()
                .map(|call| call.called.fans.len())
                .sum::<usize>();
            check_upper(id, &calls, &mut verdict);
            judged_ms += check_lower(id, &limits, &calls, &mut verdict);
            for doubt in doubts::of(show, edition) {
                verdict.cannot_prove(format!("show {id}: {}", doubt.text));
            }
        }
    }
    verdict.saw(count, "calls");
    let seconds = usize::try_from(judged_ms / 1_000).unwrap_or(usize::MAX);
    verdict.saw(seconds, "s in which only the rate limited");
    if 0 < stood {
        verdict.saw(
            stood,
            "times at which the machine stood still, not judged from below",
        );
    }
    if count == 0 {
        verdict.cannot_prove("no calls in any ledger");
    } else if judged_ms == 0 {
        verdict.cannot_prove(format!(
            "the lower bound: nowhere did only the rate limit for {WINDOWS} windows (the upper bound was judged on all {} calls)",
            grouped(count)
        ));
    }
    verdict
}

fn calls(edition: &[Entry]) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    for entry in edition {
        match &entry.change {
            Change::Called(called) => calls.push(Call {
                entry,
                called,
                ended_after: 0,
            }),
            Change::Ended { .. } => {
                if let Some(last) = calls.last_mut() {
                    last.ended_after += 1;
                }
            }
            Change::Absent { .. }
            | Change::Claimed { .. }
            | Change::Extended { .. }
            | Change::Returned { .. } => {}
        }
    }
    calls
}

/// Calls up to and including each tick.
fn sums(calls: &[Call<'_>]) -> Vec<u64> {
    let mut sum = 0;
    let mut sums = Vec::with_capacity(calls.len());
    for call in calls {
        sum += call.called.fans.len() as u64;
        sums.push(sum);
    }
    sums
}

/// A window includes both of its ends, and it is enough to look at those that end with a call.
fn check_upper(id: &ShowId, calls: &[Call<'_>], verdict: &mut Verdict) {
    let sums = sums(calls);
    for (i, last) in calls.iter().enumerate() {
        let start = last.entry.at.minus_ms(last.called.window_ms);
        let first = calls[..i].partition_point(|call| call.entry.at < start);
        let count = sums[i] - first.checked_sub(1).map_or(0, |before| sums[before]);
        if count <= last.called.rate {
            continue;
        }
        let highest = calls[first..=i]
            .iter()
            .map(|call| call.called.rate)
            .max()
            .unwrap_or(0);
        if highest < count {
            verdict.breaks(|| {
                format!(
                    "show {id}: {count} fans were called in the {} ms from {start} to {} (ledger {}/{}), where at most {highest} may be",
                    last.called.window_ms, last.entry.at, last.entry.generation, last.entry.seq
                )
            });
        }
    }
}

/// The milliseconds that could be judged.
fn check_lower(id: &ShowId, limits: &Limits<'_>, calls: &[Call<'_>], verdict: &mut Verdict) -> u64 {
    let runs = calls.chunk_by(|a, b| only_the_rate_limits(limits, a, b));
    runs.map(|run| check_run(id, run, verdict)).sum()
}

fn check_run(id: &ShowId, run: &[Call<'_>], verdict: &mut Verdict) -> u64 {
    let (first, last) = (run[0], run[run.len() - 1]);
    let rate = first.called.rate;
    let span_ms = WINDOWS * first.called.window_ms;
    let length_ms = last.entry.at.ms_since(first.entry.at);
    if length_ms < span_ms || rate == 0 {
        return 0;
    }
    let share = if rate < 20 { 90 } else { 95 };
    let least = WINDOWS * rate * share / 100;
    let sums = sums(run);
    for (i, start) in run.iter().enumerate() {
        let end = start.entry.at.plus_ms(span_ms);
        if last.entry.at < end {
            break;
        }
        let through = run.partition_point(|call| call.entry.at <= end);
        let count = sums[through - 1] - sums[i];
        if count < least {
            verdict.breaks(|| {
                format!(
                    "show {id}: only {count} fans were called in the {span_ms} ms after {}, though {} waited and only the rate limited; at least {least} must be",
                    start.entry.at, start.called.waiting
                )
            });
        }
    }
    length_ms
}

/// What may hold calls back beside the rate, as far as calls do not say so themselves.
#[derive(Debug)]
struct Limits<'a> {
    show: &'a Show,
    stock: Stock,
    /// From when to when the machine stood still, in order.
    stalls: Vec<(Timestamp, Timestamp)>,
}

/// The times at which the machine stood still, as the histories say; one after another.
fn stalls(facts: &Facts, id: &ShowId) -> Vec<(Timestamp, Timestamp)> {
    let mut stalls: Vec<(Timestamp, Timestamp)> = Vec::new();
    for told in facts.operations(id).filter(|told| told.op == "stall") {
        let (from, to) = (told.sent(), told.done());
        match stalls.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            Some(_) | None => stalls.push((from, to)),
        }
    }
    stalls
}

/// Whether between these two ticks nothing but the rate held calls back.
fn only_the_rate_limits(limits: &Limits<'_>, a: &Call<'_>, b: &Call<'_>) -> bool {
    let show = limits.show;
    let by_rate = |why| matches!(why, Why::Rate | Why::Enough);
    let is_steady = a.called.rate == b.called.rate
        && a.called.window_ms == b.called.window_ms
        && a.entry.token == b.entry.token
        && a.entry.generation == b.entry.generation;
    let from = a.entry.at.minus_ms(ACT_MS);
    let act = show.acts.partition_point(|at| *at < from);
    let is_let_alone = show.acts.get(act).is_none_or(|at| b.entry.at < *at);
    let stall = limits.stalls.partition_point(|(_, to)| *to < a.entry.at);
    let runs = limits
        .stalls
        .get(stall)
        .is_none_or(|(from, _)| b.entry.at < *from);
    by_rate(a.called.why)
        && by_rate(b.called.why)
        && is_steady
        && is_let_alone
        && runs
        && a.ended_after < a.called.waiting
        && a.called.live < a.called.capacity
        && limits.stock.is_plenty(a, b)
}

/// What the shop had left, by time. With the guard on, few seats hold calls back too.
#[derive(Debug)]
struct Stock {
    is_guarded: bool,
    seats_per_fan: usize,
    left: Vec<(Timestamp, usize)>,
}

impl Stock {
    fn of(facts: &Facts, id: &ShowId, show: &Show) -> Self {
        let rows = facts.events.outbox.values();
        let mut left: Vec<(Timestamp, usize)> = rows
            .filter_map(|row| match &row.payload.as_ref().ok()?.event {
                Event::StockChanged(stock) if stock.show_id == *id => {
                    let left = stock.free.saturating_add(stock.held);
                    Some((row.at, usize::try_from(left).unwrap_or(usize::MAX)))
                }
                _ => None,
            })
            .collect();
        left.sort_unstable();
        let holds = facts.shop.holds.values();
        let most = holds.map(|hold| hold.what.seats.len()).max().unwrap_or(0);
        Self {
            is_guarded: show.stock_guard,
            seats_per_fan: most.max(SEATS_PER_FAN_MIN),
            left,
        }
    }

    /// Whether the guard could not have minded between these ticks, however much each fan buys.
    fn is_plenty(&self, a: &Call<'_>, b: &Call<'_>) -> bool {
        if !self.is_guarded {
            return true;
        }
        let first = self.left.partition_point(|(at, _)| *at <= a.entry.at);
        let Some(first) = first.checked_sub(1) else {
            return false;
        };
        let through = self.left.partition_point(|(at, _)| *at <= b.entry.at);
        let through = (through + 1).min(self.left.len());
        let least = self.left[first..through]
            .iter()
            .map(|(_, left)| *left)
            .min()
            .unwrap_or(0);
        let rate = usize::try_from(a.called.rate).unwrap_or(usize::MAX);
        let inside = a.called.live.saturating_add(rate);
        inside.saturating_mul(self.seats_per_fan) <= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FencingToken;
    use crate::check::sample::{
        Tick, assert_broken, assert_clean, assert_unproved, at, called, ended, entry, facts, show,
    };

    /// A tick every 100 ms that calls one fan of ten a window, as room and admitter do.
    fn steady(seconds: u64) -> Vec<Entry> {
        (0..seconds * 10)
            .map(|i| tick(i, i * 101, called(&[u128::from(i) + 1])))
            .collect()
    }

    fn tick(i: u64, ms: u64, tick: Tick) -> Entry {
        entry(
            i + 1,
            i64::try_from(ms).unwrap(),
            tick.waiting(50).live(1).change(),
        )
    }

    #[test]
    fn a_steady_rate_keeps_both_bounds() {
        let verdict = judge(&facts(steady(30)));
        assert_clean(&verdict);
        assert_eq!(
            verdict.looked_at,
            ["300 calls", "30 s in which only the rate limited"]
        );
        assert_unproved(&judge(&facts(steady(5))), "lower bound");
        assert_unproved(&judge(&facts(vec![])), "no calls");
    }

    #[test]
    fn one_call_too_many_in_any_window_breaks_it() {
        let eleven: Vec<u128> = (1..=11).collect();
        assert_broken(&judge(&facts(vec![tick(0, 0, called(&eleven))])), "11 fans");
        let two = |ms| {
            vec![
                tick(0, 0, called(&eleven[..6])),
                tick(1, ms, called(&eleven[6..])),
            ]
        };
        assert_broken(&judge(&facts(two(1_000))), "11 fans");
        assert_unproved(&judge(&facts(two(1_001))), "lower bound");
        // The rate fell from 20 to 5 in between: the higher one was in force.
        let fell = vec![
            tick(0, 0, called(&eleven).rate(20)),
            tick(1, 999, called(&[12]).rate(5)),
        ];
        assert_unproved(&judge(&facts(fell)), "lower bound");
    }

    #[test]
    fn a_pause_that_nothing_explains_breaks_it() {
        let mut stalled = steady(30);
        for late in &mut stalled[150..] {
            late.at = late.at.plus_ms(2_000);
        }
        assert_broken(&judge(&facts(stalled.clone())), "only 89 fans");

        let mut acted = facts(stalled.clone());
        acted.shows.get_mut(&show()).unwrap().acts = vec![at(15_100)];
        assert_clean(&judge(&acted));
        let mut stood = facts(stalled.clone());
        let stall = |from, to| crate::check::sample::operation("stall", 0, from, to);
        stood.history = Some(vec![stall(15_000, 15_400), stall(15_300, 17_000)]);
        let verdict = judge(&stood);
        assert_clean(&verdict);
        assert!(verdict.looked_at[2].starts_with("1 times"), "{verdict:?}");
        stood.history = Some(vec![stall(1_000, 14_000)]);
        assert_broken(&judge(&stood), "fans were called in the 10000 ms");
        let mut restarted = stalled.clone();
        for later in &mut restarted[150..] {
            later.token = FencingToken(2);
        }
        assert_clean(&judge(&facts(restarted)));
        for limit in [
            called(&[150]).live(100).waiting(50),
            called(&[150]).live(1).waiting(0),
            called(&[150]).live(1).waiting(50).because(Why::Other),
        ] {
            let mut limited = stalled.clone();
            limited[149].change = limit.change();
            assert_clean(&judge(&facts(limited)));
        }
    }

    #[test]
    fn few_seats_explain_a_pause_only_with_the_guard() {
        let mut guarded = facts(steady(30));
        guarded.shows.get_mut(&show()).unwrap().stock_guard = true;
        assert_unproved(&judge(&guarded), "lower bound");
        guarded.events.outbox =
            crate::check::sample::stock_rows(&[(0, 22), (14_800, 22), (15_000, 21)]);
        let verdict = judge(&guarded);
        assert_clean(&verdict);
        assert!(verdict.looked_at[1].starts_with("14 s"), "{verdict:?}");
    }

    #[test]
    fn missing_entries_are_said() {
        let mut ledger = steady(30);
        ledger.push(entry(400, 40_000, ended(1)));
        assert_unproved(&judge(&facts(ledger)), "99 ledger entries");
    }
}
