//! How long answers took, from the moment a request was meant to be sent.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::crowd::clock::Moment;
use crate::crowd::fan::Step;

/// What a step is called in reports and histories.
pub const fn op(step: Step) -> &'static str {
    match step {
        Step::Board | Step::ReadBoard => "board",
        Step::Join | Step::Twin | Step::Retry | Step::Refresh => "join",
        Step::Status | Step::Recheck => "status",
        Step::Page => "page",
        Step::Form => "form",
        Step::Probe(_) => "probe",
        Step::Hold => "hold",
        Step::Order | Step::OrderAgain => "order",
        Step::Read => "read",
        Step::Pay => "payment",
        Step::Leave => "leave",
    }
}

/// Percentiles of one operation, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub count: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

/// Histograms of all operations, of the last second, and of how late requests were sent.
#[derive(Debug)]
pub struct Latency {
    by_op: BTreeMap<&'static str, Histogram<u64>>,
    recent: Histogram<u64>,
    late: Histogram<u64>,
}

/// Three digits, from a microsecond to an hour.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("bounds that hdrhistogram allows")
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            by_op: BTreeMap::new(),
            recent: histogram(),
            late: histogram(),
        }
    }
}

impl Latency {
    /// An answered request: when it was meant to be sent, was sent and was answered.
    pub fn record(&mut self, step: Step, due: Moment, sent: Moment, done: Moment) {
        let took = done.us_since(due);
        self.by_op
            .entry(op(step))
            .or_insert_with(histogram)
            .saturating_record(took);
        self.recent.saturating_record(took);
        self.late.saturating_record(sent.us_since(due));
    }

    /// The 99th percentile since this was last asked, in microseconds.
    pub fn recent_p99_us(&mut self) -> u64 {
        let p99 = self.recent.value_at_quantile(0.99);
        self.recent.reset();
        p99
    }

    /// Percentiles by operation.
    pub fn percentiles(&self) -> BTreeMap<&'static str, Percentiles> {
        self.by_op
            .iter()
            .map(|(op, histogram)| (*op, percentiles(histogram)))
            .collect()
    }

    /// How late requests were sent: high where the crowd itself or its connections are the bound.
    pub fn lateness(&self) -> Percentiles {
        percentiles(&self.late)
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    Percentiles {
        count: histogram.len(),
        p50_us: histogram.value_at_quantile(0.5),
        p90_us: histogram.value_at_quantile(0.9),
        p99_us: histogram.value_at_quantile(0.99),
        p999_us: histogram.value_at_quantile(0.999),
        max_us: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_from_the_intended_moment() {
        let mut latency = Latency::default();
        let at = Moment::from_us;
        // Sent late because every connection was busy: the fan waited all the same.
        latency.record(Step::Join, at(1_000), at(9_000), at(10_000));
        latency.record(Step::Twin, at(1_000), at(1_000), at(2_000));
        let joins = latency.percentiles()["join"];
        assert_eq!((joins.count, joins.p50_us), (2, 1_000));
        assert!((9_000..9_100).contains(&joins.max_us), "{joins:?}");
        assert!(8_000 <= latency.lateness().max_us);
        assert!(9_000 <= latency.recent_p99_us());
        assert_eq!(latency.recent_p99_us(), 0);
    }
}
