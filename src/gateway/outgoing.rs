//! A request as an upstream gets it: stripped of what is not for it, then told by us who asks.
//!
//! The order is fixed: strip, add, assert. What is stripped first cannot nominate away what is added
//! later.

use std::fmt::{Display, Write};
use std::sync::Arc;

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, VIA};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version};
use hyper::ext::on_informational;

use crate::base::ids::{IdSource, RequestId, ShowId};
use crate::base::secret::Secret;
use crate::base::time::Clock;
use crate::gateway::entry::Caller;
use crate::gateway::gate::Entrant;
use crate::gateway::headers::{Hops, strip_request, strip_response};
use crate::gateway::upstreams::HostSent;
use crate::http::interim::Interim;
use crate::http::layers::REQUEST_ID;
use crate::token::assertion::{self, Asserted};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FAN: HeaderName = HeaderName::from_static("x-catraca-fan");
const SHOW: HeaderName = HeaderName::from_static("x-catraca-show");
const TICKET_ID: HeaderName = HeaderName::from_static("x-catraca-ticket-id");
const NONCE: HeaderName = HeaderName::from_static("x-catraca-nonce");
const ASSERTION: HeaderName = HeaderName::from_static(assertion::HEADER);
/// As many as are added at most: the map grows once.
const ADDED_MAX: usize = 13;
/// What their values take, as a rule.
const ADDED_BYTES: usize = 512;

/// What is to be forwarded, beside the request itself.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    /// Path and query, rebuilt from the matched route.
    pub(crate) target: &'a str,
    /// The show, where the route has one.
    pub(crate) show: Option<&'a ShowId>,
    /// Who asks, where the gate knows.
    pub(crate) entrant: Option<&'a Entrant>,
}

/// How an upstream is addressed.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) authority: Authority,
    pub(crate) host: HostSent,
    /// Whether what it says of admissions and stock is believed.
    pub(crate) is_trusted: bool,
    /// Shared with the upstream.
    pub(crate) secret: Secret,
    /// Wall time, for assertions.
    pub(crate) clock: Arc<dyn Clock>,
    /// Nonces of repeats.
    pub(crate) ids: Arc<IdSource>,
}

/// A request without its body, ready to be sent, and sent again where that is safe.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    nonce: Option<RequestId>,
    /// Where interim answers go, if the client can read them.
    interim: Option<Interim>,
}

impl Message {
    /// Whether sending it twice means what sending it once does, whoever reads it (RFC 9110 §9.2.1).
    pub(crate) fn is_safe(&self) -> bool {
        self.method.is_safe()
    }

    /// The request itself.
    pub(crate) fn with<B>(self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.version_mut() = Version::HTTP_11;
        *request.uri_mut() = self.target.into();
        *request.headers_mut() = self.headers;
        if let Some(interim) = self.interim {
            on_informational(&mut request, move |said| {
                pass_on(said.status(), said.headers(), &interim);
            });
        }
        request
    }
}

impl Address {
    /// The message for a request that came to us.
    pub(crate) fn message(&self, mut parts: Parts, errand: &Errand<'_>) -> Message {
        let mut values = Values::default();
        let caller = parts.extensions.remove::<Caller>();
        let asked = caller.as_ref().map(|caller| values.of(&caller.entry.host));
        let hops = strip_request(&mut parts.headers);
        let headers = &mut parts.headers;
        headers.reserve(ADDED_MAX);
        let host = match (self.host, &asked) {
            (HostSent::Asked, Some(asked)) => asked.clone(),
            (HostSent::Asked, None) | (HostSent::Upstream, _) => values.of(&self.authority),
        };
        headers.insert(HOST, host);
        headers.append(VIA, via(parts.version));
        if hops == Hops::TrailersToo {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
        if let (Some(caller), Some(asked)) = (&caller, asked) {
            headers.insert(FORWARDED_FOR, values.of(&caller.client.0));
            headers.insert(
                FORWARDED_PROTO,
                HeaderValue::from_static(caller.entry.proto),
            );
            headers.insert(FORWARDED_HOST, asked);
            headers.insert(REQUEST_ID, values.of(&caller.id));
        }
        let target = errand.target.parse();
        let mut message = Message {
            method: parts.method,
            target: target.expect("a strict target is a path and query"),
            headers: parts.headers,
            nonce: caller.map(|caller| caller.id),
            interim: parts.extensions.remove(),
        };
        self.assert(&mut message, errand, values);
        message
    }

    /// The same message once more. An upstream may remember nonces: this one has its own.
    pub(crate) fn again(&self, mut message: Message, errand: &Errand<'_>) -> Message {
        message.nonce = Some(self.ids.request(self.clock.now()));
        self.assert(&mut message, errand, Values::default());
        message
    }

    /// Names the entrant to the upstream, and proves that it was us.
    fn assert(&self, message: &mut Message, errand: &Errand<'_>, mut values: Values) {
        let (Some(entrant), Some(show), Some(nonce)) = (errand.entrant, errand.show, message.nonce)
        else {
            return;
        };
        let asserted = Asserted {
            fan: entrant.fan,
            show,
            ticket_id: entrant.ticket_id,
            nonce,
            method: message.method.as_str(),
            path: errand.target,
        };
        let proof = assertion::sign(&asserted, &self.secret, self.clock.now());
        let headers = &mut message.headers;
        headers.insert(FAN, values.of(&entrant.fan));
        headers.insert(SHOW, values.of(show));
        if let Some(id) = entrant.ticket_id {
            headers.insert(TICKET_ID, values.of(&id));
        }
        headers.insert(NONCE, values.of(&nonce));
        headers.insert(ASSERTION, values.of(&proof));
    }
}

/// Passes on what an upstream says before its answer. That somebody waits for a body concerns us alone: we say
/// so ourselves.
fn pass_on(status: StatusCode, headers: &HeaderMap, interim: &Interim) {
    if status == StatusCode::CONTINUE {
        return;
    }
    let mut headers = headers.clone();
    strip_response(&mut headers);
    headers.remove(CONTENT_LENGTH); // it has no body
    interim.say(status, &headers);
}

/// What we call ourselves to those behind us (RFC 9110 §7.6.3), with the version that reached us.
fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_2 => "2 catraca",
        Version::HTTP_10 => "1.0 catraca",
        _ => "1.1 catraca",
    })
}

/// Values of headers, written one behind another into memory that they share.
struct Values(BytesMut);

impl Default for Values {
    fn default() -> Self {
        Self(BytesMut::with_capacity(ADDED_BYTES))
    }
}

impl Values {
    fn of(&mut self, what: &impl Display) -> HeaderValue {
        write!(self.0, "{what}").expect("memory takes whatever is written");
        let value = HeaderValue::from_maybe_shared(self.0.split().freeze());
        value.expect("ids, addresses, hosts and MACs are ASCII")
    }
}
