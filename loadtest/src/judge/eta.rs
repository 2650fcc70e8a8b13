//! Promise 8: how honest the range was that a fan was shown at join. [pure]

use serde::Serialize;

/// A called fan: what was promised at join, what came, in seconds from the answer to the join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    pub low: f64,
    pub high: f64,
    /// When the first answer said `admitted`.
    pub actual: f64,
}

impl Promise {
    fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// What the promises of a group of fans were worth.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Calibration {
    /// The group: how long a wait they were shown.
    pub shown: &'static str,
    pub fans: u64,
    /// Share called within the range; 0 for no fans.
    pub within: f64,
    /// Share called before the range began.
    pub sooner: f64,
    /// Share called after the range had ended.
    pub later: f64,
    pub mean_width_s: f64,
    /// Mean distance of the call from the middle of the range.
    pub mean_error_s: f64,
    /// Ranges wider than max(30 s, half their middle).
    pub too_wide: u64,
}

/// The groups: everybody, then by the middle of the range shown.
const GROUPS: [(&str, f64, f64); 4] = [
    ("all", f64::MIN, f64::MAX),
    ("< 30 s", f64::MIN, 30.0),
    ("30–120 s", 30.0, 120.0),
    ("≥ 120 s", 120.0, f64::MAX),
];

/// Calibration of everybody and of each group that has fans.
pub fn calibrate(promises: &[Promise]) -> Vec<Calibration> {
    let groups = GROUPS.iter().map(|(shown, from, to)| {
        let of_group: Vec<&Promise> = promises
            .iter()
            .filter(|p| *from <= p.middle() && p.middle() < *to)
            .collect();
        group(shown, &of_group)
    });
    groups.filter(|group| 0 < group.fans).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of fans")]
fn group(shown: &'static str, promises: &[&Promise]) -> Calibration {
    let count = |is: &dyn Fn(&Promise) -> bool| promises.iter().filter(|p| is(p)).count() as u64;
    let fans = promises.len() as u64;
    let of_fans = |sum: f64| if fans == 0 { 0.0 } else { sum / fans as f64 };
    Calibration {
        shown,
        fans,
        within: of_fans(count(&|p| p.low <= p.actual && p.actual <= p.high) as f64),
        sooner: of_fans(count(&|p| p.actual < p.low) as f64),
        later: of_fans(count(&|p| p.high < p.actual) as f64),
        mean_width_s: of_fans(promises.iter().map(|p| p.width()).sum()),
        mean_error_s: of_fans(promises.iter().map(|p| (p.actual - p.middle()).abs()).sum()),
        too_wide: count(&|p| (p.middle() / 2.0).max(30.0) < p.width()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_promises_are_counted_on_the_side_they_broke() {
        let groups = calibrate(&[
            Promise {
                low: 10.0,
                high: 20.0,
                actual: 10.0,
            },
            Promise {
                low: 10.0,
                high: 20.0,
                actual: 9.0,
            },
            Promise {
                low: 10.0,
                high: 50.0,
                actual: 60.0,
            },
            Promise {
                low: 200.0,
                high: 300.0,
                actual: 250.0,
            },
        ]);
        let names: Vec<_> = groups.iter().map(|g| (g.shown, g.fans)).collect();
        assert_eq!(
            names,
            [("all", 4), ("< 30 s", 2), ("30–120 s", 1), ("≥ 120 s", 1)]
        );
        assert_eq!(
            (groups[0].within, groups[0].sooner, groups[0].later),
            (0.5, 0.25, 0.25)
        );
        assert_eq!(
            groups[0].too_wide, 1,
            "40 s wide around 30 s; 100 s wide around 250 s is allowed"
        );
        assert_eq!(groups[0].mean_width_s, 40.0);
    }

    #[test]
    fn nobody_called_is_no_group() {
        assert!(calibrate(&[]).is_empty());
    }
}
