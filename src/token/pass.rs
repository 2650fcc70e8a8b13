//! The pass: a fan's credential in line, and the backup of the line.
//!
//! `c1.<key label>.<payload>.<mac>`: a fixed binary payload in base64url and an HMAC, truncated to
//! 128 bits, over everything before it. Checking it needs a key and no I/O. It does not expire: the
//! fan id in it belongs to one show and one number for ever. `c2` is the same with the commitment of
//! the show's draw.

use hmac::Mac;

use crate::base::ids::{Commitment, Edition, FanId, Generation, Number, ShowId};
use crate::base::limits::TOKEN_BYTES_MAX;
use crate::base::time::Timestamp;
use crate::token::keyring::{KeyRing, Keys};
use crate::token::{decode, decode_array, encode, hmac_with};

const FORMAT: &str = "c1";
/// The payload begins with a commitment.
const FORMAT_OF_DRAW: &str = "c2";
const MAC_BYTES: usize = 16;
const FIXED_BYTES: usize = 16 + 8 + 8 + 8 + 8 + 4 + 4;
const ETA_UNKNOWN: u32 = u32::MAX;

/// What a pass says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The show it is for.
    pub show: ShowId,
    /// The fan it belongs to.
    pub fan: FanId,
    /// The number issued at join.
    pub number: Number,
    /// The edition that issued the number.
    pub edition: Edition,
    /// The generation of the room at signing.
    pub generation: Generation,
    /// When it was signed, in room time.
    pub issued_at: Timestamp,
    /// The ETA range shown at join, in seconds from `issued_at`; `None` where none was known.
    pub eta: Option<(u32, u32)>,
    /// What was published of the show's draw when the pass was signed; `None` where there is none.
    pub commitment: Option<Commitment>,
}

/// The text is no pass of ours. Why is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid pass")]
pub struct PassError;

impl Pass {
    /// Signs the pass with the ring's active key.
    pub fn sign(&self, ring: &KeyRing) -> String {
        let (low, high) = self.eta.unwrap_or((ETA_UNKNOWN, ETA_UNKNOWN));
        let mut payload = Vec::with_capacity(32 + FIXED_BYTES + self.show.as_str().len());
        payload.extend(self.commitment.into_iter().flat_map(|sealed| sealed.0));
        payload.extend(self.fan.0);
        payload.extend(self.number.0.to_be_bytes());
        payload.extend(self.edition.0.to_be_bytes());
        payload.extend(self.generation.0.to_be_bytes());
        payload.extend(self.issued_at.as_millis().to_be_bytes());
        payload.extend(low.to_be_bytes());
        payload.extend(high.to_be_bytes());
        payload.extend(self.show.as_str().as_bytes());
        let format = self.commitment.map_or(FORMAT, |_| FORMAT_OF_DRAW);
        let signed = format!("{format}.{}.{}", ring.active(), encode(&payload));
        let mac = mac(ring.signing(), &signed).finalize().into_bytes();
        format!("{signed}.{}", encode(&mac[..MAC_BYTES]))
    }

    /// Checks the signature and reads the pass. Whether show and edition fit is the caller's check.
    ///
    /// # Errors
    /// [`PassError`] for anything but a pass signed with a key of the ring.
    pub fn verify(text: &str, ring: &KeyRing) -> Result<Self, PassError> {
        let parts = Parts::of(text).ok_or(PassError)?;
        let keys = ring.accepted(parts.label).ok_or(PassError)?;
        let tag: [u8; MAC_BYTES] = decode_array(parts.mac).ok_or(PassError)?;
        mac(keys, parts.signed)
            .verify_truncated_left(&tag)
            .map_err(|_| PassError)?;
        parts.read().ok_or(PassError)
    }

    /// What a text claims to be a pass of, its signature not looked at: for those who have no key,
    /// and believe their own pass.
    pub fn claimed(text: &str) -> Option<Self> {
        Parts::of(text)?.read()
    }
}

