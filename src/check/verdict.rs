//! What a checker says of a promise.

/// The promises that leave traces, by their numbers in the README.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// 1. A fan has one number at a time, and a number one fan.
    OnePlace,
    /// 2. Who was answered before another asked has the smaller number.
    RealTimeOrder,
    /// 3. What was answered survives every restart.
    NothingLost,
    /// 4. At most N calls in any window, and hardly fewer while fans wait.
    ExactRate,
    /// 5. Nobody is called out of turn, twice or never.
    InTurn,
    /// 6. Nobody is called while the room is full.
    Capacity,
    /// 7. Nobody reaches a gated route without a live ticket.
    Gate,
    /// 9. Free, held and sold seats add up, and no seat is taken twice.
    NoOversell,
    /// 10. One hold makes one order; one ticket makes one order that counts.
    OneOrder,
    /// 11. No order without its events, no event without its order.
    OrderEvent,
    /// 12. No event is lost or out of order, and each has its effect once.
    EventsDelivered,
    /// 13. A poisoned event stops nobody else.
    PoisonContained,
}

impl Promise {
    /// The number in the README.
    pub const fn number(self) -> u8 {
        match self {
            Self::OnePlace => 1,
            Self::RealTimeOrder => 2,
            Self::NothingLost => 3,
            Self::ExactRate => 4,
            Self::InTurn => 5,
            Self::Capacity => 6,
            Self::Gate => 7,
            Self::NoOversell => 9,
            Self::OneOrder => 10,
            Self::OrderEvent => 11,
            Self::EventsDelivered => 12,
            Self::PoisonContained => 13,
        }
    }

    /// The promise in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::OnePlace => "one place",
            Self::RealTimeOrder => "real-time order",
            Self::NothingLost => "nothing lost",
            Self::ExactRate => "exact rate",
            Self::InTurn => "in turn",
            Self::Capacity => "capacity",
            Self::Gate => "gate",
            Self::NoOversell => "no oversell",
            Self::OneOrder => "one order",
            Self::OrderEvent => "order and event",
            Self::EventsDelivered => "events delivered",
            Self::PoisonContained => "poison contained",
        }
    }
}

/// How a promise stands, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Everything that was looked at agrees with it.
    Clean,
    /// Nothing speaks against it, but something that it needs is missing.
    Unproved,
    /// There is a counter-example.
    Broken,
}

impl Finding {
    /// The word in print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Unproved => "unproved",
            Self::Broken => "broken",
        }
    }
}

/// What a checker found out about one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The promise.
    pub promise: Promise,
    /// What was looked at, with counts.
    pub looked_at: Vec<String>,
    /// The first counter-example.
    pub broken: Option<String>,
    /// Counter-examples beside the first.
    pub others: u64,
    /// What could not be proved, why, and how much it is.
    pub unproved: Vec<String>,
}

impl Verdict {
    /// A verdict before anything was looked at.
    pub(super) const fn on(promise: Promise) -> Self {
        Self {
            promise,
            looked_at: Vec::new(),
            broken: None,
            others: 0,
            unproved: Vec::new(),
        }
    }

    /// Notes what was looked at.
    pub(super) fn saw(&mut self, count: usize, what: &str) {
        self.looked_at.push(format!("{} {what}", grouped(count)));
    }

    /// Notes a counter-example.
    pub(super) fn breaks(&mut self, example: impl FnOnce() -> String) {
        match self.broken {
            None => self.broken = Some(example()),
            Some(_) => self.others += 1,
        }
    }

    /// Notes something that could not be proved.
    pub(super) fn cannot_prove(&mut self, what: impl Into<String>) {
        self.unproved.push(what.into());
    }

    /// Notes how many things of a kind could not be proved; nothing for none.
    pub(super) fn cannot_prove_some(&mut self, count: usize, what: &str) {
        if 0 < count {
            self.cannot_prove(format!("{} {what}", grouped(count)));
        }
    }

    /// How the promise stands. A counter-example outweighs whatever is missing.
    pub const fn finding(&self) -> Finding {
        if self.broken.is_some() {
            Finding::Broken
        } else if self.unproved.is_empty() {
            Finding::Clean
        } else {
            Finding::Unproved
        }
    }
}

/// The worst of the findings; nothing looked at proves nothing.
pub fn worst(verdicts: &[Verdict]) -> Finding {
    verdicts
        .iter()
        .map(Verdict::finding)
        .max()
        .unwrap_or(Finding::Unproved)
}

/// A count with its thousands apart: `12,345`.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if 0 < i && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_example_outweighs_what_is_missing() {
        let mut verdict = Verdict::on(Promise::Gate);
        assert_eq!(verdict.finding(), Finding::Clean);
        verdict.cannot_prove_some(0, "holds");
        assert_eq!(verdict.finding(), Finding::Clean);
        verdict.cannot_prove_some(1_234, "holds");
        assert_eq!(verdict.unproved, ["1,234 holds"]);
        assert_eq!(verdict.finding(), Finding::Unproved);
        verdict.breaks(|| "first".to_owned());
        verdict.breaks(|| "second".to_owned());
        assert_eq!(
            (verdict.broken.as_deref(), verdict.others),
            (Some("first"), 1)
        );
        assert_eq!(verdict.finding(), Finding::Broken);
        assert_eq!(
            worst(&[Verdict::on(Promise::Gate), verdict]),
            Finding::Broken
        );
        assert_eq!(worst(&[]), Finding::Unproved);
    }

    #[test]
    fn counts_are_easy_to_read() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }
}
