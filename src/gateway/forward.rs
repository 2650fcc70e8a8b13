//! The reverse proxy: one request in, one request out, and one more only where that is safe.
//!
//! Bodies stream both ways within their bounds, trailers with them. A request that cannot have done
//! anything is sent once more when its connection failed: one without a body, by a method that only
//! looks, within the upstream's budget. Protocol upgrades do not pass. `docs/decisions/forwarding.md`
//! says why this is not a library's.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout};

use crate::gateway::care::{Admitted, Care, Way};
use crate::gateway::headers::{sift_trailers, strip_response};
use crate::gateway::outgoing::{Address, Errand, Message};
use crate::gateway::pool::{Failure, Pool};
use crate::gateway::reach::{Apart, Reach};
use crate::gateway::sending::{Progress, Sending};
use crate::gateway::terms::Terms;
use crate::http::body::{BodyError, Bounded, Holding, body_error};
use crate::http::extract::unfinished;
use crate::http::layers;
use crate::http::problem::Problem;
use crate::telemetry::metrics;
use crate::telemetry::traces::Span;

static ADMISSION: HeaderName = HeaderName::from_static("catraca-admission");
static STOCK: HeaderName = HeaderName::from_static("catraca-stock");

/// An upstream as the gateway reaches it.
#[derive(Debug)]
pub(crate) struct Forwarder {
    address: Address,
    pool: Arc<Pool>,
    care: Arc<Care>,
}

/// What an upstream said of admissions and stock, for whoever forwards. Not for clients.
#[derive(Debug)]
pub(crate) struct Said {
    /// `Catraca-Admission`.
    pub(crate) admission: Option<HeaderValue>,
    /// `Catraca-Stock`.
    pub(crate) stock: Option<HeaderValue>,
}

/// Why there is no answer.
#[derive(Debug)]
enum Lost {
    /// The client did not send what it began: the upstream is not to blame.
    Unsent(Problem),
    /// Nothing was sent: nobody was there.
    Unreachable(anyhow::Error),
    /// Nothing was sent: whoever was there was not proved to be the upstream.
    Untrusted(anyhow::Error),
    /// The connection, or the answer, was broken.
    Broken(anyhow::Error),
    /// The upstream had the request and was silent for so long.
    Late(Duration),
}

impl Forwarder {
    /// An upstream at the end of this way.
    pub(crate) fn new(address: Address, care: Arc<Care>, reach: Reach) -> Self {
        Self {
            pool: Pool::new(reach),
            address,
            care,
        }
    }

    /// Whether what it says of admissions and stock is believed.
    pub(crate) fn is_trusted(&self) -> bool {
        self.address.is_trusted
    }

    /// Sends the request on and the answer back, and apart from it what the upstream says of admissions.
    ///
    /// # Errors
    /// 408 and 413 where the body is slow or long, 503 where the upstream cannot be reached or has
    /// enough to do, 504 where it does not answer in time, 502 where its answer is broken or it is not
    /// proved to be there.
    pub(crate) async fn forward(
        &self,
        mut request: Request,
        errand: &Errand<'_>,
        way: &Way,
    ) -> Result<(Response, Said), Problem> {
        let mut span = Span::of_request("gateway", request.headers_mut());
        span.tell("http.request.method", request.method().as_str());
        if let Some(show) = errand.show {
            span.tell("show.id", show.as_str());
        }
        let answered = self.forwarded(request, errand, way).await;
        span.answered(match &answered {
            Ok((answer, _)) => answer.status(),
            Err(problem) => problem.status(),
        });
        answered
    }

    async fn forwarded(
        &self,
        request: Request,
        errand: &Errand<'_>,
        way: &Way,
    ) -> Result<(Response, Said), Problem> {
        let terms = &way.terms;
        if let Some(bytes) = layers::longer_than(terms.body_bytes_max, request.headers()) {
            return Err(layers::too_long(request, bytes).await);
        }
        let place = way.enter()?;
        let mut admitted = self.care.admit().await?;
        let (parts, body) = request.into_parts();
        let message = self.address.message(parts, errand);
        let spare = (message.is_safe() && body.is_end_stream()).then(|| message.clone());
        let since = Instant::now();
        let asked = self.ask(message, body, terms, &mut admitted).await;
        let answered = match (asked, spare) {
            (Err(Lost::Unreachable(_) | Lost::Broken(_)), Some(spare)) if admitted.may_repeat() => {
                let again = self.address.again(spare, errand);
                let left = terms.after(since.elapsed());
                self.ask(again, Body::empty(), &left, &mut admitted).await
            }
            (answered, _) => answered,
        };
        match answered {
            Ok(answer) => {
                admitted.answered(terms.answer_max);
                metrics::forward(class(answer.status()));
                let held = (admitted, place);
                let body = |body| Body::new(Holding::new(passing(body, terms), held));
                let (answer, said) = incoming(answer, errand);
                Ok((answer.map(body), said))
            }
            Err(lost) => Err(lost.told(&mut admitted)),
        }
    }

    async fn ask(
        &self,
        message: Message,
        body: Body,
        terms: &Terms,
        admitted: &mut Admitted,
    ) -> Result<http::Response<Incoming>, Lost> {
        let body = Bounded::new(body, terms.silence_max)
            .at_most(terms.body_bytes_max)
            .with_trailers(sift_trailers);
        let (body, progress) = Sending::new(body);
        let answered = tokio::select! {
            biased;
            answered = self.pool.ask(message.with(body)) => answered.map_err(Lost::from),
            lost = patience(progress.as_deref(), terms) => Err(lost),
        };
        // An answer that came before the request was all there took the upstream no time.
        if let Some(progress) = progress
            && let Some(at) = progress
                .over_at()
                .or_else(|| answered.is_ok().then(Instant::now))
        {
            admitted.sent(at);
        }
        let answered = answered?;
        if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
            let cause = anyhow::anyhow!("upstream switched protocols unasked");
            return Err(Lost::Broken(cause));
        }
        Ok(answered)
    }
}

