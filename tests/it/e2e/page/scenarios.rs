//! Every state that a fan can see, twice: as answers of the API for the page with scripts, and as
//! facts for the page without.

use catraca::base::ids::{Commitment, DrawSecret, Number, Place, ShowId};
use catraca::base::time::Timestamp;
use catraca::gateway::page::{DrawView, Language, PlaceState, PlaceView, Refresh};
use catraca::room::draw::{self, Table};
use catraca::room::estimate::Eta;
use catraca::room::model::command::{Cause, Gone};
use serde_json::{Value, json};

/// One state. Its name is the show's.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What differs from [`board`] once the fan has joined.
    pub(crate) board: Value,
    /// What `status` answers.
    pub(crate) status: Value,
    /// What differs from [`view`].
    pub(crate) view: fn(&mut PlaceView),
}

/// The fan's place and number in every scenario.
pub(crate) const PLACE: u64 = 1_204_000;
/// How far the line is unless a scenario says otherwise.
const SERVING: u64 = 1_159_000;
const HOUR_MS: u64 = 3_600_000;

/// An open show with 45,000 places before the fan, 500 a second.
pub(crate) fn board(show: &str) -> Value {
    json!({
        "show": show, "name": "Estádio <script>alert(1)</script> & Cia", "state": "open",
        "cause": null, "edition": 1, "generation": 1, "serving": SERVING, "issued": 1_300_000,
        "waiting": 141_000, "gaps": [], "rate": 500, "window_ms": 1000, "pace": 500,
        "eta": {"spread": 0.2}, "reach": null, "opens_at": null, "opens_in_ms": null,
        "sold_out_at": null, "stock": null, "message": {}, "shop_url": null,
        "poll": {"board_ms": 300, "restore_per_s": 1_000_000},
        "as_of": "2027-03-14T13:00:07Z",
    })
}

/// The same for the page without scripts.
pub(crate) fn view(show: &str, language: Language) -> PlaceView {
    PlaceView {
        show: show.parse::<ShowId>().unwrap(),
        name: "Estádio <script>alert(1)</script> & Cia".to_owned(),
        language,
        state: PlaceState::Waiting,
        number: Some(Number(PLACE)),
        place: Some(Place(PLACE)),
        position: Some(PLACE - SERVING),
        draw: None,
        asks_presence: false,
        serving: Place(SERVING),
        eta: Some(eta(72, 108, None)),
        reach: None,
        opens_in_ms: None,
        sold_out_at: None,
        now: Timestamp::from_unix_ms(1_800_000_000_000),
        message: None,
        notice: None,
        wait: None,
        account: None,
        refresh: Refresh::Every(15),
    }
}

fn eta(low: u64, high: u64, cause: Option<Cause>) -> Eta {
    let seconds = u64::midpoint(low, high);
    Eta {
        seconds,
        low,
        high,
        cause,
    }
}

