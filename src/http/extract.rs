//! Parse, or a problem: what handlers take from a request.
//!
//! An extractor that fails answers with a [`Problem`] that never repeats what was sent.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::LengthLimitError;
use ipnet::IpNet;
use serde::de::DeserializeOwned;

use crate::base::ids::ShowId;
use crate::base::limits::BODY_BYTES_MAX;
use crate::http::body::{BodyError, body_error};
use crate::http::problem::Problem;

/// The shortest and longest idempotency key. 22 characters of base64url hold 128 bits.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 22..=64;
/// Hops of X-Forwarded-For that are looked at.
const HOPS_MAX: usize = 32;

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A JSON body of at most [`BODY_BYTES_MAX`], read into a type of ours.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<axum::body::Body>, _state: &S) -> Result<Self, Problem> {
        let headers = request.headers();
        if !is_json(headers) || headers.contains_key(CONTENT_ENCODING) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "bad-json",
                "The body must be plain application/json.",
            ));
        }
        let bytes = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX)
            .await
            .map_err(|error| unread(&error))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|_| {
            Problem::bad_request(
                "bad-json",
                "The body is not the JSON that this route takes.",
            )
        })
    }
}

/// A body as it came, if it is no longer than its router takes (`DefaultBodyLimit`).
#[derive(Debug)]
pub struct Whole(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request<axum::body::Body>, state: &S) -> Result<Self, Problem> {
        let read = Bytes::from_request(request, state).await;
        read.map(Self).map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => body_error(&error).map_or_else(broken_off, unfinished),
        })
    }
}

/// The media type of a body without its parameters, as it was written.
///
/// # Errors
/// 400 where two are named, or one that is not visible ASCII.
pub fn media_type(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let said = single(headers, &CONTENT_TYPE)?;
    Ok(said.map(|said| said.split(';').next().unwrap_or_default().trim()))
}

/// Whether a request says once that its body is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = media_type(headers).ok().flatten();
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

/// Why a body could not be read, as a problem: 413, 408 or 400.
pub fn unread(error: &axum::Error) -> Problem {
    let source = std::error::Error::source(error);
    if source.is_some_and(|source| source.is::<LengthLimitError>()) {
        return too_large();
    }
    body_error(error).map_or_else(broken_off, unfinished)
}

/// Why a body did not arrive, as a problem: 413, 408 or 400.
pub fn unfinished(error: &BodyError) -> Problem {
    match error {
        BodyError::TooLong => too_large(),
        BodyError::Silent(_) => Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "slow-body",
            "The body did not arrive.",
        ),
        BodyError::Broken(_) => broken_off(),
    }
}

fn broken_off() -> Problem {
    Problem::bad_request("bad-request", "The body broke off or is not well-formed.")
}

/// 413: the body is longer than this route takes.
pub fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too-large",
        "The body is too long.",
    )
}

/// What stands in the variable parts of a path, in the order of the route.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path))
            .map_err(|_| Problem::bad_request("bad-id", "An identifier is malformed."))
    }
}

/// The query of a request, read into a type of ours.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        query
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|_| {
                Problem::bad_request("bad-request", "The query is not what this route takes.")
            })
    }
}

/// The headers of a request, taken and not copied: whatever is extracted after them finds none.
#[derive(Debug)]
pub struct Headers(pub HeaderMap);

impl<S: Send + Sync> FromRequestParts<S> for Headers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(std::mem::take(&mut parts.headers)))
    }
}

/// The `{show}` of a route.
#[derive(Debug, Clone)]
pub struct ShowPath(pub ShowId);

impl<S: Send + Sync> FromRequestParts<S> for ShowPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let show = params.as_ref().and_then(|params| {
            let mut params = params.iter();
            params.find(|(name, _)| *name == "show")
        });
        Self::of(show.map_or("", |(_, value)| value))
    }
}

impl ShowPath {
    /// The show of this name.
    ///
    /// # Errors
    /// 400 where it is no name of a show.
    pub fn of(text: &str) -> Result<Self, Problem> {
        let show = text.parse().map(Self);
        show.map_err(|_| Problem::bad_request("bad-id", "That is not a show id."))
    }
}

/// The `Idempotency-Key` of a request, if it has one: 22 to 64 of `[A-Za-z0-9_-]`.
#[derive(Debug, Clone)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}

impl IdempotencyKey {
    /// The key among these headers.
    ///
    /// # Errors
    /// 400 where it is given twice or is no key.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let malformed = || {
            Problem::bad_request(
                "bad-key",
                "An Idempotency-Key has 22 to 64 letters, digits, _ and -.",
            )
        };
        let Some(key) = single(headers, &IDEMPOTENCY_KEY).map_err(|_| malformed())? else {
            return Ok(Self(None));
        };
        let well_formed = KEY_BYTES.contains(&key.len())
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if well_formed {
            Ok(Self(Some(key.to_owned())))
        } else {
            Err(malformed())
        }
    }
}

