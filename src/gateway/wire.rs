//! What our own routes answer, as JSON.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::base::ids::{
    Commitment, DrawSecret, Edition, FanId, Generation, Number, Place, Seed, ShowId, TicketId,
};
use crate::base::limits::{PRESENT_MS, STOCK_STALE_MS};
use crate::base::time::Timestamp;
use crate::room::estimate::{self, Eta};
use crate::room::model::command::{Board, Cause, Gone, RoomState};

/// How often pages read the board.
const BOARD_EVERY_MS: u64 = 5_000;
/// Half the width of an ETA range as a share of its middle, until it has been measured.
const SPREAD_UNKNOWN: f64 = 0.2;

/// What the longest usual answer takes: it is written in one piece.
const ANSWER_BYTES: usize = 768;
/// As many headers as a usual answer has in the end.
const ANSWER_HEADERS: usize = 8;

/// The answer with this body.
pub(crate) fn answer(body: &impl Serialize) -> Response {
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    serde_json::to_writer(&mut json, body).expect("answers have only text keys");
    let mut response = Response::new(Body::from(json));
    let mut headers = HeaderMap::with_capacity(ANSWER_HEADERS);
    let is_json = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, is_json);
    *response.headers_mut() = headers;
    response
}

/// A range of waiting times.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EtaBody {
    seconds: u64,
    low: u64,
    high: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
}

impl From<Eta> for EtaBody {
    fn from(eta: Eta) -> Self {
        Self {
            seconds: eta.seconds,
            low: eta.low,
            high: eta.high,
            cause: eta.cause.map(cause_word),
        }
    }
}

/// The answer to a join.
#[derive(Debug, Serialize)]
pub(crate) struct JoinBody<'a> {
    pub(crate) show: &'a ShowId,
    pub(crate) fan: FanId,
    pub(crate) number: Number,
    pub(crate) place: Option<Place>,
    pub(crate) position: Option<u64>,
    pub(crate) state: &'static str,
    pub(crate) eta: Option<EtaBody>,
    pub(crate) poll_after_ms: u64,
    pub(crate) pass: &'a str,
}

/// The answer to a status poll.
#[derive(Debug, Serialize)]
pub(crate) struct StatusBody<'a> {
    pub(crate) show: &'a ShowId,
    pub(crate) state: &'static str,
    pub(crate) place: Option<Place>,
    pub(crate) position: Option<u64>,
    pub(crate) eta: Option<EtaBody>,
    pub(crate) reach: Option<Place>,
    pub(crate) poll_after_ms: u64,
    pub(crate) serving: Place,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) admitted: Option<AdmittedBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

/// What an admitted fan is told beside.
#[derive(Debug, Serialize)]
pub(crate) struct AdmittedBody<'a> {
    pub(crate) ticket: &'a str,
    pub(crate) ticket_expires_at: Timestamp,
    pub(crate) ticket_expires_in_ms: u64,
    pub(crate) enter: Option<&'a str>,
}

/// The answer to whoever asks whether a ticket is live.
#[derive(Debug, Serialize)]
pub(crate) struct TicketBody<'a> {
    pub(crate) show: &'a ShowId,
    pub(crate) fan: FanId,
    pub(crate) ticket_id: TicketId,
}

/// The answer to whoever wants a proof of their number.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptBody<'a> {
    pub(crate) receipt: &'a str,
}

/// The public snapshot of a show.
#[derive(Debug, Serialize)]
pub(crate) struct BoardBody<'a> {
    show: &'a ShowId,
    name: &'a str,
    state: &'static str,
    cause: Option<&'static str>,
    edition: Edition,
    generation: Generation,
    serving: Place,
    issued: Number,
    waiting: u64,
    gaps: Vec<GapBody>,
    rate: u64,
    window_ms: u64,
    pace: Option<f64>,
    eta: SpreadBody,
    reach: Option<Place>,
    opens_at: Option<Timestamp>,
    opens_in_ms: Option<u64>,
    sold_out_at: Option<Timestamp>,
    stock: Option<StockBody>,
    draw: Option<DrawBody<'a>>,
    message: &'a BTreeMap<String, String>,
    shop_url: Option<&'a str>,
    poll: PollBody,
    as_of: Timestamp,
}

#[derive(Debug, Serialize)]
struct GapBody {
    first: Number,
    last: Number,
    missing: u64,
}

#[derive(Debug, Serialize)]
struct SpreadBody {
    spread: f64,
}

#[derive(Debug, Serialize)]
struct StockBody {
    left: u64,
    as_of: Timestamp,
    stale: bool,
}

/// A draw: what binds the operator from the beginning, and once it is open all that it is made of.
#[derive(Debug, Serialize)]
struct DrawBody<'a> {
    commitment: Commitment,
    beacon: Option<&'a str>,
    size: Option<u64>,
    #[serde(flatten)]
    open: Option<OpenDrawBody<'a>>,
}

