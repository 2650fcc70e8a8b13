//! Shows as operators see and change them.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::header::{ETAG, IF_MATCH};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::access::{Operator, Role};
use crate::admin::draws;
use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::http::extract::{Path, Whole};
use crate::http::problem::Problem;
use crate::room::StoreError as RoomError;
use crate::room::model::command::{Board, RoomState};
use crate::show::revise;
use crate::show::settings::Settings;
use crate::show::{Change, Put, Show, StoreError};

/// Attempts to change a show that others change at the same time. With each, somebody else's change
/// was written, so as many operators may act at once.
const PATCH_ATTEMPTS: usize = 32;

/// A settings document, member by member. Values stay the text they came as: an amount of money must
/// not become a float on its way.
pub(super) type Document = BTreeMap<String, Box<RawValue>>;

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) => Self::unavailable("store-unavailable"),
            StoreError::Corrupt(_) => Self::internal("store-corrupt"),
        }
        .caused_by(error)
    }
}

/// `GET /admin/v1/shows`: every show with its state and its line.
///
/// # Errors
/// 503 while SQL is away.
pub async fn list(State(admin): State<Admin>) -> Result<Response, Problem> {
    let mut shows = Vec::new();
    let list = admin.shows.list().await?;
    for show in &list {
        shows.push(describe(&admin, show).await);
    }
    Ok(Json(BTreeMap::from([("shows", shows)])).into_response())
}

/// `GET /admin/v1/shows/{show}`: one show, with its version as `ETag`.
///
/// # Errors
/// 404 for an unknown show, 503 while SQL is away.
pub async fn read(
    State(admin): State<Admin>,
    Path(show): Path<String>,
) -> Result<Response, Problem> {
    let show = admin
        .shows
        .get(&show_id(&show)?)
        .await?
        .ok_or_else(no_such_show)?;
    Ok(answer(&admin, StatusCode::OK, &show).await)
}

/// `PUT /admin/v1/shows/{show}`: creates a show, or replaces its settings at the version named by
/// `If-Match`.
///
/// # Errors
/// 400 and 422 for settings that are none, 409 where the show exists and no `If-Match` came, 412
/// where it changed meanwhile, 403 for roles below admin.
pub async fn put(
    State(admin): State<Admin>,
    Path(show): Path<String>,
    Extension(operator): Extension<Operator>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    operator.must_be(Role::Admin)?;
    let id = show_id(&show)?;
    let expected = version_of(&headers)?;
    let mut settings = settings_of(parse(&body)?)?;
    let before = match expected {
        Some(_) => Some(admin.shows.get(&id).await?.ok_or_else(no_such_show)?),
        None => None,
    };
    keep_ceiling(&mut settings, before.as_ref());
    refuse_rate(&settings, before.as_ref())?;
    refuse_draw(&settings, before.as_ref())?;
    check(&admin, &settings, before.as_ref()).await?;
    let action = if before.is_some() { "set" } else { "create" };
    let change = change(&admin, &operator, action, &body);
    match admin.shows.put(&id, &change, &settings, expected).await? {
        Put::Created(show) => {
            admin.changed.notify_one();
            Ok(answer(&admin, StatusCode::CREATED, &show).await)
        }
        Put::Changed(show) => {
            admin.changed.notify_one();
            Ok(answer(&admin, StatusCode::OK, &show).await)
        }
        Put::Mismatch(current) => Err(mismatch(expected, current)),
    }
}

/// `PATCH /admin/v1/shows/{show}`: replaces the members that are named, live; `null` takes one away.
///
/// # Errors
/// As `PUT`; without `If-Match` the change is applied to whatever the show is now.
pub async fn patch(
    State(admin): State<Admin>,
    Path(show): Path<String>,
    Extension(operator): Extension<Operator>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    operator.must_be(Role::Operator)?;
    let id = show_id(&show)?;
    let expected = version_of(&headers)?;
    let wanted = parse(&body)?;
    let change = change(&admin, &operator, "set", &body);
    for _ in 0..PATCH_ATTEMPTS {
        let before = admin.shows.get(&id).await?.ok_or_else(no_such_show)?;
        if expected.is_some_and(|version| version != before.version) {
            return Err(mismatch(expected, Some(before.version)));
        }
        let mut settings = settings_of(merge(&before.settings, &wanted)?)?;
        keep_ceiling(&mut settings, Some(&before));
        refuse_rate(&settings, Some(&before))?;
        refuse_draw(&settings, Some(&before))?;
        check(&admin, &settings, Some(&before)).await?;
        match admin
            .shows
            .put(&id, &change, &settings, Some(before.version))
            .await?
        {
            Put::Changed(show) | Put::Created(show) => {
                admin.changed.notify_one();
                return Ok(answer(&admin, StatusCode::OK, &show).await);
            }
            Put::Mismatch(_) => {} // somebody else was faster: apply to what they wrote
        }
    }
    Err(Problem::unavailable("busy"))
}

