//! A shop of its own for one test: a database of its own, a clock that stands still, and an audit that
//! holds every row against every other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catraca::base::ids::{FanId, HoldId, OrderId, ShowId, TicketId};
use catraca::base::secret::Secret;
use catraca::base::time::{Clock, ManualClock, Timestamp};
use catraca::orders::payment::Payments;
use catraca::orders::payment::settle::Settle;
use catraca::orders::payment::via_sandbox::ViaSandbox;
use catraca::orders::rules::hold::{PlaceHold, Wish};
use catraca::orders::rules::order::{Pay, PlaceOrder, Placed};
use catraca::orders::rules::{Buyer, Contact, Hold, Order, Refusal};
use catraca::orders::store::{Reconciled, Store};
use catraca::orders::{Orders, Settings};
use catraca::show::settings::{self, Section};

use crate::contract::shop_home::{Db, Home, Row};

pub(crate) const T0: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
/// How long holds last in these tests.
pub(crate) const HOLD_MS: u64 = 240_000;
pub(crate) const SECRET: &str = "between gateway and shop";

#[derive(Debug)]
pub(crate) struct Shop {
    home: Home,
    pub(crate) db: Db,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) orders: Orders,
    pub(crate) show: ShowId,
}

impl Shop {
    /// A shop with these sections (name, seats, whether they are numbered) and a sandbox provider.
    pub(crate) async fn open(home: &Home, sections: &[(&str, u32, bool)]) -> Self {
        let sandbox = Arc::new(ViaSandbox::new(Duration::from_millis(5)));
        let clock = Arc::new(ManualClock::at(T0));
        let shop = Self::on(home.clone(), clock, sandbox).await;
        shop.set(sections, 1).await;
        shop
    }

    /// The shop that lives there, for another process.
    pub(crate) async fn open_again(home: &Home) -> Self {
        let sandbox = Arc::new(ViaSandbox::new(Duration::from_millis(5)));
        Self::on(home.clone(), Arc::new(ManualClock::at(T0)), sandbox).await
    }

    /// Another show that is sold by the same process.
    pub(crate) async fn beside(&self, show: &str, sections: &[(&str, u32, bool)]) -> Self {
        let beside = Self {
            home: self.home.clone(),
            db: self.db.clone(),
            clock: self.clock.clone(),
            store: self.store.clone(),
            orders: self.orders.clone(),
            show: show.parse().unwrap(),
        };
        beside.set(sections, 1).await;
        beside
    }

    /// The same shop after its process has died, with this provider.
    pub(crate) async fn reopen(self, payments: Arc<dyn Payments>) -> Self {
        let (home, clock) = (self.home.clone(), self.clock.clone());
        drop(self);
        Self::on(home, clock, payments).await
    }

    async fn on(home: Home, clock: Arc<ManualClock>, payments: Arc<dyn Payments>) -> Self {
        let db = home.open().await;
        let store = db.store(clock.clone());
        let settings = Settings {
            payment_call_ms: 2_000,
            ..Settings::with_secret(Secret::new(SECRET))
        };
        Self {
            orders: Orders::new(store.clone(), payments, clock.clone(), settings),
            show: "show".parse().unwrap(),
            home,
            db,
            clock,
            store,
        }
    }

    /// Writes the show's settings, and reconciles its seats.
    pub(crate) async fn set(
        &self,
        sections: &[(&str, u32, bool)],
        holds_per_ticket: u32,
    ) -> Reconciled {
        let sections = sections_of(sections);
        self.decide(&sections, holds_per_ticket).await;
        self.reconcile(&sections).await
    }

    /// Makes the seats what these sections say, as if the settings said so.
    pub(crate) async fn reconcile(&self, sections: &[Section]) -> Reconciled {
        let version = self.version().await;
        let reconciled = self.store.reconcile(&self.show, version, sections).await;
        reconciled.unwrap()
    }

    /// The version of the show's settings.
    pub(crate) async fn version(&self) -> u64 {
        let version = "select version from shows where show = $1";
        let rows = self.db.rows(version, &[self.show.as_str()]).await;
        rows[0].number("version").cast_unsigned()
    }

