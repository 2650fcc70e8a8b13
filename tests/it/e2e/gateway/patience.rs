//! Each request has the patience of its route; what is ours has the gateway's.

use std::time::Duration;

use catraca::gateway::upstreams::Route;
use catraca::http::server::ServerSettings;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::e2e::gateway::door::{Door, PATIENCE, Plan, routes};
use crate::e2e::gateway::script::Script;

/// What a request has of which nobody says otherwise.
const SHORT: Duration = Duration::from_millis(300);
/// What the patient route's upstream takes, twice: to begin, and inside its answer.
const LONG: Duration = Duration::from_millis(2_500);

/// A gateway of short patience, and one route that has a lot.
async fn door() -> Door {
    let shop = Script::play(|_, mut wire| async move {
        while wire.head().await.is_some() {
            tokio::time::sleep(LONG).await;
            wire.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
                .await;
            tokio::time::sleep(LONG).await;
            wire.say("k").await;
        }
    })
    .await;
    let ms = u64::try_from(SHORT.as_millis()).unwrap();
    let mut plan = Plan {
        upstream: Some(shop.address.clone()),
        server: ServerSettings {
            answer_max: SHORT,
            stall_max: SHORT,
            ..ServerSettings::default()
        },
        ..Plan::default()
    };
    plan.settings.request_ms = ms;
    plan.settings.stall_ms = ms;
    let patient = Route {
        answer_ms: Some(20_000),
        silence_ms: Some(20_000),
        ..Route::new("/patient", &["GET"], "static")
    };
    plan.routes = Some([vec![patient], routes()].concat());
    Door::planned(plan).await
}

#[tokio::test]
async fn a_patient_route_is_waited_for_by_either_version() {
    let door = door().await;
    let answer = door.get("/patient", &[]).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "ok"));
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let uri = format!("http://{}/patient", door.address).parse().unwrap();
    let answered = tokio::time::timeout(PATIENCE, client.get(uri))
        .await
        .unwrap();
    let (parts, body) = answered.expect("the stream is not reset").into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect())
        .await
        .unwrap();
    let bytes = body.expect("nor in the middle of its answer").to_bytes();
    assert_eq!((parts.status.as_u16(), &bytes[..]), (200, &b"ok"[..]));
}

/// A route with a lot of patience lends none to what is ours: this room never answers.
#[tokio::test]
async fn our_own_answers_have_our_own_patience() {
    let door = door().await;
    let _kept = door.cable.held.write().await;
    let answer = door.join(&[]).await;
    assert_eq!((answer.status, answer.word().as_str()), (503, "busy"));
}
