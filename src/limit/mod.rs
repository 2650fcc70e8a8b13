//! How often somebody may ask: the port, the rules and who a rule counts.

pub mod in_memory;

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;
use serde::Deserialize;

use crate::base::ids::{FanId, TicketId};

/// Who asks for what. One count each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Anything, from a client's prefix.
    Anything(Prefix),
    /// A number, from a client's prefix.
    Join(Prefix),
    /// Anything of their own: place, status, leaving.
    Fan(FanId),
    /// Something behind the gate, with this ticket.
    Gated(TicketId),
}

/// The network that a client's address belongs to: one customer, as far as we can tell. An IPv4
/// address counts alone, an IPv6 address by its /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(u128);

impl Prefix {
    /// The prefix of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // 2001:db8::/32 is documentation's, so no client is taken for another.
            IpAddr::V4(v4) => Self((0x2001_0db8 << 96) | u128::from(u32::from(v4))),
            IpAddr::V6(v6) => Self(u128::from(v6) >> 64 << 64),
        }
    }
}

/// What a limit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// Too often: ask again after so many seconds, at least one.
    TooMany {
        /// Seconds, rounded up.
        retry_after_s: u64,
    },
}

/// Counts who asks for what.
#[async_trait]
pub trait Limiter: Send + Sync + Debug {
    /// Counts one request and says whether it is one too many. A refused one is not counted.
    async fn ask(&self, asking: Asking) -> Verdict;
}

/// So many a second on average, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Requests a second in the long run.
    pub per_s: u32,
    /// Requests at once after a pause.
    pub burst: u32,
}

/// The limits, each with its reason.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// All requests of a prefix: a flood guard only, for behind one carrier's address wait thousands
    /// who poll.
    pub anything: Limit,
    /// Joins of a prefix: a household or an office may join at once, a farm may not.
    pub join: Limit,
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
            ("fan", self.fan),
            ("gated", self.gated),
        ] {
            if limit.per_s == 0 || limit.burst == 0 {
                return Err(format!(
                    "limits.{key} must have per_s and burst of at least 1"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_customer() {
        let prefix = |text: &str| Prefix::of(text.parse().unwrap());
        assert_eq!(prefix("1.2.3.4"), prefix("::ffff:1.2.3.4"));
        assert_ne!(prefix("1.2.3.4"), prefix("1.2.3.5"));
        assert_eq!(prefix("2a00:1:2:3::1"), prefix("2a00:1:2:3:ffff::9"));
        assert_ne!(prefix("2a00:1:2:3::1"), prefix("2a00:1:2:4::1"));
    }
}