    /// Writes the show's settings; its seats are as they were.
    pub(crate) async fn decide(&self, sections: &[Section], holds_per_ticket: u32) {
        let mut settings: settings::Settings = serde_json::from_value(serde_json::json!({
            "name": "Show", "rate": 10, "starts_at": "2027-05-01T21:00:00-03:00",
        }))
        .unwrap();
        settings.hold_ms = HOLD_MS;
        settings.holds_per_ticket = holds_per_ticket;
        settings.sections = sections.to_vec();
        let settings = serde_json::to_string(&settings).unwrap();
        self.db
            .set(
                "insert into shows (show, version, settings, state, edition, generation, mended, \
                   ceiling, issued, serving, waiting, checkpoint_at_ms, created_at_ms) \
                 values ($1, 1, $2, 'open', 1, 1, 1, 0, 0, 0, 0, 0, 0) \
                 on conflict (show) do update set settings = excluded.settings, \
                   version = shows.version + 1",
                &[self.show.as_str(), &settings],
            )
            .await;
    }

    /// Cancels the show, as far as selling is concerned.
    pub(crate) async fn cancel(&self) {
        let cancel = "update shows set cancelled_at_ms = 1, version = version + 1 where show = $1";
        self.db.set(cancel, &[self.show.as_str()]).await;
    }

    /// The loop that settles payments, with another provider.
    pub(crate) fn settle_with(&self, payments: Arc<dyn Payments>) -> Settle {
        Settle {
            payments,
            ..self.orders.settle()
        }
    }

    pub(crate) async fn hold(&self, fan: u64, quantity: u32) -> Result<Hold, Refusal> {
        let wish = Wish::Best {
            section: "B".to_owned(),
            quantity,
        };
        self.hold_wish(fan, wish).await
    }

    pub(crate) async fn hold_wish(&self, fan: u64, wish: Wish) -> Result<Hold, Refusal> {
        let buyer = self.buyer(fan);
        let request = PlaceHold { buyer, wish };
        self.store.hold(&request, None).await.unwrap()
    }

    pub(crate) async fn order(&self, fan: u64, hold: HoldId) -> Result<Placed, Refusal> {
        self.order_paying(fan, hold, None).await
    }

    pub(crate) async fn order_paying(
        &self,
        fan: u64,
        hold: HoldId,
        token: Option<&str>,
    ) -> Result<Placed, Refusal> {
        let request = self.place_order(fan, hold, token);
        self.store.place(&request, None).await.unwrap()
    }

    pub(crate) fn place_order(&self, fan: u64, hold: HoldId, token: Option<&str>) -> PlaceOrder {
        PlaceOrder {
            buyer: self.buyer(fan),
            hold,
            contact: Contact {
                email: "ana@example.com".to_owned(),
                locale: "pt-BR".to_owned(),
            },
            token: token.map(str::to_owned),
        }
    }

    /// Seats held and ordered, to be paid with this token.
    pub(crate) async fn bought(&self, fan: u64, quantity: u32, token: Option<&str>) -> Order {
        let hold = self.hold(fan, quantity).await.unwrap();
        let placed = self.order_paying(fan, hold.id, token).await.unwrap();
        placed.order().clone()
    }

    pub(crate) async fn pay(
        &self,
        fan: u64,
        order: OrderId,
        token: Option<&str>,
    ) -> Result<Order, Refusal> {
        let request = Pay {
            buyer: self.buyer(fan),
            order,
            token: token.map(str::to_owned),
        };
        self.store.pay(&request, None).await.unwrap()
    }

    pub(crate) async fn read(&self, fan: u64, order: OrderId) -> Order {
        let told = self.store.order(&self.show, fan_id(fan), order).await;
        told.unwrap().unwrap()
    }

    pub(crate) fn buyer(&self, fan: u64) -> Buyer {
        Buyer {
            show: self.show.clone(),
            fan: fan_id(fan),
            ticket: TicketId(fan_id(fan).0),
            trace: Some(format!("00-{:032x}-b7ad6b7169203331-01", fan + 1)),
        }
    }

    /// (free, held, sold) of the show.
    pub(crate) async fn stock(&self) -> (u64, u64, u64) {
        let availability = self.store.availability(&self.show).await.unwrap().unwrap();
        let add = |(free, held, sold), section: &catraca::event::SectionStock| {
            (
                free + section.free,
                held + section.held,
                sold + section.sold,
            )
        };
        availability.sections.iter().fold((0, 0, 0), add)
    }

