//! What answers say: JSON, problems, pages, cookies and the payload of a ticket. [pure]
//!
//! Everything is read leniently: what is missing is none, and a judge decides whether that is wrong.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;

use crate::judge::sales::Facts;
use crate::judge::turn::Admission;

/// A cookie that an answer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    pub name: Box<str>,
    pub value: Box<str>,
}

/// What of an answer matters.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub retry_after_ms: Option<u64>,
    /// From `Refresh`, which a page may also carry as a meta element.
    pub refresh_ms: Option<u64>,
    pub location: Option<Box<str>>,
    pub pass: Option<Cookie>,
    pub ticket: Option<Cookie>,
    pub body: Bytes,
}

impl Answer {
    /// Takes what matters out of an answer.
    pub fn new(status: u16, headers: &HeaderMap, body: Bytes) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let cookie = |part: &str| {
            let cookies = headers.get_all(http::header::SET_COOKIE).iter();
            cookies
                .filter_map(|value| value.to_str().ok())
                .find_map(|value| cookie(value, part))
        };
        Self {
            status,
            retry_after_ms: text("retry-after").and_then(seconds),
            refresh_ms: text("refresh").and_then(seconds),
            location: text("location").map(Into::into),
            pass: cookie("catraca-pass"),
            ticket: cookie("catraca-ticket"),
            body,
        }
    }

    /// The body as JSON of our API; all none where it is not.
    pub fn said(&self) -> Said {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The last word of a problem's type, with hyphens: `sold-out`.
    pub fn problem(&self) -> String {
        #[derive(Deserialize)]
        struct Problem {
            r#type: String,
        }
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => {
                let word = problem
                    .r#type
                    .rsplit(['/', ':', '#'])
                    .next()
                    .unwrap_or_default();
                word.replace('_', "-")
            }
            Err(_) => String::new(),
        }
    }

    /// The beginning of the body, for an example.
    pub fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        format!(
            "{} {}",
            self.status,
            text.chars().take(200).collect::<String>()
        )
    }
}

/// `name=value; …` where the name has `part` in it and the value is not empty.
fn cookie(header: &str, part: &str) -> Option<Cookie> {
    let (name, value) = header.split(';').next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    (name.contains(part) && !value.is_empty()).then(|| Cookie {
        name: name.into(),
        value: value.into(),
    })
}

/// Leading whole seconds of `10` or `10; url=…`, in milliseconds; at most an hour.
fn seconds(text: &str) -> Option<u64> {
    let number = text.trim().split([';', ',']).next()?.trim();
    number
        .parse::<u64>()
        .ok()
        .map(|seconds| seconds.min(3_600) * 1_000)
}

/// Every word that an answer of the API may have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    pub fan: Option<String>,
    pub number: Option<u64>,
    pub place: Option<u64>,
    pub position: Option<u64>,
    pub state: Option<String>,
    pub eta: Option<Eta>,
    pub poll_after_ms: Option<u64>,
    pub opens_in_ms: Option<u64>,
    pub pass: Option<String>,
    pub ticket: Option<String>,
    pub ticket_expires_at: Option<String>,
    pub reason: Option<String>,
    pub hold_id: Option<String>,
    pub expires_in_ms: Option<u64>,
    pub order_id: Option<String>,
    pub seats: Option<Vec<Box<str>>>,
    pub total: serde_json::Value,
    pub placed_at: Option<String>,
    /// Of an order; a problem has a number here.
    pub status: serde_json::Value,
}

/// A range of seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Eta {
    pub low: Option<f32>,
    pub high: Option<f32>,
    pub cause: Option<String>,
}

impl Said {
    /// What an order's answer must always say; none where it does not say it.
    pub fn facts(&self) -> Option<Facts> {
        Some(Facts {
            order_id: self.order_id.as_deref()?.into(),
            hold_id: self.hold_id.as_deref()?.into(),
            seats: self.seats.clone()?,
            total: self.total.clone(),
            placed_at: self.placed_at.as_deref()?.into(),
        })
    }
}

/// How a fan stands, from JSON or from a page.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    pub state: String,
    pub number: Option<u64>,
    pub place: Option<u64>,
    pub position: Option<u64>,
    /// The cause named for a later ETA; `restoring` also where that is the state.
    pub cause: Option<String>,
    pub eta: Option<(f32, f32)>,
    pub reason: Option<String>,
    pub poll_ms: Option<u64>,
    pub fan: Option<String>,
    pub ticket: Option<(Box<str>, Admission)>,
}

/// What a ticket says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whose it is.
    pub fan: Option<String>,
    pub admission: Admission,
}

impl Standing {
    /// Reads the answer of `status` or `join`.
    pub fn from_json(answer: &Answer) -> Self {
        let said = answer.said();
        let eta = said.eta.clone().unwrap_or_default();
        let ticket = said.ticket.as_deref().and_then(|ticket| {
            let mut admission = claims(ticket)?.admission;
            if let Some(at) = said.ticket_expires_at.as_deref().and_then(instant_ms) {
                admission.expires_ms = at;
            }
            Some((ticket.into(), admission))
        });
        Self {
            cause: cause(said.state.as_deref(), eta.cause),
            state: said.state.unwrap_or_default(),
            number: said.number,
            place: said.place,
            position: said.position,
            eta: eta.low.zip(eta.high),
            reason: said.reason,
            poll_ms: said.poll_after_ms,
            fan: said.fan,
            ticket,
        }
    }