#[derive(Debug, Serialize)]
struct OpenDrawBody<'a> {
    seed: Seed,
    secret: Option<DrawSecret>,
    beacon_value: Option<&'a str>,
    empty: u64,
}

#[derive(Debug, Serialize)]
struct PollBody {
    board_ms: u64,
    restore_per_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    near_s: Option<u64>,
}

impl<'a> DrawBody<'a> {
    fn of(board: &'a Board) -> Option<Self> {
        let announced = board.settings.draw.as_ref()?;
        let revealed = announced.revealed.as_ref();
        let seed = board.draw.and_then(|draw| draw.seed);
        let open = seed.map(|seed| OpenDrawBody {
            seed,
            secret: revealed.map(|revealed| revealed.secret),
            beacon_value: revealed.and_then(|revealed| revealed.beacon_value.as_deref()),
            empty: board.empty,
        });
        Some(Self {
            commitment: announced.commitment,
            beacon: announced.beacon.as_deref(),
            size: board.draw.map(|draw| draw.size),
            open,
        })
    }
}

impl<'a> BoardBody<'a> {
    pub(crate) fn of(show: &'a ShowId, board: &'a Board) -> Self {
        let settings = &board.settings;
        let missing = |first: Number, last: Number, restored| {
            (last.0 + 1)
                .saturating_sub(first.0)
                .saturating_sub(restored)
        };
        let gaps = board.gaps.iter().map(|gap| GapBody {
            first: gap.first,
            last: gap.last,
            missing: missing(gap.first, gap.last, gap.restored),
        });
        let stock = board.stock.map(|stock| StockBody {
            left: stock.free.saturating_add(stock.held),
            as_of: stock.as_of,
            stale: STOCK_STALE_MS < board.now.ms_since(stock.as_of),
        });
        Self {
            show,
            name: &settings.name,
            state: room_word(board.state),
            cause: board.measured.cause.map(cause_word),
            edition: board.edition,
            generation: board.generation,
            serving: board.serving,
            issued: board.issued,
            waiting: board.waiting,
            gaps: gaps.collect(),
            rate: settings.rate,
            window_ms: settings.window_ms,
            pace: thousandths(board.measured.pace_milli),
            eta: SpreadBody {
                spread: thousandths(board.measured.spread_milli).unwrap_or(SPREAD_UNKNOWN),
            },
            reach: estimate::reach(board),
            opens_at: settings.opens_at,
            opens_in_ms: opens_in_ms(board, board.now),
            sold_out_at: board.sold_out_at,
            stock,
            draw: DrawBody::of(board),
            message: &settings.message,
            shop_url: settings.shop_url.as_deref(),
            poll: PollBody {
                board_ms: BOARD_EVERY_MS,
                restore_per_s: settings.restore_per_s,
                near_s: settings.require_presence.then_some(PRESENT_MS / 1_000),
            },
            as_of: board.now,
        }
    }
}

/// A measured number of thousandths; none where nothing was measured.
#[expect(
    clippy::cast_precision_loss,
    reason = "paces and spreads are estimates, and far below 2^53"
)]
fn thousandths(milli: u64) -> Option<f64> {
    (0 < milli).then_some(milli as f64 / 1_000.0)
}

/// How long until a show that is not open yet opens, if the schedule says.
pub(crate) fn opens_in_ms(board: &Board, now: Timestamp) -> Option<u64> {
    let is_ahead = matches!(board.state, RoomState::Scheduled | RoomState::Early);
    let opens_at = board.settings.opens_at.filter(|_| is_ahead)?;
    Some(opens_at.ms_since(now))
}

/// A room's state on the board.
pub(crate) fn room_word(state: RoomState) -> &'static str {
    match state {
        RoomState::Scheduled => "scheduled",
        RoomState::Early => "early",
        RoomState::Open => "open",
        RoomState::Paused => "paused",
        RoomState::SoldOut => "sold_out",
        RoomState::Closed => "closed",
        RoomState::Restoring => "restoring",
        RoomState::Off => "off",
    }
}

/// The state of a fan in line.
pub(crate) fn line_word(state: RoomState) -> &'static str {
    match state {
        RoomState::Open | RoomState::Off => "waiting",
        RoomState::Scheduled | RoomState::Early => "early",
        RoomState::Paused => "paused",
        RoomState::SoldOut => "sold_out",
        RoomState::Closed => "closed",
        RoomState::Restoring => "restoring",
    }
}

/// Why a turn is over.
pub(crate) fn gone_word(gone: Gone) -> &'static str {
    match gone {
        Gone::Used => "used",
        Gone::Expired => "expired",
        Gone::Left => "left",
        Gone::Revoked => "revoked",
    }
}

fn cause_word(cause: Cause) -> &'static str {
    match cause {
        Cause::Paused => "paused",
        Cause::Slowed => "slowed",
        Cause::Capacity => "capacity",
        Cause::Crowd => "crowd",
        Cause::Stock => "stock",
        Cause::InCarts => "in_carts",
        Cause::Restoring => "restoring",
    }
}
