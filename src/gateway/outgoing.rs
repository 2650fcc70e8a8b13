//! A request as an upstream gets it: stripped of what is not for it, then told by us who asks.
//!
//! The order is fixed: strip, add, assert. What is stripped first cannot nominate away what is added
//! later.

use std::sync::Arc;

use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

use crate::base::ids::{IdSource, RequestId, ShowId};
use crate::base::secret::Secret;
use crate::base::time::Clock;
use crate::gateway::entry::Entry;
use crate::gateway::gate::Entrant;
use crate::gateway::headers::{Hops, strip_request};
use crate::gateway::upstreams::HostSent;
use crate::http::extract::ClientAddr;
use crate::token::assertion::{self, Asserted};

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
    uri: Uri,
    headers: HeaderMap,
    nonce: Option<RequestId>,
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
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

impl Address {
    /// The message for a request that came to us.
    pub(crate) fn message(&self, mut parts: Parts, errand: &Errand<'_>) -> Message {
        let id = parts.extensions.get::<RequestId>().copied();
        let hops = strip_request(&mut parts.headers);
        let headers = &mut parts.headers;
        let entry = parts.extensions.get::<Entry>();
        let host = match (self.host, entry) {
            (HostSent::Asked, Some(entry)) => &entry.host,
            (HostSent::Asked, None) | (HostSent::Upstream, _) => self.authority.as_str(),
        };
        put(headers, "host", host);
        headers.append(http::header::VIA, via(parts.version));
        if hops == Hops::TrailersToo {
            put(headers, "te", "trailers");
            put(headers, "connection", "te");
        }
        if let Some(ClientAddr(client)) = parts.extensions.get() {
            put(headers, "x-forwarded-for", &client.to_string());
        }
        if let Some(entry) = entry {
            put(headers, "x-forwarded-proto", entry.proto);
            put(headers, "x-forwarded-host", &entry.host);
        }
        if let Some(id) = id {
            put(headers, "x-request-id", &id.to_string());
        }
        let mut message = Message {
            method: parts.method,
            uri: self.uri(errand.target),
            headers: parts.headers,
            nonce: id,
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
        put(headers, "x-catraca-fan", &entrant.fan.to_string());
        put(headers, "x-catraca-show", show.as_str());
        if let Some(id) = entrant.ticket_id {
            put(headers, "x-catraca-ticket-id", &id.to_string());
        }
        put(headers, "x-catraca-nonce", &nonce.to_string());
        put(headers, assertion::HEADER, &proof);
    }

    fn uri(&self, target: &str) -> Uri {
        let target: PathAndQuery = target.parse().expect("a strict target is a path and query");
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(target)
            .build()
            .expect("all three parts are there")
    }
}

/// What we call ourselves to those behind us (RFC 9110 §7.6.3), with the version that reached us.
fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_2 => "2 catraca",
        Version::HTTP_10 => "1.0 catraca",
        _ => "1.1 catraca",
    })
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("ids, addresses, hosts and MACs are ASCII");
    headers.insert(HeaderName::from_static(name), value);
}
