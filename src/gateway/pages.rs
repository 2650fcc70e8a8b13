//! The routes of the waiting page, and the same for one fan without scripts.
//!
//! `page/` draws; here are the facts it is given and the forms it is answered with. Every form ends
//! in a redirect to the place page, so that reloading repeats nothing.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::base::ids::ShowId;
use crate::gateway::boards::Seen;
use crate::gateway::challenge::{Evidence, Waited, new_wait};
use crate::gateway::credentials::Bearer;
use crate::gateway::enter::{Joiner, enter};
use crate::gateway::form::Form;
use crate::gateway::page::{
    self, DrawView, Language, Notice, PlaceState, PlaceView, Refresh, WaitView,
};
use crate::gateway::standing::{self, Standing, View};
use crate::gateway::{Gateway, GatewayState, limit, visit, wire};
use crate::http::extract::{ClientAddr, Headers, Path, ShowPath};
use crate::http::problem::Problem;
use crate::limit::Asking;
use crate::limit::prefix::Prefixes;
use crate::room::estimate;
use crate::room::model::command::{Board, RoomState};
use crate::token::pass::Pass;

/// How often the place page of somebody who is not in line reloads itself.
const RELOAD_S: u32 = 30;
/// How often it does at least and at most.
const RELOAD_S_RANGE: std::ops::RangeInclusive<u64> = 5..=30;

/// The query of the place page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlaceQuery {
    lang: Option<String>,
    stop: Option<String>,
}

impl PlaceQuery {
    fn language(&self, headers: &HeaderMap) -> Language {
        let accepted = headers.get(ACCEPT_LANGUAGE);
        let accepted = accepted.and_then(|value| value.to_str().ok());
        Language::choose(self.lang.as_deref(), accepted)
    }
}

/// A query that cannot be read asks for nothing.
fn readable(query: Result<Query<PlaceQuery>, QueryRejection>) -> PlaceQuery {
    query.map(|Query(query)| query).unwrap_or_default()
}

/// `GET /w/{show}`: the waiting page, the same bytes for everybody.
pub(crate) async fn waiting(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
) -> Result<Response, Problem> {
    gateway.boards.find(&show)?;
    let html = gateway.site.waiting_page(&show);
    Ok(document(
        StatusCode::OK,
        page::WAITING_PAGE_CACHE_CONTROL,
        html,
    ))
}

/// `GET /w/assets/{name}`: a file of the pages.
pub(crate) async fn asset(
    State(gateway): State<GatewayState>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let asset = gateway.site.asset(&name);
    let asset = asset.ok_or_else(|| Problem::not_found("not-found", "There is no such file."))?;
    let headers = [
        (CONTENT_TYPE, asset.content_type),
        (CACHE_CONTROL, asset.cache_control),
    ];
    Ok((headers, asset.bytes).into_response())
}

/// `GET /w/{show}/place`: one fan's place, without scripts.
pub(crate) async fn place(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    query: Result<Query<PlaceQuery>, QueryRejection>,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let query = readable(query);
    let visit = Visit::new(&gateway, &show, &query, &headers);
    visit.draw(StatusCode::OK, Told::Nothing).await
}

