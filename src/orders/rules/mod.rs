//! The whole business of selling: facts come in, a decision with the rows to write comes out.
//!
//! ```text
//! hold    live ──► ordered            (an order has it)
//!           └────► expired | released (its seats are free again)
//! order   pending ──► confirmed       (its seats are sold)
//!           └───────► declined ──► confirmed  (approved late, the seats were still free)
//!                        └───────► refunded   (approved late, they were not)
//!         pending | confirmed ──► cancelled   (by an operator; its seats are free again)
//!                                    └──► refunded  (money was taken, and went back)
//! ```
//!
//! Each file decides one kind of request: `hold.rs`, `hold_end.rs`, `order.rs`, `payment.rs` and
//! `cancel.rs`; `seats.rs` chooses seats. A decision is a list of [`Write`]s that the store carries
//! out in one transaction, events included, so that a state and its event are one fact. A
//! [`Refusal`] writes nothing. Absent on purpose: clocks, chance, SQL and HTTP.

pub mod cancel;
pub mod hold;
pub mod hold_end;
pub mod order;
pub mod payment;
pub mod seats;

use std::sync::Arc;

use crate::base::ids::{FanId, HoldId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::event::{self, Event, ShowFacts};

/// Who asks, as the gate asserts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buyer {
    /// The show they are admitted to.
    pub show: ShowId,
    /// The fan.
    pub fan: FanId,
    /// Their admission.
    pub ticket: TicketId,
    /// The W3C `traceparent` of the request.
    pub trace: Option<String>,
}

/// What the operator of a show decided, as far as selling needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The show as its events name it.
    pub show: ShowFacts,
    /// How long a hold lasts.
    pub hold_ms: u64,
    /// Live holds that one ticket may have.
    pub holds_per_ticket: u32,
    /// The sections for sale. Another may still be there, for somebody has seats of it.
    pub sections: Arc<[String]>,
    /// Whether the show was cancelled: nothing more is sold.
    pub is_cancelled: bool,
}

impl Terms {
    /// Whether seats of a section are for sale.
    fn sells(&self, section: &Section) -> bool {
        self.sections.contains(&section.name)
    }
}

/// A part of the house with one price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Whether fans may choose seats by name.
    pub numbered: bool,
    /// The price of one seat.
    pub price: Money,
}

/// Seats set aside for a fan until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The hold.
    pub id: HoldId,
    /// The show.
    pub show: ShowId,
    /// Whose it is.
    pub fan: FanId,
    /// The admission it was made with.
    pub ticket: TicketId,
    /// Which of the ticket's holds it is: 1, 2, 3… Two that did not know of each other have the same.
    pub nth: u64,
    /// The seats by name; they stay here when the seats have gone.
    pub seats: Vec<String>,
    /// Their price at the time of the hold: later prices don't change it.
    pub total: Money,
    /// How it stands.
    pub state: HoldState,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it can no longer be ordered.
    pub expires_at: Timestamp,
    /// The version of its last event.
    pub version: u64,
}

/// How a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// The fan may order it until it expires.
    Live,
    /// An order has it.
    Ordered,
    /// Its time ran out.
    Expired,
    /// The fan gave it back.
    Released,
}

/// A purchase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order.
    pub id: OrderId,
    /// The hold it was made from. One hold, at most one order.
    pub hold: HoldId,
    /// The show.
    pub show: ShowId,
    /// Who buys.
    pub fan: FanId,
    /// The admission it was made with. One ticket, at most one order that counts.
    pub ticket: TicketId,
    /// Where messages go, and in which language.
    pub contact: Contact,
    /// The seats by name.
    pub seats: Vec<String>,
    /// What they cost.
    pub total: Money,
    /// How it stands.
    pub status: Status,
    /// Why it stands so: absent while nothing went wrong.
    pub reason: Option<Reason>,
    /// When it was made.
    pub placed_at: Timestamp,
    /// From when on no further attempt to pay may begin.
    pub payable_until: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// The version of its last event.
    pub version: u64,
}

/// Where the messages about an order go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The address.
    pub email: String,
    /// `pt-BR`, `en` or `es`.
    pub locale: String,
}

/// How an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Waits for its payment; the seats are held.
    Pending,
    /// Paid; the seats are sold.
    Confirmed,
    /// Not paid; the seats are free.
    Declined,
    /// Taken back by an operator; what was paid has not gone back yet.
    Cancelled,
    /// Paid back: the approval came too late, or the order was cancelled.
    Refunded,
}

impl Status {
    /// Whether an order with this status takes the ticket's one turn.
    pub const fn counts(self) -> bool {
        match self {
            Self::Pending | Self::Confirmed => true,
            Self::Declined | Self::Cancelled | Self::Refunded => false,
        }
    }

    /// The word in answers and the store.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Refunded => "refunded",
        }
    }
}

