//! What a fan shows: the pass and the ticket, in cookies and headers.
//!
//! The pass is the fan. A request may carry it as cookie, as `X-Catraca-Pass` and, on our own
//! routes, as bearer token; all that is there must be good and speak of one fan.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::base::ids::{Edition, ShowId};
use crate::gateway::settings::Settings;
use crate::http::extract::single;
use crate::http::problem::Problem;
use crate::token::keyring::KeyRing;
use crate::token::pass::Pass;
use crate::token::ticket::Ticket;

/// The header that carries a ticket.
pub(crate) static TICKET_HEADER: HeaderName = HeaderName::from_static("x-admission-ticket");
/// The header that carries a pass.
pub(crate) static PASS_HEADER: HeaderName = HeaderName::from_static("x-catraca-pass");
/// How every cookie of ours begins, prefix aside.
const COOKIE_BEGINS: &str = "catraca-";
/// How long a browser keeps a pass: longer than any line.
const PASS_MAX_AGE_S: u32 = 2_592_000;
/// How long it keeps a ticket. The room says how long it is good.
const TICKET_MAX_AGE_S: u32 = 86_400;

/// How cookies are named and set: where fans connect in the clear on this machine, `__Host-` and
/// `Secure` would keep browsers from storing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieStyle {
    /// Loopback without TLS.
    Plain,
    /// Everywhere else.
    Secure,
}

impl CookieStyle {
    pub(crate) fn of(settings: &Settings) -> Self {
        if settings.listen.ip().is_loopback() && !settings.tls.are_given() {
            Self::Plain
        } else {
            Self::Secure
        }
    }

    /// Hands the browser a pass.
    pub(crate) fn pass(self, show: &ShowId, pass: &str) -> HeaderValue {
        self.set(&self.name("pass", show), pass, PASS_MAX_AGE_S)
    }

    /// Hands the browser a ticket.
    pub(crate) fn ticket(self, show: &ShowId, ticket: &str) -> HeaderValue {
        self.set(&self.name("ticket", show), ticket, TICKET_MAX_AGE_S)
    }

    /// Takes pass and ticket from the browser.
    pub(crate) fn none(self, show: &ShowId) -> [HeaderValue; 2] {
        ["pass", "ticket"].map(|what| self.set(&self.name(what, show), "", 0))
    }

    fn name(self, what: &str, show: &ShowId) -> String {
        match self {
            Self::Plain => format!("{COOKIE_BEGINS}{what}-{show}"),
            Self::Secure => format!("__Host-{COOKIE_BEGINS}{what}-{show}"),
        }
    }

    fn set(self, name: &str, value: &str, max_age_s: u32) -> HeaderValue {
        let secure = match self {
            Self::Plain => "",
            Self::Secure => "; Secure",
        };
        let text =
            format!("{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::from_str(&text).expect("tokens, show ids and our own words are ASCII")
    }
}

/// Whether a cookie is one of ours, for any show and in either style. Browsers compare names as they
/// are, but readers behind us may not.
pub fn is_our_cookie(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let bare = name
        .strip_prefix("__host-")
        .or_else(|| name.strip_prefix("__secure-"))
        .unwrap_or(&name);
    bare.starts_with(COOKIE_BEGINS)
}

/// The cookies of a request, as `name=value`.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|line| std::str::from_utf8(line.as_bytes()).ok())
        .flat_map(|line| line.split(';'))
        .map(str::trim)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = cookies(headers)
        .filter_map(|cookie| cookie.split_once('='))
        .filter(|(key, _)| *key == name);
    match (values.next(), values.next()) {
        (found, None) => Ok(found.map(|(_, value)| value)),
        // A twin was planted by another host of the same site.
        (_, Some(_)) => Err(unclear()),
    }
}

fn unclear() -> Problem {
    Problem::bad_request(
        "bad-request",
        "The request shows two different credentials.",
    )
}

/// 401: without a good pass there is no place to speak of.
pub(crate) fn no_pass() -> Problem {
    Problem::new(
        http::StatusCode::UNAUTHORIZED,
        "no-pass",
        "This needs the pass that was given at join.",
    )
}