/// `POST /admin/v1/shows/{show}/{open,pause,resume,close,off}`: asks for a state.
///
/// # Errors
/// 404 for an unknown show or verb, 403 for roles below operator.
pub async fn verb(
    State(admin): State<Admin>,
    Path((show, verb)): Path<(String, String)>,
    Extension(operator): Extension<Operator>,
) -> Result<Response, Problem> {
    operator.must_be(Role::Operator)?;
    let id = show_id(&show)?;
    let state = match verb.as_str() {
        "open" | "resume" => RoomState::Open,
        "pause" => RoomState::Paused,
        "close" => RoomState::Closed,
        "off" => RoomState::Off,
        _ => return Err(Problem::not_found("not-found", "There is no such verb.")),
    };
    let change = change(&admin, &operator, &verb, b"{}");
    let show = admin
        .shows
        .verb(&id, &change, state.word())
        .await?
        .ok_or_else(no_such_show)?;
    if show.cancelled_at.is_some() {
        return Err(cancelled());
    }
    if state == RoomState::Off {
        tracing::warn!(show.id = %id, operator = operator.name, "the gate is off: nobody is asked for a ticket");
    }
    admin.changed.notify_one();
    Ok(answer(&admin, StatusCode::OK, &show).await)
}

pub(super) async fn answer(admin: &Admin, status: StatusCode, show: &Show) -> Response {
    let etag = format!("\"{}\"", show.version);
    (status, [(ETAG, etag)], Json(describe(admin, show).await)).into_response()
}

/// A show as operators read it.
#[derive(Serialize)]
struct Described<'a> {
    show: &'a ShowId,
    version: u64,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<Timestamp>,
    edition: u64,
    generation: u64,
    settings: &'a Settings,
    /// None where the show has no draw, or the admitter has not sealed it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<Value>,
    room: Value,
}

async fn describe<'a>(admin: &Admin, show: &'a Show) -> Described<'a> {
    let room = match admin.rooms.board(&show.id).await {
        Ok(board) => live(&board),
        Err(RoomError::Unfenced) => json!({ "state": "unfenced" }),
        Err(error) => json!({ "state": "unavailable", "error": error.to_string() }),
    };
    Described {
        show: &show.id,
        version: show.version,
        state: &show.state,
        cancelled_at: show.cancelled_at,
        edition: show.edition.0,
        generation: show.generation.0,
        settings: &show.settings,
        draw: show.draw.as_ref().map(draws::describe),
        room,
    }
}

fn live(board: &Board) -> Value {
    json!({
        "state": board.state.word(),
        "serving": board.serving,
        "issued": board.issued,
        "waiting": board.waiting,
        "standby": board.standby,
        "live": board.live,
        "leader": board.leader,
        "uncopied": board.uncopied,
        "stock": board.stock.map(|stock| json!({
            "free": stock.free, "held": stock.held, "sold": stock.sold, "as_of": stock.as_of,
        })),
        "as_of": board.now,
    })
}

pub(super) fn change(admin: &Admin, operator: &Operator, action: &str, body: &[u8]) -> Change {
    Change {
        who: operator.name.clone(),
        role: operator.role.to_string(),
        action: action.to_owned(),
        detail: String::from_utf8_lossy(body).into_owned(),
        at: admin.clock.now(),
    }
}

/// The ceiling that a show was made with stands until another is named; else each change of the
/// rate would move it.
fn keep_ceiling(settings: &mut Settings, before: Option<&Show>) {
    let ceiling = before.map_or(settings.rate_ceiling(), |show| show.settings.rate_ceiling());
    settings.rate_max.get_or_insert(ceiling);
}

