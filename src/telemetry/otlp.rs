//! Takes spans to an OpenTelemetry collector, by OTLP over HTTP with protobuf bodies.
//!
//! What is said in the environment counts, by OpenTelemetry's own names: `OTEL_EXPORTER_OTLP_ENDPOINT` (or the
//! one for traces) switches it on; service, resource, sampler, headers and times are read by its SDK.
//!
//! A collector that is away, slow or hung costs whoever serves fans nothing: its loop waits for it, alone, and
//! what does not fit into the queue meanwhile is dropped and counted.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter as Otlp, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::telemetry::{metrics, traces};

/// What the environment says, where it says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Which service spans are of, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says it.
    pub service: String,
    /// Spans that may wait: `OTEL_BSP_MAX_QUEUE_SIZE`.
    pub queue: usize,
    /// Spans in one request: `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
    pub batch: usize,
    /// Between two requests: `OTEL_BSP_SCHEDULE_DELAY`.
    pub every: Duration,
    /// How long the collector may take over one: `OTEL_BSP_EXPORT_TIMEOUT`.
    pub answer_max: Duration,
}

impl Settings {
    /// What these variables say. `None`: that there are to be no spans.
    ///
    /// # Errors
    /// A line about what cannot be done; then there are none either.
    pub fn of(
        variable: impl Fn(&str) -> Option<String>,
        service: &str,
    ) -> anyhow::Result<Option<Self>> {
        let first = |names: [&str; 2]| {
            let mut said = names.into_iter().filter_map(&variable);
            said.find(|text| !text.is_empty())
        };
        let is = |name, word| variable(name).is_some_and(|text| text.eq_ignore_ascii_case(word));
        let endpoints = [
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ];
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        if is_off || first(endpoints).is_none() {
            return Ok(None);
        }
        let protocols = [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ];
        let protocol = first(protocols).unwrap_or_else(|| "http/protobuf".to_owned());
        ensure!(
            protocol == "http/protobuf",
            "{protocol} is not spoken here: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and the endpoint to \
             the collector's port for it (4318 by default)"
        );
        let number = |name: &str, default: u64| -> anyhow::Result<u64> {
            match variable(name).filter(|text| !text.is_empty()) {
                None => Ok(default),
                Some(text) => {
                    let number = text.parse().ok().filter(|number| 0 < *number);
                    number.with_context(|| format!("{name} ({text}) must be a number above 0"))
                }
            }
        };
        let size = |name, default| Ok::<_, anyhow::Error>(usize::try_from(number(name, default)?)?);
        Ok(Some(Self {
            service: service.to_owned(),
            queue: size("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?.min(QUEUE_MAX),
            batch: size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
            every: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5_000)?),
            answer_max: Duration::from_millis(number("OTEL_BSP_EXPORT_TIMEOUT", 30_000)?),
        }))
    }
}

/// Spans that wait at most, whatever the environment says: some tens of megabytes.
const QUEUE_MAX: usize = 65_536;
/// How long a process that ends waits for the collector.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// The longest answer of a collector that is read.
const ANSWER_BYTES_MAX: usize = 65_536;

/// Takes spans to the collector.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    collector: Otlp,
    queue: mpsc::Receiver<SpanData>,
    /// Whether the collector took the last batch: only a change is said.
    is_well: bool,
}

impl Exporter {
    /// Begins to collect spans, to be sent by this way. Once a process; `None` where another has begun.
    ///
    /// # Errors
    /// What the environment says makes no sense to OpenTelemetry's SDK.
    pub fn start(
        settings: Settings,
        way: HttpsConnector<HttpConnector>,
    ) -> anyhow::Result<Option<Self>> {
        let client = Collector(Client::builder(TokioExecutor::new()).build(way));
        let collector = Otlp::builder().with_http().with_http_client(client);
        let mut collector = collector.build().context("OTEL_EXPORTER_OTLP_*")?;
        let resource = resource(&settings.service);
        collector.set_resource(&resource);
        let queue = traces::start(resource, settings.queue);
        Ok(queue.map(|queue| Self {
            settings,
            collector,
            queue,
            is_well: true,
        }))
    }

