//! The request of a step. [pure]

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use http::request::Builder;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::crowd::fan::{Fan, FanNo, Probe, Step};
use crate::crowd::plan::{Card, mix};
use crate::crowd::world::World;

/// A ticket as a stranger might make one up: well-formed, signed by nobody.
const FORGED: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6ImFkbWlzc2lvbitqd3QiLCJraWQiOiIxIn0.\
eyJpc3MiOiJjYXRyYWNhIiwic3ViIjoiMDAiLCJqdGkiOiIwMCIsImV4cCI6NDEwMjQ0NDgwMH0.\
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Which key a fan repeats a request with.
#[derive(Debug, Clone, Copy)]
enum Key {
    Join = 101,
    Order,
    /// The first hold; each further try has the next.
    Hold = 200,
}

/// The request for a step of a fan.
pub fn request(world: &World, fan_no: FanNo, fan: &Fan, step: Step) -> Request<Full<Bytes>> {
    let ask = Ask { world, fan_no, fan };
    match step {
        Step::Board | Step::ReadBoard => board(world),
        Step::Join | Step::Twin | Step::Retry => ask.join(),
        Step::Refresh => ask.empty(ask.with_pass(ask.to(Method::POST, "join"))),
        Step::Status | Step::Recheck if fan.is_plain() => ask.place_page(),
        Step::Status | Step::Recheck => ask.status(),
        Step::Page => ask.empty(ask.page(Method::GET, "")),
        Step::Form => ask.form("/join"),
        Step::Probe(probe) => ask.probe(probe),
        Step::Hold => ask.hold(),
        Step::Order | Step::OrderAgain => ask.order(),
        Step::Read => {
            let path = format!("orders/{}", ask.order_id());
            ask.empty(ask.with_ticket(ask.to(Method::GET, &path)))
        }
        Step::Pay => {
            let path = format!("orders/{}/payment", ask.order_id());
            ask.json(
                ask.with_ticket(ask.to(Method::POST, &path)),
                &json!({"token": "approve"}),
            )
        }
        Step::Leave if fan.is_plain() => ask.form("/leave"),
        Step::Leave => ask.empty(ask.with_pass(ask.to(Method::DELETE, "place"))),
    }
}

/// The board, read once for all.
pub fn board(world: &World) -> Request<Full<Bytes>> {
    let path = format!("/v1/shows/{}/board", world.settings.show);
    let builder = start(world, Method::GET, &path, FanNo::MAX);
    builder
        .body(Full::default())
        .expect("made of checked parts")
}

/// The address of a fan: nobody else's in the crowd.
fn address(fan_no: FanNo) -> String {
    let [_, b, c, d] = fan_no.wrapping_add(1).to_be_bytes();
    format!("10.{b}.{c}.{d}")
}

fn start(world: &World, method: Method, path: &str, fan_no: FanNo) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, &world.settings.authority)
        .header("x-forwarded-for", address(fan_no))
}

struct Ask<'a> {
    world: &'a World,
    fan_no: FanNo,
    fan: &'a Fan,
}