fn scenario(name: &'static str, board: Value, status: Value, view: fn(&mut PlaceView)) -> Scenario {
    Scenario {
        name,
        board,
        status,
        view,
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    let mut all = in_line();
    all.extend(drawing());
    all.extend(after_the_call());
    all.extend(over());
    all
}

fn in_line() -> Vec<Scenario> {
    vec![
        scenario("waiting", json!({}), json!({}), |_| ()),
        scenario("next", json!({"serving": PLACE - 1}), json!({}), |view| {
            view.position = Some(1);
            view.serving = Place(PLACE - 1);
            view.eta = Some(eta(0, 6, None));
        }),
        scenario(
            "slowed",
            json!({"cause": "slowed", "pace": 5, "reach": 1_190_000,
                "message": {"en": "Doors open at 7 p.m.\nBring <b>ID</b>.",
                    "pt-BR": "Portões às 19h.\nTraga <b>documento</b>.",
                    "es": "Puertas a las 19 h.\nTrae tu <b>documento</b>."}}),
            json!({}),
            |view| {
                view.eta = Some(eta(7_200, 10_800, Some(Cause::Slowed)));
                view.reach = Some(Place(1_190_000));
                let message = match view.language {
                    Language::En => "Doors open at 7 p.m.\nBring <b>ID</b>.",
                    Language::PtBr => "Portões às 19h.\nTraga <b>documento</b>.",
                    Language::Es => "Puertas a las 19 h.\nTrae tu <b>documento</b>.",
                };
                view.message = Some(message.to_owned());
            },
        ),
        scenario(
            "unlikely",
            json!({"serving": 8_000, "reach": 31_400, "pace": null, "rate": 0}),
            json!({}),
            |view| {
                view.serving = Place(8_000);
                view.position = Some(PLACE - 8_000);
                view.reach = Some(Place(31_400));
                view.eta = None;
            },
        ),
        scenario(
            "early",
            json!({"state": "early", "serving": 0, "opens_in_ms": 3 * HOUR_MS + 290_000,
                "reach": 2_000_000}),
            json!({}),
            |view| {
                view.state = PlaceState::Early;
                view.serving = Place(0);
                view.position = Some(PLACE);
                view.opens_in_ms = Some(3 * HOUR_MS + 290_000);
                view.reach = Some(Place(2_000_000));
                view.eta = Some(eta(10_799, 16_197, None));
            },
        ),
        scenario(
            "paused",
            json!({"state": "paused", "cause": "paused"}),
            json!({}),
            |view| {
                view.state = PlaceState::Paused;
            },
        ),
        scenario(
            "restoring",
            json!({"state": "restoring"}),
            json!({}),
            |view| {
                view.state = PlaceState::Restoring;
            },
        ),
    ]
}

/// Numbers that take part in the draws here.
const SIZE: u64 = 1_300_000;
/// A beacon, and what it published.
const BEACON: (&str, &str) = ("drand quicknet, round 912", "5f3a0c");
const SECRET: DrawSecret = DrawSecret([7; 32]);

/// A draw that was held, as the board of this show reveals it.
pub(crate) fn held(show: &str) -> Value {
    let (id, (beacon, value)) = (show.parse().unwrap(), BEACON);
    json!({
        "commitment": draw::commitment(&id, &SECRET, beacon), "beacon": beacon, "size": SIZE,
        "secret": SECRET, "beacon_value": value, "empty": 650_000,
        "seed": draw::seed(&id, &SECRET, value, SIZE),
    })
}

/// The commitment of every draw that is not held yet.
const SEAL: Commitment = Commitment([0xab; 32]);

fn drawing() -> Vec<Scenario> {
    let sealed = |size: Option<u64>, beacon: Option<&str>| {
        json!({"state": "early", "serving": 0, "opens_in_ms": 0,
            "draw": {"commitment": SEAL, "beacon": beacon, "size": size}})
    };
    fn early(view: &mut PlaceView, size: Option<u64>, beacon: Option<&str>) {
        view.state = PlaceState::Early;
        view.serving = Place(0);
        (view.place, view.position, view.eta) = (None, None, None);
        view.opens_in_ms = Some(0);
        view.draw = Some(DrawView {
            beacon: beacon.map(str::to_owned),
            commitment: SEAL,
            size,
            is_held: false,
        });
    }
    vec![
        scenario("early-draw", sealed(None, None), json!({}), |view| {
            early(view, None, None);
        }),
        scenario(
            "early-drawing",
            sealed(Some(SIZE), None),
            json!({}),
            |view| {
                early(view, Some(SIZE), None);
            },
        ),
        scenario(
            "early-closed",
            sealed(Some(SIZE), Some(BEACON.0)),
            json!({}),
            |view| early(view, Some(SIZE), Some(BEACON.0)),
        ),
        scenario("early-late", sealed(Some(9), None), json!({}), |view| {
            early(view, Some(9), None)
        }),
        scenario(
            "drawn",
            json!({"serving": 8_000, "pace": null, "rate": 0}),
            json!({}),
            |view| {
                let (id, (beacon, value)) = (view.show.clone(), BEACON);
                let seed = draw::seed(&id, &SECRET, value, SIZE);
                let place = Table::new(&seed, SIZE).place(Number(PLACE));
                view.serving = Place(8_000);
                view.place = Some(place);
                let share = 650_000 * (place.0.max(8_001) - 8_001) / (SIZE - 8_000);
                view.position = Some((place.0.max(8_001) - 8_000).max(1 + share) - share);
                view.draw = Some(DrawView {
                    beacon: Some(beacon.to_owned()),
                    commitment: draw::commitment(&id, &SECRET, beacon),
                    size: Some(SIZE),
                    is_held: true,
                });
                view.eta = None;
            },
        ),
        scenario(
            "present",
            json!({"poll": {"board_ms": 300, "restore_per_s": 1_000_000, "near_s": 60}}),
            json!({}),
            |view| view.asks_presence = true,
        ),
    ]
}

fn after_the_call() -> Vec<Scenario> {
    let called = || json!({"serving": PLACE});
    let gone = |reason: &str| json!({"state": "gone", "reason": reason});
    let admitted = |enter: Option<&str>| {
        json!({"state": "admitted", "place": PLACE, "serving": PLACE, "position": null,
            "poll_after_ms": 5000, "ticket": "t", "ticket_expires_in_ms": 1_800_000,
            "enter": enter})
    };
    vec![
        scenario(
            "admitted",
            called(),
            admitted(Some("https://shop.example/a?b=1&c=2")),
            |view| {
                let enter = Some("https://shop.example/a?b=1&c=2".to_owned());
                view.state = PlaceState::Admitted {
                    enter,
                    expires_in_ms: 1_800_000,
                };
            },
        ),
        scenario("admitted-app", called(), admitted(None), |view| {
            view.state = PlaceState::Admitted {
                enter: None,
                expires_in_ms: 1_800_000,
            };
        }),
        scenario(
            "admitted-hostile",
            called(),
            admitted(Some("javascript:alert(1)")),
            |view| {
                let enter = Some("javascript:alert(1)".to_owned());
                view.state = PlaceState::Admitted {
                    enter,
                    expires_in_ms: 1_800_000,
                };
            },
        ),
        scenario(
            "standby",
            called(),
            json!({"state": "standby", "place": PLACE, "serving": PLACE, "poll_after_ms": 5000}),
            |view| view.state = PlaceState::Standby,
        ),
        scenario("gone-used", called(), gone("used"), |view| {
            view.state = PlaceState::Gone(Gone::Used);
            view.number = None;
        }),
        scenario("gone-expired", called(), gone("expired"), |view| {
            view.state = PlaceState::Gone(Gone::Expired);
            view.number = None;
        }),
        scenario("gone-left", called(), gone("left"), |view| {
            view.state = PlaceState::Gone(Gone::Left);
            view.number = None;
        }),
        scenario("gone-revoked", called(), gone("revoked"), |view| {
            view.state = PlaceState::Gone(Gone::Revoked);
            view.number = None;
        }),
    ]
}

fn over() -> Vec<Scenario> {
    vec![
        scenario(
            "sold-out",
            json!({"state": "sold_out", "serving": 31_420}),
            json!({"state": "sold_out"}),
            |view| {
                view.state = PlaceState::SoldOut;
                view.serving = Place(31_420);
            },
        ),
        scenario("closed", json!({"state": "closed"}), json!({}), |view| {
            view.state = PlaceState::Closed;
        }),
        scenario(
            "off",
            json!({"state": "off", "shop_url": "https://shop.example/"}),
            json!({}),
            |view| {
                view.state = PlaceState::Off {
                    enter: Some("https://shop.example/".to_owned()),
                };
            },
        ),
    ]
}