/// `POST /w/{show}/join`: the form's join.
pub(crate) async fn join(
    State(gateway): State<GatewayState>,
    (ShowPath(show), client): (ShowPath, ClientAddr),
    query: Result<Query<PlaceQuery>, QueryRejection>,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Problem> {
    let query = readable(query);
    let seen = gateway.boards.find(&show)?;
    let (of, now) = ((&show, seen.board.edition), seen.now());
    let (token, account) = (form.field("wait"), form.field("account"));
    let visit = Visit {
        account,
        ..Visit::new(&gateway, &show, &query, &headers)
    };
    // A pass that is not good (any more) is no reason to keep somebody out of the line.
    let shown = gateway.reader(&show).pass(&headers, Bearer::IsNotOurs);
    let shown = shown.unwrap_or_default();
    let (evidence, waits) = match Waited::read(&gateway, of, now, token) {
        Waited::Long(proof) => (Evidence::Wait(proof), None),
        Waited::Not => (Evidence::Nothing, None),
        Waited::On(wait) if shown.is_none() => return visit.make_wait(wait).await,
        Waited::On(wait) => (Evidence::Nothing, Some(wait)), // who has a place need not wait
    };
    let has_waited = matches!(evidence, Evidence::Wait(_));
    let joiner = Joiner {
        shown,
        key: None,
        account: account.map(str::to_owned),
        from: Prefixes::of(client.0),
        evidence,
    };
    let problem = match enter(&gateway, &seen, &show, joiner).await {
        Ok(entered) => {
            let cookie = gateway.cookies.pass(&show, &entered.shown.text);
            return Ok((AppendHeaders([(SET_COOKIE, cookie)]), visit.to_place()).into_response());
        }
        Err(problem) => problem,
    };
    let wait = match (problem.word(), waits, token) {
        ("challenge-required", Some(wait), _) => wait,
        // More have waited than may pass just now: this one need not begin anew.
        ("challenge-required", None, Some(token)) if has_waited => WaitView {
            token: token.to_owned(),
            ms: problem.retry_after_s().unwrap_or(1) * 1_000,
        },
        ("challenge-required" | "bad-proof", _, _) => new_wait(&gateway, &seen, &show),
        _ => return visit.refuse(&problem).await,
    };
    visit.make_wait(wait).await
}

/// `POST /w/{show}/leave`: the form's leave.
pub(crate) async fn leave(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    query: Result<Query<PlaceQuery>, QueryRejection>,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let query = readable(query);
    let visit = Visit::new(&gateway, &show, &query, &headers);
    let seen = gateway.boards.find(&show)?;
    let Ok(shown) = gateway.reader(&show).pass_of(&headers, seen.board.edition) else {
        return Ok(visit.to_place());
    };
    limit::within(&*gateway.limits, Asking::Fan(shown.pass.fan))?;
    visit::give_up(&gateway, &seen, &shown.pass).await?;
    // The cookie stays: the page then says that the fan has left, and offers to join again.
    Ok(visit.to_place())
}

/// What came of the last click.
enum Told {
    Nothing,
    Notice(Notice),
    Wait(WaitView),
}

/// One browser without scripts.
struct Visit<'a> {
    gateway: &'a Gateway,
    show: &'a ShowId,
    headers: &'a HeaderMap,
    language: Language,
    stopped: bool,
    /// The shop's token, which came with the form and goes back into it: it stands in no address.
    account: Option<&'a str>,
}

impl<'a> Visit<'a> {
    fn new(
        gateway: &'a Gateway,
        show: &'a ShowId,
        query: &PlaceQuery,
        headers: &'a HeaderMap,
    ) -> Self {
        Self {
            gateway,
            show,
            headers,
            language: query.language(headers),
            stopped: query.stop.is_some(),
            account: None,
        }
    }

