//! What a sale left behind, as read: rows, ledger, journal, mail and histories. No judgement here.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::{
    Edition, EventId, FanId, Generation, HoldId, Number, OrderId, ShowId, TicketId,
};
use crate::base::time::Timestamp;
use crate::check::draw::Draw;
use crate::check::ledger::Entry;
use crate::event::Envelope;

/// Everything that checkers look at.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub(super) shows: BTreeMap<ShowId, Show>,
    pub(super) shop: Shop,
    pub(super) events: Events,
    /// The messages in the mailbox; none: there is no mailbox.
    pub(super) mail: Option<Vec<Mail>>,
    /// What clients wrote down, by the time they asked; none: no history was given.
    pub(super) history: Option<Vec<Operation>>,
    /// Who joined, as the embedded room's journal has it; none: there is no journal.
    pub(super) journals: Option<BTreeMap<ShowId, Journal>>,
}

impl Facts {
    /// The operations on one show. Those whose show nobody knows belong to none.
    pub(super) fn operations<'a>(&'a self, show: &ShowId) -> impl Iterator<Item = &'a Operation> {
        let show = show.clone();
        let all = self.history.iter().flatten();
        all.filter(move |operation| operation.show.as_ref() == Some(&show))
    }

    /// Operations that cannot be held against any show.
    pub(super) fn unplaced(&self) -> usize {
        let all = self.history.iter().flatten();
        all.filter(|operation| operation.show.is_none()).count()
    }
}

/// One show, as its row, its settings and its ledger have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Show {
    pub(super) edition: Edition,
    pub(super) generation: Generation,
    /// The last number issued, at the last checkpoint.
    pub(super) issued: Number,
    /// The highest number that may be issued.
    pub(super) ceiling: Number,
    pub(super) checkpoint_at: Timestamp,
    pub(super) stock_guard: bool,
    /// Whether an operator cancelled it: then nothing is for sale, whatever the sections say.
    pub(super) is_cancelled: bool,
    /// Seats by section.
    pub(super) sections: BTreeMap<String, usize>,
    /// By edition, generation and number.
    pub(super) ledger: Vec<Entry>,
    /// The mends that were finished, by edition and generation.
    pub(super) mends: Vec<Mend>,
    /// The draw of the edition; empty where places are numbers.
    pub(super) draw: Draw,
    /// When operators did something to the show, in order.
    pub(super) acts: Vec<Timestamp>,
}

impl Show {
    /// The ledger's last moment: what happened later may not have been copied yet.
    pub(super) fn ledger_end(&self) -> Option<Timestamp> {
        self.ledger.iter().map(|entry| entry.at).max()
    }

    /// The ledger, one slice an edition.
    pub(super) fn editions(&self) -> impl Iterator<Item = &[Entry]> {
        self.ledger.chunk_by(|a, b| a.edition == b.edition)
    }
}

/// A mend: what came to an end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mend {
    pub(super) edition: Edition,
    /// The generation that it began.
    pub(super) generation: Generation,
    /// What the lost room did until then is in the ledger.
    pub(super) copied_at: Timestamp,
    /// It had been lost by then, by the time of the room that followed.
    pub(super) found_at: Timestamp,
}

/// What was sold.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shop {
    pub(super) seats: Vec<Seat>,
    pub(super) holds: BTreeMap<HoldId, Hold>,
    pub(super) orders: BTreeMap<OrderId, Order>,
    pub(super) payments: Vec<Payment>,
    pub(super) stock: Vec<Stock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) show: ShowId,
    pub(super) section: String,
    pub(super) name: String,
    pub(super) state: SeatState,
    pub(super) hold: Option<HoldId>,
}

/// Declares an enum of words with the texts that SQL has for them.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum $name { $($variant),+ }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $text),+ })
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::base::ids::Malformed;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(crate::base::ids::Malformed { what: stringify!($name) }),
                }
            }
        }
    };
}

words!(
    /// What a seat is.
    SeatState { Free = "free", Held = "held", Sold = "sold" }
);
words!(
    /// What became of a hold.
    HoldState { Live = "live", Ordered = "ordered", Expired = "expired", Released = "released" }
);
words!(
    /// How an order stands.
    OrderStatus {
        Pending = "pending",
        Confirmed = "confirmed",
        Declined = "declined",
        Cancelled = "cancelled",
        Refunded = "refunded",
    }
);
words!(
    /// What is known of an attempt to charge.
    PaymentState {
        Asked = "asked",
        Approved = "approved",
        Declined = "declined",
        Refunding = "refunding",
        Refunded = "refunded",
    }
);

impl OrderStatus {
    /// Whether the order has its seats.
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Pending | Self::Confirmed)
    }
}

/// What a hold and an order have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Purchase {
    pub(super) show: ShowId,
    pub(super) fan: FanId,
    pub(super) ticket: TicketId,
    pub(super) seats: Vec<String>,
    pub(super) total_minor: i64,
    pub(super) at: Timestamp,
    /// The version of the last event.
    pub(super) version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) what: Purchase,
    pub(super) state: HoldState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) what: Purchase,
    pub(super) hold: HoldId,
    pub(super) status: OrderStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payment {
    pub(super) order: OrderId,
    pub(super) attempt: u64,
    pub(super) state: PaymentState,
}

