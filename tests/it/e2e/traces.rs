//! Spans of an order's way, at a collector that decodes what it gets; and a collector that is away or hangs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::e2e::drill_restart::create_show;
use crate::support::client::Client;
use crate::support::process::Server;
use crate::support::sale::SHOW;
use crate::support::until;
use crate::support::visitor::Visitor;

/// What a client with traces of its own sends.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that keeps what it gets: of each span the service, and the span.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

impl Collector {
    /// Starts one; its address.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(collector.clone());
        tokio::spawn(async move { axum_server(listener, router).await });
        (collector, at)
    }

    fn spans(&self) -> Vec<(String, Span)> {
        self.0.lock().unwrap().clone()
    }

    /// The spans of the trace in which this name stands, once these all do.
    async fn trace_with(&self, names: &[&str]) -> Vec<(String, Span)> {
        until(&format!("there is a trace with {names:?}"), || async {
            let mut traces: BTreeMap<Vec<u8>, Vec<(String, Span)>> = BTreeMap::new();
            for (service, span) in self.spans() {
                let of_trace = traces.entry(span.trace_id.clone()).or_default();
                of_trace.push((service, span));
            }
            let has_all = |spans: &Vec<(String, Span)>| {
                let has = |name: &&str| spans.iter().any(|(_, span)| span.name == *name);
                names.iter().all(has)
            };
            traces.into_values().find(has_all)
        })
        .await
    }
}

async fn take(State(collector): State<Collector>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut kept = collector.0.lock().unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap().attributes;
        let service = attributes.iter().find(|a| a.key == "service.name").unwrap();
        let service = format!("{:?}", service.value);
        let spans = resource.scope_spans.into_iter().flat_map(|s| s.spans);
        kept.extend(spans.map(|span| (service.clone(), span)));
    }
}

/// Serves until the test is over.
async fn axum_server(listener: TcpListener, router: Router) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = hyper_util::service::TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let io = hyper_util::rt::TokioIo::new(stream);
            let served = hyper::server::conn::http1::Builder::new().serve_connection(io, service);
            drop(served.await);
        });
    }
}

