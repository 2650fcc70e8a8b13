//! What fans without a seat were told, and how long after the last seat had gone. [pure]

use std::collections::BTreeMap;

use serde::Serialize;

use crate::crowd::clock::Moment;
use crate::judge::Fault;

/// Where a fan read that it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    Board,
    Status,
    Join,
    Hold,
}

/// A fan who was in line or inside when the show ended, and has no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seatless {
    pub fan_no: u32,
    /// When and where they read it; none: never.
    pub told: Option<(Moment, Way)>,
}

/// When the seatless were told, in milliseconds after the show had ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub fans: u64,
    pub never: u64,
    pub by: BTreeMap<Way, u64>,
    pub p50_ms: u64,
    pub p90_ms: u64,
    pub p99_ms: u64,
    pub max_ms: u64,
}

/// Sums up the seatless of a show that ended at `over`.
pub fn summarise(over: Moment, seatless: &[Seatless]) -> (Summary, Vec<(Fault, String)>) {
    let mut waits = Vec::with_capacity(seatless.len());
    let mut summary = Summary {
        fans: seatless.len() as u64,
        ..Summary::default()
    };
    let mut faults = Vec::new();
    for fan in seatless {
        match fan.told {
            Some((moment, way)) => {
                waits.push(moment.us_since(over) / 1_000);
                *summary.by.entry(way).or_default() += 1;
            }
            None => {
                summary.never += 1;
                faults.push((Fault::NeverTold, format!("fan {} still waits", fan.fan_no)));
            }
        }
    }
    waits.sort_unstable();
    let at = |share: usize| waits.get((waits.len() * share / 100).min(waits.len().max(1) - 1));
    let at = |share| at(share).copied().unwrap_or_default();
    summary.p50_ms = at(50);
    summary.p90_ms = at(90);
    summary.p99_ms = at(99);
    summary.max_ms = at(100);
    (summary, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_from_the_end_of_the_show() {
        let over = Moment::from_us(1_000_000);
        let told = |ms, way| Seatless {
            fan_no: 1,
            told: Some((over.plus_ms(ms), way)),
        };
        let before = Seatless {
            fan_no: 2,
            told: Some((Moment::from_us(1), Way::Hold)),
        };
        let (summary, faults) = summarise(
            over,
            &[
                told(40, Way::Board),
                told(10, Way::Board),
                told(20, Way::Status),
                before,
            ],
        );
        assert!(faults.is_empty());
        assert_eq!((summary.p50_ms, summary.max_ms, summary.fans), (20, 40, 4));
        assert_eq!(summary.by[&Way::Board], 2);
    }

    #[test]
    fn who_was_never_told_is_a_fault() {
        let (summary, faults) = summarise(
            Moment::default(),
            &[Seatless {
                fan_no: 7,
                told: None,
            }],
        );
        assert_eq!(
            (summary.never, faults[0].0, summary.max_ms),
            (1, Fault::NeverTold, 0)
        );
        assert_eq!(summarise(Moment::default(), &[]).0, Summary::default());
    }
}
