//! An upstream that is in trouble is left in peace, and nobody waits for it in vain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::e2e::gateway::door::{Door, PATIENCE, Plan};
use crate::e2e::gateway::script::{Script, Wire};
use crate::support::until;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A gateway before this upstream, which is open at `/static/{*rest}` and gated at `/shop/{*rest}`.
async fn before(upstream: &Script, change: impl FnOnce(&mut Plan)) -> Door {
    let mut plan = Plan {
        upstream: Some(upstream.address.clone()),
        ..Plan::default()
    };
    plan.settings.upstream_ms = 5_000;
    change(&mut plan);
    Door::planned(plan).await
}

/// The head of each request, in the order in which they came.
fn heads() -> (Arc<std::sync::Mutex<Vec<String>>>, impl Fn(String) + Clone) {
    let heads = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&heads);
    (heads, move |head| kept.lock().unwrap().push(head))
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let shop = Script::play(|_, mut wire| async move {
        while wire.head().await.is_some() {
            wire.say(OK).await;
        }
    })
    .await;
    let door = before(&shop, |_| {}).await;
    for _ in 0..100 {
        assert_eq!(door.get("/static/x", &[]).await.text, "ok");
    }
    assert!(shop.connections() <= 3, "{}", shop.connections());
}

/// The upstream closes an idle connection while a request is on its way.
#[tokio::test]
async fn a_request_that_only_looks_outlives_its_connection() {
    let (seen, keep) = heads();
    let shop = Script::play(move |_, mut wire| {
        let keep = keep.clone();
        async move {
            // One answer a connection, and no word that it is the last.
            keep(wire.head().await.unwrap());
            wire.say(OK).await;
            keep(wire.head().await.unwrap_or_default());
        }
    })
    .await;
    let door = before(&shop, |_| {}).await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    for _ in 0..10 {
        let answer = door.get("/shop/seats", &headers).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "ok"));
    }
    let nonce = |head: &String| {
        let line = head
            .lines()
            .find(|line| line.starts_with("x-catraca-nonce"));
        line.map(str::to_owned)
    };
    let seen = seen.lock().unwrap();
    let mut nonces: Vec<_> = seen.iter().filter_map(nonce).collect();
    let sent = nonces.len();
    nonces.sort();
    nonces.dedup();
    assert!(
        10 < sent && sent == nonces.len(),
        "each is sent under a nonce of its own: {seen:?}"
    );
}

/// Whatever may have been done is not done again by us.
#[tokio::test]
async fn a_request_that_acts_is_sent_once() {
    let (seen, keep) = heads();
    let shop = Script::play(move |_, mut wire| {
        let keep = keep.clone();
        async move {
            while let Some(head) = wire.head().await {
                let acts = head.starts_with("post") || head.starts_with("get /static/body");
                keep(head);
                if acts {
                    return; // without an answer
                }
                wire.say(OK).await;
            }
        }
    })
    .await;
    let door = before(&shop, |_| {}).await;
    for (method, path, headers, body) in [
        ("POST", "/static/x", vec![], "{}"),
        (
            "POST",
            "/static/x",
            vec![("idempotency-key", "0123456789012345678901")],
            "{}",
        ),
        ("POST", "/static/x", vec![], ""),
        ("GET", "/static/body", vec![], "{}"),
    ] {
        assert_eq!(door.get("/static/y", &[]).await.status, 200);
        let lost = door.ask(method, path, &headers, body).await;
        assert_eq!(
            (lost.status, lost.word().as_str()),
            (502, "upstream-broken")
        );
        let heads = std::mem::take(&mut *seen.lock().unwrap());
        let acted = heads
            .iter()
            .filter(|head| !head.starts_with("get /static/y"));
        assert_eq!(acted.count(), 1, "{method} {path}: {heads:?}");
    }
}

/// An upstream answers while the request is still on its way: that is told at once, and what comes next on
/// that connection would be the rest.
#[tokio::test]
async fn an_answer_to_half_a_request_ends_its_connection() {
    let shop = Script::play(|_, mut wire| async move {
        while let Some(head) = wire.head().await {
            if head.starts_with("post") {
                let full = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
                wire.say(full).await;
                wire.until("the rest").await;
            } else {
                wire.say(OK).await;
            }
        }
    })
    .await;
    let door = before(&shop, |_| {}).await;
    for round in 1..=10 {
        let mut client = Wire::new(TcpStream::connect(door.address).await.unwrap());
        let half = "POST /static/x HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nthe half";
        client.say(half).await;
        let told = timeout(PATIENCE, client.head()).await.unwrap();
        assert!(told.unwrap().starts_with("http/1.1 413"));
        // The client is there, and silent: nobody else's request may be taken for what is missing.
        assert_eq!(door.get("/static/y", &[]).await.text, "ok", "{round}");
    }
}

