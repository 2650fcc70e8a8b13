//! A bounded set of keep-alive connections, each a worker with one request at a time.
//!
//! A worker drives its own connection, so there is one task a connection and none a fan. What was
//! certainly not sent is sent again on a fresh connection; what may have been sent is reported as such.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::crowd::clock::{Clock, Moment};
use crate::crowd::wire::Answer;

/// Longest answer that is read.
const BODY_BYTES_MAX: usize = 1 << 18;
/// After this long an answer does not come any more.
const ANSWER_MS_MAX: Duration = Duration::from_secs(30);
/// After this long nobody listens.
const CONNECT_MS_MAX: Duration = Duration::from_secs(5);
/// How long somebody who loses the answer waits for it before hanging up.
const LINGER: Duration = Duration::from_secs(2);

/// What becomes of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It is read.
    Read,
    /// The cable is cut as soon as the request is written.
    CutAtOnce,
    /// The cable is cut when the answer has arrived, unread.
    CutWhenAnswered,
}

/// A request to be sent.
#[derive(Debug)]
pub struct Job<T> {
    /// Comes back with the reply.
    pub tag: T,
    pub request: Request<Full<Bytes>>,
    pub manner: Manner,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It was never sent.
    NotSent(String),
    /// It may have been received, and done.
    Lost(String),
}

/// What came of a request.
#[derive(Debug)]
pub struct Reply<T> {
    pub tag: T,
    pub sent: Moment,
    pub done: Moment,
    pub result: Result<Answer, Trouble>,
    worker: usize,
}

/// The connections.
#[derive(Debug)]
pub struct Pool<T> {
    jobs: Vec<Sender<Job<T>>>,
    idle: Vec<usize>,
    replies: Receiver<Reply<T>>,
    _workers: JoinSet<()>,
}

impl<T: Send + 'static> Pool<T> {
    /// Starts `size` workers. Each connects when it first has something to send.
    pub fn start(authority: &str, clock: Clock, size: usize) -> Self {
        let (done, replies) = channel(size);
        let mut workers = JoinSet::new();
        let jobs = (0..size).map(|number| {
            let (sender, jobs) = channel(1);
            let worker = Worker {
                authority: authority.to_owned(),
                clock,
                number,
                connection: None,
            };
            workers.spawn(worker.run(jobs, done.clone()));
            sender
        });
        Self {
            jobs: jobs.collect(),
            idle: (0..size).rev().collect(),
            replies,
            _workers: workers,
        }
    }

    /// Whether a connection is free.
    pub fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Hands a job to a free connection, the one that was used last.
    ///
    /// # Panics
    /// No connection is free.
    pub fn send(&mut self, job: Job<T>) {
        let worker = self
            .idle
            .pop()
            .expect("the caller asked whether a connection is free");
        let handed = self.jobs[worker].try_send(job);
        assert!(
            handed.is_ok(),
            "a free worker has an empty channel and lives as long as the pool"
        );
    }

    /// The next reply. Waits for ever where no request is under way.
    ///
    /// # Panics
    /// Every worker has died.
    pub async fn reply(&mut self) -> Reply<T> {
        let reply = self
            .replies
            .recv()
            .await
            .expect("workers live as long as the pool");
        self.idle.push(reply.worker);
        reply
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    closed: bool,
}

/// What came of trying to use a connection.
enum Exchanged {
    Answered(Answer),
    NotSent(Box<Request<Full<Bytes>>>, String),
    Lost(String),
}

struct Worker {
    authority: String,
    clock: Clock,
    number: usize,
    connection: Option<Connection>,
}

impl Worker {
    async fn run<T>(mut self, mut jobs: Receiver<Job<T>>, replies: Sender<Reply<T>>) {
        while let Some(job) = self.next(&mut jobs).await {
            let sent = self.clock.now();
            let result = match job.manner {
                Manner::Read => self.ask(job.request).await,
                manner @ (Manner::CutAtOnce | Manner::CutWhenAnswered) => {
                    self.lose(bare(&job.request), manner).await
                }
            };
            let done = self.clock.now();
            let reply = Reply {
                tag: job.tag,
                sent,
                done,
                result,
                worker: self.number,
            };
            if replies.send(reply).await.is_err() {
                return;
            }
        }
    }