    /// The types of an aggregate's events, in the order of their versions.
    pub(crate) async fn events(&self, key: &str) -> Vec<String> {
        let types = "select type from outbox where aggregateid = $1 order by aggregate_version";
        let rows = self.db.rows(types, &[key]).await;
        rows.iter().map(|row| row.text("type")).collect()
    }

    /// Holds every row against every other: seats and their owners, states and their events.
    pub(crate) async fn audit(&self, capacity: u64) {
        let (free, held, sold) = self.stock().await;
        assert_eq!(free + held + sold, capacity, "seats");
        let events = self.all_events().await;
        let mut owed = (0, 0);
        for hold in self.rows("select * from holds").await {
            let (id, state): (String, String) = (hold.text("hold_id"), hold.text("state"));
            let expected = match state.as_str() {
                "live" | "ordered" => vec!["HoldPlaced"],
                _ => vec!["HoldPlaced", "HoldExpired"],
            };
            assert_eq!(events[&id], expected, "hold {id} is {state}");
            assert_eq!(hold.number("version"), expected.len() as i64);
            if state == "live" {
                owed.0 += self.owns(&id, "held", &hold.text("seats")).await;
            }
        }
        let mut tickets = BTreeMap::new();
        for order in self.rows("select * from orders").await {
            let (id, status): (String, String) = (order.text("order_id"), order.text("status"));
            let (hold, seats): (String, String) = (order.text("hold_id"), order.text("seats"));
            let last = match status.as_str() {
                "pending" => "OrderPlaced",
                "confirmed" => "OrderConfirmed",
                "declined" => "OrderDeclined",
                "cancelled" => "OrderCancelled",
                "refunded" => "OrderRefunded",
                _ => panic!("order {id} is {status}"),
            };
            assert_eq!(events[&id][0], "OrderPlaced");
            assert_eq!(events[&id].last().unwrap(), last, "order {id} is {status}");
            assert_eq!(order.number("version"), events[&id].len() as i64);
            match status.as_str() {
                "pending" => owed.0 += self.owns(&hold, "held", &seats).await,
                "confirmed" => owed.1 += self.owns(&hold, "sold", &seats).await,
                _ => assert_eq!(self.owns(&hold, "held", "[]").await, 0),
            }
            let counts = i32::from(["pending", "confirmed"].contains(&status.as_str()));
            *tickets.entry(order.text("ticket_id")).or_insert(0) += counts;
        }
        assert!(tickets.values().all(|counts| *counts <= 1), "{tickets:?}");
        assert_eq!(
            owed,
            (held, sold),
            "every seat that is not free has its owner"
        );
    }

    /// Types of events by key; versions are 1, 2, 3… without a gap.
    async fn all_events(&self) -> BTreeMap<String, Vec<String>> {
        let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.rows("select * from outbox order by seq").await {
            let of_key = events.entry(row.text("aggregateid")).or_default();
            of_key.push(row.text("type"));
            assert_eq!(row.number("aggregate_version"), of_key.len() as i64);
            assert!(row.text_or_none("traceparent").is_some());
        }
        events
    }

    /// How many seats a hold has: those that its row names, all in this state.
    async fn owns(&self, hold: &str, state: &str, seats: &str) -> u64 {
        let query = "select seat from seats where hold_id = $1 and state = $2";
        let rows = self.db.rows(query, &[hold, state]).await;
        let mut owned: Vec<String> = rows.iter().map(|row| row.text("seat")).collect();
        let mut named: Vec<String> = serde_json::from_str(seats).unwrap();
        owned.sort();
        named.sort();
        assert_eq!(owned, named, "seats of hold {hold}");
        owned.len() as u64
    }

    async fn rows(&self, sql: &'static str) -> Vec<Row> {
        self.db.rows(sql, &[]).await
    }

    /// Runs statements that no unit of work would.
    pub(crate) async fn run(&self, sql: &'static str) -> Result<(), sqlx::Error> {
        self.db.run(sql).await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

pub(crate) fn sections_of(sections: &[(&str, u32, bool)]) -> Vec<Section> {
    let section = |(name, seats, numbered): &(&str, u32, bool)| Section {
        name: (*name).to_owned(),
        seats: *seats,
        numbered: *numbered,
        price: serde_json::from_str(r#"{"amount":390.00,"currency":"BRL"}"#).unwrap(),
    };
    sections.iter().map(section).collect()
}

pub(crate) fn fan_id(fan: u64) -> FanId {
    FanId(u128::from(fan + 1).to_be_bytes())
}