/// A pass as text, taken apart.
struct Parts<'a> {
    signed: &'a str,
    format: &'a str,
    label: &'a str,
    payload: &'a str,
    mac: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let is_short = text.len() <= TOKEN_BYTES_MAX;
        let (signed, mac) = text.rsplit_once('.').filter(|_| is_short)?;
        let mut parts = signed.split('.');
        let (format, label, payload) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(Self {
            signed,
            format,
            label,
            payload,
            mac,
        })
    }

    fn read(&self) -> Option<Pass> {
        let payload = decode(self.payload)?;
        match self.format {
            FORMAT => read(&payload, None),
            FORMAT_OF_DRAW => {
                let (commitment, rest) = payload.split_first_chunk()?;
                read(rest, Some(Commitment(*commitment)))
            }
            _ => None,
        }
    }
}

fn mac(keys: &Keys, signed: &str) -> hmac::Hmac<sha2::Sha256> {
    hmac_with(&keys.pass, &[signed.as_bytes()])
}

fn read(payload: &[u8], commitment: Option<Commitment>) -> Option<Pass> {
    let (fan, rest) = payload.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (edition, rest) = rest.split_first_chunk::<8>()?;
    let (generation, rest) = rest.split_first_chunk::<8>()?;
    let (issued_at, rest) = rest.split_first_chunk::<8>()?;
    let (low, rest) = rest.split_first_chunk::<4>()?;
    let (high, show) = rest.split_first_chunk::<4>()?;
    let (low, high) = (u32::from_be_bytes(*low), u32::from_be_bytes(*high));
    Some(Pass {
        show: std::str::from_utf8(show).ok()?.parse().ok()?,
        fan: FanId(*fan),
        number: Number(u64::from_be_bytes(*number)),
        edition: Edition(u64::from_be_bytes(*edition)),
        generation: Generation(u64::from_be_bytes(*generation)),
        issued_at: Timestamp::from_unix_ms(i64::from_be_bytes(*issued_at)),
        eta: (low != ETA_UNKNOWN).then_some((low, high)),
        commitment,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    fn ring(active: &str, accepted: &[&str]) -> KeyRing {
        let accepted: Vec<String> = accepted.iter().map(|&label| label.to_owned()).collect();
        KeyRing::new(&Secret::new("y".repeat(40)), active, &accepted).unwrap()
    }

    fn pass() -> Pass {
        Pass {
            show: "stadium-show".parse().unwrap(),
            fan: FanId([9; 16]),
            number: Number(45_000),
            edition: Edition(2),
            generation: Generation(3),
            issued_at: Timestamp::from_unix_ms(1_800_000_000_123),
            eta: Some((75, 105)),
            commitment: None,
        }
    }

    #[test]
    fn a_pass_reads_back() {
        let ring = ring("k1", &[]);
        for pass in [
            pass(),
            Pass {
                eta: None,
                ..pass()
            },
            Pass {
                commitment: Some(Commitment([7; 32])),
                ..pass()
            },
        ] {
            let text = pass.sign(&ring);
            assert_eq!(Pass::claimed(&text), Some(pass.clone()));
            assert_eq!(Pass::verify(&text, &ring), Ok(pass));
        }
    }

    #[test]
    fn a_retired_key_is_accepted_and_a_removed_one_is_not() {
        let old = pass().sign(&ring("k1", &[]));
        assert_eq!(Pass::verify(&old, &ring("k2", &["k1"])), Ok(pass()));
        assert_eq!(Pass::verify(&old, &ring("k2", &[])), Err(PassError));
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let ring = ring("k1", &[]);
        let sealed = Pass {
            commitment: Some(Commitment([7; 32])),
            ..pass()
        };
        let other_format = sealed.sign(&ring).replacen("c2", "c1", 1);
        assert_eq!(Pass::verify(&other_format, &ring), Err(PassError));
        let good = pass().sign(&ring);
        for at in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let bad = String::from_utf8(bytes).unwrap();
            assert_eq!(Pass::verify(&bad, &ring), Err(PassError), "character {at}");
        }
        for bad in [
            "",
            ".",
            "c1.k1",
            "c1.k1..",
            &format!("{good}."),
            &good[1..],
            &"a".repeat(9_999),
        ] {
            assert_eq!(Pass::verify(bad, &ring), Err(PassError), "{bad}");
        }
    }
}
