//! A stage for the pages: the API as each scenario plays it, and a frame for every page.
//!
//! A show is called `<scenario>--<language>`. Its first board is open and lets the fan join; from the
//! second on it is the scenario's. One document frames all pages and sends back what each one says,
//! so that one start of the browser shows them all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{delete, get, post};
use catraca::base::ids::Edition;
use catraca::base::secret::Secret;
use catraca::base::time::Timestamp;
use catraca::gateway::page::{CONTENT_SECURITY_POLICY, Language, Site};
use catraca::token::challenge::Challenge;
use catraca::token::keyring::KeyRing;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY as CSP, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::e2e::page::scenarios::{self, PLACE, Scenario};

/// How long the frames may take, the start of the browser included.
const PLAY_TAKES_MAX: Duration = Duration::from_secs(90);

/// What a test asks of the stage afterwards.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) address: String,
    asked: watch::Receiver<Counts>,
    collected: watch::Receiver<Vec<Value>>,
}

/// Requests by show and act.
type Counts = BTreeMap<(String, &'static str), u32>;

#[derive(Clone)]
struct Playing {
    site: Arc<Site>,
    frames: Arc<Vec<String>>,
    asked: Arc<watch::Sender<Counts>>,
    collected: watch::Sender<Vec<Value>>,
}

impl Stage {
    /// Opens a stage whose `/frames` frames these addresses.
    pub(crate) async fn open(frames: Vec<String>) -> Self {
        let (asked, counts) = watch::channel(Counts::new());
        let (sender, collected) = watch::channel(Vec::new());
        let playing = Playing {
            site: Arc::new(Site::new()),
            frames: Arc::new(frames),
            asked: Arc::new(asked),
            collected: sender,
        };
        let router = Router::new()
            .route("/w/assets/{name}", get(asset))
            .route("/w/{show}", get(waiting_page))
            .route("/w/{show}/place", get(place_page))
            .route("/v1/shows/{show}/board", get(board))
            .route("/v1/shows/{show}/join", post(join))
            .route("/v1/shows/{show}/status", get(status))
            .route("/v1/shows/{show}/place", delete(leave))
            .route("/frames", get(all_frames))
            .route("/collected", post(collect))
            .route("/picture/{width}/{show}/{lang}", get(picture))
            .route("/settled/{show}", get(settled))
            .with_state(playing);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            asked: counts,
            collected,
        }
    }

    /// What the framed pages say once they have played, in the order of the frames.
    pub(crate) async fn collected(&mut self) -> Vec<Value> {
        let collected = self.collected.wait_for(|pages| !pages.is_empty());
        let pages = tokio::time::timeout(PLAY_TAKES_MAX, collected).await;
        pages
            .expect("the frames send what they say")
            .unwrap()
            .clone()
    }

    /// How often a show was asked for something.
    pub(crate) fn asked(&self, show: &str, act: &'static str) -> u32 {
        count(&self.asked.borrow(), show, act)
    }
}

impl Playing {
    /// Counts a request; the first is 1.
    fn hear(&self, show: &str, act: &'static str) -> u32 {
        self.asked.send_modify(|counts| {
            *counts.entry((show.to_owned(), act)).or_default() += 1;
        });
        count(&self.asked.borrow(), show, act)
    }
}

fn count(counts: &Counts, show: &str, act: &'static str) -> u32 {
    counts.get(&(show.to_owned(), act)).copied().unwrap_or(0)
}

fn scenario(show: &str) -> Scenario {
    let name = show.split("--").next().unwrap();
    let found = scenarios::all()
        .into_iter()
        .find(|scenario| scenario.name == name);
    found.unwrap_or_else(|| scenarios::all().swap_remove(0))
}

/// Both pages under the policy of the gateway; only framing is open here, to this stage.
fn page(body: impl IntoResponse) -> Response {
    let policy =
        CONTENT_SECURITY_POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'");
    (
        [
            (CSP, policy),
            (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        ],
        body,
    )
        .into_response()
}

async fn waiting_page(State(playing): State<Playing>, Path(show): Path<String>) -> Response {
    page(playing.site.waiting_page(&show.parse().unwrap()))
}

async fn place_page(
    State(playing): State<Playing>,
    Path(show): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let language = Language::choose(query.get("lang").map(String::as_str), None);
    let mut view = scenarios::view(&show, language);
    (scenario(&show).view)(&mut view);
    page(playing.site.place_page(&view))
}

async fn asset(State(playing): State<Playing>, Path(name): Path<String>) -> Response {
    match playing.site.asset(&name) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(asset) => {
            let headers = [
                (CONTENT_TYPE, asset.content_type),
                (CACHE_CONTROL, asset.cache_control),
            ];
            (headers, asset.bytes).into_response()
        }
    }
}

