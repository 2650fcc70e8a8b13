//! What an operator decides about limits, and the rules between them.

use serde::Deserialize;

use crate::base::bound::{within, within_or};
use crate::base::limits::{JOIN_FAR, LIMIT_MAX, STRANGERS_MAX};

/// So many a second on average, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Requests a second in the long run.
    pub per_s: u32,
    /// Requests at once after a pause.
    pub burst: u32,
}

impl Limit {
    /// In how many seconds a burst comes back.
    pub fn window_s(self) -> u64 {
        u64::from(self.burst).div_ceil(u64::from(self.per_s.max(1)))
    }
}

/// The limits, each with its reason.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// All requests of a prefix: a flood guard only, for behind one carrier's address wait thousands
    /// who poll.
    pub anything: Limit,
    /// Joins of an IPv4 address or a /64 without a proof: a household or an office may join at once, a
    /// farm may not.
    pub join: Limit,
    /// The same of a /56, which many providers give to one customer.
    pub join_56: Limit,
    /// The same of a /48: a site, or a provider's whole town.
    pub join_48: Limit,
    /// How many times as many as for free pass beside these because they have waited: a wait costs a
    /// program nothing.
    pub join_wait: u32,
    /// How many times as much as with none of these passes with proofs; beyond, joins are refused.
    pub join_far: u32,
    /// Joins of one show from everywhere: what the room behind it should have to bear.
    pub show: Limit,
    /// Requests of one fan: pages poll every few seconds.
    pub fan: Limit,
    /// Gated requests with one ticket: somebody who chooses seats in a hurry.
    pub gated: Limit,
    /// Strangers that are counted one by one, for each limit. Beyond, they share counts.
    pub strangers_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let limit = |per_s, burst| Limit { per_s, burst };
        Self {
            anything: limit(500, 2_000),
            join: limit(10, 60),
            join_56: limit(40, 240),
            join_48: limit(160, 960),
            join_wait: 1,
            join_far: 20,
            show: limit(100_000, 200_000),
            fan: limit(4, 20),
            gated: limit(10, 30),
            strangers_max: 4_000_000,
        }
    }
}

impl Settings {
    /// The first rule that the limits break.
    ///
    /// # Errors
    /// A sentence that names key and value.
    pub fn check(&self) -> Result<(), String> {
        for (key, limit) in [
            ("anything", self.anything),
            ("join", self.join),
            ("join_56", self.join_56),
            ("join_48", self.join_48),
            ("show", self.show),
            ("fan", self.fan),
            ("gated", self.gated),
        ] {
            for (part, often) in [("per_s", limit.per_s), ("burst", limit.burst)] {
                let key = format!("limits.{key}.{part}");
                within_or(&key, often, &(1..=LIMIT_MAX), "nothing would pass")?;
            }
        }
        let ladder = [
            ("join", self.join),
            ("join_56", self.join_56),
            ("join_48", self.join_48),
        ];
        for pair in ladder.windows(2) {
            // The wider prefix would refuse what the narrower one in it is allowed.
            let ((_, narrow), (key, wide)) = (pair[0], pair[1]);
            for (part, least, often) in [
                ("per_s", narrow.per_s, wide.per_s),
                ("burst", narrow.burst, wide.burst),
            ] {
                let key = format!("limits.{key}.{part}");
                within(&key, often, &(least..=LIMIT_MAX))?;
            }
        }
        within("limits.join_far", self.join_far, &JOIN_FAR)?;
        within("limits.join_wait", self.join_wait, &(1..=self.join_far))?;
        within("limits.strangers_max", self.strangers_max, &STRANGERS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_be_meant_are_refused() {
        let limit = |per_s, burst| Limit { per_s, burst };
        let good = Settings::default();
        good.check().unwrap();
        for (settings, names) in [
            (
                Settings {
                    fan: limit(0, 5),
                    ..good
                },
                "limits.fan.per_s (0) must be between 1 and 1000000, or nothing",
            ),
            (
                Settings {
                    show: limit(5, 0),
                    ..good
                },
                "limits.show.burst (0) must be between 1 and 1000000, or nothing",
            ),
            (
                Settings {
                    join: limit(u32::MAX, 5),
                    ..good
                },
                "limits.join.per_s (4294967295) must be between 1 and 1000000",
            ),
            (
                Settings {
                    join: limit(50, 60),
                    ..good
                },
                "limits.join_56.per_s (40) must be between 50 and 1000000",
            ),
            (
                Settings {
                    join_48: limit(160, 10),
                    ..good
                },
                "limits.join_48.burst (10) must be between 240 and 1000000",
            ),
            (
                Settings {
                    join_far: 1,
                    ..good
                },
                "limits.join_far (1) must be between 2 and 1000",
            ),
            (
                Settings {
                    join_wait: 0,
                    ..good
                },
                "limits.join_wait (0)",
            ),
            (
                Settings {
                    join_wait: 21,
                    ..good
                },
                "limits.join_wait (21) must be between 1 and 20",
            ),
        ] {
            let says = settings.check().unwrap_err();
            assert!(says.starts_with(names), "{says}");
        }
    }
    #[test]
    fn somebody_must_be_counted() {
        let settings = Settings {
            strangers_max: 0,
            ..Settings::default()
        };
        let says = "limits.strangers_max (0) must be between 1000 and 100000000";
        assert_eq!(settings.check(), Err(says.to_owned()));
    }
}
