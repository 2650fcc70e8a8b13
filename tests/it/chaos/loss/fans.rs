//! The fans of a sale that is lost: one kind for each way a fan can stand, and each with a way of
//! their own to ask how they stand. What they are told they write down.

use std::time::Duration;

use catraca::base::ids::{FanId, Number};
use catraca::base::time::{Clock, SystemClock};
use catraca::room::model::command::{AfterRevoke, Claimed, Consumed, Extended, Revoked};
use catraca::token::pass::Pass;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chaos::loss::place::{Place, SHOW, show, within};

/// How a fan stands when the data is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Waiting,
    Left,
    /// Gives up at the very moment of the loss.
    LeavesLast,
    BoughtHere,
    BoughtElsewhere,
    Expired,
    Unclaimed,
    Returned,
    Revoked,
    Inside,
    OlderEdition,
}

/// How a fan learns of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Polls `status`.
    Poller,
    /// A page: lives on the board, and shows its pass once where the board is of another life.
    Page,
    /// A page in a pocket: comes back when serving has passed.
    Late,
}

/// The columns of the matrix: how many of each, and what they are in the end.
pub(crate) const KINDS: &[(Kind, &[Way], &str)] = {
    use Kind::{
        BoughtElsewhere, BoughtHere, Expired, Inside, LeavesLast, Left, OlderEdition, Returned,
        Revoked, Unclaimed, Waiting,
    };
    use Way::{Late, Page, Poller};
    &[
        (Inside, &[Poller, Page], "admitted"),
        (BoughtHere, &[Poller, Page], "gone: used"),
        (BoughtElsewhere, &[Poller, Page], "gone: used"),
        (Expired, &[Poller, Page], "gone: expired"),
        (Revoked, &[Poller, Page], "gone: revoked"),
        (Unclaimed, &[Late, Late], "admitted"),
        (Returned, &[Poller, Page], "admitted"),
        (
            Waiting,
            &[Poller, Page, Late, Poller, Page, Poller, Page],
            "admitted",
        ),
        (Left, &[Poller, Page], "gone: left"),
        (LeavesLast, &[Late], "gone: left"),
        (OlderEdition, &[Poller], "401"),
    ]
};

/// One fan.
#[derive(Debug)]
pub(crate) struct Fan {
    pub(crate) kind: Kind,
    pub(crate) way: Way,
    pub(crate) expected: &'static str,
    pub(crate) id: FanId,
    pub(crate) number: u64,
    pub(crate) pass: String,
    /// The ids of all tickets they were given.
    pub(crate) tickets: Vec<String>,
    /// How they stand, as they were last told.
    pub(crate) told: String,
    /// The life of the room of which they were told something.
    pub(crate) generation: u64,
    back_at: Option<Instant>,
    asks_at: Instant,
}

/// All of them, and the lines of their history.
#[derive(Debug, Default)]
pub(crate) struct Fans {
    pub(crate) all: Vec<Fan>,
    pub(crate) history: Vec<Value>,
}

impl Fans {
    /// The fans of these kinds join, one after the other.
    async fn join(&mut self, place: &Place, kinds: impl Fn(Kind) -> bool) {
        for (kind, ways, expected) in KINDS.iter().filter(|row| kinds(row.0)) {
            for way in *ways {
                let fan = self.join_one(place, (*kind, *way, *expected)).await;
                self.all.push(fan);
            }
        }
    }

