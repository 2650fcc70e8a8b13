//! A shop that means harm, or is broken (row 37): its answer is not passed on, and its connection is
//! not used again.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::e2e::gateway::shop::Shop;
use crate::e2e::hostile::site::{Site, answers, get};
use crate::support::until;

/// A shop that answers whatever it is asked with the bytes of the moment, and keeps the connection until
/// it is closed.
struct Liar {
    address: String,
    answer: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Liar {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = Arc::new(Mutex::new(String::new()));
        let task = tokio::spawn(lie(listener, Arc::clone(&answer)));
        Self {
            address,
            answer,
            task,
        }
    }

    fn says(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn lie(listener: TcpListener, answer: Arc<Mutex<String>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 4_096];
        let mut read = 0;
        while !request[..read].windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut request[read..]).await {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        let answer = answer.lock().unwrap().clone();
        let _gone = stream.write_all(answer.as_bytes()).await;
        tokio::spawn(async move {
            let _gone = stream.read_to_end(&mut Vec::new()).await;
        });
    }
}

/// Row 37: answers that are none, or have two readings.
#[tokio::test]
async fn a_broken_answer_is_a_502_and_the_end_of_its_connection() {
    let broken = [
        "HTTP/1.1 200 OK\r\nx: a\rb: c\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx: \0\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 0x1\r\n\r\na".to_owned(),
        "HTTP/1.1 999999 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 abc\r\n\r\n".to_owned(),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
        "garbage\r\n\r\n".to_owned(),
        "\0\0\0\0\0\0\0\0".repeat(100),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(10_000)),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)),
    ];
    let liar = Liar::open().await;
    let (shop, _) = Shop::open().await;
    let site = Site::before(shop, &liar.address, "", &[]).await;
    let request = get("/open/x").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    for answer in &broken {
        liar.says(answer);
        // Each comes on a connection of its own: the last one was not kept. After some of them in a row
        // the shop is left alone for a while.
        let text = until("the shop is asked", || async {
            let text = site.send(request.as_bytes()).await;
            (!text.starts_with("HTTP/1.1 503")).then_some(text)
        })
        .await;
        let statuses: Vec<u16> = answers(&text, b"")
            .iter()
            .map(|(status, _)| *status)
            .collect();
        assert_eq!(statuses, [502], "{answer:.200?}: {text:.400}");
        assert!(text.contains("application/problem+json"), "{text}");
    }
    eprintln!("hostile answers: {} by a shop", broken.len());
}

/// More than an answer is not the next one, and what has two readings reaches the fan with one.
#[tokio::test]
async fn nothing_behind_an_answer_is_taken_for_another() {
    let smuggled = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhidden";
    let answers_of_shop = [
        (
            format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na{smuggled}"),
            "a",
        ),
        (
            format!(
                "HTTP/1.1 204 No Content\r\ncontent-length: {}\r\n\r\n{smuggled}",
                smuggled.len()
            ),
            "",
        ),
        (format!("HTTP/1.1 304 Not Modified\r\n\r\n{smuggled}"), ""),
        (
            format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n{smuggled}"
            ),
            "a",
        ),
    ];
    let liar = Liar::open().await;
    let (shop, _) = Shop::open().await;
    let site = Site::before(shop, &liar.address, "", &[]).await;
    let request = get("/open/x").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    for (answer, body) in &answers_of_shop {
        liar.says(answer);
        let text = site.send(request.as_bytes()).await;
        assert!(!text.contains("hidden"), "{answer:?}: {text}");
        let head = text.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        let framings =
            ["content-length", "transfer-encoding"].map(|name| head.matches(name).count());
        assert!(framings.iter().sum::<usize>() <= 1, "{answer:?}: {text}");
        assert!(
            body.is_empty()
                || text.contains(&format!("\r\n\r\n{body}"))
                || text.contains(&format!("\r\n{body}\r\n")),
            "{text}"
        );
    }
}