/// Why an order stands as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The last attempt to pay was declined.
    PaymentDeclined,
    /// The provider never said whether it took the money.
    PaymentUnknown,
    /// The money came when the seats had gone.
    ApprovedTooLate,
    /// An operator took the order back.
    CancelledByOperator,
    /// The whole show was cancelled.
    ShowCancelled,
}

impl Reason {
    /// The word in events, answers and the store.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PaymentDeclined => "payment-declined",
            Self::PaymentUnknown => "payment-unknown",
            Self::ApprovedTooLate => "approved-too-late",
            Self::CancelledByOperator => "cancelled-by-operator",
            Self::ShowCancelled => "show-cancelled",
        }
    }
}

/// One attempt to charge an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Which attempt: the provider's idempotency key.
    pub id: PaymentId,
    /// How it stands.
    pub state: PaymentState,
    /// What the fan pays with, as the provider named it; absent: the provider's default.
    pub token: Option<String>,
    /// The provider's name for the charge, once approved.
    pub reference: Option<String>,
    /// When it was made or last asked about.
    pub at: Timestamp,
}

/// An attempt to charge an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentId {
    /// The order.
    pub order: OrderId,
    /// 1, 2, 3…
    pub attempt: u32,
}

/// How an attempt to pay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaymentState {
    /// We don't know the answer.
    Asked,
    /// The provider took the money.
    Approved,
    /// The provider refused.
    Declined,
    /// The provider took the money, and it has to go back.
    Refunding,
    /// The money went back.
    Refunded,
}

/// What a seat becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Set aside.
    Held,
    /// Sold.
    Sold,
}

/// One change that a decision asks for. A store carries out all writes of a decision or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Free seats become the hold's. Each of them must be free.
    Take {
        /// The show.
        show: ShowId,
        /// The seats by name.
        seats: Vec<String>,
        /// The hold that gets them.
        hold: HoldId,
        /// What they become.
        to: Taken,
    },
    /// The hold's seats are sold. There must be as many as given.
    Sell(HoldId, usize),
    /// The hold's seats, which were held, are free. There must be as many as given.
    Free(HoldId, usize),
    /// The hold's seats, which were sold, are free. There must be as many as given.
    Return(HoldId, usize),
    /// The hold as it is now.
    Hold(Hold),
    /// The order as it is now.
    Order(Order),
    /// The attempt to pay as it is now.
    Payment(Payment),
    /// What happened, at its version within its key.
    Event(u64, Event),
}

/// What was decided: what to answer and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<T> {
    /// What to tell whoever asked.
    pub answer: T,
    /// What makes it true.
    pub writes: Vec<Write>,
}

impl<T> Decision<T> {
    /// Nothing changes.
    pub const fn unchanged(answer: T) -> Self {
        Self {
            answer,
            writes: Vec::new(),
        }
    }
}

/// Why not. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such show.
    NoSuchShow,
    /// No such hold, or it is somebody else's: the two must look the same.
    NoSuchHold,
    /// No such order, or it is somebody else's.
    NoSuchOrder,
    /// The show does not sell these seats, or not in this way.
    NotOnSale,
    /// Every seat of the show is sold.
    SoldOut,
    /// Too few of the seats are free.
    SeatsTaken(SeatsTaken),
    /// The ticket has as many live holds as it may have.
    TooManyHolds(Carts),
    /// The ticket's one order exists.
    TurnOver,
    /// The hold's time is over, or it was given back.
    HoldEnded,
    /// The hold has become an order and cannot be given back.
    HoldOrdered,
    /// The provider has not answered the last attempt yet.
    PaymentInProgress,
    /// The order was declined: there is nothing to take back.
    OrderOver,
    /// The show was cancelled.
    ShowCancelled,
}

/// A ticket's live holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carts {
    /// The holds.
    pub holds: Vec<HoldId>,
    /// When the last of them ends.
    pub until: Timestamp,
}

/// Which seats are not to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatsTaken {
    /// Of the seats asked for by name, those that somebody else has.
    pub taken: Vec<String>,
    /// How many seats the section asked for has free.
    pub free: Option<u32>,
    /// Whether some are in carts that may lapse: asking again may help.
    pub in_carts: bool,
}

impl Order {
    /// The order as its events carry it.
    fn facts(&self, terms: &Terms) -> event::Order {
        event::Order {
            order_id: self.id,
            customer: event::Customer {
                id: self.fan.to_string(),
                email: self.contact.email.clone(),
                locale: self.contact.locale.clone(),
            },
            event: terms.show.clone(),
            seats: self.seats.clone(),
            total: self.total,
            reason: self.reason.map(|reason| reason.word().to_owned()),
        }
    }

    /// The order with another status, one version later.
    fn turned(&self, status: Status, reason: Option<Reason>, now: Timestamp) -> Self {
        Self {
            status,
            reason,
            updated_at: now,
            version: self.version + 1,
            ..self.clone()
        }
    }
}
