//! Brief questions of HTTP/1 are answered without hyper: does anybody notice?

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::e2e::hostile::site::{PATIENCE, Site, answers, with};

/// A header that keeps a question from being brief and means nothing.
const AT_LENGTH: &str = "connection: keep-alive, x-none\r\n";
/// Longer than it takes until hyper goes.
const REST: Duration = Duration::from_millis(1_200);

/// Whether an answer has all of its body.
fn is_whole(answer: &str) -> bool {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| length == body.len().to_string())
}

/// The next so many answers of a connection.
async fn hear(stream: &mut TcpStream, count: usize) -> Vec<(u16, String)> {
    let mut heard = Vec::new();
    loop {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut heard)).await;
        assert!(0 < read.unwrap().unwrap(), "it hung up");
        let heard = answers(&String::from_utf8_lossy(&heard), b"");
        if count <= heard.len() && heard.iter().all(|(_, answer)| is_whole(answer)) {
            return heard;
        }
    }
}

/// An answer without what no two have in common, and without numbers; its lines sorted.
fn alike(answer: &str) -> Vec<String> {
    let own = ["date: ", "x-request-id: "];
    let mut lines: Vec<String> = answer
        .lines()
        .filter(|line| !own.iter().any(|own| line.starts_with(own)))
        .map(|line| line.chars().filter(|c| !c.is_ascii_digit()).collect())
        .collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brief_answers_are_those_of_hyper() {
    let site = Site::open().await;
    let buyer = site.buyer().await;
    for (line, headers, status) in [
        ("GET /v1/shows/gala/status", "", 401),
        ("GET /v1/shows/gala/status?serving=x", "", 400),
        ("GET /v1/shows/none/status", "", 404),
        ("GET /v1/shows/G/status", "", 400),
        ("GET /v1/shows/gala/status", "host: b\r\n", 400),
        (
            "GET /v1/shows/gala/status",
            "x-catraca-pass: c1.k1.x.y\r\n",
            401,
        ),
        ("POST /v1/shows/gala/join", "origin: http://evil\r\n", 403),
        (
            "POST /v1/shows/gala/join",
            "idempotency-key: short\r\n",
            400,
        ),
        ("POST /v1/shows/gala/join", &buyer.headers(), 200),
    ] {
        let mut said = Vec::new();
        for more in ["", AT_LENGTH] {
            let mut stream = site.connect(site.server.gateway).await;
            let request = with(line, &format!("{headers}{more}"));
            stream.write_all(request.as_bytes()).await.unwrap();
            said.extend(hear(&mut stream, 1).await);
            // A refusal that ends a connection ends it either way.
            let ends = tokio::time::timeout(REST / 4, stream.read(&mut [0])).await;
            let is_last = matches!(status, 400 | 403);
            assert_eq!(matches!(ends, Ok(Ok(0))), is_last, "{line} {ends:?}");
        }
        assert_eq!(said[0].0, status, "{}", said[0].1);
        assert_eq!(alike(&said[0].1), alike(&said[1].1), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_brief_and_at_length_in_turn() {
    let site = Site::open().await;
    let buyer = site.buyer().await;
    let brief = with("GET /v1/shows/gala/status", &buyer.headers());
    let long = with("POST /open/x", "content-length: 3\r\n") + "abc";
    let mut stream = site.connect(site.server.gateway).await;
    for (round, requests) in [
        vec![&brief],
        vec![&long],
        vec![&brief, &brief, &long, &brief],
        vec![&brief, &brief],
        vec![&long, &brief],
    ]
    .into_iter()
    .enumerate()
    {
        let bytes: String = requests.iter().map(|request| request.as_str()).collect();
        let (begin, end) = bytes.split_at(bytes.len() - 9);
        stream.write_all(begin.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await; // in two pieces
        stream.write_all(end.as_bytes()).await.unwrap();
        let heard = hear(&mut stream, requests.len()).await;
        let is_brief = |text: &str| text.contains("\"state\":\"admitted\"");
        for ((status, text), request) in heard.iter().zip(requests) {
            assert_eq!(*status, 200, "round {round}: {text}");
            assert_eq!(is_brief(text), *request == brief, "round {round}: {text}");
        }
        if round % 2 == 1 {
            tokio::time::sleep(REST).await;
        }
    }
    assert_eq!(site.shop.reached().len(), 3, "each reached the shop once");
    let join = with("POST /v1/shows/gala/join", "content-length: 0\r\n");
    stream.write_all(join.as_bytes()).await.unwrap();
    let (status, text) = hear(&mut stream, 1).await.remove(0);
    assert_eq!(status, 201, "{text}");
    // What rests is still read strictly.
    stream
        .write_all(b"GET /v1/shows/gala/status HTTP/1.1\n\n")
        .await
        .unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 400"), "{rest}");
}
