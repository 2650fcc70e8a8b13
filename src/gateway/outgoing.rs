//! A request as an upstream gets it: stripped of what is not for it, then told by us who asks.
//!
//! The order is fixed: strip, add, assert. What is stripped first cannot nominate away what is added
//! later.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, VIA};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version};
use hyper::ext::on_informational;

use crate::base::ids::{IdSource, RequestId, ShowId};
use crate::base::secret::Secret;
use crate::base::time::Clock;
use crate::gateway::entry::Entry;
use crate::gateway::gate::Entrant;
use crate::gateway::headers::{Hops, strip_request, strip_response};
use crate::gateway::upstreams::HostSent;
use crate::http::extract::ClientAddr;
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
        let id = parts.extensions.get::<RequestId>().copied();
        let (asked, proto) = match parts.extensions.remove::<Entry>() {
            Some(Entry { host, proto }) => (Some(value(host)), Some(proto)),
            None => (None, None),
        };
        let hops = strip_request(&mut parts.headers);
        let headers = &mut parts.headers;
        headers.reserve(ADDED_MAX);
        let host = match (self.host, &asked) {
            (HostSent::Asked, Some(asked)) => asked.clone(),
            (HostSent::Asked, None) | (HostSent::Upstream, _) => value(self.authority.to_string()),
        };
        headers.insert(HOST, host);
        headers.append(VIA, via(parts.version));
        if hops == Hops::TrailersToo {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
        if let Some(ClientAddr(client)) = parts.extensions.get() {
            headers.insert(FORWARDED_FOR, value(client.to_string()));
        }
        if let (Some(proto), Some(asked)) = (proto, asked) {
            headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
            headers.insert(FORWARDED_HOST, asked);
        }
        if let Some(id) = id {
            headers.insert(REQUEST_ID, value(id.to_string()));
        }
        let target = errand.target.parse();
        let mut message = Message {
            method: parts.method,
            target: target.expect("a strict target is a path and query"),
            headers: parts.headers,
            nonce: id,
            interim: parts.extensions.remove(),
        };
        self.assert(&mut message, errand);
        message
    }

    /// The same message once more. An upstream may remember nonces: this one has its own.
    pub(crate) fn again(&self, mut message: Message, errand: &Errand<'_>) -> Message {
        message.nonce = Some(self.ids.request(self.clock.now()));
        self.assert(&mut message, errand);
        message
    }

    /// Names the entrant to the upstream, and proves that it was us.
    fn assert(&self, message: &mut Message, errand: &Errand<'_>) {
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
        headers.insert(FAN, value(entrant.fan.to_string()));
        headers.insert(SHOW, value(show.to_string()));
        if let Some(id) = entrant.ticket_id {
            headers.insert(TICKET_ID, value(id.to_string()));
        }
        headers.insert(NONCE, value(nonce.to_string()));
        headers.insert(ASSERTION, value(proof));
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

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("ids, addresses, hosts and MACs are ASCII")
}
