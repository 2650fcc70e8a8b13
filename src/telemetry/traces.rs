//! Spans of an order's way: gateway, shop, relay and consumers, joined by the `traceparent` that goes from
//! request to outbox to log.
//!
//! Without [`start`] there is none, and what is here costs a look at one address; the `traceparent` of a client
//! then goes the same way, untouched. With it, the gateway and the shop each put their own span in its
//! place, so that what the outbox keeps names the shop's.
//!
//! Nobody waits for spans: a span that has ended goes into a queue, and where that is full it is dropped and
//! counted. `otlp.rs` takes them from there to a collector.

use std::fmt::Display;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanData, SpanProcessor,
};
use tokio::sync::mpsc;

use crate::base::time::Timestamp;
use crate::telemetry::metrics;

/// The W3C header that joins spans.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

static TRACER: OnceLock<(SdkTracerProvider, SdkTracer)> = OnceLock::new();

/// Spans from now on, and the queue that they end in. Once a process; `None` where it was done before.
pub(super) fn start(resource: Resource, queue: usize) -> Option<mpsc::Receiver<SpanData>> {
    let (sender, receiver) = mpsc::channel(queue.max(1));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Queue(sender))
        .with_resource(resource)
        .build();
    let tracer = provider.tracer("catraca");
    TRACER.set((provider, tracer)).ok()?;
    Some(receiver)
}

#[derive(Debug)]
struct Queue(mpsc::Sender<SpanData>);

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.0.try_send(span).is_err() {
            metrics::spans_dropped("queue_full", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Something that takes time. It ends when it is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<SdkSpan>);

/// Which side of an exchange a span is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It answers a request.
    Serves,
    /// It puts an event into the log.
    Sends,
    /// It handles an event of the log.
    Handles,
}

impl Span {
    /// What is done about an event, from `since` on, below the span that its `traceparent` names. An event
    /// without one has no spans.
    pub fn of_event(side: Side, name: &'static str, trace: Option<&str>, since: Timestamp) -> Self {
        match trace.filter(|_| are_on()).and_then(read) {
            None => Self(None),
            Some(parent) => Self::begin(side, name, (Some(parent), Some(since))),
        }
    }

    fn begin(
        side: Side,
        name: &'static str,
        (parent, since): (Option<SpanContext>, Option<Timestamp>),
    ) -> Self {
        let Some((_, tracer)) = TRACER.get() else {
            return Self(None);
        };
        let parent = parent.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(parent)
        });
        let mut builder = SpanBuilder::from_name(name).with_kind(match side {
            Side::Serves => SpanKind::Server,
            Side::Sends => SpanKind::Producer,
            Side::Handles => SpanKind::Consumer,
        });
        let since = since.and_then(|at| u64::try_from(at.as_millis()).ok());
        builder.start_time = since.map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
        Self(Some(builder.start_with_context(tracer, &parent)))
    }

    /// Begins below the span that a request names, and takes its place in the request. Where none is named, a
    /// trace begins.
    pub fn of_request(name: &'static str, headers: &mut HeaderMap) -> Self {
        if !are_on() {
            return Self(None);
        }
        let named = headers.get(TRACEPARENT);
        let parent = named.and_then(|value| read(value.to_str().ok()?));
        let span = Self::begin(Side::Serves, name, (parent, None));
        if let Some(own) = span.traceparent() {
            let own = HeaderValue::try_from(own).expect("digits and hyphens are ASCII");
            headers.insert(TRACEPARENT, own);
        }
        span
    }

    /// Says something about it. Names are those of the log's fields; never what a person is known by.
    pub fn tell(&mut self, name: &'static str, value: &str) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(name, value.to_owned()));
        }
    }

    /// It came to nothing, and why.
    pub fn failed(&mut self, why: &dyn Display) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(why.to_string()));
        }
    }

    /// A request that it was had this answer.
    pub fn answered(&mut self, status: http::StatusCode) {
        if let Some(span) = &mut self.0 {
            let status = i64::from(status.as_u16());
            span.set_attribute(KeyValue::new("http.response.status_code", status));
        }
        if status.is_server_error() {
            self.failed(&status);
        }
    }

    /// What names it to whoever comes after; nothing where there are no spans.
    pub fn traceparent(&self) -> Option<String> {
        let context = self.0.as_ref()?.span_context();
        let (trace, span) = (context.trace_id(), context.span_id());
        let flags = context.trace_flags().to_u8();
        Some(format!("00-{trace}-{span}-{flags:02x}"))
    }
}

/// Whether there are spans at all.
pub fn are_on() -> bool {
    TRACER.get().is_some()
}

/// A `traceparent` of any version that we can read (its first four parts are those of version 00).
fn read(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_whole = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
    if !is_whole || version == "ff" || version == "00" && parts.next().is_some() {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & TraceFlags::SAMPLED.to_u8()),
        true,
        TraceState::default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_the_specification_has_it() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for (text, is_sampled) in [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), false),
            (format!("00-{trace}-{span}-03"), true),
            (format!("cc-{trace}-{span}-01-later"), true),
        ] {
            let read = read(&text).unwrap();
            assert_eq!(read.trace_id().to_string(), trace);
            assert_eq!(read.span_id().to_string(), span);
            assert_eq!(read.is_sampled(), is_sampled);
        }
        for none in [
            String::new(),
            "00".to_owned(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}x-{span}-01"),
            format!("00-{trace}-{span}-zz"),
        ] {
            assert!(read(&none).is_none(), "{none}");
        }
    }

    #[test]
    fn without_a_start_there_are_none_and_headers_stay() {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-x-y-01"));
        let mut span = Span::of_request("request", &mut headers);
        span.tell("event.id", "1");
        assert!(span.traceparent().is_none());
        assert_eq!(headers[TRACEPARENT], "00-x-y-01");
    }
}
