//! Connections to an upstream, each driven by the request that uses it.
//!
//! ```text
//! ask ── one that is kept, or a new one ── write, wait, read the head ──┬─ all is read: keep it
//!                                                                       └─ a task reads the rest
//! ```
//!
//! A connection that has a task of its own costs every request two turns of that task and the waking of
//! both. So whoever asks drives the connection, until the head of the answer is there. A short answer has
//! come with its head, and the connection is free again. Where something is left to be read or sent, it
//! gets a task for as long as that takes: neither waits for the other then.
//!
//! Nobody looks at a connection that is kept. Before a request is written the connection is read, and one
//! that has been closed meanwhile, or has said something unasked, gives the request back.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::gateway::reach::{Apart, Reach, Stream};
use crate::gateway::sending::Sending;

/// How long an unused connection to an upstream is kept: shorter than servers keep theirs, so that
/// no request is sent into a connection that is being closed.
const IDLE_MAX: Duration = Duration::from_secs(15);
/// Unused connections kept for an upstream.
const KEPT_MAX: usize = 256;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no connection.
    Apart(Apart),
    /// The connection failed with the request on it.
    Broken(hyper::Error),
}

/// The connections to one upstream.
#[derive(Debug)]
pub(crate) struct Pool {
    reach: Reach,
    kept: Mutex<Kept>,
    /// What is left of answers, and the sweep.
    tasks: TaskTracker,
}

/// Connections that nobody uses; the one that was used last is at the end.
#[derive(Debug, Default)]
struct Kept {
    links: VecDeque<(Box<Link>, Instant)>,
    /// Whether somebody sees to it that none is kept too long.
    is_swept: bool,
}

