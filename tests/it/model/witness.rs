//! A witness who knows nothing of the definition: sees the answers and the ledger, and says which
//! promise they break.

use std::collections::{BTreeMap, VecDeque};

use catraca::base::ids::{FanId, Number, Place};
use catraca::base::limits::PRESENT_MS;
use catraca::base::time::Timestamp;
use catraca::room::draw::Table;
use catraca::room::model::command::{Called, Change, Joined, LedgerEntry};

/// What was seen of a room that was never lost.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    numbers: BTreeMap<FanId, Number>,
    last_number: Number,
    queue: BTreeMap<Place, FanId>,
    /// Once a draw is open.
    table: Option<Table>,
    seen: BTreeMap<FanId, Timestamp>,
    /// Who stood before a called fan and was not called: the next entry says that they were absent.
    passed_over: VecDeque<FanId>,
    returned: BTreeMap<Place, FanId>,
    inside: BTreeMap<FanId, Timestamp>,
    calls: Vec<Calls>,
    rates: Vec<(Timestamp, u64)>,
    seq: u64,
    serving: Place,
}

#[derive(Debug, Clone, Copy)]
struct Calls {
    at: Timestamp,
    count: u64,
    window_ms: u64,
}

impl Witness {
    /// The room answered this fan's join.
    pub(crate) fn joined(&mut self, fan: FanId, answer: Joined) -> Result<(), String> {
        match answer {
            Joined::New { number } => {
                if let Some(before) = self.numbers.insert(fan, number) {
                    return Err(format!("promise 1: {fan} had {before} and got {number}"));
                }
                if number <= self.last_number {
                    return Err(format!(
                        "promise 2: {number} came after {}",
                        self.last_number
                    ));
                }
                self.last_number = number;
                self.queue.insert(self.place_of(number), fan);
            }
            Joined::Kept { number } if self.numbers.get(&fan) != Some(&number) => {
                return Err(format!("promise 1: {fan} was told {number}"));
            }
            Joined::Drawn { place } if self.numbers.get(&fan) != self.number_of(place).as_ref() => {
                return Err(format!("promise 1: {fan} was told place {place}"));
            }
            Joined::Kept { .. }
            | Joined::Drawn { .. }
            | Joined::Admitted { .. }
            | Joined::Gone(_)
            | Joined::Busy
            | Joined::Full
            | Joined::OutOfMemory
            | Joined::Scheduled { .. }
            | Joined::Refused(_) => {}
        }
        Ok(())
    }

    /// The rate is this from now on.
    pub(crate) fn rate(&mut self, now: Timestamp, rate: u64) {
        self.rates.push((now, rate));
    }

    /// The draw gives the places from now on.
    pub(crate) fn drawn(&mut self, table: Table) {
        let waiting = std::mem::take(&mut self.queue);
        self.queue = waiting
            .into_iter()
            .map(|(number, fan)| (table.place(Number(number.0)), fan))
            .collect();
        self.table = Some(table);
    }

    fn place_of(&self, number: Number) -> Place {
        let table = self.table.as_ref();
        table.map_or(Place(number.0), |table| table.place(number))
    }

    fn number_of(&self, place: Place) -> Option<Number> {
        self.table.as_ref().map(|table| table.number(place))
    }

    /// The fan showed up.
    pub(crate) fn touched(&mut self, now: Timestamp, fan: FanId) {
        self.seen.insert(fan, now);
    }

    /// The next entry of the ledger.
    pub(crate) fn read(&mut self, entry: &LedgerEntry) -> Result<(), String> {
        if entry.seq != self.seq + 1 {
            return Err(format!("ledger: {} came after {}", entry.seq, self.seq));
        }
        if entry.serving < self.serving {
            return Err(format!("serving fell to {}", entry.serving));
        }
        if !matches!(entry.change, Change::Absent { .. }) {
            // The last entry was the last of its tick.
            self.nobody_is_skipped()?;
        }
        (self.seq, self.serving) = (entry.seq, entry.serving);
        match &entry.change {
            Change::Called(called) => self.called(entry.at, called)?,
            Change::Absent { fans } => self.absent(entry.at, fans)?,
            Change::Claimed { fan, until } | Change::Extended { fan, until } => {
                self.inside.insert(*fan, *until);
            }
            Change::Returned { fan, place } => {
                self.inside.remove(fan);
                self.returned.insert(*place, *fan);
            }
            Change::Ended { fan, .. } => {
                self.inside.remove(fan);
                self.queue.retain(|_, waiting| waiting != fan);
                self.returned.retain(|_, waiting| waiting != fan);
            }
        }
        Ok(())
    }