    /// Sends what there is, every few seconds and once at the end, until asked to stop.
    ///
    /// # Errors
    /// None: spans that cannot be sent are dropped and counted.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let mut spans = Vec::new();
            let came = self.queue.recv_many(&mut spans, self.settings.batch);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = came => {}
            }
            self.gather(&mut spans, &stop).await;
            let answer_max = self.settings.answer_max;
            let stopping = stop.clone();
            tokio::select! {
                () = self.send(spans, answer_max) => {}
                () = async { stopping.cancelled().await; sleep(LAST_WORDS_MAX).await } => return Ok(()),
            }
        }
        let mut spans = Vec::new();
        while let Ok(span) = self.queue.try_recv() {
            spans.push(span);
        }
        if !spans.is_empty() {
            self.send(spans, LAST_WORDS_MAX).await;
        }
        Ok(())
    }

    /// Waits for more, until the batch is full or its time has come.
    async fn gather(&mut self, spans: &mut Vec<SpanData>, stop: &CancellationToken) {
        let more = async {
            while spans.len() < self.settings.batch {
                let room = self.settings.batch - spans.len();
                if self.queue.recv_many(spans, room).await == 0 {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = more => {}
            () = sleep(self.settings.every) => {}
        }
    }

    async fn send(&mut self, spans: Vec<SpanData>, answer_max: Duration) {
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let sent = timeout(answer_max, self.collector.export(spans)).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {answer_max:?}")),
        };
        match &failure {
            None => metrics::spans_sent(count),
            Some(_) => metrics::spans_dropped("collector", count),
        }
        let is_well = failure.is_none();
        if is_well != self.is_well {
            match failure {
                Some(why) => tracing::warn!("the collector takes no spans: {why}"),
                None => tracing::info!("the collector takes spans again"),
            }
        }
        self.is_well = is_well;
    }
}

/// Who says it. A name of the environment's comes first.
fn resource(service: &str) -> Resource {
    let said = Resource::builder().build();
    let name = said.get(&Key::from_static_str("service.name"));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let own = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(own);
    match is_named {
        true => builder.build(),
        false => builder.with_service_name(service.to_owned()).build(),
    }
}

/// The way to the collector. Deadlines are those of [`Exporter::send`].
#[derive(Debug)]
struct Collector(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.request(request.map(Full::new)).await?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
        let find = |name: &str| said.iter().find(|(n, _)| *n == name);
        Settings::of(
            |name| find(name).map(|(_, text)| (*text).to_owned()),
            "catraca",
        )
    }

    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");

    #[test]
    fn an_endpoint_switches_spans_on_and_a_word_switches_them_off() {
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[(AT.0, "")]).unwrap(), None);
        assert_eq!(of(&[AT, ("OTEL_SDK_DISABLED", "true")]).unwrap(), None);
        assert_eq!(of(&[AT, ("OTEL_TRACES_EXPORTER", "none")]).unwrap(), None);
        let for_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", AT.1);
        for at in [AT, for_traces] {
            let settings = of(&[at]).unwrap().unwrap();
            assert_eq!((settings.queue, settings.batch), (2_048, 512));
            assert_eq!(settings.every, Duration::from_secs(5));
        }
        let small = of(&[AT, ("OTEL_BSP_MAX_QUEUE_SIZE", "7")]).unwrap();
        assert_eq!(small.unwrap().queue, 7);
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let says = |said: &[(&str, &str)]| of(said).unwrap_err().to_string();
        let grpc = says(&[AT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(grpc.starts_with("grpc is not spoken here"), "{grpc}");
        let delay = says(&[AT, ("OTEL_BSP_SCHEDULE_DELAY", "soon")]);
        assert!(
            delay.ends_with("(soon) must be a number above 0"),
            "{delay}"
        );
    }
}