    /// Reads `data-state`, `data-number`, `data-position` and `data-cause` of a page.
    pub fn from_page(answer: &Answer) -> Self {
        let page = String::from_utf8_lossy(&answer.body);
        let data = |name: &str| attribute(&page, &format!("data-{name}=\""));
        let state = data("state").map(str::to_owned);
        let meta = attribute(&page, "http-equiv=\"refresh\" content=\"").and_then(seconds);
        let ticket = answer.ticket.as_ref();
        let claims = ticket.and_then(|ticket| claims(&ticket.value));
        Self {
            cause: cause(state.as_deref(), data("cause").map(str::to_owned)),
            state: state.unwrap_or_default(),
            number: data("number").and_then(|text| text.parse().ok()),
            place: data("place").and_then(|text| text.parse().ok()),
            position: data("position").and_then(|text| text.parse().ok()),
            eta: None,
            reason: data("reason").map(str::to_owned),
            poll_ms: answer.refresh_ms.or(meta),
            fan: claims.as_ref().and_then(|claims| claims.fan.clone()),
            ticket: ticket
                .zip(claims)
                .map(|(ticket, c)| (ticket.value.clone(), c.admission)),
        }
    }
}

fn cause(state: Option<&str>, cause: Option<String>) -> Option<String> {
    if state == Some("restoring") {
        state.map(str::to_owned)
    } else {
        cause.filter(|c| !c.is_empty())
    }
}

/// What stands between `opening` and the next quotation mark.
fn attribute<'a>(page: &'a str, opening: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(opening)?;
    rest.split('"').next()
}

/// `sub`, `jti` and `exp` of a JWT, unverified: a fan has no key.
pub fn claims(jwt: &str) -> Option<Claims> {
    #[derive(Deserialize)]
    struct Payload {
        #[serde(default)]
        sub: serde_json::Value,
        jti: Box<str>,
        exp: i64,
    }
    let bytes = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1)?).ok()?;
    let payload: Payload = serde_json::from_slice(&bytes).ok()?;
    let expires_ms = payload.exp.saturating_mul(1_000);
    let admission = Admission {
        ticket_id: payload.jti,
        expires_ms,
    };
    Some(Claims {
        fan: payload.sub.as_str().map(str::to_owned),
        admission,
    })
}

/// Milliseconds since the Unix epoch of an RFC 3339 instant.
pub fn instant_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)], body: &str) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        Answer::new(200, &map, Bytes::copy_from_slice(body.as_bytes()))
    }

    fn jwt(claims: &str) -> String {
        format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_status_is_read_with_its_ticket() {
        let ticket = jwt(r#"{"jti":"t1","exp":1700000000}"#);
        let standing = Standing::from_json(&answer(
            &[],
            &format!(
                r#"{{"state":"admitted","ticket":"{ticket}","ticket_expires_at":"1970-01-01T00:00:01.5Z"}}"#
            ),
        ));
        let (_, admission) = standing.ticket.unwrap();
        assert_eq!((&*admission.ticket_id, admission.expires_ms), ("t1", 1_500));
    }

    #[test]
    fn a_page_is_read_by_its_attributes() {
        let page = r#"<meta http-equiv="refresh" content="7"><main data-state="waiting" data-number="42" data-position="9">"#;
        let standing = Standing::from_page(&answer(&[], page));
        assert_eq!(standing.state, "waiting");
        assert_eq!(
            (standing.number, standing.position, standing.poll_ms),
            (Some(42), Some(9), Some(7_000))
        );
        assert!(standing.ticket.is_none());
    }

    #[test]
    fn cookies_are_found_by_what_they_are() {
        let answer = answer(
            &[
                ("set-cookie", "__Host-catraca-pass-s=abc; Path=/; HttpOnly"),
                ("set-cookie", "catraca-ticket-s=; Max-Age=0"),
                ("retry-after", "3"),
            ],
            "",
        );
        let pass = answer.pass.unwrap();
        assert_eq!(
            (&*pass.name, &*pass.value),
            ("__Host-catraca-pass-s", "abc")
        );
        assert_eq!((answer.ticket, answer.retry_after_ms), (None, Some(3_000)));
    }

    #[test]
    fn a_problem_is_the_last_word_of_its_type() {
        for (kind, word) in [
            ("https://x/problems/sold-out", "sold-out"),
            ("urn:catraca:seats_taken", "seats-taken"),
            ("sold-out", "sold-out"),
        ] {
            let body = format!(r#"{{"type":"{kind}","status":409}}"#);
            assert_eq!(answer(&[], &body).problem(), word);
        }
        assert_eq!(answer(&[], "<html>").problem(), "");
    }

    #[test]
    fn garbage_says_nothing() {
        assert!(claims("a.b.c").is_none() && claims("").is_none());
        assert!(Standing::from_json(&answer(&[], "[]")).state.is_empty());
        assert!(answer(&[], "{}").said().facts().is_none());
    }
}
