//! Thousands who send slowly: does anybody else notice, and what do they cost?

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::e2e::hostile::floods::resident_bytes;
use crate::e2e::hostile::site::{PATIENCE, Site, get, with};
use crate::support::until;

/// How many are slow at once, if the machine gives us so many files.
const SLOW: usize = 5_000;
/// Files that the rest of a test needs.
const OTHER_FILES: usize = 700;
/// Honest requests by which the others are measured.
const HONEST: usize = 600;
/// What a quiet machine's scheduler does to a request; less is not told apart.
const NOISE: Duration = Duration::from_millis(10);

/// Files that this process may open.
fn files_max() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    line.split_whitespace()
        .nth(3)
        .unwrap()
        .parse()
        .unwrap_or(usize::MAX)
}

/// Files that a process has open.
fn files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .count()
}

/// The 99th percentile of honest requests, one after the other on one connection.
async fn honest_p99(site: &Site) -> Duration {
    let mut stream = site.connect(site.server.gateway).await;
    let request = get("/open/x");
    let mut times = Vec::with_capacity(HONEST);
    let mut answer = vec![0; 4_096];
    for _ in 0..HONEST {
        let from = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = 0;
        while !answer[..read].windows(4).any(|end| end == b"\r\n\r\n") {
            let more = tokio::time::timeout(PATIENCE, stream.read(&mut answer[read..])).await;
            read += more.expect("an answer").unwrap();
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        times.push(from.elapsed());
    }
    times.sort();
    times[HONEST * 99 / 100]
}

/// Opens slow connections of every kind: heads that do not end, bodies that do not, idle ones.
async fn slow_ones(site: &Site, count: usize) -> Vec<TcpStream> {
    let kinds = [
        "GET /open/x HTTP/1.1\r\nhost: a\r\nx: ".to_owned(),
        with(
            "POST /w/gala/join",
            "content-type: application/x-www-form-urlencoded\r\ncontent-length: 900\r\n",
        ) + "a",
        String::new(),
        get("/.well-known/jwks.json"),
    ];
    let mut slow = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = site.connect(site.server.gateway).await;
        stream
            .write_all(kinds[number % kinds.len()].as_bytes())
            .await
            .unwrap();
        slow.push(stream);
    }
    slow
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_slow_connections_harm_nobody() {
    let count = SLOW.min(files_max().saturating_sub(OTHER_FILES));
    let site = Site::with(
        "head_ms = 60000\nbody_silence_ms = 60000\nidle_ms = 60000",
        &[],
    )
    .await;
    let process = site.server.id();
    honest_p99(&site).await; // warm
    let (alone, before, open) = (
        honest_p99(&site).await,
        resident_bytes(process),
        files(process),
    );
    let mut slow = slow_ones(&site, count).await;
    until("all are connected", || async {
        (open + count <= files(process) + 50).then_some(())
    })
    .await;
    let each = resident_bytes(process).saturating_sub(before) / count as u64;
    let trickling = async {
        loop {
            for stream in slow.iter_mut().step_by(4) {
                let _gone = stream.write_all(b"x").await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let beside = tokio::select! {
        beside = honest_p99(&site) => beside,
        () = trickling => unreachable!("it trickles for ever"),
    };
    eprintln!(
        "{count} slow connections: honest p99 {alone:?} without, {beside:?} with them; {each} bytes resident each"
    );
    assert!(
        beside <= 3 * 2 * alone.max(NOISE),
        "{beside:?} beside {alone:?}"
    );
    assert!(each < 64 << 10, "{each} bytes each");
    drop(slow);
    until("their files are closed", || async {
        (files(process) <= open + 50).then_some(())
    })
    .await;
}
