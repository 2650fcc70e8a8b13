//! The assertion: how an upstream knows that a request came through the gate.
//!
//! `x-catraca-assertion: v1.<unix ms>.<mac>`, where the MAC covers the identity headers, method and
//! path with a secret that gateway and upstream share. It is fresh for seconds, and the nonce in it
//! is used once.

use hmac::Mac;

use crate::base::ids::{FanId, RequestId, ShowId, TicketId};
use crate::base::secret::Secret;
use crate::base::time::Timestamp;
use crate::token::{decode, encode, hmac};

/// The header that carries the assertion.
pub const HEADER: &str = "x-catraca-assertion";
/// How far the wall clocks of gateway and upstream may differ, and how old an assertion may be.
pub const FRESH_MS: u64 = 5_000;

/// What the gateway asserts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Asserted<'a> {
    /// `x-catraca-fan`.
    pub fan: FanId,
    /// `x-catraca-show`.
    pub show: &'a ShowId,
    /// `x-catraca-ticket-id`; absent where the route is open to a pass alone.
    pub ticket_id: Option<TicketId>,
    /// `x-catraca-nonce`.
    pub nonce: RequestId,
    /// The request's method.
    pub method: &'a str,
    /// The request's path and query as forwarded.
    pub path: &'a str,
}

/// The request did not come through the gate, or did so too long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid assertion")]
pub struct AssertionError;

/// Signs what the gateway asserts, at its wall clock.
pub fn sign(asserted: &Asserted<'_>, secret: &Secret, now: Timestamp) -> String {
    let at = now.as_millis();
    format!(
        "v1.{at}.{}",
        encode(&mac(asserted, secret, at).finalize().into_bytes())
    )
}

/// Checks an assertion against the request it came with, at the upstream's wall clock.
///
/// # Errors
/// [`AssertionError`] where it is malformed, forged, for another request or stale.
pub fn verify(
    text: &str,
    asserted: &Asserted<'_>,
    secret: &Secret,
    now: Timestamp,
) -> Result<(), AssertionError> {
    let rest = text.strip_prefix("v1.").ok_or(AssertionError)?;
    let (at, tag) = rest.split_once('.').ok_or(AssertionError)?;
    let at = instant(at).ok_or(AssertionError)?;
    let tag = decode(tag).ok_or(AssertionError)?;
    mac(asserted, secret, at)
        .verify_slice(&tag)
        .map_err(|_| AssertionError)?;
    let made = Timestamp::from_unix_ms(at);
    if FRESH_MS < now.ms_since(made) || FRESH_MS < made.ms_since(now) {
        return Err(AssertionError);
    }
    Ok(())
}

/// Milliseconds in the one spelling that we write.
fn instant(text: &str) -> Option<i64> {
    let at: i64 = text.parse().ok()?;
    (at.to_string() == text).then_some(at)
}

fn mac(asserted: &Asserted<'_>, secret: &Secret, at: i64) -> hmac::Hmac<sha2::Sha256> {
    let ticket_id = asserted
        .ticket_id
        .map(|id| id.to_string())
        .unwrap_or_default();
    hmac(
        secret.expose().as_bytes(),
        &[
            &asserted.fan.0,
            asserted.show.as_str().as_bytes(),
            ticket_id.as_bytes(),
            asserted.nonce.0.as_bytes(),
            asserted.method.as_bytes(),
            asserted.path.as_bytes(),
            &at.to_be_bytes(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::IdSource;

    #[test]
    fn an_assertion_holds_for_its_request_and_for_seconds() {
        let now = Timestamp::from_unix_ms(1_800_000_000_000);
        let (secret, show) = (Secret::new("s"), "show".parse().unwrap());
        let asserted = Asserted {
            fan: FanId([1; 16]),
            show: &show,
            ticket_id: Some(TicketId([2; 16])),
            nonce: IdSource::seeded(1).request(now),
            method: "POST",
            path: "/v1/shows/show/orders",
        };
        let text = sign(&asserted, &secret, now);
        assert_eq!(
            verify(&text, &asserted, &secret, now.plus_ms(FRESH_MS)),
            Ok(())
        );
        assert!(verify(&text, &asserted, &secret, now.plus_ms(FRESH_MS + 1)).is_err());
        assert!(verify(&text, &asserted, &secret, now.minus_ms(FRESH_MS + 1)).is_err());
        assert!(verify(&text, &asserted, &Secret::new("t"), now).is_err());
        for other in [
            Asserted {
                fan: FanId([3; 16]),
                ..asserted
            },
            Asserted {
                ticket_id: None,
                ..asserted
            },
            Asserted {
                method: "GET",
                ..asserted
            },
            Asserted {
                path: "/v1/shows/show/holds",
                ..asserted
            },
        ] {
            assert!(verify(&text, &other, &secret, now).is_err(), "{other:?}");
        }
        for bad in [
            "",
            "v1",
            "v1..",
            "v2.1.AA",
            &format!("{text}A"),
            "v1.99999999999999999999.AA",
        ] {
            assert!(verify(bad, &asserted, &secret, now).is_err(), "{bad}");
        }
    }
}
