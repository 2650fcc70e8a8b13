//! What one fan is shown without scripts: the facts, and the sentences they become.

use crate::base::ids::{Commitment, Number, Place, ShowId};
use crate::base::time::Timestamp;
use crate::gateway::page::language::Language;
use crate::gateway::page::say;
use crate::gateway::page::texts::Texts;
use crate::room::estimate::Eta;
use crate::room::model::command::{Cause, Gone};

/// Everything that the place page says, as facts.
#[derive(Debug, Clone)]
pub struct PlaceView {
    /// The show.
    pub show: ShowId,
    /// Its public name.
    pub name: String,
    /// The language of every sentence.
    pub language: Language,
    /// Where the fan stands.
    pub state: PlaceState,
    /// The fan's number; `None` has not joined.
    pub number: Option<Number>,
    /// The fan's place.
    pub place: Option<Place>,
    /// At most this many are called before and with the fan; `None` where there is no position.
    pub position: Option<u64>,
    /// The show's draw, if it has one.
    pub draw: Option<DrawView>,
    /// Whether only those are called who show that they are there.
    pub asks_presence: bool,
    /// How far the line has got.
    pub serving: Place,
    /// How long it may take, and why longer than was said.
    pub eta: Option<Eta>,
    /// The place up to which seats are expected to last.
    pub reach: Option<Place>,
    /// Until joining (scheduled) or calling (early) begins.
    pub opens_in_ms: Option<u64>,
    /// When the last seat was sold.
    pub sold_out_at: Option<Timestamp>,
    /// Room time.
    pub now: Timestamp,
    /// The operator's message, in the fan's language where there is one ([`Language::pick`]).
    pub message: Option<String>,
    /// What came of the fan's last click, where it did not come to what was asked for.
    pub notice: Option<Notice>,
    /// What the fan has to wait for before they may join.
    pub wait: Option<WaitView>,
    /// The shop's token with which the fan asked to join, for the next time they press the button.
    pub account: Option<String>,
    /// Whether the page reloads itself.
    pub refresh: Refresh,
}

/// A wait before a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitView {
    /// What the form shows when it comes back.
    pub token: String,
    /// How long it takes.
    pub ms: u64,
}

/// Where a fan stands. The words on the page's `data-state` are those of the API, and `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceState {
    /// Has no place, but could join: `none`.
    NotJoined,
    /// Joining has not begun.
    Scheduled,
    /// In line before the opening.
    Early,
    /// In line.
    Waiting,
    /// It is their turn.
    Admitted {
        /// The shop, an absolute http or https URL; `None` where the fan buys in an app.
        enter: Option<String>,
        /// How long the ticket runs.
        expires_in_ms: u64,
    },
    /// Missed the call, and is next.
    Standby,
    /// The turn is over.
    Gone(Gone),
    /// In line, and nobody is called.
    Paused,
    /// There is nothing left.
    SoldOut,
    /// The sale is over.
    Closed,
    /// In line, and the line is being put together again.
    Restoring,
    /// There is no line.
    Off {
        /// The shop, as above.
        enter: Option<String>,
    },
}

/// What a fan is told of a draw.
#[derive(Debug, Clone)]
pub struct DrawView {
    /// Where its public random number comes from; `None` has none.
    pub beacon: Option<String>,
    /// The seal.
    pub commitment: Commitment,
    /// How many take part; `None` while everybody may still join it.
    pub size: Option<u64>,
    /// Whether it has been held.
    pub is_held: bool,
}

/// Why a click did not come to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The line is as long as the operator allows.
    Full,
    /// Too many requests, or something we need is away: try again in a moment.
    Busy,
    /// The shop must say whose account it is.
    Account,
    /// The fan's pass is not good for this line (any more).
    Void,
}

/// Whether the page reloads itself. Readers may stop it (`?stop=1`): WCAG 2.2.1, 2.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// After so many seconds.
    Every(u32),
    /// Only when asked.
    Stopped,
}

/// The facts as sentences, in the order in which they are read. `web/say.js` has the same for the
/// script.
#[derive(Debug)]
pub(super) struct Screen {
    /// The state's word.
    pub(super) word: &'static str,
    pub(super) title: &'static str,
    pub(super) texts: Vec<String>,
    pub(super) position: Option<String>,
    /// Below the position.
    pub(super) help: &'static str,
    /// Names and what there is to say about them.
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) notice: Option<String>,
    pub(super) enter: Option<String>,
    /// What the button says, where the fan may join.
    pub(super) join: Option<&'static str>,
    /// Whether a place is kept for the fan.
    pub(super) is_kept: bool,
    pub(super) may_leave: bool,
    pub(super) draw: Option<DrawScreen>,
}

