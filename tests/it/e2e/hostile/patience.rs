//! How long the program waits for a client, and how many it has at once (rows 30 and 31).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::e2e::hostile::site::{NEXT, PATIENCE, Site, answers, get, with};

/// What every patience is set to.
const SHORT: Duration = Duration::from_millis(400);

/// How long until the connection is closed, and what was said before.
async fn closed_after(stream: &mut TcpStream) -> (Duration, String) {
    let (from, mut said) = (Instant::now(), Vec::new());
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    assert!(read.is_ok(), "it waits for ever");
    (from.elapsed(), String::from_utf8_lossy(&said).into_owned())
}

async fn impatient() -> Site {
    let ms = SHORT.as_millis();
    Site::with(
        &format!("head_ms = {ms}\nbody_silence_ms = {ms}\nstall_ms = {ms}\nidle_ms = {ms}"),
        &[],
    )
    .await
}

/// Row 30: slow heads, bodies and readers, and who says nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_bodies_and_readers_are_given_up() {
    let site = impatient().await;
    let to = site.server.gateway;
    for (what, bytes, status) in [
        ("nothing", String::new(), None),
        ("a byte", "G".to_owned(), None),
        (
            "half a head",
            "GET /open/x HTTP/1.1\r\nhost:".to_owned(),
            None,
        ),
        ("half a preface", "PRI * HTTP/2.0\r\n\r\nS".to_owned(), None),
        (
            "a preface alone",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            None,
        ),
        (
            "half a body",
            with("POST /open/x", "content-length: 9\r\n") + "abc",
            Some(408),
        ),
        (
            "half a chunk",
            with("POST /open/x", "transfer-encoding: chunked\r\n") + "5\r\nab",
            Some(408),
        ),
        ("idle", get("/.well-known/jwks.json"), Some(200)),
    ] {
        let mut stream = site.connect(to).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let (after, said) = closed_after(&mut stream).await;
        let first = answers(&said, b"").first().map(|(status, _)| *status);
        assert!(SHORT / 2 < after, "{what}: {after:?} is too soon");
        assert!(
            after < 3 * SHORT + Duration::from_secs(2),
            "{what}: {after:?}"
        );
        assert_eq!(first, status, "{what}: {said}");
    }
    assert!(
        site.shop.reached().is_empty(),
        "nothing of it reached the shop whole"
    );
}

/// A byte now and then does not prolong a head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trickle_is_given_up_too() {
    let site = impatient().await;
    let mut stream = site.connect(site.server.gateway).await;
    let from = Instant::now();
    let mut trickle = get("/open/x").into_bytes().into_iter().cycle();
    while from.elapsed() < PATIENCE {
        let byte = [trickle.next().unwrap()];
        if stream.write_all(&byte).await.is_err() {
            break;
        }
        let mut answer = [0];
        let read = tokio::time::timeout(SHORT / 4, stream.read(&mut answer)).await;
        if matches!(read, Ok(Ok(0) | Err(_))) {
            break;
        }
    }
    assert!(
        from.elapsed() < 6 * SHORT + Duration::from_secs(2),
        "{:?}",
        from.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_is_given_up() {
    let site = impatient().await;
    let mut stream = site.connect(site.server.gateway).await;
    let body = "x".repeat(1_000_000);
    let request = with(
        "POST /open/x",
        &format!("content-length: {}\r\n", body.len()),
    ) + &body;
    // More answers than all buffers on the way hold, none of them read.
    let asking = async {
        for _ in 0..40 {
            if stream.write_all(request.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    let _stuck = tokio::time::timeout(4 * SHORT, asking).await;
    let (_, said) = closed_after(&mut stream).await;
    assert!(said.len() < 39 * body.len(), "{}", said.len());
}

/// A connection from a given address.
async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((from.parse::<std::net::Ipv4Addr>().unwrap(), 0).into())
        .unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether a request on a connection is answered within a moment.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let sent = stream
        .write_all(get("/.well-known/jwks.json").as_bytes())
        .await;
    let answered = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut [0; 4_096])).await;
    sent.is_ok() && matches!(answered, Ok(Ok(1..)))
}

/// Row 31: so many connections of one client, and of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_so_many_connections_and_all_together_too() {
    let nobody = [("CATRACA__GATEWAY__TRUSTED_PROXIES", "10.0.0.0/8")];
    let site = Site::with(
        "connections_max = 8\nconnections_per_client_max = 3\nidle_ms = 60000",
        &nobody,
    )
    .await;
    let to = site.server.gateway;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect("127.9.0.1", to).await;
        assert!(is_answered(&mut stream).await);
        held.push(stream);
    }
    assert!(
        !is_answered(&mut connect("127.9.0.1", to).await).await,
        "a fourth of one client"
    );
    for other in 2..6 {
        let mut stream = connect(&format!("127.9.0.{other}"), to).await;
        if is_answered(&mut stream).await {
            held.push(stream);
        }
    }
    assert!(3 < held.len() && held.len() <= 8, "{}", held.len());
    // All are taken, or nearly: more wait in the queue until somebody goes.
    let mut more = Vec::new();
    for other in 10..18 {
        more.push(connect(&format!("127.9.0.{other}"), to).await);
    }
    let last = more.last_mut().unwrap();
    assert!(!is_answered(last).await, "above the cap");
    drop(held);
    more.truncate(8);
    let mut last = more.pop().unwrap();
    drop(more);
    let mut answer = [0; 4_096];
    let answered = tokio::time::timeout(PATIENCE, last.read(&mut answer)).await;
    assert!(matches!(answered, Ok(Ok(1..))), "who waited is served");
    drop(last);
    // One line more, so that the honest end of all rows is known to be served too.
    assert!(site.send(NEXT.as_bytes()).await.starts_with("HTTP/1.1 200"));
}