    /// 303 to the place page.
    fn to_place(&self) -> Response {
        let place = format!("/w/{}/place?lang={}", self.show, self.language.tag());
        (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
    }

    /// The place page after a join that was refused.
    async fn refuse(self, problem: &Problem) -> Result<Response, Problem> {
        if problem.status() == StatusCode::CONFLICT {
            return Ok(self.to_place());
        }
        let (notice, account) = match problem.word() {
            "full" => (Notice::Full, self.account),
            "account-required" => (Notice::Account, None), // it does not count
            _ => (Notice::Busy, self.account),
        };
        let visit = Self { account, ..self };
        let drawn = visit.draw(problem.status(), Told::Notice(notice));
        let mut refused = drawn.await?;
        if let Some(seconds) = problem.retry_after_s() {
            refused.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        Ok(refused)
    }

    /// The place page, whose form may come back after a while.
    async fn make_wait(&self, wait: WaitView) -> Result<Response, Problem> {
        let seconds = wait.ms.div_ceil(1_000);
        let drawn = self.draw(StatusCode::TOO_MANY_REQUESTS, Told::Wait(wait));
        Ok(([(RETRY_AFTER, seconds.to_string())], drawn.await?).into_response())
    }

    /// The place page as it stands.
    async fn draw(&self, status: StatusCode, told: Told) -> Result<Response, Problem> {
        let seen = self.gateway.boards.find(self.show)?;
        let mut facts = self.facts(&seen);
        let notice = match told {
            Told::Nothing => None,
            Told::Notice(notice) => Some(notice),
            Told::Wait(wait) => {
                facts.wait = Some(wait);
                None
            }
        };
        facts.notice = notice;
        let shown = self
            .gateway
            .reader(self.show)
            .pass(self.headers, Bearer::IsNotOurs);
        let mut cookies = Vec::new();
        match shown {
            Ok(Some(shown)) if shown.pass.edition == seen.board.edition => {
                let fan = shown.pass.fan;
                limit::within(&*self.gateway.limits, Asking::Fan(fan))?;
                let view = standing::ask(self.gateway, &seen, &seen.board, &shown.pass).await?;
                if let Standing::Admitted { until } = view.standing {
                    let ticket = standing::ticket(self.gateway, &seen, &shown.pass, until);
                    cookies.push((SET_COOKIE, self.gateway.cookies.ticket(self.show, &ticket)));
                }
                self.tell(&mut facts, &view, &shown.pass);
            }
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => facts.notice = notice.or(Some(Notice::Void)),
        }
        if facts.wait.is_some() || facts.account.is_some() {
            // To reload would begin the wait anew, and lose the account.
            facts.refresh = Refresh::Stopped;
        }
        let html = self.gateway.site.place_page(&facts);
        Ok((AppendHeaders(cookies), document(status, "no-store", html)).into_response())
    }

    /// What anybody is told.
    fn facts(&self, seen: &Seen) -> PlaceView {
        let (board, now) = (&seen.board, seen.now());
        PlaceView {
            show: self.show.clone(),
            name: board.settings.name.clone(),
            language: self.language,
            state: room_state(seen),
            number: None,
            place: None,
            position: None,
            draw: draw_of(board),
            asks_presence: board.settings.require_presence,
            serving: board.serving,
            eta: None,
            reach: estimate::reach(board),
            opens_in_ms: wire::opens_in_ms(board, now),
            sold_out_at: board.sold_out_at,
            now,
            message: self
                .language
                .pick(&board.settings.message)
                .map(str::to_owned),
            notice: None,
            wait: None,
            account: self.account.map(str::to_owned),
            refresh: self.refresh(RELOAD_S),
        }
    }

    /// What this fan is told beside.
    fn tell(&self, facts: &mut PlaceView, view: &View<'_>, pass: &Pass) {
        facts.number = Some(pass.number);
        facts.place = view.place;
        facts.position = view.position();
        facts.eta = view.eta();
        let (low, high) = RELOAD_S_RANGE.into_inner();
        let seconds = (view.poll_after_ms() / 1_000).clamp(low, high);
        facts.refresh = self.refresh(u32::try_from(seconds).unwrap_or(RELOAD_S));
        facts.state = match view.standing {
            Standing::Standby if !view.is_over() => PlaceState::Standby,
            Standing::Gone(gone) => PlaceState::Gone(gone),
            Standing::Admitted { until } => PlaceState::Admitted {
                enter: view.board.settings.shop_url.clone(),
                expires_in_ms: until.ms_since(view.now),
            },
            Standing::InLine | Standing::Standby => match view.board.state {
                RoomState::Scheduled | RoomState::Early => PlaceState::Early,
                RoomState::Open => PlaceState::Waiting,
                RoomState::Paused => PlaceState::Paused,
                RoomState::Restoring => PlaceState::Restoring,
                RoomState::SoldOut => PlaceState::SoldOut,
                RoomState::Closed => PlaceState::Closed,
                RoomState::Off => facts.state.clone(),
            },
        };
    }

    fn refresh(&self, seconds: u32) -> Refresh {
        if self.stopped {
            Refresh::Stopped
        } else {
            Refresh::Every(seconds)
        }
    }
}

/// What everybody is told of the show's draw.
fn draw_of(board: &Board) -> Option<DrawView> {
    let announced = board.settings.draw.as_ref()?;
    Some(DrawView {
        beacon: announced.beacon.clone(),
        commitment: announced.commitment,
        size: board.draw.map(|draw| draw.size),
        is_held: board.draw.is_some_and(|draw| draw.seed.is_some()),
    })
}

/// What somebody without a place sees.
fn room_state(seen: &Seen) -> PlaceState {
    match seen.board.state {
        RoomState::Scheduled => PlaceState::Scheduled,
        RoomState::Early | RoomState::Open | RoomState::Paused | RoomState::Restoring => {
            PlaceState::NotJoined
        }
        RoomState::SoldOut => PlaceState::SoldOut,
        RoomState::Closed => PlaceState::Closed,
        RoomState::Off => PlaceState::Off {
            enter: seen.board.settings.shop_url.clone(),
        },
    }
}

fn document(
    status: StatusCode,
    cache_control: &'static str,
    html: impl Into<axum::body::Body>,
) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, cache_control),
        (CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, html.into()).into_response()
}
