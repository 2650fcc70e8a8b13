//! Is anybody harmed when the program is asked to stop while fans are busy?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::e2e::hostile::site::{PATIENCE, Site, get};

/// Connections of each protocol that are busy.
const BUSY: usize = 24;
/// How long a stop may take.
const STOP_MAX: Duration = Duration::from_secs(30);

/// What became of the requests of all fans.
#[derive(Debug, Default)]
struct Tally {
    is_going: AtomicBool,
    served: AtomicU64,
    served_late: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn count(&self, is_served: bool) {
        let what = match (is_served, self.is_going.load(Ordering::SeqCst)) {
            (false, _) => &self.failed,
            (true, false) => &self.served,
            (true, true) => &self.served_late,
        };
        what.fetch_add(1, Ordering::SeqCst);
    }
}

/// Asks again and again on one connection, until an answer says that it was the last.
async fn over_http_1(mut stream: TcpStream, tally: Arc<Tally>) {
    let request = get("/open/x");
    loop {
        if stream.write_all(request.as_bytes()).await.is_err() {
            return tally.count(false);
        }
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            match tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await {
                Ok(Ok(1..)) => {}
                _ => return tally.count(false),
            }
        }
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        tally.count(text.starts_with("http/1.1 200"));
        if text.contains("connection: close") {
            return;
        }
    }
}

/// The same, until the connection takes no more requests.
async fn over_http_2(stream: TcpStream, tally: Arc<Tally>) {
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    let driven = tokio::spawn(connection);
    while sender.ready().await.is_ok() {
        let request = http::Request::get("http://a/open/x")
            .body(Empty::<bytes::Bytes>::new())
            .unwrap();
        match sender.send_request(request).await {
            Ok(answer) => {
                let is_served = answer.status() == 200;
                tally.count(is_served && answer.into_body().collect().await.is_ok());
            }
            Err(error) if error.is_canceled() || error.is_closed() => break, // it was never sent
            Err(error) => {
                // The last frame of a connection names the streams that were taken; others may be
                // sent again elsewhere, and that is no failure.
                let untaken = format!("{error:?}").contains("REFUSED_STREAM");
                if !untaken {
                    eprintln!("{error:?}");
                    tally.count(false);
                }
                break;
            }
        }
    }
    driven.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_fails_no_request() {
    let site = Site::open().await;
    site.shop.thinks(Duration::from_millis(20));
    let tally = Arc::new(Tally::default());
    let mut fans = JoinSet::new();
    for _ in 0..BUSY {
        fans.spawn(over_http_1(
            site.connect(site.server.gateway).await,
            Arc::clone(&tally),
        ));
        fans.spawn(over_http_2(
            site.connect(site.server.gateway).await,
            Arc::clone(&tally),
        ));
    }
    while tally.served.load(Ordering::SeqCst) < 20 * BUSY as u64 {
        assert_eq!(tally.failed.load(Ordering::SeqCst), 0);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tally.is_going.store(true, Ordering::SeqCst);
    let from = Instant::now();
    let code = site.server.terminate().await;
    let took = from.elapsed();
    while let Some(fan) = fans.join_next().await {
        fan.unwrap();
    }
    eprintln!("stopped after {took:?} under load: {tally:?}");
    assert_eq!((code, tally.failed.load(Ordering::SeqCst)), (Some(0), 0));
    assert!(
        0 < tally.served_late.load(Ordering::SeqCst) && took < STOP_MAX,
        "{took:?}"
    );
}
