//! A waiting room and a shop in a few lines, right or with one flaw: what the crowd is tested against.

mod room;
mod shop;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use loadtest::crowd::clock::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use room::Room;
use shop::Shop;

/// What is wrong with a fake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    SharesNumbers,
    ForgetsNumbers,
    PositionsRise,
    SlotsNeverLapse,
    OpensTheGate,
    ChangesTickets,
    SellsTwice,
    LosesOrders,
    MailsTwice,
    LimitsEverybody,
}

/// A fake, listening.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    serving: AbortHandle,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct State {
    flaw: Flaw,
    clock: Clock,
    rooms: Mutex<(Room, Shop)>,
}

impl Fake {
    /// A show with so many seats that calls fifty fans a second.
    pub(crate) async fn start(flaw: Flaw, seats: usize, mail: PathBuf) -> Self {
        let clock = Clock::start();
        let room = Room::new(flaw, 50, 1_500, clock.now().us() / 1_000);
        let rooms = Mutex::new((room, Shop::new(flaw, seats, mail)));
        let state = Arc::new(State { flaw, clock, rooms });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let serving = tasks.spawn(serve(listener, state.clone()));
        Self {
            address,
            state,
            serving,
            tasks,
        }
    }

    /// Every connection breaks and nobody listens for a while; then it goes on with what it knew.
    pub(crate) async fn restart(&mut self, away: std::time::Duration) {
        self.serving.abort();
        drop(self.tasks.join_next().await);
        tokio::time::sleep(away).await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serving = self.tasks.spawn(serve(listener, self.state.clone()));
    }

    /// How many fans have a number.
    pub(crate) fn issued(&self) -> u64 {
        self.state.rooms.lock().unwrap().0.issued()
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = state.clone();
        let service = hyper::service::service_fn(move |request| answer(state.clone(), request));
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move { drop(connection.await) });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let ask = Ask {
        path: parts
            .uri
            .path()
            .split('/')
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect(),
        method: parts.method,
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        now: state.clock.now().us() / 1_000,
    };
    let mut rooms = state.rooms.lock().unwrap();
    let (room, shop) = &mut *rooms;
    room.tick(ask.now);
    if shop.is_sold_out() && room.sold_out_at.is_none() {
        room.sold_out_at = Some(ask.now);
    }
    Ok(respond(state.flaw, room, shop, &ask))
}

struct Ask {
    path: Vec<String>,
    method: Method,
    headers: HeaderMap,
    body: Value,
    now: u64,
}

impl Ask {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn cookie(&self, name: &str) -> Option<&str> {
        let mut cookies = self.header("cookie")?.split("; ");
        cookies.find_map(|cookie| cookie.strip_prefix(name)?.strip_prefix('='))
    }

    fn fan(&self) -> Option<usize> {
        let pass = self
            .header("x-catraca-pass")
            .or(self.cookie("catraca-pass-s"))?;
        pass.strip_prefix("pass-")?.parse().ok()
    }

    /// The fan whose ticket this is, where the fan asks with it.
    fn ticket_holder(&self) -> Option<usize> {
        let ticket = self
            .header("x-admission-ticket")
            .or(self.cookie("catraca-ticket-s"))?;
        let payload = URL_SAFE_NO_PAD
            .decode(ticket.strip_suffix(".good")?.split('.').nth(1)?)
            .ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let holder = usize::try_from(claims["sub"].as_u64()?).ok()?;
        (self.fan() == Some(holder)).then_some(holder)
    }
}

fn respond(flaw: Flaw, room: &mut Room, shop: &mut Shop, ask: &Ask) -> Response<Full<Bytes>> {
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    let gated = matches!(path[..], ["v1", "shows", "s", "holds" | "orders", ..]);
    let reads = ask.method == Method::GET && ask.fan().is_some();
    let live = ask.ticket_holder().is_some_and(|fan| room.is_inside(fan));
    if gated && !live && !reads && flaw != Flaw::OpensTheGate {
        return json(
            401,
            &json!({"type": "urn:catraca:no-ticket", "status": 401}),
        );
    }
    match (ask.method.as_str(), &path[..]) {
        ("GET", ["v1", "shows", "s", "board"]) => json(200, &board(room, shop)),
        ("POST", ["v1", "shows", "s", "join"]) => join(flaw, room, ask),
        ("GET", ["v1", "shows", "s", "status"]) => match ask.fan() {
            Some(fan) => json(200, &status(flaw, room, fan, ask.now)),
            None => json(401, &Value::Null),
        },
        ("DELETE", ["v1", "shows", "s", "place"]) => {
            ask.fan().into_iter().for_each(|fan| room.leave(fan));
            json(204, &Value::Null)
        }
        ("GET", ["w", "s"]) => html("<form method=post action=/w/s/join>", None),
        ("POST", ["w", "s", "join"]) if room.sold_out_at.is_some() => see_place(None),
        ("POST", ["w", "s", "join"]) => {
            let (fan, _) = room.join(None, ask.fan());
            see_place(Some(fan))
        }
        ("POST", ["w", "s", "leave"]) => {
            ask.fan().into_iter().for_each(|fan| room.leave(fan));
            see_place(None)
        }
        ("GET", ["w", "s", "place"]) => place(flaw, room, ask),
        ("POST", ["v1", "shows", "s", "holds"]) => {
            let quantity = ask.body["quantity"].as_u64().unwrap_or(1);
            answered(shop.hold(usize::try_from(quantity).unwrap()))
        }
        ("POST", ["v1", "shows", "s", "orders"]) => answered(shop.order(&ask.body)),
        ("POST", ["v1", "shows", "s", "orders", id, "payment"]) => answered(shop.pay(id)),
        ("GET", ["v1", "shows", "s", "orders", id]) => answered(shop.read(id)),
        _ => json(
            404,
            &json!({"type": "urn:catraca:not-found", "status": 404}),
        ),
    }
}