/// A sale whose spans go there.
async fn sale(folder: &Path, at: &str, more: &[(&str, &str)]) -> (Server, Client) {
    let mut env = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", at),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    env.extend_from_slice(more);
    let server = Server::up(folder, &env).await;
    create_show(folder, &server).await;
    let client = Client::of(format!("http://{}", server.gateway));
    (server, client)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_sees_an_orders_way_as_one_trace() {
    let (collector, at) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = sale(folder.path(), &at, &[]).await;
    let visitor = Visitor::join_by(client.clone()).await.inside().await;
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, 201, "{placed}");
    let order = visitor.confirmed(&placed).await;

    let groups = ["notify", "admissions", "analytics"];
    let names = [&["gateway", "orders", "relay"][..], &groups].concat();
    let trace = collector.trace_with(&names).await;
    let of = |name: &str| {
        let mut named = trace.iter().filter(|(_, span)| span.name == name);
        named.next().unwrap().1.clone()
    };
    let (gateway, shop) = (of("gateway"), of("orders"));
    assert!(gateway.parent_span_id.is_empty(), "{gateway:?}");
    assert_eq!(shop.parent_span_id, gateway.span_id);
    assert_eq!(shop.kind, SpanKind::Server as i32);
    assert!(gateway.start_time_unix_nano <= shop.start_time_unix_nano);
    assert!(shop.end_time_unix_nano <= gateway.end_time_unix_nano);
    for (name, kind) in [
        ("relay", SpanKind::Producer),
        ("notify", SpanKind::Consumer),
    ] {
        let span = of(name);
        assert_eq!(span.parent_span_id, shop.span_id, "{name}");
        assert_eq!(span.kind, kind as i32);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(format!("{:?}", span.attributes).contains("event.id"));
    }
    // What the outbox keeps names the shop's span, so whoever has the order finds the trace.
    let admin = format!("http://{}", server.admin);
    let token = std::fs::read_to_string(folder.path().join("admin-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let line = format!("GET /admin/v1/orders/{order}/journey");
    let asked = Client::of(&admin)
        .ask(&line, &[("authorization", &bearer)], &Value::Null)
        .await;
    assert_eq!(asked.1["trace"], json!(hex(&shop.trace_id)), "{}", asked.1);

    for (service, span) in collector.spans() {
        assert!(service.contains("\"catraca\""), "{service}");
        let text = format!("{span:?}");
        for secret in ["@", &visitor.pass, &visitor.ticket] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    a_clients_own_trace_goes_on(&collector, client).await;
    assert_eq!(server.terminate().await, Some(0));
}

/// A client that has traces of its own finds ours below its span; one that does not want this one traced is
/// obeyed.
async fn a_clients_own_trace_goes_on(collector: &Collector, client: Client) {
    let headers = |flags: &str| format!("00-{TRACE}-{PARENT}-{flags}");
    let other = Visitor::join_by(client.clone()).await.inside().await;
    let wish = json!({ "section": "Floor", "quantity": 1 });
    for flags in ["00", "01"] {
        let traceparent = headers(flags);
        let sent = [
            ("x-catraca-pass", other.pass.as_str()),
            ("x-admission-ticket", other.ticket.as_str()),
            ("traceparent", traceparent.as_str()),
        ];
        let line = format!("POST /v1/shows/{SHOW}/holds");
        let (status, held) = client.ask(&line, &sent, &wish).await;
        assert_eq!(status, 201, "{held}");
        let hold = held["hold_id"].as_str().unwrap().to_owned();
        let line = format!("DELETE /v1/shows/{SHOW}/holds/{hold}");
        let (status, _) = client.ask(&line, &sent[..2], &Value::Null).await;
        assert!(status.is_success());
    }
    until("the client's trace is there", || async {
        let spans = collector.spans();
        let of_client = |(_, span): &&(String, Span)| hex(&span.trace_id) == TRACE;
        let mine: Vec<_> = spans.iter().filter(of_client).collect();
        let doors = mine.iter().filter(|(_, span)| span.name == "gateway");
        let parents: Vec<_> = doors.map(|(_, span)| hex(&span.parent_span_id)).collect();
        (parents == [PARENT]).then_some(())
    })
    .await;
}

/// A collector that takes every connection and says nothing, or is not there: orders are answered as ever, what
/// cannot wait is dropped and counted, and the process ends in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_or_is_away_costs_orders_nothing() {
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hung_at = format!("http://{}", hung.local_addr().unwrap());
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = hung.accept().await {
            held.push(stream);
        }
    });
    let away_at = format!("http://127.0.0.1:{}", crate::support::free_port());
    for (at, why) in [(hung_at, "queue_full"), (away_at, "collector")] {
        let folder = tempfile::tempdir().unwrap();
        let small = [
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ];
        let (server, client) = sale(folder.path(), &at, &small).await;
        let visitor = Visitor::join_by(client).await.inside().await;
        for _ in 0..8 {
            let hold = visitor.hold().await;
            let what = format!("DELETE holds/{hold}");
            let (status, _) = visitor.try_ask(&what, &Value::Null).await.unwrap();
            assert!(status.is_success(), "{status}");
        }
        let hold = visitor.hold().await;
        let (status, placed) = visitor.order(&hold, "approve").await;
        assert_eq!(status, 201, "{placed}");
        visitor.confirmed(&placed).await;
        let metrics = Client::of(format!("http://{}", server.admin));
        let counted = format!("catraca_spans_dropped_total{{why=\"{why}\"}}");
        until(&format!("{counted} is counted"), || async {
            let answer = metrics.exchange("GET /metrics", &[], &Value::Null).await;
            let text = String::from_utf8(answer.unwrap().1.to_vec()).unwrap();
            let mut lines = text.lines();
            lines.any(|line| line.starts_with(&counted)).then_some(())
        })
        .await;
        let asked = Instant::now();
        assert_eq!(server.terminate().await, Some(0), "{why}");
        assert!(
            asked.elapsed() < Duration::from_secs(20),
            "{:?}",
            asked.elapsed()
        );
    }
    held.abort();
}