/// A header that may be given once.
///
/// # Errors
/// 400 where it is given twice or is not visible ASCII.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let refused = || Problem::bad_request("bad-request", "A header is malformed or given twice.");
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| refused()),
        (Some(_), Some(_)) => Err(refused()),
    }
}

/// Who is asking: the peer, or the client that a trusted proxy names. IPv4 in IPv6 counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddr(pub IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for ClientAddr {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let known = parts.extensions.get::<Self>().copied();
        Ok(known.expect("the client_addr layer stands above every handler"))
    }
}

/// Whether this is a proxy that the operator trusts. IPv4 in IPv6 counts as IPv4.
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|net| net.contains(&address))
}

/// Reads X-Forwarded-For from the right for as long as the hop that speaks is trusted: what stands
/// further left was written by somebody we do not know.
pub fn client_addr(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> ClientAddr {
    let mut address = peer.to_canonical();
    let lines = headers.get_all(&FORWARDED_FOR).iter().rev();
    let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    for hop in hops.take(HOPS_MAX) {
        if !is_trusted(address, trusted) {
            break;
        }
        let Some(next) = hop_addr(hop.trim()) else {
            break;
        };
        address = next;
    }
    ClientAddr(address)
}

fn hop_addr(hop: &str) -> Option<IpAddr> {
    let bare = hop.parse::<IpAddr>().ok();
    let address = bare.or_else(|| hop.parse().ok().map(|at: std::net::SocketAddr| at.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let trusted = [
            "127.0.0.0/8".parse().unwrap(),
            "10.0.0.0/8".parse().unwrap(),
        ];
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        client_addr(peer.parse().unwrap(), &headers, &trusted)
            .0
            .to_string()
    }

    #[test]
    fn only_what_a_trusted_hop_wrote_counts() {
        for (peer, forwarded, is) in [
            ("9.9.9.9", &["1.2.3.4"][..], "9.9.9.9"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["1.2.3.4"], "1.2.3.4"),
            ("127.0.0.1", &["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
            ("127.0.0.1", &["6.6.6.6, 1.2.3.4, 10.0.0.7"], "1.2.3.4"),
            ("127.0.0.1", &["6.6.6.6", "1.2.3.4", "10.0.0.7"], "1.2.3.4"),
            ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            ("127.0.0.1", &[", ,"], "127.0.0.1"),
            ("127.0.0.1", &["1.2.3.4, \"5.6.7.8\""], "127.0.0.1"),
            ("127.0.0.1", &["::ffff:1.2.3.4"], "1.2.3.4"),
            ("::ffff:127.0.0.1", &["1.2.3.4:55"], "1.2.3.4"),
            ("127.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("127.0.0.1", &["fe80::1%eth0"], "127.0.0.1"),
        ] {
            assert_eq!(client(peer, forwarded), is, "{peer} {forwarded:?}");
        }
        let many = vec!["10.1.1.1"; 200].join(",");
        assert_eq!(client("127.0.0.1", &[&many]), "10.1.1.1");
    }

    #[tokio::test]
    async fn bodies_must_be_the_json_we_take() {
        #[derive(Debug, serde::Deserialize)]
        struct Seats {
            #[expect(dead_code, reason = "only whether it parses matters here")]
            quantity: u32,
        }
        let long = format!("{{\"quantity\": 1{}}}", " ".repeat(BODY_BYTES_MAX));
        let deep = "[".repeat(1_000);
        for (content_type, body, status) in [
            ("application/json", r#"{"quantity": 2}"#, None),
            (
                "application/json; charset=utf-8",
                r#"{"quantity": 2}"#,
                None,
            ),
            ("text/plain", r#"{"quantity": 2}"#, Some(415)),
            (
                "application/json",
                r#"{"quantity": 2, "quantity": 3}"#,
                Some(400),
            ),
            ("application/json", r#"{"quantity": 2} x"#, Some(400)),
            ("application/json", r#"{"quantity": 1e400}"#, Some(400)),
            ("application/json", "\u{feff}{\"quantity\": 2}", Some(400)),
            ("application/json", "", Some(400)),
            ("application/json", deep.as_str(), Some(400)),
            ("application/json", long.as_str(), Some(413)),
        ] {
            let request = Request::post("/")
                .header(CONTENT_TYPE, content_type)
                .body(axum::body::Body::from(body.to_owned()))
                .unwrap();
            let refused = Json::<Seats>::from_request(request, &()).await.err();
            let status_is = refused.map(|problem| problem.status().as_u16());
            assert_eq!(status_is, status, "{content_type} {body:.40}");
        }
    }
}
