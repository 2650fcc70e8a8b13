//! A fan: small state, moved by answers.

use crate::crowd::clock::Moment;
use crate::crowd::plan::{Door, Plan, Quirk};
use crate::crowd::wire::Cookie;
use crate::judge::sales::Facts;
use crate::judge::told::Way;
use crate::judge::turn::Admission;

/// Which fan of the crowd: 0, 1, 2…
pub type FanNo = u32;

/// Where a fan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not at the door yet, or their join is not answered.
    Coming,
    /// In line.
    Waiting,
    /// In line, not looking, until after the call.
    Asleep,
    /// Called and with a ticket, no seats yet.
    Inside,
    /// Seats are set aside.
    Holding,
    /// An order is answered, its end is not known.
    Paying,
    Ended(End),
}

/// How it ended for a fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A confirmed order.
    Bought,
    /// Gave up place or admission.
    Left,
    /// Went away without a word.
    Silent,
    /// Was told that it is over.
    Told,
    /// Found no seats and left.
    NoSeats,
    /// The admission ran out or the seats did before they paid.
    RanOut,
    /// The server went on answering what it must not, and the fan gave up.
    GaveUp,
}

/// What a step of a fan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Nobody's: the crowd reads the board.
    Board,
    /// No request: a fan's page reads what the board said.
    ReadBoard,
    Join,
    /// The same join at the same moment.
    Twin,
    /// The same join after it was answered.
    Retry,
    /// A join with the pass.
    Refresh,
    Status,
    /// Status of a fan with a ticket: must say the same again.
    Recheck,
    /// The waiting page.
    Page,
    /// Its form.
    Form,
    Probe(Probe),
    Hold,
    Order,
    /// The same order after it was answered.
    OrderAgain,
    /// Reads the order.
    Read,
    Pay,
    Leave,
}

/// What is wrong with the ticket of somebody who must not pass the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    Missing,
    Forged,
    /// Another fan's.
    Foreign,
    /// None, at the orders route.
    OrderWithout,
}

impl Probe {
    /// In the order in which a fan tries them.
    pub const ALL: [Self; 4] = [
        Self::Missing,
        Self::Forged,
        Self::Foreign,
        Self::OrderWithout,
    ];

    /// The name in histories.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Forged => "forged",
            Self::Foreign => "foreign",
            Self::OrderWithout => "order-without",
        }
    }
}

/// Seats set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub hold_id: Box<str>,
    /// Until when the seats are set aside.
    pub ends: Moment,
    pub seats: Vec<Box<str>>,
}

/// What a fan has while inside.
#[derive(Debug, Clone)]
pub struct Turn {
    pub ticket: Box<str>,
    pub admission: Admission,
    /// A hold was asked for since the admission was last told.
    pub asked_hold: bool,
    /// How often this turn's order was sent. An answer may have been lost on its way.
    pub asked_orders: u8,
    /// Seats to ask for next.
    pub seats: u8,
    /// Holds asked for in vain.
    pub tries: u8,
    pub hold: Option<Hold>,
    /// Charges asked for, the order's first included.
    pub charges: u8,
    pub order: Option<Facts>,
    /// Reads of an order that went on being pending.
    pub reads: u16,
}

/// One of the crowd.
#[derive(Debug)]
pub struct Fan {
    pub plan: Plan,
    pub stage: Stage,
    /// Requests in a row that got no usable answer.
    pub troubles: u8,
    /// Answers in all that the API does not have.
    pub baffled: u8,
    /// Whether the fan has asked to leave: what is answered now may be from before or after.
    pub leaving: bool,
    /// Whether a sleeper has been told to stand by.
    pub stood_by: bool,
    pub number: Option<u64>,
    /// The last position told, and when its answer was there.
    pub position: Option<(u64, Moment)>,
    pub pass: Option<Box<str>>,
    /// The fan's id, once an answer or a ticket has named it.
    pub id: Option<Box<str>>,
    /// First request sent, first answer there.
    pub join_sent: Option<Moment>,
    pub join_done: Option<Moment>,
    /// Seconds, as shown at join.
    pub eta: Option<(f32, f32)>,
    /// When the first answer said `admitted`.
    pub called: Option<Moment>,
    pub told: Option<(Moment, Way)>,
    pub turn: Option<Box<Turn>>,
}

impl Fan {
    /// A fan who has done nothing yet.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            stage: Stage::Coming,
            troubles: 0,
            baffled: 0,
            leaving: false,
            stood_by: false,
            number: None,
            position: None,
            pass: None,
            id: None,
            join_sent: None,
            join_done: None,
            eta: None,
            called: None,
            told: None,
            turn: None,
        }
    }

    /// Whether nothing more is going to happen to this fan.
    pub const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    /// Seats of an order that was sent and whose end the fan does not know: they may be sold.
    pub fn seats_ordered(&self) -> u64 {
        let turn = self.turn.as_deref().filter(|turn| 0 < turn.asked_orders);
        let hold = turn.and_then(|turn| turn.hold.as_ref());
        hold.filter(|_| !self.has_ended())
            .map_or(0, |hold| hold.seats.len() as u64)
    }

    /// Whether the fan means to sleep through the call and has not been told to stand by yet.
    pub fn is_sleeper(&self) -> bool {
        self.plan.quirk == Quirk::Sleeps && !self.stood_by
    }

    /// Whether a step that was planned earlier still makes sense.
    pub fn wants(&self, step: Step) -> bool {
        if self.leaving && step != Step::Leave {
            return false;
        }
        match step {
            Step::Board => false,
            Step::Join | Step::Page | Step::Form => self.stage == Stage::Coming,
            Step::Twin => self.plan.quirk == Quirk::JoinsTwice && !self.has_ended(),
            Step::ReadBoard => matches!(self.stage, Stage::Waiting | Stage::Asleep),
            Step::Retry | Step::Refresh | Step::Status | Step::Probe(_) => {
                let looks = step == Step::Status;
                // Without a script a refused form leads to the place page, which says why.
                let coming = self.stage == Stage::Coming && self.is_plain();
                self.stage == Stage::Waiting || (looks && (self.stage == Stage::Asleep || coming))
            }
            Step::Recheck => matches!(self.stage, Stage::Inside | Stage::Holding),
            Step::Hold => self.stage == Stage::Inside,
            Step::Order => self.stage == Stage::Holding,
            Step::OrderAgain => self.turn.as_ref().is_some_and(|turn| turn.order.is_some()),
            Step::Read | Step::Pay => self.stage == Stage::Paying,
            Step::Leave => !self.has_ended() && self.stage != Stage::Paying,
        }
    }

    /// Keeps a pass that an answer brought.
    pub fn keep_pass(&mut self, pass: Option<&str>, cookie: Option<&Cookie>) {
        if let Some(pass) = pass.or(cookie.map(|cookie| &*cookie.value)) {
            self.pass = Some(pass.into());
        }
    }

    /// Whether the fan uses pages and cookies.
    pub fn is_plain(&self) -> bool {
        self.plan.door == Door::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_in_line_is_small() {
        assert!(size_of::<Fan>() <= 256, "{}", size_of::<Fan>());
    }
}