/// Whether a bearer token counts as a pass: on our own routes only, for behind the gate the header
/// belongs to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bearer {
    IsPass,
    IsNotOurs,
}

/// Reads credentials of one show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) show: &'a ShowId,
    pub(crate) keys: &'a KeyRing,
    pub(crate) style: CookieStyle,
}

/// A good pass and its text.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) pass: Pass,
    pub(crate) text: String,
}

impl Reader<'_> {
    /// The pass that a request shows, of whatever edition.
    ///
    /// # Errors
    /// 401 where one of them is no pass of this show, 400 where two speak of different fans.
    pub(crate) fn pass(
        &self,
        headers: &HeaderMap,
        bearer: Bearer,
    ) -> Result<Option<Shown>, Problem> {
        let bearer = match bearer {
            Bearer::IsPass => {
                single(headers, &AUTHORIZATION)?.and_then(|value| value.strip_prefix("Bearer "))
            }
            Bearer::IsNotOurs => None,
        };
        let texts = [
            single(headers, &PASS_HEADER)?,
            bearer,
            self.cookie(headers, "pass")?,
        ];
        let mut shown: Option<Shown> = None;
        for text in texts.into_iter().flatten() {
            let pass = Pass::verify(text, self.keys).map_err(|_| no_pass())?;
            if pass.show != *self.show {
                return Err(no_pass());
            }
            match &shown {
                Some(first) if first.pass.fan != pass.fan => return Err(unclear()),
                Some(_) => {}
                None => {
                    let text = text.to_owned();
                    shown = Some(Shown { pass, text });
                }
            }
        }
        Ok(shown)
    }

    /// The pass that a request shows, of this edition.
    ///
    /// # Errors
    /// 401 where there is none, and as above.
    pub(crate) fn pass_of(&self, headers: &HeaderMap, edition: Edition) -> Result<Shown, Problem> {
        let shown = self.pass(headers, Bearer::IsPass)?;
        shown
            .filter(|shown| shown.pass.edition == edition)
            .ok_or_else(no_pass)
    }

    /// The ticket that a request shows. `verify` is asked for each one.
    ///
    /// # Errors
    /// 401 where there is none or one of them is none of this show, 400 where two differ.
    pub(crate) fn ticket(
        &self,
        headers: &HeaderMap,
        verify: impl Fn(&str) -> Option<Ticket>,
    ) -> Result<Ticket, Problem> {
        let texts = [
            single(headers, &TICKET_HEADER)?,
            self.cookie(headers, "ticket")?,
        ];
        let mut shown: Option<Ticket> = None;
        for text in texts.into_iter().flatten() {
            let ticket = verify(text).ok_or_else(Problem::no_ticket)?;
            // The same admission may have been minted twice, for an extension.
            if shown.as_ref().is_some_and(|first| first.id != ticket.id) {
                return Err(unclear());
            }
            shown = Some(ticket);
        }
        shown.ok_or_else(Problem::no_ticket)
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap, what: &str) -> Result<Option<&'a str>, Problem> {
        if !headers.contains_key(COOKIE) {
            return Ok(None);
        }
        cookie(headers, &self.style.name(what, self.show))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cookies_are_known_by_name() {
        for (name, ours) in [
            ("catraca-pass-gala", true),
            ("__Host-catraca-ticket-gala", true),
            (" __SECURE-Catraca-x", true),
            ("catracax", false),
            ("session", false),
        ] {
            assert_eq!(is_our_cookie(name), ours, "{name}");
        }
    }

    #[test]
    fn a_twin_cookie_is_refused() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; b=2; c".parse().unwrap());
        assert_eq!(cookie(&headers, "b").unwrap(), Some("2"));
        assert_eq!(cookie(&headers, "c").unwrap(), None);
        headers.append(COOKIE, "b=2".parse().unwrap());
        assert!(cookie(&headers, "b").is_err());
    }

    #[test]
    fn cookies_fit_their_listener() {
        let show = "gala".parse().unwrap();
        assert_eq!(
            CookieStyle::Plain.pass(&show, "x"),
            "catraca-pass-gala=x; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"
        );
        let [_, ticket] = CookieStyle::Secure.none(&show);
        assert_eq!(
            ticket,
            "__Host-catraca-ticket-gala=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
    }
}