async fn board(State(playing): State<Playing>, Path(show): Path<String>) -> Response {
    let mut board = scenarios::board(&show);
    if playing.hear(&show, "board") == 1 {
        board["serving"] = json!(0);
        board["draw"] = draw(&show);
        if let Some(draw) = board["draw"].as_object_mut() {
            draw.remove("seed");
        }
    } else {
        board["draw"] = draw(&show);
        for (member, value) in scenario(&show).board.as_object().unwrap() {
            board[member] = value.clone();
        }
    }
    axum::Json(board).into_response()
}

/// What the show's boards say of its draw.
fn draw(show: &str) -> Value {
    let scenario = scenario(show);
    if scenario.name == "drawn" {
        return scenarios::held(show);
    }
    scenario.board["draw"].clone()
}

async fn join(
    State(playing): State<Playing>,
    Path(show): Path<String>,
    headers: HeaderMap,
) -> Response {
    playing.hear(&show, "join");
    if show.contains("challenged") && !has_proof(&show, &headers) {
        let challenge = asked(&show).sign(&keys(), rand::random());
        let problem = json!({"type": "urn:catraca:problem:challenge-required", "status": 429,
            "title": "Too many requests.", "challenge": challenge});
        let headers = [
            (CONTENT_TYPE, "application/problem+json"),
            (RETRY_AFTER, "60"),
        ];
        let answer = (StatusCode::TOO_MANY_REQUESTS, headers, problem.to_string());
        return answer.into_response();
    }
    let key = headers["idempotency-key"].to_str().unwrap();
    assert!((22..=64).contains(&key.len()), "{key}");
    let place = draw(&show).is_null().then_some(PLACE);
    let joined = json!({"show": show, "fan": "f", "number": PLACE, "place": place,
        "position": place, "state": "waiting", "eta": null, "poll_after_ms": 5000, "pass": "P"});
    (StatusCode::CREATED, axum::Json(joined)).into_response()
}

fn keys() -> KeyRing {
    KeyRing::new(&Secret::new("s".repeat(40)), "k1", &[]).unwrap()
}

/// What a show that challenges asks for.
fn asked(show: &str) -> Challenge {
    Challenge {
        show: show.parse().unwrap(),
        edition: Edition(1),
        level: 2,
        until: Timestamp::from_unix_ms(2),
    }
}

/// Whether a join shows the answer. One that is wrong fails the test.
fn has_proof(show: &str, headers: &HeaderMap) -> bool {
    let Some(proof) = headers.get("x-catraca-proof") else {
        return false;
    };
    let (show, now) = (show.parse().unwrap(), Timestamp::from_unix_ms(1));
    Challenge::check(proof.to_str().unwrap(), (&show, Edition(1)), now, &keys()).unwrap();
    true
}

async fn status(
    State(playing): State<Playing>,
    Path(show): Path<String>,
    headers: HeaderMap,
) -> Response {
    playing.hear(&show, "status");
    assert_eq!(headers["x-catraca-pass"], "P");
    axum::Json(scenario(&show).status).into_response()
}

async fn leave(State(playing): State<Playing>, Path(show): Path<String>) -> StatusCode {
    playing.hear(&show, "leave");
    StatusCode::NO_CONTENT
}

async fn collect(State(playing): State<Playing>, body: String) {
    let pages = serde_json::from_str(&body).unwrap();
    playing.collected.send_replace(pages);
}

/// Frames every page; the script plays them.
async fn all_frames(State(playing): State<Playing>) -> Html<String> {
    let frames: String = playing
        .frames
        .iter()
        .map(|address| format!(r#"<iframe src="{address}"></iframe>"#))
        .collect();
    let script = include_str!("look.js");
    Html(format!(
        "<!doctype html><title>Stage</title>{frames}<script>{script}</script>"
    ))
}

/// One page in a frame of this width. The document is loaded, and its picture taken, once the page
/// has painted its scenario.
async fn picture(Path((width, show, lang)): Path<(u32, String, String)>) -> Html<String> {
    Html(format!(
        r#"<!doctype html><meta name="color-scheme" content="light dark"><body style="margin: 0">
        <iframe style="width: {width}px; height: 100vh; border: 0" src="/w/{show}?lang={lang}">
        </iframe><img src="/settled/{show}" alt="">"#
    ))
}

/// Answers when the page asks for its third board: the second was the scenario's.
async fn settled(State(playing): State<Playing>, Path(show): Path<String>) -> StatusCode {
    let mut asked = playing.asked.subscribe();
    let settled = asked.wait_for(|counts| 3 <= count(counts, &show, "board"));
    let settled = tokio::time::timeout(PLAY_TAKES_MAX, settled).await;
    settled.expect("the page asks for boards").unwrap();
    StatusCode::NO_CONTENT
}