/// How the draw can be checked.
#[derive(Debug)]
pub(super) struct DrawScreen {
    pub(super) texts: Vec<String>,
    pub(super) commitment: String,
}

impl Screen {
    /// What there is to say.
    pub(super) fn of(view: &PlaceView) -> Self {
        let t = view.language.texts();
        let (word, title, texts) = words(view, t);
        Self {
            word,
            title,
            texts,
            position: view
                .position
                .filter(|_| view.state.is_in_line())
                .map(|n| say::number(n, t)),
            help: match (view.position, &view.draw) {
                (Some(1), _) => t.position_next,
                (_, Some(_)) => t.position_help_draw,
                (_, None) => t.position_help,
            },
            facts: if view.state.is_in_line() {
                facts(view, t)
            } else {
                Vec::new()
            },
            notice: match (&view.wait, view.notice) {
                (Some(wait), _) => Some(timed(t.wait, wait.ms, t)),
                (None, Some(Notice::Full)) => Some(t.full.to_owned()),
                (None, Some(Notice::Busy)) => Some(t.busy.to_owned()),
                (None, Some(Notice::Account)) => Some(t.account.to_owned()),
                (None, Some(Notice::Void)) => Some(t.void.to_owned()),
                (None, None) => None,
            },
            enter: view.state.enter().map(str::to_owned),
            join: view.state.join(t),
            is_kept: view.state.is_in_line(),
            draw: view.draw.as_ref().map(|draw| draw.screen(t)),
            may_leave: view.state.is_in_line()
                || matches!(
                    view.state,
                    PlaceState::Admitted { .. } | PlaceState::Standby
                ),
        }
    }
}

impl PlaceState {
    /// Whether the fan stands in line, waiting for a call.
    fn is_in_line(&self) -> bool {
        matches!(
            self,
            Self::Early | Self::Waiting | Self::Paused | Self::Restoring
        )
    }

    /// The shop, where the fan may go there. An address that a browser would run instead of visit
    /// is none: settings refuse those, but escaping would not stop one that came all the same.
    fn enter(&self) -> Option<&str> {
        if let Self::Admitted { enter, .. } | Self::Off { enter } = self {
            let is_web = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
            enter.as_deref().filter(is_web)
        } else {
            None
        }
    }

    /// What the button says that lets the fan join.
    fn join(&self, t: &'static Texts) -> Option<&'static str> {
        if matches!(self, Self::Gone(_)) {
            return Some(t.join_again);
        }
        (*self == Self::NotJoined).then_some(t.join)
    }
}

impl DrawView {
    /// What there is to know for whoever wants to check.
    fn screen(&self, t: &Texts) -> DrawScreen {
        let chance = match &self.beacon {
            Some(beacon) => say::fill(t.draw_beacon, &[("beacon", beacon)]),
            None => t.draw_no_beacon.to_owned(),
        };
        DrawScreen {
            texts: vec![t.draw_seal.to_owned(), t.draw_how.to_owned(), chance],
            commitment: self.commitment.to_string(),
        }
    }

    /// What an early fan is told.
    fn early(&self, number: Option<Number>, t: &Texts) -> String {
        let is_late = |size| number.is_some_and(|number| size < number.0);
        match (self.size, &self.beacon) {
            (None, _) => t.draw_early.to_owned(),
            (Some(size), _) if is_late(size) => t.draw_late.to_owned(),
            (Some(_), Some(beacon)) => say::fill(t.draw_waits, &[("beacon", beacon)]),
            (Some(_), None) => t.draw_now.to_owned(),
        }
    }

