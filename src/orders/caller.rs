//! Who is calling: the identity that the gate asserts, and nothing else.
//!
//! A request counts only with an assertion that is fresh, made for this very method and path, and
//! not used before. Whoever lacks one gets the same 401, whatever is wrong with it. Nonces are
//! remembered in this process, for as long as their assertions are fresh.

use std::collections::{HashSet, VecDeque};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use axum::extract::{FromRequestParts, OriginalUri};
use http::HeaderMap;
use http::request::Parts;

use crate::base::ids::{FanId, RequestId, ShowId, TicketId};
use crate::base::limits::NONCES_MAX;
use crate::base::time::Timestamp;
use crate::http::problem::Problem;
use crate::orders::Orders;
use crate::orders::rules::Buyer;
use crate::token::assertion::{self, Asserted, FRESH_MS};

/// Length of a W3C `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// Somebody whom the gate let through.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) show: ShowId,
    pub(super) fan: FanId,
    /// Absent where the gate asked for a pass only.
    ticket: Option<TicketId>,
    trace: Option<String>,
}

impl Caller {
    /// The caller as a buyer, which takes a ticket for this show.
    pub(super) fn buyer(self, show: &str) -> Result<Buyer, Problem> {
        self.at(show)?;
        Ok(Buyer {
            ticket: self.ticket.ok_or_else(Problem::no_ticket)?,
            show: self.show,
            fan: self.fan,
            trace: self.trace,
        })
    }

    /// Checks that the show in the path is the one that the caller belongs to.
    pub(super) fn at(&self, show: &str) -> Result<(), Problem> {
        if self.show.as_str() == show {
            Ok(())
        } else {
            Err(Problem::no_ticket())
        }
    }
}

impl FromRequestParts<Orders> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, orders: &Orders) -> Result<Self, Problem> {
        let now = orders.clock.now();
        let headers = &parts.headers;
        let required = || Problem::no_ticket();
        let show: ShowId = only(headers, "x-catraca-show")
            .ok_or_else(required)?
            .map_err(|_| required())?;
        let fan = only(headers, "x-catraca-fan")
            .ok_or_else(required)?
            .map_err(|_| required())?;
        let nonce = only(headers, "x-catraca-nonce")
            .ok_or_else(required)?
            .map_err(|_| required())?;
        let ticket = only(headers, "x-catraca-ticket-id")
            .transpose()
            .map_err(|_| required())?;
        let text: String = only(headers, assertion::HEADER)
            .ok_or_else(required)?
            .map_err(|_| required())?;
        let uri = parts.extensions.get::<OriginalUri>();
        let uri = uri.map_or(&parts.uri, |OriginalUri(uri)| uri);
        let asserted = Asserted {
            fan,
            show: &show,
            ticket_id: ticket,
            nonce,
            method: parts.method.as_str(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()),
        };
        assertion::verify(&text, &asserted, &orders.settings.secret, now)
            .map_err(|_| required())?;
        match orders.nonces.first_use(nonce, now) {
            FirstUse::Yes => {}
            FirstUse::No => return Err(required()),
            FirstUse::TooMany => return Err(Problem::unavailable("busy")),
        }
        Ok(Self {
            trace: trace(headers),
            show,
            fan,
            ticket,
        })
    }
}

/// The value of a header that stands there once. Not well-formed, or more than once: `Err`.
fn only<T: FromStr>(headers: &HeaderMap, name: &str) -> Option<Result<T, ()>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some(Err(()));
    }
    let text = value.to_str().map_err(|_| ());
    Some(text.and_then(|text| text.parse().map_err(|_| ())))
}

fn trace(headers: &HeaderMap) -> Option<String> {
    let text: String = only(headers, "traceparent")?.ok()?;
    let well_formed = text.len() == TRACEPARENT_BYTES
        && text
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    well_formed.then_some(text)
}

/// The nonces of assertions that are still fresh.
#[derive(Debug, Default)]
pub(super) struct Nonces(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    nonces: HashSet<RequestId>,
    by_time: VecDeque<(Timestamp, RequestId)>,
}

/// Whether a nonce is used for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstUse {
    Yes,
    No,
    /// More requests than can be remembered.
    TooMany,
}

impl Nonces {
    /// Remembers a nonce. An assertion may be made up to `FRESH_MS` ahead of our clock, and is fresh
    /// for as long after that.
    fn first_use(&self, nonce: RequestId, now: Timestamp) -> FirstUse {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, old)) = seen.by_time.front().copied() {
            if now.ms_since(at) <= 2 * FRESH_MS {
                break;
            }
            seen.by_time.pop_front();
            seen.nonces.remove(&old);
        }
        if seen.nonces.contains(&nonce) {
            return FirstUse::No;
        }
        if NONCES_MAX <= seen.nonces.len() {
            return FirstUse::TooMany;
        }
        seen.nonces.insert(nonce);
        seen.by_time.push_back((now, nonce));
        FirstUse::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::IdSource;

    #[test]
    fn a_nonce_is_used_once_while_its_assertion_is_fresh() {
        let (nonces, ids) = (Nonces::default(), IdSource::seeded(1));
        let now = Timestamp::from_unix_ms(1_800_000_000_000);
        let nonce = ids.request(now);
        assert_eq!(nonces.first_use(nonce, now), FirstUse::Yes);
        let end = now.plus_ms(2 * FRESH_MS);
        assert_eq!(nonces.first_use(nonce, end), FirstUse::No);
        assert_eq!(nonces.first_use(nonce, end.plus_ms(1)), FirstUse::Yes);
        assert_eq!(nonces.0.lock().unwrap().by_time.len(), 1);
    }

    #[test]
    fn more_nonces_than_can_be_remembered_are_refused() {
        let (nonces, ids) = (Nonces::default(), IdSource::seeded(1));
        let now = Timestamp::from_unix_ms(1_800_000_000_000);
        for _ in 0..NONCES_MAX {
            assert_eq!(nonces.first_use(ids.request(now), now), FirstUse::Yes);
        }
        assert_eq!(nonces.first_use(ids.request(now), now), FirstUse::TooMany);
        let later = now.plus_ms(2 * FRESH_MS + 1);
        assert_eq!(nonces.first_use(ids.request(later), later), FirstUse::Yes);
    }
}
