//! A wait: who cannot do sums waits instead, and shows when the waiting began.
//!
//! `w1.<payload>.<mac>`: what it is for is signed with it, so that nothing is stored until it is used.
//! Like an answer to a challenge it counts for one show and once; unlike it, not before its time.

use hmac::Mac;

use crate::base::ids::{Edition, ShowId};
use crate::base::limits::TOKEN_BYTES_MAX;
use crate::base::time::Timestamp;
use crate::token::keyring::KeyRing;
use crate::token::{decode, encode, hmac};

const FORMAT: &str = "w1";
const MAC_BYTES: usize = 16;

/// Somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Which wait it is.
    pub id: [u8; 16],
    /// From when on it counts, in room time.
    pub from: Timestamp,
    /// And until when.
    pub until: Timestamp,
}

impl Wait {
    /// Signs it for a show and edition.
    pub fn sign(&self, of: (&ShowId, Edition), ring: &KeyRing) -> String {
        let (from, until) = (self.from.as_millis(), self.until.as_millis());
        let payload = [&self.id[..], &from.to_be_bytes(), &until.to_be_bytes()].concat();
        let tag = mac(&payload, of, ring).finalize().into_bytes();
        format!(
            "{FORMAT}.{}.{}",
            encode(&payload),
            encode(&tag[..MAC_BYTES])
        )
    }

    /// Reads a wait of this show and edition; none where it is none. Whether it counts now is the
    /// caller's check.
    pub fn read(text: &str, of: (&ShowId, Edition), ring: &KeyRing) -> Option<Self> {
        if TOKEN_BYTES_MAX < text.len() {
            return None;
        }
        let mut parts = text.split('.');
        let (format, payload, tag) = (parts.next()?, parts.next()?, parts.next()?);
        if format != FORMAT || parts.next().is_some() {
            return None;
        }
        let (payload, tag) = (decode(payload)?, decode(tag)?);
        if tag.len() != MAC_BYTES {
            return None;
        }
        mac(&payload, of, ring).verify_truncated_left(&tag).ok()?;
        let (id, times) = payload.split_first_chunk()?;
        let (from, times) = times.split_first_chunk()?;
        let (until, rest) = times.split_first_chunk()?;
        rest.is_empty().then_some(Self {
            id: *id,
            from: Timestamp::from_unix_ms(i64::from_be_bytes(*from)),
            until: Timestamp::from_unix_ms(i64::from_be_bytes(*until)),
        })
    }
}

fn mac(payload: &[u8], of: (&ShowId, Edition), ring: &KeyRing) -> hmac::Hmac<sha2::Sha256> {
    let parts = [payload, of.0.as_str().as_bytes(), &of.1.0.to_be_bytes()];
    hmac(&ring.short_lived("wait"), &parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    #[test]
    fn a_wait_reads_back_for_its_show_only_and_whole() {
        let ring = |secret: &str| KeyRing::new(&Secret::new(secret.repeat(40)), "k1", &[]).unwrap();
        let (show, other): (ShowId, ShowId) = ("gala".parse().unwrap(), "ball".parse().unwrap());
        let wait = Wait {
            id: [3; 16],
            from: Timestamp::from_unix_ms(20),
            until: Timestamp::from_unix_ms(30),
        };
        let text = wait.sign((&show, Edition(1)), &ring("a"));
        let read = |text: &str, show: &ShowId, edition: u64, secret: &str| {
            Wait::read(text, (show, Edition(edition)), &ring(secret))
        };
        assert_eq!(read(&text, &show, 1, "a"), Some(wait));
        assert_eq!(read(&text, &other, 1, "a"), None);
        assert_eq!(read(&text, &show, 2, "a"), None);
        assert_eq!(read(&text, &show, 1, "b"), None);
        for (at, _) in text.char_indices() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(read(&changed, &show, 1, "a"), None, "{changed}");
        }
        for bad in ["", "w1", "w1..", "w1.AA.AA", &format!("{text}.x")] {
            assert_eq!(read(bad, &show, 1, "a"), None, "{bad}");
        }
    }
}