fn board(room: &Room, shop: &Shop) -> Value {
    let sold_out_at = room.sold_out_at.map(|ms| {
        jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap())
            .unwrap()
            .to_string()
    });
    json!({
        "show": "s", "state": if sold_out_at.is_some() { "sold_out" } else { "open" },
        "edition": 1, "generation": 1, "serving": room.serving(), "issued": room.issued(),
        "waiting": room.waiting(), "rate": room.rate, "sold_out_at": sold_out_at,
        "stock": {"left": shop.left()},
    })
}

fn join(flaw: Flaw, room: &mut Room, ask: &Ask) -> Response<Full<Bytes>> {
    if flaw == Flaw::LimitsEverybody && ask.now.is_multiple_of(50) {
        let limited = Response::builder().status(429).header("retry-after", "0");
        return limited.body(Full::default()).unwrap();
    }
    if room.sold_out_at.is_some() {
        return json(409, &json!({"type": "urn:catraca:sold_out", "status": 409}));
    }
    let (fan, new) = room.join(ask.header("idempotency-key"), ask.fan());
    let (number, position) = (room.number(fan), room.position(fan));
    json(
        if new { 201 } else { 200 },
        &json!({
            "show": "s", "fan": format!("{fan:032x}"), "number": number, "place": number,
            "position": position, "state": "waiting", "poll_after_ms": 300,
            "eta": {"seconds": position / 50, "low": 0, "high": 20},
            "pass": format!("pass-{fan}"),
        }),
    )
}

fn ticket(flaw: Flaw, fan: usize, until: u64, now: u64) -> String {
    let id = if flaw == Flaw::ChangesTickets { now } else { 0 };
    let claims = json!({"sub": fan, "jti": format!("t-{fan}-{id}"), "exp": until / 1_000});
    format!("h.{}.good", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn status(flaw: Flaw, room: &mut Room, fan: usize, now: u64) -> Value {
    let (state, until) = room.claim(fan, now);
    let mut status = json!({"state": state, "poll_after_ms": 300, "number": room.number(fan)});
    if state == "waiting" {
        status["position"] = json!(room.position(fan));
    }
    if let Some(until) = until {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(until).unwrap()).unwrap();
        status["ticket"] = json!(ticket(flaw, fan, until, now));
        status["ticket_expires_at"] = json!(at.to_string());
    }
    status
}

fn place(flaw: Flaw, room: &mut Room, ask: &Ask) -> Response<Full<Bytes>> {
    let Some(fan) = ask.fan() else {
        let state = if room.sold_out_at.is_some() {
            "sold_out"
        } else {
            "none"
        };
        return html(&format!("<p data-state=\"{state}\">"), None);
    };
    let (state, until) = room.claim(fan, ask.now);
    let number = room.number(fan);
    let page = format!(
        "<meta http-equiv=\"refresh\" content=\"1\"><p data-state=\"{state}\" data-number=\"{number}\">"
    );
    html(&page, until.map(|until| ticket(flaw, fan, until, ask.now)))
}

fn see_place(fan: Option<usize>) -> Response<Full<Bytes>> {
    let mut response = Response::builder()
        .status(303)
        .header("location", "/w/s/place");
    if let Some(fan) = fan {
        let cookie = format!("catraca-pass-s=pass-{fan}; Path=/; HttpOnly");
        response = response.header("set-cookie", cookie);
    }
    response.body(Full::default()).unwrap()
}

fn html(page: &str, ticket: Option<String>) -> Response<Full<Bytes>> {
    let mut response = Response::builder().header("content-type", "text/html");
    if let Some(ticket) = ticket {
        response = response.header("set-cookie", format!("catraca-ticket-s={ticket}; HttpOnly"));
    }
    response.body(Full::from(page.to_owned())).unwrap()
}

fn answered((status, body): (u16, Value)) -> Response<Full<Bytes>> {
    json(status, &body)
}

fn json(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    response.body(Full::from(body)).unwrap()
}