    /// The next job; meanwhile a connection that the server closes is let go.
    async fn next<T>(&mut self, jobs: &mut Receiver<Job<T>>) -> Option<Job<T>> {
        if let Some(connection) = &mut self.connection {
            tokio::select! {
                biased;
                job = jobs.recv() => return job,
                _ = &mut connection.driver => self.connection = None,
            }
        }
        jobs.recv().await
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Trouble> {
        let mut request = request;
        let mut why = String::new();
        // The second try is for a kept connection that turned out to be closed.
        for _ in 0..2 {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect().await.map_err(Trouble::NotSent)?,
            };
            let exchanged = timeout(ANSWER_MS_MAX, connection.exchange(request)).await;
            match exchanged.unwrap_or_else(|_| Exchanged::Lost("no answer in time".to_owned())) {
                Exchanged::Answered(answer) => {
                    self.connection = Some(connection).filter(|connection| !connection.closed);
                    return Ok(answer);
                }
                Exchanged::Lost(why) => return Err(Trouble::Lost(why)),
                Exchanged::NotSent(back, text) => (request, why) = (*back, text),
            }
        }
        Err(Trouble::NotSent(why))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = self.stream().await?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
        Ok(Connection {
            sender,
            driver: Box::pin(driver),
            closed: false,
        })
    }

    async fn stream(&self) -> Result<TcpStream, String> {
        let connecting = timeout(CONNECT_MS_MAX, TcpStream::connect(&self.authority));
        let stream = connecting.await.map_err(said)?.map_err(said)?;
        stream.set_nodelay(true).map_err(said)?;
        Ok(stream)
    }

    /// Writes the request on a connection of its own and hangs up without reading.
    async fn lose(&self, request: Vec<u8>, manner: Manner) -> Result<Answer, Trouble> {
        let mut stream = self.stream().await.map_err(Trouble::NotSent)?;
        let written = stream.write_all(&request).await;
        if written.is_ok() && manner == Manner::CutWhenAnswered {
            // Readable or not in time: either way nobody reads it.
            drop(timeout(LINGER, stream.readable()).await);
        }
        Err(Trouble::Lost("lost on purpose".to_owned()))
    }
}

impl Connection {
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Exchanged {
        let exchange = exchange(&mut self.sender, request);
        tokio::pin!(exchange);
        tokio::select! {
            biased;
            exchanged = &mut exchange => return exchanged,
            _ = &mut self.driver => self.closed = true,
        }
        exchange.await
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Exchanged {
    if let Err(error) = sender.ready().await {
        return Exchanged::NotSent(Box::new(request), said(error));
    }
    let response = match sender.try_send_request(request).await {
        Ok(response) => response,
        Err(mut error) => {
            let back = error.take_message();
            let why = said(error.into_error());
            return match back {
                Some(request) => Exchanged::NotSent(Box::new(request), why),
                None => Exchanged::Lost(why),
            };
        }
    };
    let (parts, body) = response.into_parts();
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Exchanged::Answered(Answer::new(
            parts.status.as_u16(),
            &parts.headers,
            body.to_bytes(),
        )),
        Err(error) => Exchanged::Lost(error.to_string()),
    }
}

/// A request without a body as it stands on the wire.
fn bare<B>(request: &Request<B>) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"content-length: 0\r\n\r\n");
    text
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_request_is_plain_http() {
        let request = Request::post("/v1/shows/s/join")
            .header("host", "h:1")
            .body(())
            .unwrap();
        let text = String::from_utf8(bare(&request)).unwrap();
        assert_eq!(
            text,
            "POST /v1/shows/s/join HTTP/1.1\r\nhost: h:1\r\ncontent-length: 0\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn nobody_there_means_not_sent() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let mut pool = Pool::start(&format!("127.0.0.1:{port}"), Clock::start(), 1);
        let request = Request::get("/").body(Full::default()).unwrap();
        pool.send(Job {
            tag: 7,
            request,
            manner: Manner::Read,
        });
        assert!(!pool.has_idle());
        let reply = pool.reply().await;
        assert!(
            matches!(reply.result, Err(Trouble::NotSent(_))),
            "{:?}",
            reply.result
        );
        assert!(pool.has_idle() && reply.tag == 7 && reply.sent <= reply.done);
    }
}