impl Ask<'_> {
    fn to(&self, method: Method, tail: &str) -> Builder {
        let path = format!("/v1/shows/{}/{tail}", self.world.settings.show);
        start(self.world, method, &path, self.fan_no).header(ACCEPT, "application/json")
    }

    fn page(&self, method: Method, tail: &str) -> Builder {
        let path = format!("/w/{}{tail}", self.world.settings.show);
        let builder = start(self.world, method, &path, self.fan_no).header(ACCEPT, "text/html");
        builder.header("accept-language", self.fan.plan.locale.tag())
    }

    fn empty(&self, builder: Builder) -> Request<Full<Bytes>> {
        builder
            .body(Full::default())
            .expect("made of checked parts")
    }

    fn json(&self, builder: Builder, body: &Value) -> Request<Full<Bytes>> {
        let builder = builder.header(CONTENT_TYPE, "application/json");
        builder
            .body(Full::from(body.to_string()))
            .expect("made of checked parts")
    }

    /// The pass in a header, or in the cookie for fans who have only that.
    fn with_pass(&self, builder: Builder) -> Builder {
        let Some(pass) = self.fan.pass.as_deref() else {
            return builder;
        };
        if self.fan.is_plain() {
            return builder.header(COOKIE, format!("{}={pass}", self.world.cookies.pass));
        }
        builder.header("x-catraca-pass", pass)
    }

    fn with_ticket(&self, builder: Builder) -> Builder {
        let ticket = self.fan.turn.as_ref().map(|turn| &*turn.ticket);
        let (Some(ticket), Some(pass)) = (ticket, self.fan.pass.as_deref()) else {
            return self.with_pass(builder);
        };
        if self.fan.is_plain() {
            let names = &self.world.cookies;
            return builder.header(
                COOKIE,
                format!("{}={pass}; {}={ticket}", names.pass, names.ticket),
            );
        }
        self.with_pass(builder).header("x-admission-ticket", ticket)
    }

    fn key(&self, key: Key, tries: u8) -> String {
        let (seed, topic) = (self.world.salt, key as u64 + u64::from(tries));
        format!(
            "{:016x}{:016x}",
            mix(seed, self.fan_no, topic),
            mix(!seed, self.fan_no, topic)
        )
    }

    fn join(&self) -> Request<Full<Bytes>> {
        self.empty(
            self.to(Method::POST, "join")
                .header("idempotency-key", self.key(Key::Join, 0)),
        )
    }

    fn status(&self) -> Request<Full<Bytes>> {
        let serving = self.world.board.serving();
        self.empty(self.with_pass(self.to(Method::GET, &format!("status?serving={serving}"))))
    }

    fn place_page(&self) -> Request<Full<Bytes>> {
        self.empty(self.with_pass(self.page(Method::GET, "/place")))
    }

    fn form(&self, tail: &str) -> Request<Full<Bytes>> {
        let origin = format!("http://{}", self.world.settings.authority);
        let builder = self
            .with_pass(self.page(Method::POST, tail))
            .header(ORIGIN, origin);
        self.empty(builder.header(CONTENT_TYPE, "application/x-www-form-urlencoded"))
    }

    fn hold(&self) -> Request<Full<Bytes>> {
        let turn = self.fan.turn.as_ref();
        let (seats, tries) = turn.map_or((1, 0), |turn| (turn.seats, turn.tries));
        let body = json!({"section": self.section(tries), "quantity": seats});
        let builder = self.with_ticket(self.to(Method::POST, "holds"));
        self.json(
            builder.header("idempotency-key", self.key(Key::Hold, tries)),
            &body,
        )
    }

    /// The section asked for first, then the next ones around.
    fn section(&self, tries: u8) -> &str {
        let sections = &self.world.settings.sections;
        &sections[(usize::from(self.fan.plan.section) + usize::from(tries)) % sections.len()]
    }

    fn order(&self) -> Request<Full<Bytes>> {
        let hold = self.fan.turn.as_ref().and_then(|turn| turn.hold.as_ref());
        let hold_id = hold.map_or("", |hold| &*hold.hold_id);
        let card = match self.fan.plan.card {
            Card::Good => "approve",
            Card::Slow => "slow",
            Card::Declined => "decline",
        };
        let body = json!({
            "hold_id": hold_id,
            "customer": {
                "email": format!("fan-{}@example.com", self.fan_no),
                "locale": self.fan.plan.locale.tag(),
            },
            "payment": {"token": card},
        });
        let builder = self.with_ticket(self.to(Method::POST, "orders"));
        self.json(
            builder.header("idempotency-key", self.key(Key::Order, 0)),
            &body,
        )
    }

    fn order_id(&self) -> &str {
        let order = self.fan.turn.as_ref().and_then(|turn| turn.order.as_ref());
        order.map_or("", |order| &*order.order_id)
    }

    fn probe(&self, probe: Probe) -> Request<Full<Bytes>> {
        let hold = json!({"section": self.section(0), "quantity": 1});
        let to_holds = self.with_pass(self.to(Method::POST, "holds"));
        match probe {
            Probe::Missing => self.json(to_holds, &hold),
            Probe::Forged => self.json(to_holds.header("x-admission-ticket", FORGED), &hold),
            Probe::Foreign => {
                let foreign = self.world.foreign_ticket.as_deref().unwrap_or(FORGED);
                self.json(to_holds.header("x-admission-ticket", foreign), &hold)
            }
            Probe::OrderWithout => {
                let body = json!({
                    "hold_id": "01958c5e-7a00-7000-8000-000000000000",
                    "customer": {"email": "nobody@example.com", "locale": "en"},
                });
                self.json(self.with_pass(self.to(Method::POST, "orders")), &body)
            }
        }
    }
}