    fn called(&mut self, now: Timestamp, called: &Called) -> Result<(), String> {
        for (fan, place) in &called.fans {
            let mut next = self.returned.pop_first();
            while next.is_none() {
                match self.queue.pop_first() {
                    Some((_, skipped)) if skipped != *fan => self.passed_over.push_back(skipped),
                    found => {
                        next = found;
                        break;
                    }
                }
            }
            if next != Some((*place, *fan)) {
                return Err(format!("promise 5: {place} was called, not {next:?}"));
            }
            if self
                .inside
                .insert(*fan, called.until)
                .is_some_and(|until| now < until)
            {
                return Err(format!("promise 5: {place} was called twice"));
            }
        }
        let live = self.inside.values().filter(|until| now < **until).count() as u64;
        if called.capacity < live || called.live != live {
            return Err(format!(
                "promise 6: {live} are inside, {} allowed",
                called.capacity
            ));
        }
        let count = called.fans.len() as u64;
        self.calls.push(Calls {
            at: now,
            count,
            window_ms: called.window_ms,
        });
        self.window(now, called.window_ms)
    }

    /// Who is absent stood before others, and has not shown up lately.
    fn absent(&mut self, now: Timestamp, fans: &[(FanId, Place)]) -> Result<(), String> {
        for (fan, _) in fans {
            let next = self.passed_over.pop_front();
            let next = next.or_else(|| self.queue.pop_first().map(|(_, fan)| fan));
            if next != Some(*fan) {
                return Err(format!("promise 5: {fan} was absent, not {next:?}"));
            }
            let last = self.seen.get(fan);
            if last.is_some_and(|last| now.ms_since(*last) <= PRESENT_MS) {
                return Err(format!("promise 5: {fan} was there at {last:?}"));
            }
        }
        self.nobody_is_skipped()
    }

    /// Everybody up to `serving` was called or absent.
    fn nobody_is_skipped(&self) -> Result<(), String> {
        let serving = self.serving;
        if let Some(skipped) = self.passed_over.front() {
            return Err(format!("promise 5: {skipped} was passed over"));
        }
        match self.queue.first_key_value() {
            Some((place, fan)) if *place <= serving => Err(format!(
                "promise 5: serving {serving} has skipped {fan} at {place}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The window that ends now holds at most the highest rate in force in it.
    fn window(&self, now: Timestamp, window_ms: u64) -> Result<(), String> {
        let begin = now.minus_ms(window_ms);
        let in_window = self.calls.iter().filter(|calls| begin <= calls.at);
        let count: u64 = in_window.map(|calls| calls.count).sum();
        let before = self
            .rates
            .iter()
            .rfind(|(at, _)| *at <= begin)
            .map(|(_, rate)| *rate);
        let within = self
            .rates
            .iter()
            .filter(|(at, _)| begin <= *at)
            .map(|(_, rate)| *rate);
        let highest = within.chain(before).max().unwrap_or(0);
        if count <= highest {
            return Ok(());
        }
        Err(format!(
            "promise 4: {count} calls in {window_ms} ms, {highest} allowed"
        ))
    }

    /// The fewest calls in any `windows` windows on end between these instants.
    pub(crate) fn fewest(&self, from: Timestamp, to: Timestamp, windows: u64) -> u64 {
        let span_ms = windows * self.calls.first().map_or(1, |calls| calls.window_ms);
        // The worst span begins just after a call.
        let begins = self
            .calls
            .iter()
            .map(|calls| calls.at.plus_ms(1))
            .chain([from]);
        begins
            .filter(|begin| from <= *begin && begin.plus_ms(span_ms) <= to)
            .map(|begin| {
                let is_within = |at: Timestamp| begin <= at && at < begin.plus_ms(span_ms);
                let calls = self.calls.iter().filter(|calls| is_within(calls.at));
                calls.map(|calls| calls.count).sum()
            })
            .min()
            .unwrap_or(0)
    }
}