/// A rate above the ceiling is refused, with what it would mean, so that a slip of a finger cannot
/// empty the house in a minute.
fn refuse_rate(settings: &Settings, before: Option<&Show>) -> Result<(), Problem> {
    // Where none is fixed, what the show has now counts: a higher rate must not allow itself.
    let fixed = before.filter(|_| settings.rate_max.is_none());
    let ceiling = fixed.map_or(settings.rate_ceiling(), |show| show.settings.rate_ceiling());
    let rises = before.is_none_or(|show| show.settings.rate < settings.rate);
    if !rises || settings.rate <= ceiling {
        return Ok(());
    }
    let waiting = before.map_or(0, |show| show.waiting);
    let window_ms = settings.window_ms; // not checked yet
    let drain_s = waiting.saturating_mul(window_ms) / 1_000 / settings.rate.max(1);
    // Two seats a fan: what the stock guard assumes until it has measured.
    let sell_out_s = settings.seats().saturating_mul(window_ms) / 2_000 / settings.rate.max(1);
    let title = "The rate is above rate_max. Raise rate_max too if you mean it.";
    Err(Problem::unprocessable("rate-above-max", title)
        .with("rate_max", ceiling)
        .with("would_drain_in_s", drain_s)
        .with("would_sell_out_in_s", sell_out_s))
}

/// A draw is sealed when its show begins, and every pass carries the commitment.
fn refuse_draw(settings: &Settings, before: Option<&Show>) -> Result<(), Problem> {
    let of = |settings: &Settings| (settings.draw, settings.beacon.clone());
    if before.is_none_or(|show| of(&show.settings) == of(settings)) {
        return Ok(());
    }
    let why = "draw and beacon are fixed at creation: passes carry the commitment".to_owned();
    Err(refused(why))
}

pub(super) fn parse(body: &[u8]) -> Result<Document, Problem> {
    serde_json::from_slice(body)
        .map_err(|_| Problem::bad_request("bad-json", "The body must be one JSON object."))
}

fn settings_of(document: Document) -> Result<Settings, Problem> {
    serde_json::to_string(&document)
        .and_then(|text| serde_json::from_str(&text))
        .map_err(|error| refused(without_input(&error.to_string())))
}

/// What serde says of a document, without what was sent: its sentences name a member of ours, or say what
/// came and, last, what was expected.
fn without_input(says: &str) -> String {
    let names_ours = says.starts_with("missing field") || says.starts_with("duplicate field");
    match says.rsplit_once(", expected ") {
        _ if names_ours => says.to_owned(),
        Some((came, expected)) => {
            let kind = came.split([':', '`', '"']).next().unwrap_or_default();
            format!("{}, expected {expected}", kind.trim())
        }
        None => "a member has a value that it cannot have".to_owned(),
    }
}

async fn check(admin: &Admin, settings: &Settings, before: Option<&Show>) -> Result<(), Problem> {
    settings.check().map_err(refused)?;
    let Some(show) = before else { return Ok(()) };
    let kept = admin.shows.currencies(&show.id).await?;
    revise::check(&show.settings, &kept, settings).map_err(refused)
}

/// 422. `why` names members of ours and numbers; text that came is never repeated.
pub(super) fn refused(why: String) -> Problem {
    let title = "These settings cannot be used.";
    Problem::unprocessable("settings-refused", title).with("detail", why)
}

fn merge(settings: &Settings, wanted: &Document) -> Result<Document, Problem> {
    let mut document: Document = serde_json::to_string(settings)
        .and_then(|text| serde_json::from_str(&text))
        .map_err(|error| Problem::internal("internal").caused_by(error))?;
    for (member, value) in wanted {
        match value.get() {
            "null" => drop(document.remove(member)),
            _ => drop(document.insert(member.clone(), value.clone())),
        }
    }
    Ok(document)
}

fn version_of(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim_matches('"');
    let bad = || Problem::bad_request("bad-if-match", "If-Match must be a version in quotes.");
    text.parse().map(Some).map_err(|_| bad())
}

fn mismatch(expected: Option<u64>, current: Option<u64>) -> Problem {
    let problem = match expected {
        Some(_) => Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "version-mismatch",
            "The show was changed meanwhile. Read it again.",
        ),
        None => Problem::conflict(
            "show-exists",
            "The show exists. Name its version in If-Match.",
        ),
    };
    match current {
        Some(version) => problem.with("version", version),
        None => problem,
    }
}

pub(super) fn show_id(text: &str) -> Result<ShowId, Problem> {
    let title = "A show id is 1 to 63 of a-z, 0-9 and -, and begins with a letter or digit.";
    text.parse()
        .map_err(|_| Problem::bad_request("bad-id", title))
}

/// A cancelled show stays closed.
fn cancelled() -> Problem {
    Problem::conflict("show-cancelled", "The show was cancelled.")
}

pub(super) fn no_such_show() -> Problem {
    Problem::not_found("no-such-show", "There is no such show.")
}