/// What the shop says is left of a show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stock {
    pub(super) show: ShowId,
    pub(super) free: usize,
    pub(super) held: usize,
    pub(super) sold: usize,
}

/// Events, the log, and how far who has read it.
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    /// By `seq`.
    pub(super) outbox: BTreeMap<u64, Outgoing>,
    /// By partition and offset.
    pub(super) log: Vec<Mark>,
    /// Whether the log is in Kafka. There an event that was sent twice has two offsets, of which the mark
    /// has one, and consumers may be quicker than the mark.
    pub(super) is_in_kafka: bool,
    /// Partitions of a log in Kafka whose oldest marks have been removed.
    pub(super) cleaned: BTreeSet<u16>,
    /// By partition: every row up to this `seq` is said to be in the log.
    pub(super) floors: BTreeMap<u16, u64>,
    /// By `seq`: why an event can never be sent.
    pub(super) quarantine: BTreeMap<u64, String>,
    /// By consumer and partition.
    pub(super) groups: BTreeMap<String, BTreeMap<u16, Progress>>,
    /// The inboxes, by consumer: which events were handled, and when.
    pub(super) inboxes: BTreeMap<String, BTreeMap<EventId, Timestamp>>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) notices: BTreeMap<EventId, Notice>,
}

impl Events {
    /// Whether the oldest events of a partition have been removed, after everybody had read them.
    pub(super) fn is_trimmed(&self, partition: u16) -> bool {
        if self.is_in_kafka {
            return self.cleaned.contains(&partition);
        }
        let first = self.log.partition_point(|mark| mark.partition < partition);
        let mark = self
            .log
            .get(first)
            .filter(|mark| mark.partition == partition);
        mark.is_some_and(|mark| 0 < mark.offset)
    }

    /// The next offset of a partition.
    pub(super) fn head(&self, partition: u16) -> u64 {
        let end = self.log.partition_point(|mark| mark.partition <= partition);
        let last = end.checked_sub(1).map(|last| &self.log[last]);
        last.filter(|mark| mark.partition == partition)
            .map_or(0, |mark| mark.offset + 1)
    }
}

/// An event in the outbox.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) id: EventId,
    pub(super) aggregate: String,
    pub(super) key: String,
    pub(super) version: u64,
    pub(super) kind: String,
    pub(super) partition: u16,
    pub(super) at: Timestamp,
    /// The payload; else why it cannot be read.
    pub(super) payload: Result<Envelope, String>,
}

/// An event's place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) partition: u16,
    pub(super) offset: u64,
    pub(super) seq: u64,
    pub(super) at: Timestamp,
}

/// How far a consumer has come in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// The next offset to read.
    pub(super) next: u64,
    /// When it last moved.
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetter {
    pub(super) consumer: String,
    pub(super) partition: u16,
    pub(super) offset: u64,
    pub(super) event: EventId,
    pub(super) key: String,
    pub(super) reason: String,
    pub(super) is_replayed: bool,
}

/// A message that the provider took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) order: OrderId,
}

/// A message in the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mail {
    pub(super) file: String,
    /// What stands before the @ of its Message-ID.
    pub(super) message_id: String,
}

/// Who joined a show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Journal {
    /// The number of its first command.
    pub(super) first: u64,
    pub(super) joined: BTreeSet<FanId>,
}

/// One thing a client did, and what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) show: Option<ShowId>,
    pub(super) person: Person,
    pub(super) op: String,
    /// Microseconds since the Unix epoch.
    pub(super) sent_us: u64,
    /// Microseconds since the Unix epoch.
    pub(super) done_us: u64,
    pub(super) outcome: Outcome,
    pub(super) status: Option<u16>,
    pub(super) fan: Option<FanId>,
    pub(super) number: Option<Number>,
    pub(super) state: Option<String>,
    pub(super) ticket: Option<TicketId>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) hold: Option<HoldId>,
    pub(super) order: Option<OrderId>,
    pub(super) order_status: Option<String>,
    pub(super) seats: Option<Vec<String>>,
    /// With JavaScript; none: the history does not say.
    pub(super) js: Option<bool>,
}

impl Operation {
    pub(super) fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// When it was asked, in whole milliseconds.
    pub(super) fn sent(&self) -> Timestamp {
        instant(self.sent_us)
    }

    /// When it was answered, in whole milliseconds.
    pub(super) fn done(&self) -> Timestamp {
        instant(self.done_us)
    }
}

fn instant(us: u64) -> Timestamp {
    Timestamp::default().plus_ms(us / 1_000)
}

/// Somebody of a crowd: the history's file and their number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Person {
    pub(super) file: usize,
    pub(super) number: u64,
}

impl std::fmt::Display for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {} of history {}", self.number, self.file + 1)
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// Answered, and it was done.
    Ok,
    /// Answered that it was not done.
    Refused,
    /// Never sent.
    Failed,
    /// Nobody knows: it may have been done.
    Unknown,
}