/// An upstream that answers, or hangs up, as it is told; and how many requests have reached it.
async fn moody() -> (Script, Arc<AtomicBool>, Arc<AtomicU64>) {
    let (is_well, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::<AtomicU64>::default(),
    );
    let (mood, count) = (Arc::clone(&is_well), Arc::clone(&asked));
    let shop = Script::play(move |_, mut wire| {
        let (mood, count) = (Arc::clone(&mood), Arc::clone(&count));
        async move {
            while wire.head().await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                if !mood.load(Ordering::SeqCst) {
                    return;
                }
                wire.say(OK).await;
            }
        }
    })
    .await;
    (shop, is_well, asked)
}

#[tokio::test]
async fn an_upstream_that_fails_is_left_alone_until_one_request_finds_it_well() {
    let (shop, is_well, asked) = moody().await;
    let door = before(&shop, |_| {}).await;
    let mut statuses = BTreeMap::<_, u64>::new();
    for _ in 0..60 {
        let answer = door.ask("POST", "/static/x", &[], "").await;
        if answer.status == 503 {
            assert_eq!(answer.word(), "upstream-unavailable");
            assert_eq!(answer.header("retry-after"), "1");
        }
        *statuses.entry(answer.status).or_default() += 1;
    }
    // Five open it; on a slow machine a second passes, and one more tries.
    let (broken, spared) = (statuses[&502], statuses[&503]);
    assert_eq!(broken, asked.load(Ordering::SeqCst), "{statuses:?}");
    assert!((5..20).contains(&broken) && 40 < spared, "{statuses:?}");
    is_well.store(true, Ordering::SeqCst);
    until("the upstream is asked again", async || {
        let answer = door.ask("POST", "/static/x", &[], "").await;
        (answer.status == 200).then_some(())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(door.ask("POST", "/static/x", &[], "").await.status, 200);
    }
}

#[tokio::test]
async fn repeats_add_a_fifth_at_most() {
    // Well for whoever acts, so that it is never left alone; it hangs up on whoever looks.
    let asked = Arc::<AtomicU64>::default();
    let count = Arc::clone(&asked);
    let shop = Script::play(move |_, mut wire| {
        let count = Arc::clone(&count);
        async move {
            while let Some(head) = wire.head().await {
                if head.starts_with("get") {
                    count.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                wire.say(OK).await;
            }
        }
    })
    .await;
    let door = before(&shop, |_| {}).await;
    let looks = 600;
    for _ in 0..looks {
        assert_eq!(door.get("/static/x", &[]).await.status, 502);
        assert_eq!(door.ask("POST", "/static/x", &[], "").await.status, 200);
    }
    let asked = asked.load(Ordering::SeqCst);
    let (saved, earned) = (100, 2 * looks / 5);
    assert!(
        (looks + 100..=looks + saved + earned).contains(&asked),
        "{asked}"
    );
}

/// A slow client is not a slow upstream: nobody can shut a shop by sending slowly.
#[tokio::test]
async fn slow_clients_do_not_count_against_the_upstream() {
    let shop = Script::play(|_, mut wire| async move {
        while let Some(head) = wire.head().await {
            if head.starts_with("post") && wire.until("all of it").await.is_none() {
                return;
            }
            wire.say(OK).await;
        }
    })
    .await;
    let door = before(&shop, |plan| plan.settings.request_ms = 200).await;
    let slow =
        b"POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 9\r\n\r\nx";
    let mut all = JoinSet::new();
    for _ in 0..10 {
        let address = door.address;
        all.spawn(async move {
            let mut wire = Wire::new(tokio::net::TcpStream::connect(address).await.unwrap());
            wire.say(slow).await;
            let head = tokio::time::timeout(PATIENCE, wire.head()).await;
            head.unwrap().unwrap()
        });
    }
    for head in all.join_all().await {
        assert!(head.starts_with("http/1.1 408"), "{head}");
    }
    assert_eq!(door.get("/static/x", &[]).await.status, 200);
}

/// A place is taken until the answer has passed, or its reader has gone.
#[tokio::test]
async fn an_answer_under_way_takes_a_place() {
    let shop = Script::play(|_, mut wire| async move {
        while let Some(head) = wire.head().await {
            if head.starts_with("get /static/events") {
                wire.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
                    .await;
                wire.head().await; // never: until the other end closes
                return;
            }
            wire.say(OK).await;
        }
    })
    .await;
    let door = before(&shop, |plan| plan.settings.upstream_in_flight_max = 1).await;
    let mut reader = Wire::new(tokio::net::TcpStream::connect(door.address).await.unwrap());
    reader
        .say("GET /static/events HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    reader.until("1\r\na\r\n").await.unwrap();
    let busy = door.get("/static/x", &[]).await;
    assert_eq!((busy.status, busy.word().as_str()), (503, "busy"));
    assert_eq!(busy.header("retry-after"), "1");
    drop(reader);
    until("the place is free again", async || {
        (door.get("/static/x", &[]).await.status == 200).then_some(())
    })
    .await;
}