impl Pool {
    /// No connections yet.
    pub(crate) fn new(reach: Reach) -> Arc<Self> {
        Arc::new(Self {
            reach,
            kept: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Sends a request, whose target is a path, and returns the answer once its head is there. A request
    /// of which nothing was written, for the connection had been closed, goes to the next.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) async fn ask(
        self: &Arc<Self>,
        mut request: Request<Sending>,
    ) -> Result<Response<Incoming>, Failure> {
        while let Some(mut link) = self.take() {
            match link.ask(request).await {
                Ok(response) => {
                    self.after(link);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::Broken(error.into_error())),
                },
            }
        }
        let mut link = self.connect().await?;
        let asked = link.ask(request).await;
        let response = asked.map_err(|error| Failure::Broken(error.into_error()))?;
        self.after(link);
        Ok(response)
    }

    async fn connect(&self) -> Result<Box<Link>, Failure> {
        let stream = self.reach.connect().await.map_err(Failure::Apart)?;
        let (requests, talk) = handshake(stream).await.map_err(Failure::Broken)?;
        Ok(Box::new(Link {
            requests,
            talk: Some(talk),
        }))
    }

    /// A connection that is kept, and not for too long.
    fn take(&self) -> Option<Box<Link>> {
        let mut kept = self.kept();
        let (link, since) = kept.links.pop_back()?;
        if since.elapsed() < IDLE_MAX {
            return Some(link);
        }
        kept.links.clear(); // they are older still
        None
    }

    /// What becomes of a connection when the head of an answer is there.
    fn after(self: &Arc<Self>, mut link: Box<Link>) {
        if link.requests.is_ready() {
            self.keep(link);
        } else if link.talk.is_some() {
            let pool = Arc::clone(self);
            self.tasks.spawn(async move {
                if link.is_free_again().await {
                    pool.keep(link);
                }
            });
        }
    }

    fn keep(self: &Arc<Self>, link: Box<Link>) {
        let now = Instant::now();
        let mut kept = self.kept();
        if kept.links.len() < KEPT_MAX {
            kept.links.push_back((link, now));
        }
        if !std::mem::replace(&mut kept.is_swept, true) {
            let pool = Arc::clone(self);
            self.tasks.spawn(async move { pool.sweep().await });
        }
    }

    /// Closes what is kept too long, until nothing is kept.
    async fn sweep(&self) {
        while let Some(oldest) = self.oldest() {
            sleep_until(oldest + IDLE_MAX).await;
        }
    }

    /// Since when the oldest of those connections is kept that are not kept too long. With none there is
    /// nothing to sweep.
    fn oldest(&self) -> Option<Instant> {
        let mut kept = self.kept();
        while let Some((_, since)) = kept.links.front() {
            if since.elapsed() < IDLE_MAX {
                return Some(*since);
            }
            kept.links.pop_front();
        }
        kept.is_swept = false;
        None
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection: where requests are put, and what carries them, until it ends.
#[derive(Debug)]
struct Link {
    requests: SendRequest<Sending>,
    talk: Option<Connection<Stream, Sending>>,
}

impl Link {
    async fn ask(
        &mut self,
        request: Request<Sending>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Sending>>> {
        let mut answer = pin!(self.requests.try_send_request(request));
        poll_fn(|cx| {
            drive(&mut self.talk, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Goes on until another request can be sent. False where the connection ends before.
    async fn is_free_again(&mut self) -> bool {
        poll_fn(|cx| {
            drive(&mut self.talk, cx);
            self.requests.poll_ready(cx).map(|ready| ready.is_ok())
        })
        .await
    }
}

/// Carries on. A connection that has ended is dropped, which tells whoever waits for it.
fn drive(talk: &mut Option<Connection<Stream, Sending>>, cx: &mut Context<'_>) {
    if let Some(going) = talk
        && Pin::new(going).poll(cx).is_ready()
    {
        *talk = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstreams::{Gate, Upstream as Shop};
    use crate::http::body::Bounded;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    struct Upstream(TcpListener);

    impl Upstream {
        async fn with_pool() -> (Self, Arc<Pool>) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let shop = Shop::new(url.parse().unwrap(), Gate::Open);
            let reach = Reach::new(&shop, Duration::from_secs(1)).unwrap();
            (Self(listener), Pool::new(reach))
        }

        async fn accept(&self) -> TcpStream {
            self.0.accept().await.unwrap().0
        }

        /// Until the runtime knows whatever has come on any connection before.
        async fn turn(&self) {
            let connecting = TcpStream::connect(self.0.local_addr().unwrap());
            let (connected, _) = tokio::join!(connecting, self.accept());
            connected.unwrap();
        }
    }

    /// Reads one head, and says something.
    async fn answer(stream: &mut TcpStream, says: &str) {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
        }
        stream.write_all(says.as_bytes()).await.unwrap();
    }

    async fn post(pool: &Arc<Pool>) -> Result<Response<Incoming>, Failure> {
        let body = Bounded::new(Body::empty(), Duration::from_secs(1));
        let request = Request::post("/").body(Sending::new(body).0).unwrap();
        pool.ask(request).await
    }

    async fn text(answered: Result<Response<Incoming>, Failure>) -> String {
        let body = answered.unwrap().into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().into()).unwrap()
    }

    /// Until so many connections are kept.
    async fn keeps(pool: &Pool, count: usize) {
        while pool.kept().links.len() != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_when_all_of_an_answer_is_read() {
        let (upstream, pool) = Upstream::with_pool().await;
        let serving = async {
            let mut stream = upstream.accept().await;
            answer(&mut stream, SHORT).await;
            answer(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfo",
            )
            .await;
            stream
        };
        let (answered, mut stream) = tokio::join!(
            async {
                assert_eq!(text(post(&pool).await).await, "ok");
                keeps(&pool, 1).await;
                post(&pool).await
            },
            serving
        );
        keeps(&pool, 0).await;
        let (whole, ()) = tokio::join!(text(answered), async {
            stream.write_all(b"ur").await.unwrap();
        });
        assert_eq!(whole, "four");
        keeps(&pool, 1).await;
        let (whole, ()) = tokio::join!(async { text(post(&pool).await).await }, async {
            answer(&mut stream, SHORT).await;
        });
        assert_eq!(whole, "ok");
    }

    /// Even one that must not be sent twice: nothing of it was written.
    #[tokio::test]
    async fn a_request_goes_to_another_connection_when_the_kept_one_is_not_good_any_more() {
        for unasked in ["", SHORT] {
            let (upstream, pool) = Upstream::with_pool().await;
            let (_, mut first) = tokio::join!(async { text(post(&pool).await).await }, async {
                let mut stream = upstream.accept().await;
                answer(&mut stream, SHORT).await;
                stream
            });
            keeps(&pool, 1).await;
            first.write_all(unasked.as_bytes()).await.unwrap();
            if unasked.is_empty() {
                drop(first);
            }
            upstream.turn().await;
            let other = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother";
            let (whole, ()) = tokio::join!(async { text(post(&pool).await).await }, async {
                answer(&mut upstream.accept().await, other).await;
            });
            assert_eq!(whole, "other", "{unasked:?}");
        }
    }

    #[tokio::test]
    async fn nothing_is_kept_for_long() {
        let (upstream, pool) = Upstream::with_pool().await;
        let (_, mut stream) = tokio::join!(async { text(post(&pool).await).await }, async {
            let mut stream = upstream.accept().await;
            answer(&mut stream, SHORT).await;
            stream
        });
        keeps(&pool, 1).await;
        tokio::time::pause();
        tokio::time::advance(IDLE_MAX - Duration::from_millis(1)).await;
        keeps(&pool, 1).await;
        tokio::time::advance(Duration::from_millis(2)).await;
        keeps(&pool, 0).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is closed");
    }

    #[tokio::test]
    async fn who_is_not_there_cannot_be_reached() {
        let (upstream, pool) = Upstream::with_pool().await;
        drop(upstream);
        assert!(matches!(
            post(&pool).await,
            Err(Failure::Apart(Apart::Unreachable(_)))
        ));
    }
}
