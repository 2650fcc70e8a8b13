//! The worst window of a second: how many moments lie closest together. [pure]
//!
//! Clients do not see calls, only the first answer that says `admitted`, and fans ask when it suits
//! their polling. So this window may exceed the rate where no call did: the ledger proves the rate.

use serde::Serialize;

use crate::crowd::clock::Moment;

/// Where most moments lie closest together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Worst {
    pub count: u64,
    /// The first of them, in microseconds since the Unix epoch.
    pub from_us: u64,
}

/// The most moments in any window `(t − width, t]`; none for no moments. Sorts what it is given.
pub fn worst(moments: &mut [Moment], width_us: u64) -> Option<Worst> {
    moments.sort_unstable();
    let mut worst: Option<Worst> = None;
    let mut first = 0;
    for (last, moment) in moments.iter().enumerate() {
        while width_us <= moment.us_since(moments[first]) {
            first += 1;
        }
        let count = (last - first + 1) as u64;
        if worst.is_none_or(|worst| worst.count < count) {
            worst = Some(Worst {
                count,
                from_us: moments[first].us(),
            });
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_second_is_found_wherever_it_begins() {
        let mut moments: Vec<Moment> = [5_000_000, 0, 999_999, 1_000_000, 1_900_000, 1_999_998]
            .map(Moment::from_us)
            .to_vec();
        assert_eq!(
            worst(&mut moments, 1_000_000),
            Some(Worst {
                count: 4,
                from_us: 999_999
            })
        );
        assert_eq!(worst(&mut [], 1_000_000), None);
    }

    #[test]
    fn exactly_a_second_apart_is_two_windows() {
        let mut moments = [0, 1_000_000].map(Moment::from_us);
        assert_eq!(worst(&mut moments, 1_000_000).unwrap().count, 1);
    }
}
