//! The network that a client's address belongs to: one customer, as far as we can tell.
//!
//! An IPv4 address counts alone. Whoever has IPv6 has a /64 at least, often a /56, and a whole /48
//! is had for the asking: so an IPv6 address counts in all three, and a wider one may do more.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many prefixes an address has at most.
pub const PREFIXES_MAX: usize = 3;

/// One network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Of IPv4 the address; of IPv6 the first half of it, which is all that we look at.
    bits: u64,
    /// 32, or 64, 56 and 48.
    length: u8,
}

/// The networks of one address, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefixes {
    /// IPv4, also inside of IPv6.
    One([Prefix; 1]),
    /// IPv6.
    Three([Prefix; PREFIXES_MAX]),
}

/// A network as operators know it: `203.0.113.0/24`, `2001:db8:1::/48`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(pub String);

impl Network {
    /// All that are not named.
    pub const fn rest() -> Self {
        Self(String::new())
    }
}

impl Prefixes {
    /// The prefixes of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::One([Prefix {
                bits: u64::from(u32::from(v4)),
                length: 32,
            }]),
            IpAddr::V6(v6) => {
                let half = v6.to_bits() >> 64;
                let half = u64::try_from(half).expect("half of 128 bits are 64");
                Self::Three([64, 56, 48].map(|length| Prefix {
                    bits: half >> (64 - length) << (64 - length),
                    length,
                }))
            }
        }
    }

    /// Them all.
    pub fn all(&self) -> &[Prefix] {
        match self {
            Self::One(one) => one,
            Self::Three(three) => three,
        }
    }

    /// The network that joins are told by: wide enough to be nobody's in particular.
    pub fn network(&self) -> Network {
        Network(match self {
            Self::One([Prefix { bits, .. }]) => {
                let [.., a, b, c, _] = bits.to_be_bytes();
                format!("{}/24", Ipv4Addr::new(a, b, c, 0))
            }
            Self::Three([.., widest]) => {
                format!(
                    "{}/{}",
                    Ipv6Addr::from(u128::from(widest.bits) << 64),
                    widest.length
                )
            }
        })
    }

    /// The narrowest.
    pub fn narrowest(&self) -> Prefix {
        match self {
            Self::One([one]) => *one,
            Self::Three([narrowest, ..]) => *narrowest,
        }
    }
}

/// As a part of a key's name: hexadecimal, so that it holds no character that means something there.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.length) / 4;
        match self.length {
            32 => write!(f, "{:0digits$x}", self.bits),
            length => write!(f, "{:0digits$x}/{length}", self.bits >> (64 - length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let prefixes = Prefixes::of(text.parse().unwrap());
        prefixes.all().iter().map(Prefix::to_string).collect()
    }

    #[test]
    fn a_prefix_is_one_customer() {
        for (one, other, shared) in [
            ("1.2.3.4", "::ffff:1.2.3.4", 1),
            ("1.2.3.4", "1.2.3.5", 0),
            ("2a00:1:2:3::1", "2a00:1:2:3:ffff::9", 3),
            ("2a00:1:2:3::1", "2a00:1:2:4::1", 2),
            ("2a00:1:2:3::1", "2a00:1:2:100::1", 1),
            ("2a00:1:2:3::1", "2a00:1:3:3::1", 0),
            // What looks like an IPv4 address in its bits is another network.
            ("1.2.3.4", "::1.2.3.4", 0),
        ] {
            let others = of(other);
            let same = of(one)
                .iter()
                .filter(|prefix| others.contains(prefix))
                .count();
            assert_eq!(same, shared, "{one} {other}");
        }
    }

    #[test]
    fn a_network_is_wider_than_a_customer() {
        for (address, network) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:203::1", "2001:db8:1::/48"),
            ("::1.2.3.4", "::/48"),
        ] {
            let prefixes = Prefixes::of(address.parse().unwrap());
            assert_eq!(prefixes.network().0, network, "{address}");
        }
    }

    #[test]
    fn a_prefix_has_a_plain_name() {
        assert_eq!(of("10.0.0.1"), ["0a000001"]);
        assert_eq!(
            of("2001:db8:1:203::1"),
            [
                "20010db800010203/64",
                "20010db8000102/56",
                "20010db80001/48"
            ]
        );
    }
}
