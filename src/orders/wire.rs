//! What buyers send: bodies read strictly and turned into requests, or a problem that says why not.

use std::collections::BTreeSet;

use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use sha2::{Digest, Sha256};

use crate::base::email::recipient;
use crate::base::ids::{HoldId, hex};
use crate::base::limits::{PAYMENT_TOKEN_BYTES_MAX, SEAT_NAME_BYTES_MAX, SEATS_PER_HOLD_MAX};
use crate::http::extract::is_json;
use crate::http::problem::Problem;
use crate::orders::idempotency::{self, Key};
use crate::orders::rules::hold::Wish;
use crate::orders::rules::{Buyer, Contact};

/// `POST …/holds`. A price is not among its members: it comes from the section alone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldBody {
    section: Option<String>,
    quantity: Option<u32>,
    seats: Option<Vec<String>>,
}

/// `POST …/orders`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderBody {
    hold_id: String,
    customer: CustomerBody,
    payment: Option<PaymentBody>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomerBody {
    email: String,
    locale: Option<String>,
}

/// `POST …/payment`, and part of an order.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaymentBody {
    token: Option<String>,
}

/// Reads a JSON body. Broken JSON is 400; JSON that is not what the route takes is 422.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    if !is_json(headers) {
        return Err(bad_json());
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => Problem::unprocessable(
            "unprocessable",
            "The body lacks a member, or has one that does not belong there.",
        ),
        Category::Syntax | Category::Eof | Category::Io => bad_json(),
    })
}

fn bad_json() -> Problem {
    Problem::bad_request("bad-json", "The body must be JSON (application/json).")
}

fn unprocessable(title: &'static str) -> Problem {
    Problem::unprocessable("unprocessable", title)
}

impl HoldBody {
    pub(super) fn wish(self) -> Result<Wish, Problem> {
        match (self.section, self.quantity, self.seats) {
            (Some(section), Some(quantity), None) => best(section, quantity),
            (None, None, Some(seats)) => named(seats),
            _ => Err(unprocessable(
                "Ask for a section and a quantity, or for seats by name.",
            )),
        }
    }
}

fn best(section: String, quantity: u32) -> Result<Wish, Problem> {
    if !(1..=SEATS_PER_HOLD_MAX).contains(&quantity) {
        return Err(too_many_or_few());
    }
    if !is_name(&section) {
        return Err(unprocessable(NOWHERE));
    }
    Ok(Wish::Best { section, quantity })
}

fn named(seats: Vec<String>) -> Result<Wish, Problem> {
    let count = u32::try_from(seats.len()).unwrap_or(u32::MAX);
    if !(1..=SEATS_PER_HOLD_MAX).contains(&count) {
        return Err(too_many_or_few());
    }
    if !seats.iter().all(|seat| is_name(seat)) {
        return Err(unprocessable(NOWHERE));
    }
    if seats.iter().collect::<BTreeSet<_>>().len() < seats.len() {
        return Err(unprocessable("A seat is named twice."));
    }
    Ok(Wish::Named(seats))
}

const NOWHERE: &str = "There are no such seats.";

/// Whether a section or a seat can be called that. What cannot never gets to the database: PostgreSQL
/// takes no NUL in a text, and SQLite does.
fn is_name(name: &str) -> bool {
    let plain = |b| matches!(b, b' '..=b'~');
    (1..=SEAT_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

fn too_many_or_few() -> Problem {
    unprocessable("A hold has between one seat and the most that are allowed.")
        .with("seats_max", SEATS_PER_HOLD_MAX)
}

impl OrderBody {
    pub(super) fn parts(self) -> Result<(HoldId, Contact, Option<String>), Problem> {
        let hold = self.hold_id.parse().map_err(|_| bad_id())?;
        let contact = Contact {
            email: email(self.customer.email)?,
            locale: locale(self.customer.locale.as_deref()).to_owned(),
        };
        Ok((hold, contact, self.payment.unwrap_or_default().token()?))
    }
}

impl PaymentBody {
    pub(super) fn token(self) -> Result<Option<String>, Problem> {
        let fits = |token: &String| {
            (1..=PAYMENT_TOKEN_BYTES_MAX).contains(&token.len())
                && token.bytes().all(|b| b.is_ascii_graphic())
        };
        match self.token {
            Some(token) if !fits(&token) => Err(unprocessable("The payment token is malformed.")),
            token => Ok(token),
        }
    }
}

/// 400: an identifier that none of ours looks like.
pub(super) fn bad_id() -> Problem {
    Problem::bad_request("bad-id", "An identifier is malformed.")
}

/// An address that a message can be sent to, as far as its form tells. What is refused here would
/// fail for good later, when nobody is there to correct it.
fn email(email: String) -> Result<String, Problem> {
    if recipient(&email).is_some() {
        Ok(email)
    } else {
        Err(unprocessable("The e-mail address is malformed."))
    }
}

/// The language of ours that comes closest; English where none does.
fn locale(asked: Option<&str>) -> &'static str {
    let language = asked
        .unwrap_or_default()
        .split(['-', '_'])
        .next()
        .unwrap_or_default();
    match language.to_ascii_lowercase().as_str() {
        "pt" => "pt-BR",
        "es" => "es",
        _ => "en",
    }
}

/// The request's idempotency key, if it has one. `asked` is what it asks for, in one spelling: of
/// another show it is something else.
pub(super) fn key(
    headers: &HeaderMap,
    buyer: &Buyer,
    route: &'static str,
    asked: &impl Serialize,
) -> Result<Option<Key>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let well_formed = value
        .to_str()
        .ok()
        .filter(|key| idempotency::is_well_formed(key));
    let (Some(key), None) = (well_formed, values.next()) else {
        return Err(Problem::bad_request(
            "bad-key",
            "Idempotency-Key must be one text of 1 to 255 visible ASCII characters.",
        ));
    };
    let asked = serde_json::to_vec(&(buyer.show.as_str(), asked))
        .expect("bodies that were read can be written");
    Ok(Some(Key {
        show: buyer.show.clone(),
        fan: buyer.fan,
        route,
        key: key.to_owned(),
        fingerprint: hex(&Sha256::digest(&asked)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plausible() {
        for good in ["ana@example.com", "a.b+c@x-y.co", "ána@exämple.com"] {
            assert!(email(good.to_owned()).is_ok(), "{good}");
        }
        let long = format!("{}@example.com", "a".repeat(250));
        for bad in [
            "",
            "ana",
            "@example.com",
            "ana@",
            "ana@example.com\r\nBcc: x@example.com",
            "ana@exa mple.com",
            "a\u{0}b@example.com",
            "Ana <ana@example.com>",
            &long,
        ] {
            assert!(email(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn languages_fall_back_to_english() {
        for (asked, expected) in [
            (Some("pt-BR"), "pt-BR"),
            (Some("pt"), "pt-BR"),
            (Some("es_MX"), "es"),
            (Some("fr"), "en"),
            (Some(""), "en"),
            (None, "en"),
        ] {
            assert_eq!(locale(asked), expected, "{asked:?}");
        }
    }
}