    /// One fan joins; a room that is away is asked again.
    pub(crate) async fn join_one(
        &mut self,
        place: &Place,
        (kind, way, expected): (Kind, Way, &'static str),
    ) -> Fan {
        let fan_no = self.history.len();
        let key = format!("loss-{}-{fan_no:016}", std::process::id());
        let from = format!("10.{}.{}.9", fan_no / 200, fan_no % 200);
        let headers = [
            ("idempotency-key", key.as_str()),
            ("x-forwarded-for", &from),
        ];
        let line = format!("POST /v1/shows/{SHOW}/join");
        let (sent_us, joined) = within("a join is answered", Duration::from_secs(60), async || {
            let sent_us = now_us();
            let (status, joined) = place
                .client
                .try_ask(&line, &headers, &Value::Null)
                .await
                .ok()?;
            if status != 503 {
                assert!(status == 201 || status == 200, "{status}: {joined}");
            }
            status.is_success().then_some((sent_us, joined))
        })
        .await;
        self.history.push(json!({
            "op": "join", "fan_no": fan_no, "show": SHOW, "sent_us": sent_us, "done_us": now_us(),
            "outcome": "ok", "status": 201, "fan": joined["fan"], "number": joined["number"],
        }));
        Fan {
            kind,
            way,
            expected,
            id: joined["fan"].as_str().unwrap().parse().unwrap(),
            number: joined["number"].as_u64().unwrap(),
            pass: joined["pass"].as_str().unwrap().to_owned(),
            tickets: Vec::new(),
            told: String::new(),
            generation: 0,
            back_at: None,
            asks_at: Instant::now(),
        }
    }

    /// Brings every kind of fan to where they stand.
    pub(crate) async fn stand(place: &mut Place) -> Self {
        let mut fans = Self::default();
        let waits = |kind| matches!(kind, Kind::Waiting | Kind::Left | Kind::LeavesLast);
        fans.join(place, |kind| !waits(kind) && kind != Kind::OlderEdition)
            .await;
        let last = fans.all.len() as u64;
        let all_called = async || (last <= place.board().await?.serving.0).then_some(());
        within("all are called", Duration::from_secs(20), all_called).await;
        for fan in &mut fans.all {
            if !matches!(fan.kind, Kind::Unclaimed | Kind::Returned) {
                within("they are inside", Duration::from_secs(20), async || {
                    fan.ask(place).await;
                    (fan.told == "admitted").then_some(())
                })
                .await;
            }
            fan.use_turn(place).await;
        }
        place
            .set(json!({ "capacity": 2, "ticket_ttl_ms": 60_000, "claim_ms": 5_000 }))
            .await;
        // Whoever asks while the slot is kept comes in.
        let all_lapsed = async || (place.board().await?.live == 2).then_some(());
        within("slots lapse", Duration::from_secs(20), all_lapsed).await;
        for fan in &mut fans.all {
            let ends = match fan.kind {
                Kind::Returned => "standby",
                Kind::Expired => "gone: expired",
                _ => continue,
            };
            within("they are told", Duration::from_secs(20), async || {
                fan.ask(place).await;
                (fan.told == ends).then_some(())
            })
            .await;
        }
        fans.join(place, waits).await;
        for fan in &fans.all {
            if fan.kind == Kind::Left {
                fan.leave(place).await;
            }
        }
        let stranger = fans.of_an_older_edition(place);
        fans.all.push(stranger);
        place.copied().await;
        let generation = place.board().await.unwrap().generation.0;
        fans.all
            .iter_mut()
            .for_each(|fan| fan.generation = generation);
        fans
    }

    fn of_an_older_edition(&self, place: &Place) -> Fan {
        let first = &self.all[0];
        let mut pass = Pass::verify(&first.pass, &place.keys).unwrap();
        (pass.edition.0, pass.number) = (0, Number(1));
        Fan {
            kind: Kind::OlderEdition,
            way: Way::Poller,
            expected: "401",
            pass: pass.sign(&place.keys),
            tickets: Vec::new(),
            told: String::new(),
            ..*first
        }
    }

    /// Who leaves at the last moment, leaves.
    pub(crate) async fn leave_last(&self, place: &Place) {
        for fan in &self.all {
            if fan.kind == Kind::LeavesLast {
                place.rooms.leave(&show(), fan.id).await.unwrap();
            }
        }
    }

    /// One round: everybody whose time it is asks in their way. The late only come if they may.
    pub(crate) async fn round(&mut self, place: &Place, late_come: bool) {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let Ok((status, board)) = place.client.try_ask(&line, &[], &Value::Null).await else {
            return; // a gateway was killed
        };
        assert_eq!(status, 200, "the board answers from memory: {board}");
        for fan in &mut self.all {
            let is_time = match fan.way {
                Way::Poller => true,
                Way::Page => fan.page_asks(&board),
                Way::Late => late_come,
            };
            if is_time && fan.asks_at <= Instant::now() {
                fan.asks_at = Instant::now() + Duration::from_millis(700);
                fan.ask(place).await;
            }
        }
    }
}

impl Fan {
    /// Whether a page that sees this board asks `status`.
    fn page_asks(&mut self, board: &Value) -> bool {
        let (generation, serving) = (&board["generation"], board["serving"].as_u64().unwrap());
        let position = self.number.saturating_sub(serving);
        if generation.as_u64() == Some(self.generation) {
            return position == 0;
        }
        let back_at = *self.back_at.get_or_insert_with(|| {
            let jitter_ms = self.number % 10 * 100;
            let per_s = board["poll"]["restore_per_s"].as_u64().unwrap();
            let wait_ms = position * 1_000 / per_s + jitter_ms;
            Instant::now() + Duration::from_millis(wait_ms)
        });
        back_at <= Instant::now()
    }