/// Ends when it is no use to wait any longer: first it is the client who has to send, then the
/// upstream who has to answer.
async fn patience(progress: Option<&Progress>, terms: &Terms) -> Lost {
    if let Some(progress) = progress
        && timeout(terms.request_max, progress.over()).await.is_err()
    {
        return if progress.waits_for_client() {
            Lost::Unsent(unfinished(&BodyError::Silent(terms.request_max)))
        } else {
            Lost::Late(terms.request_max)
        };
    }
    sleep(terms.answer_max).await;
    Lost::Late(terms.answer_max)
}

/// An answer's body: as long as it likes, but not silent for too long.
fn passing(body: Incoming, terms: &Terms) -> Bounded<Incoming> {
    Bounded::new(body, terms.silence_max).with_trailers(sift_trailers)
}

fn incoming(
    response: http::Response<Incoming>,
    errand: &Errand<'_>,
) -> (http::Response<Incoming>, Said) {
    let (mut parts, body) = response.into_parts();
    let said = Said {
        admission: parts.headers.remove(&ADMISSION),
        stock: parts.headers.remove(&STOCK),
    };
    strip_response(&mut parts.headers);
    if errand.entrant.is_some() && !parts.headers.contains_key(CACHE_CONTROL) {
        // What is behind the gate is one fan's; caches that guess by file name must not keep it.
        let no_store = HeaderValue::from_static("no-store");
        parts.headers.insert(CACHE_CONTROL, no_store);
    }
    parts.extensions.clear();
    (http::Response::from_parts(parts, body), said)
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Apart(Apart::Unreachable(cause)) => Self::Unreachable(cause),
            Failure::Apart(Apart::Untrusted(cause)) => Self::Untrusted(cause),
            Failure::Broken(error) => match body_error(&error) {
                Some(cause) => Self::Unsent(unfinished(cause)),
                None => Self::Broken(error.into()),
            },
        }
    }
}

impl Lost {
    /// Tells whom it concerns: the upstream's care, the metrics, and as a problem the client.
    fn told(self, admitted: &mut Admitted) -> Problem {
        match self {
            Self::Unsent(problem) => {
                metrics::forward("unsent");
                problem
            }
            Self::Unreachable(cause) => {
                admitted.failed();
                metrics::forward("unreachable");
                Problem::unavailable("upstream-unavailable").caused_by(cause)
            }
            Self::Untrusted(cause) => {
                admitted.failed();
                metrics::forward("untrusted");
                Problem::new(
                    StatusCode::BAD_GATEWAY,
                    "upstream-untrusted",
                    "The shop could not prove who it is. Nothing was sent to it.",
                )
                .caused_by(cause)
            }
            Self::Broken(cause) => {
                admitted.failed();
                metrics::forward("broken");
                Problem::new(
                    StatusCode::BAD_GATEWAY,
                    "upstream-broken",
                    "The shop's answer got lost. Ask what became of it before you try again.",
                )
                .caused_by(cause)
            }
            Self::Late(after) => {
                admitted.late();
                metrics::forward("timeout");
                Problem::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "upstream-timeout",
                    "The shop did not answer in time. Ask what became of it before you try again.",
                )
                .caused_by(anyhow::anyhow!("upstream did not answer within {after:?}"))
            }
        }
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::IdSource;
    use crate::base::secret::Secret;
    use crate::base::time::SystemClock;
    use crate::gateway::settings::Settings;
    use crate::gateway::upstreams::{Gate, HostSent, Route, Upstream};
    use futures_util::{FutureExt, stream};
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers one request as soon as it is all there.
    async fn answer(upstream: TcpListener) {
        let (mut stream, _) = upstream.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"0\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_client_takes_to_send_is_not_the_upstreams_time() {
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", upstream.local_addr().unwrap());
        let shop = Upstream::new(url.parse().unwrap(), Gate::Open);
        let address = Address {
            authority: shop.authority().unwrap(),
            host: HostSent::Upstream,
            is_trusted: false,
            secret: Secret::new("x"),
            clock: Arc::new(SystemClock),
            ids: Arc::new(IdSource::random()),
        };
        let care = Care::new("shop", 1_000);
        let forwarder = Forwarder::new(
            address,
            Arc::clone(&care),
            Reach::new(&shop, Duration::from_secs(1)).unwrap(),
        );
        let route = Route {
            answer_ms: Some(4_000),
            ..Route::new("/", &["POST"], "shop")
        };
        let way = Way::new(Terms::of(&route, &Settings::default()).unwrap());
        let slow = stream::once(async {
            sleep(Duration::from_millis(1_200)).await; // more than a quarter of what the answer may take
            Ok::<_, Infallible>("all of it")
        });
        let request = Request::post("/").body(Body::from_stream(slow)).unwrap();
        let errand = Errand {
            target: "/",
            show: None,
            entrant: None,
        };
        let others: Vec<_> = (0..150)
            .map(|_| care.admit().now_or_never().unwrap().unwrap())
            .collect();
        let forwarding = forwarder.forward(request, &errand, &way);
        let (answered, ()) = tokio::join!(forwarding, answer(upstream));
        assert_eq!(answered.unwrap().0.status(), StatusCode::OK);
        let more: Vec<_> = std::iter::from_fn(|| care.admit().now_or_never()?.ok()).collect();
        assert_eq!(
            others.len() + more.len(),
            201,
            "it was quick, so it may have more"
        );
    }
}
