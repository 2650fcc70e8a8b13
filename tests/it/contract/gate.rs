//! What stands between a test and the shop's routes: signed requests, and answers taken apart.

use axum::body::{Body, to_bytes};
use catraca::base::ids::{FanId, IdSource, RequestId, ShowId, TicketId};
use catraca::base::secret::Secret;
use catraca::base::time::Timestamp;
use catraca::token::assertion::{Asserted, HEADER, sign};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;

use crate::contract::shop::{SECRET, Shop, T0, fan_id};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A request on its way through the gate. Every member can be spoiled before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) fan: FanId,
    pub(crate) show: ShowId,
    pub(crate) ticket: Option<TicketId>,
    pub(crate) nonce: RequestId,
    pub(crate) secret: Secret,
    pub(crate) signed_at: Timestamp,
    /// What is signed instead of the path that is asked for.
    pub(crate) signed_path: Option<String>,
    /// Headers to add, or (without a value) to leave out.
    pub(crate) headers: Vec<(&'static str, Option<String>)>,
}

/// An answer, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Told {
    /// The last part of a problem's `type`.
    pub(crate) fn word(&self) -> &str {
        let kind = self.body["type"].as_str().unwrap_or_default();
        kind.strip_prefix("urn:catraca:problem:")
            .unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A request of a fan below `/v1/shows/show/`.
pub(crate) fn ask(fan: u64, method: Method, path: &str, body: &str) -> Ask {
    Ask {
        method,
        path: format!("/v1/shows/show/{path}"),
        body: body.to_owned(),
        fan: fan_id(fan),
        show: "show".parse().unwrap(),
        ticket: Some(TicketId(fan_id(fan).0)),
        nonce: IdSource::random().request(T0),
        secret: Secret::new(SECRET),
        signed_at: T0,
        signed_path: None,
        headers: Vec::new(),
    }
}

pub(crate) fn post(fan: u64, path: &str, body: &str) -> Ask {
    ask(fan, Method::POST, path, body)
}

pub(crate) fn get(fan: u64, path: &str) -> Ask {
    ask(fan, Method::GET, path, "")
}

impl Ask {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, Some(value.to_owned())));
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.push((name, None));
        self
    }

    /// As it goes over a connection that serves this one request.
    pub(crate) async fn bytes(&self) -> Vec<u8> {
        let (parts, body) = self.request().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let mut text = format!("{} {} HTTP/1.1\r\n", parts.method, parts.uri);
        text += &format!("host: shop\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in &parts.headers {
            text += &format!("{name}: {}\r\n", value.to_str().unwrap());
        }
        text += "connection: close\r\n\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend(body);
        bytes
    }

    fn request(&self) -> Request<Body> {
        let asserted = Asserted {
            fan: self.fan,
            show: &self.show,
            ticket_id: self.ticket,
            nonce: self.nonce,
            method: self.method.as_str(),
            path: self.signed_path.as_deref().unwrap_or(&self.path),
        };
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("traceparent", TRACE.to_owned()),
            ("x-catraca-fan", self.fan.to_string()),
            ("x-catraca-show", self.show.to_string()),
            ("x-catraca-nonce", self.nonce.to_string()),
            (HEADER, sign(&asserted, &self.secret, self.signed_at)),
        ];
        headers.extend(
            self.ticket
                .map(|id| ("x-catraca-ticket-id", id.to_string())),
        );
        for (name, value) in &self.headers {
            match value {
                Some(value) => headers.push((name, value.clone())),
                None => headers.retain(|(header, _)| header != name),
            }
        }
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }
}

impl Shop {
    /// Signs the request by the shop's clock and sends it.
    pub(crate) async fn send(&self, ask: Ask) -> Told {
        let ask = Ask {
            signed_at: self.now(),
            ..ask
        };
        self.send_as_signed(&ask).await
    }

    pub(crate) async fn send_as_signed(&self, ask: &Ask) -> Told {
        let response = self.orders.router().oneshot(ask.request()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Told {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
        }
    }
}