    /// `GET status`, with the pass. It answers, whatever is away, or says when to ask again.
    pub(crate) async fn ask(&mut self, place: &Place) {
        let line = format!("GET /v1/shows/{SHOW}/status");
        let headers = [("x-catraca-pass", self.pass.as_str())];
        let before = place.board().await.map(|board| board.generation.0);
        let Ok((status, told)) = place.client.try_ask(&line, &headers, &Value::Null).await else {
            return;
        };
        match status.as_u16() {
            200 => {}
            401 => return self.told = "401".to_owned(),
            // Asked too often, or away: later.
            429 | 503 => return,
            other => panic!("{other}: {told}"),
        }
        assert_eq!(told["place"], self.number, "{self:?}: {told}");
        self.told = told["state"].as_str().unwrap().to_owned();
        if let Some(reason) = told["reason"].as_str() {
            self.told = format!("{}: {reason}", self.told);
        }
        if let Some(ticket) = told["ticket"].as_str() {
            self.tickets.push(claim(ticket, "jti"));
        }
        // What the gateway knew is the room's word only where the room answered before.
        if let Some(generation) = before
            && self.generation < generation
            && place.knows(self.id).await
        {
            (self.generation, self.back_at) = (generation, None);
        }
    }

    async fn leave(&self, place: &Place) {
        let line = format!("DELETE /v1/shows/{SHOW}/place");
        let headers = [("x-catraca-pass", self.pass.as_str())];
        let (status, _) = place.client.ask(&line, &headers, &Value::Null).await;
        assert_eq!(status, 204);
    }

    /// What fans of this kind do once they are inside.
    async fn use_turn(&self, place: &Place) {
        let (rooms, show) = (&place.rooms, show());
        match self.kind {
            // As the consumer of confirmed orders says it.
            Kind::BoughtHere => {
                let consumed = rooms.consume(&show, self.id).await.unwrap();
                assert_eq!(consumed, Consumed::Now);
            }
            // As an upstream says it.
            Kind::BoughtElsewhere => self.buy_elsewhere(place).await,
            Kind::Revoked => {
                let fans = vec![self.id];
                let revoked = rooms.revoke(&show, fans, AfterRevoke::Out).await.unwrap();
                assert_eq!(revoked, [Revoked::Now]);
            }
            Kind::Inside => {
                let until = SystemClock.now().plus_ms(600_000);
                let extended = rooms.extend(&show, self.id, until).await.unwrap();
                assert!(matches!(extended, Extended::Until(_)), "{extended:?}");
            }
            Kind::Waiting
            | Kind::Left
            | Kind::LeavesLast
            | Kind::Expired
            | Kind::Unclaimed
            | Kind::Returned
            | Kind::OlderEdition => {}
        }
    }

    async fn buy_elsewhere(&self, place: &Place) {
        place.shop.says(&[("catraca-admission", "consumed")]);
        let status = format!("GET /v1/shows/{SHOW}/status");
        let pass = ("x-catraca-pass", self.pass.as_str());
        let (_, told) = place.client.ask(&status, &[pass], &Value::Null).await;
        let ticket = told["ticket"].as_str().unwrap();
        let line = format!("POST /v1/shows/{SHOW}/orders");
        let headers = [pass, ("x-admission-ticket", ticket)];
        let (status, answer) = place.client.ask(&line, &headers, &json!({})).await;
        assert!(status.is_success(), "{status}: {answer}");
        within("the turn is used", Duration::from_secs(10), async || {
            let claimed = place.rooms.claim(&show(), self.id).await.ok()?;
            matches!(claimed, Claimed::Gone(_)).then_some(())
        })
        .await;
    }
}

impl Place {
    /// Whether the room knows this fan, now that they may have come back.
    async fn knows(&self, fan: FanId) -> bool {
        let claimed = self.rooms.claim(&show(), fan).await;
        claimed.is_ok_and(|claimed| claimed != Claimed::Unknown)
    }
}

/// What a ticket says: `jti` is its own id, `sub` its fan.
pub(crate) fn claim(ticket: &str, name: &str) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = ticket.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims[name].as_str().unwrap().to_owned()
}

fn now_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_micros()).unwrap()
}
