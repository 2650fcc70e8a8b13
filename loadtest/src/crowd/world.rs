//! What all fans share: settings, the board, what was seen so far.

use serde::Serialize;

use crate::cli::Settings;
use crate::crowd::board::Board;
use crate::crowd::clock::{Clock, Moment};
use crate::crowd::fan::{Fan, FanNo, Step};
use crate::crowd::latency::{Latency, op};
use crate::crowd::plan::Locale;
use crate::crowd::wire::Answer;
use crate::history::{Facts, History, Line, Outcome};
use crate::judge::sales::Sales;
use crate::judge::{Fault, Faults};

/// How often things happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that were answered.
    pub answers: u64,
    /// Fans with a number or an answered form.
    pub joined: u64,
    /// Joins answered again: twins, retries, refreshes, and after lost answers.
    pub joined_again: u64,
    /// Fans whose first answer said `admitted`.
    pub called: u64,
    /// Admissions told again and compared.
    pub rechecks: u64,
    /// Fans who asked as told and were not there when called: they are next, but should have been.
    pub missed: u64,
    /// Sleepers told to stand by, and fans called again after standing by.
    pub stood_by: u64,
    pub called_again: u64,
    pub holds: u64,
    pub holds_refused: u64,
    pub orders: u64,
    pub orders_again: u64,
    pub declined_cards: u64,
    pub confirmed: u64,
    /// Requests without a good ticket that got their 401.
    pub probes_refused: u64,
    /// Answers 429 and 5xx, obeyed.
    pub limited: u64,
    pub unavailable: u64,
    /// Requests never sent, and requests without an answer (those lost on purpose not included).
    pub not_sent: u64,
    pub lost: u64,
    pub lost_on_purpose: u64,
}

/// Names of the cookies of this show, as the server chose them.
#[derive(Debug)]
pub struct CookieNames {
    pub pass: Box<str>,
    pub ticket: Box<str>,
}

/// A confirmed order.
#[derive(Debug)]
pub struct Bought {
    pub fan_no: FanNo,
    pub order_id: Box<str>,
    pub locale: Locale,
}

/// An answer, and when.
#[derive(Debug, Clone, Copy)]
pub struct Heard<'a> {
    pub step: Step,
    pub sent: Moment,
    pub done: Moment,
    pub answer: &'a Answer,
    /// Whether the fan's requests before this one were all answered as they should be.
    pub untroubled: bool,
}

/// A fan who sleeps until their place has been called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sleeper {
    pub place: u64,
    pub fan_no: FanNo,
}

/// What all fans share.
#[derive(Debug)]
pub struct World {
    pub settings: Settings,
    pub clock: Clock,
    /// Makes this run's idempotency keys differ from any other run's.
    pub salt: u64,
    pub board: Board,
    pub cookies: CookieNames,
    /// Some called fan's ticket, for those who try with another's.
    pub foreign_ticket: Option<Box<str>>,
    pub sleepers: std::collections::BTreeSet<Sleeper>,
    pub counts: Counts,
    pub latency: Latency,
    pub faults: Faults,
    pub sales: Sales,
    pub bought: Vec<Bought>,
    pub history: History,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(settings: Settings, clock: Clock, history: History) -> Self {
        let cookies = CookieNames {
            pass: format!("catraca-pass-{}", settings.show).into(),
            ticket: format!("catraca-ticket-{}", settings.show).into(),
        };
        Self {
            salt: settings.seed ^ clock.started().us(),
            settings,
            clock,
            board: Board::default(),
            cookies,
            foreign_ticket: None,
            sleepers: std::collections::BTreeSet::new(),
            counts: Counts::default(),
            latency: Latency::default(),
            faults: Faults::default(),
            sales: Sales::default(),
            bought: Vec::new(),
            history,
        }
    }

    /// Counts a fault and writes it into the history.
    pub fn fault(&mut self, fan_no: FanNo, fan: &Fan, fault: Fault, text: &str) {
        self.faults.add(fault, &format!("fan {fan_no}: {text}"));
        let now = self.clock.now().us();
        self.history.write(&Line {
            show: &self.settings.show,
            op: "fault",
            fan_no,
            sent_us: now,
            done_us: now,
            outcome: Outcome::Ok,
            js: !fan.is_plain(),
            facts: Facts {
                state: Some(&fault.name()),
                note: Some(text),
                ..Facts::default()
            },
        });
    }

    /// Counts what a judge found, if anything.
    pub fn faults_of(
        &mut self,
        fan_no: FanNo,
        fan: &Fan,
        found: impl IntoIterator<Item = (Fault, String)>,
    ) {
        for (fault, text) in found {
            self.fault(fan_no, fan, fault, &text);
        }
    }

    /// An answer that the API does not have here.
    pub fn unexpected(&mut self, fan_no: FanNo, fan: &Fan, heard: &Heard<'_>) {
        let text = format!("{:?} was answered {}", heard.step, heard.answer.excerpt());
        self.fault(fan_no, fan, Fault::UnexpectedAnswer, &text);
    }

    /// Writes an answered operation into the history.
    pub fn write(&mut self, fan_no: FanNo, fan: &Fan, heard: &Heard<'_>, facts: Facts<'_>) {
        let outcome = Outcome::of_status(heard.answer.status);
        self.write_as(outcome, (fan_no, fan), heard, facts);
    }

    /// Writes an answer that refused, whatever its status: a form has 303 for every end.
    pub fn write_refused(&mut self, fan_no: FanNo, fan: &Fan, heard: &Heard<'_>) {
        self.write_as(Outcome::Refused, (fan_no, fan), heard, Facts::default());
    }

    fn write_as(
        &mut self,
        outcome: Outcome,
        (fan_no, fan): (FanNo, &Fan),
        heard: &Heard<'_>,
        facts: Facts<'_>,
    ) {
        self.history.write(&Line {
            show: &self.settings.show,
            op: op(heard.step),
            fan_no,
            sent_us: heard.sent.us(),
            done_us: heard.done.us(),
            outcome,
            js: !fan.is_plain(),
            facts: Facts {
                status: Some(heard.answer.status),
                fan: facts.fan.or(fan.id.as_deref()),
                ..facts
            },
        });
    }
}