    /// What came of it for this fan.
    fn outcome(&self, place: Place, number: Number, t: &Texts) -> Option<String> {
        let size = self.size.filter(|_| self.is_held)?;
        let text = if size < number.0 {
            t.draw_behind
        } else {
            t.draw_place
        };
        let (place, size) = (say::number(place.0, t), say::number(size, t));
        Some(say::fill(text, &[("place", &place), ("size", &size)]))
    }
}

/// The state's word, the heading and the paragraphs below it.
fn words(view: &PlaceView, t: &'static Texts) -> (&'static str, &'static str, Vec<String>) {
    let one = |text: &str| vec![text.to_owned()];
    match &view.state {
        PlaceState::NotJoined => {
            let how = view.draw.as_ref().map_or(t.join_text, |_| t.join_text_draw);
            ("none", t.join_title, one(how))
        }
        PlaceState::Scheduled => {
            let when = match view.opens_in_ms {
                None => t.scheduled_some_day.to_owned(),
                Some(ms) => timed(t.scheduled_in, ms, t),
            };
            ("scheduled", t.scheduled_title, vec![when])
        }
        PlaceState::Early => {
            let when = match view.opens_in_ms {
                None => t.early_some_day.to_owned(),
                Some(0) => t.early_soon.to_owned(),
                Some(ms) => timed(t.early_in, ms, t),
            };
            let drawn = view.draw.as_ref().map(|draw| draw.early(view.number, t));
            let texts = std::iter::once(when).chain(drawn).collect();
            ("early", t.early_title, texts)
        }
        PlaceState::Waiting => {
            let cause = view.eta.and_then(|eta| eta.cause);
            let cause = cause.map(|cause| because(cause, t).to_owned());
            let presence = view.asks_presence.then(|| t.presence.to_owned());
            let texts = cause.into_iter().chain(presence).collect();
            ("waiting", t.waiting_title, texts)
        }
        PlaceState::Admitted { expires_in_ms, .. } => {
            let how = match view.state.enter() {
                Some(_) => t.admitted_text,
                None => t.admitted_app,
            };
            let left = timed(t.admitted_left, *expires_in_ms, t);
            ("admitted", t.admitted_title, vec![how.to_owned(), left])
        }
        PlaceState::Standby => ("standby", t.standby_title, one(t.standby_text)),
        PlaceState::Gone(reason) => {
            let (title, text) = match reason {
                Gone::Used => (t.gone_used_title, t.gone_used_text),
                Gone::Expired => (t.gone_expired_title, t.gone_expired_text),
                Gone::Left => (t.gone_left_title, t.gone_left_text),
                Gone::Revoked => (t.gone_revoked_title, t.gone_revoked_text),
            };
            ("gone", title, one(text))
        }
        PlaceState::Paused => ("paused", t.paused_title, one(t.paused_text)),
        PlaceState::SoldOut => ("sold_out", t.sold_out_title, sold_out(view, t)),
        PlaceState::Closed => ("closed", t.closed_title, one(t.closed_text)),
        PlaceState::Restoring => ("restoring", t.restoring_title, one(t.restoring_text)),
        PlaceState::Off { .. } => ("off", t.off_title, one(t.off_text)),
    }
}

fn facts(view: &PlaceView, t: &'static Texts) -> Vec<(&'static str, String)> {
    let eta = match view.eta {
        Some(eta) if matches!(view.state, PlaceState::Waiting | PlaceState::Early) => {
            Some(say::eta(eta, t))
        }
        None if view.state == PlaceState::Waiting => Some(t.eta_unknown.to_owned()),
        Some(_) | None => None,
    };
    let reach = view
        .reach
        .zip(view.place)
        .map(|(reach, place)| say::reach(reach, place, t));
    let number = view.number.map(|number| say::number(number.0, t));
    let drawn = view
        .draw
        .as_ref()
        .and_then(|draw| draw.outcome(view.place?, view.number?, t));
    let all = [
        (t.eta, eta),
        (t.reach, reach),
        (t.draw, drawn),
        (t.number, number),
    ];
    all.into_iter()
        .filter_map(|(name, said)| said.map(|said| (name, said)))
        .collect()
}

fn timed(text: &str, ms: u64, t: &Texts) -> String {
    say::fill(text, &[("time", &say::duration(ms, t))])
}

fn sold_out(view: &PlaceView, t: &Texts) -> Vec<String> {
    let ago = view
        .sold_out_at
        .map(|at| timed(t.sold_out_ago, view.now.ms_since(at), t));
    let far = view
        .place
        .filter(|place| view.serving < *place)
        .map(|place| {
            let (serving, place) = (say::number(view.serving.0, t), say::number(place.0, t));
            say::fill(t.sold_out_far, &[("serving", &serving), ("place", &place)])
        });
    let thanks = Some(t.sold_out_thanks.to_owned());
    [ago, far, thanks].into_iter().flatten().collect()
}

fn because(cause: Cause, t: &Texts) -> &'static str {
    match cause {
        Cause::Paused => t.cause_paused,
        Cause::Slowed => t.cause_slowed,
        Cause::Capacity => t.cause_capacity,
        Cause::Crowd => t.cause_crowd,
        Cause::Stock => t.cause_stock,
        Cause::InCarts => t.cause_in_carts,
        Cause::Restoring => t.cause_restoring,
    }
}
