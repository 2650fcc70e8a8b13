//! The data folder that a small, faultless sale leaves behind, and ways to write more into it.
//!
//! Ten seats; fans 1 and 2 buy, fan 3 lets a hold expire, fan 4 holds, fan 7's card is declined, and
//! fan 8 buys under an address that cannot be written to.

use std::path::PathBuf;
use std::sync::Arc;

use catraca::base::ids::{EventId, HoldId, OrderId};
use catraca::base::time::SystemClock;
use catraca::check::{self, CheckError, Paths, Verdict};
use catraca::driver::schema::CATRACA;
use catraca::driver::sqlite::Sqlite;
use catraca::event::money::Money;
use catraca::event::{
    Customer, Envelope, Event, HoldExpired, HoldPlaced, Order, ShowFacts, StockChanged, codec,
    partition,
};
use catraca::room::in_memory::InMemory;
use catraca::room::model::command::{Change, Command, Joining, Origin};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use uuid::Uuid;

use crate::sim::check_trail::{self, FANS, at, fan, ticket};

const SHOW: &str = "gala";

/// Somebody who buys one seat. Hold and order have the same number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deal {
    pub(crate) id: u128,
    pub(crate) fan: u64,
    pub(crate) ticket: u64,
    pub(crate) seat: u32,
}

impl Deal {
    /// Fan `n` takes seat `n`.
    pub(crate) fn of(n: u64) -> Self {
        let seat = u32::try_from(n).unwrap();
        Self {
            id: n.into(),
            fan: n,
            ticket: n,
            seat,
        }
    }

    pub(crate) fn hold(self) -> HoldId {
        HoldId(Uuid::from_u128(self.id))
    }

    pub(crate) fn order(self) -> OrderId {
        OrderId(Uuid::from_u128(500 + self.id))
    }

    pub(crate) fn seat(self) -> String {
        format!("A-{}", self.seat)
    }

    fn facts(self) -> Order {
        let id = fan(self.fan).to_string();
        Order {
            order_id: self.order(),
            customer: Customer {
                id,
                email: "ana@example.com".into(),
                locale: "en".into(),
            },
            event: ShowFacts {
                id: SHOW.parse().unwrap(),
                name: "Gala".into(),
                starts_at: None,
            },
            seats: vec![self.seat()],
            total: price(),
            reason: None,
        }
    }
}

fn price() -> Money {
    Money {
        minor: 39_000,
        currency: "BRL".parse().unwrap(),
    }
}

/// A data folder, and a history beside it.
#[derive(Debug)]
pub(crate) struct Sale {
    folder: tempfile::TempDir,
    pub(crate) db: SqlitePool,
    room: SqlitePool,
    pub(crate) history: Vec<Value>,
    events: u64,
}

impl Sale {
    /// The faultless sale.
    pub(crate) async fn clean() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (shop, room) = (
            folder.path().join("catraca.db"),
            folder.path().join("room.db"),
        );
        Sqlite::open(&shop, CATRACA).await.unwrap().close().await;
        InMemory::open(&room, Arc::new(SystemClock))
            .await
            .unwrap()
            .close()
            .await;
        std::fs::create_dir(folder.path().join("mailbox")).unwrap();
        let open = |path| SqlitePool::connect_with(SqliteConnectOptions::new().filename(path));
        let mut sale = Self {
            db: open(shop).await.unwrap(),
            room: open(room).await.unwrap(),
            folder,
            history: check_trail::history(),
            events: 0,
        };
        sale.room_trail().await;
        sale.shop_trail().await;
        sale
    }

    /// What `check` says of the folder.
    pub(crate) async fn verdicts(&self) -> Vec<Verdict> {
        check::judge(&self.load().await.unwrap())
    }

    pub(crate) async fn load(&self) -> Result<check::Facts, CheckError> {
        let lines: Vec<String> = self
            .history
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        std::fs::write(self.path("history.ndjson"), lines.concat()).unwrap();
        let histories = vec![self.path("history.ndjson")];
        check::load(&Paths {
            data_dir: self.folder.path().to_owned(),
            database: None,
            histories,
        })
        .await
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs statements on `catraca.db`.
    pub(crate) async fn run(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&self.db)
            .await
            .unwrap();
    }

    /// Runs statements on `room.db`.
    pub(crate) async fn run_in_room(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&self.room)
            .await
            .unwrap();
    }

    async fn room_trail(&mut self) {
        let opening = check_trail::OPENING;
        let settings = json!({"name": "Gala", "rate": 1, "window_ms": 100, "stock_guard": false,
            "sections": [{"name": "A", "seats": 10, "price": {"amount": 390, "currency": "BRL"}}]});
        self.run(&format!(
            "insert into shows values ('{SHOW}', 1, '{settings}', null, null, 'open', 1, 1, 1,
             1048576, 40, 29, 7, {opening} + 20000, 0, null)"
        ))
        .await;
        for (row, seq) in check_trail::ledger().into_iter().zip(1..) {
            let kind = match &row.change {
                Change::Called(_) => "called",
                Change::Absent { .. } => "absent",
                Change::Claimed { .. } => "claimed",
                Change::Extended { .. } => "extended",
                Change::Returned { .. } => "returned",
                Change::Ended { .. } => "ended",
            };
            let (ms, token, serving) = (row.ms, row.token, row.serving);
            let body = serde_json::to_string(&row.change).unwrap();
            self.run(&format!(
                "insert into room_ledger values ('{SHOW}', 1, 1, {seq}, {opening} + {ms}, {token},
                 {serving}, '{kind}', '{body}')"
            ))
            .await;
        }
        for n in 1..=FANS {
            let joining = vec![Joining {
                fan: fan(n),
                origin: Origin::Minted,
            }];
            let command = serde_json::to_string(&Command::Join { joining }).unwrap();
            self.run_in_room(&format!(
                "insert into room_journal values ('{SHOW}', {n}, {opening}, '{command}')"
            ))
            .await;
        }
    }

    async fn shop_trail(&mut self) {
        for seat in 1..=10 {
            self.run(&format!(
                "insert into seats values ('{SHOW}', 'A', {seat}, 'A-{seat}', 'free', null)"
            ))
            .await;
        }
        for partition in 0..6 {
            self.run(&format!(
                "insert into log_groups (consumer, partition, offset, updated_at_ms)
                   values ('stock', {partition}, 0, 0), ('notify', {partition}, 0, 0);
                 insert into outbox_partitions values ({partition}, null, 1, 0, 0, 0, 0);"
            ))
            .await;
        }
        for n in [1, 2, 3, 4, 7, 8] {
            self.hold(Deal::of(n)).await;
        }
        for n in [1, 2, 8] {
            self.buy(Deal::of(n)).await;
        }
        self.decline(Deal::of(7)).await;
        self.expire(Deal::of(3)).await;
        self.run("delete from notices where order_id like '%1fc'")
            .await;
        std::fs::remove_file(self.mail(Deal::of(8).order())).unwrap();
        self.run(
            "insert into dead_letters (consumer, partition, offset, event_id, key, version, type,
                                       payload, reason, attempts, at_ms)
             select 'notify', l.partition, l.offset, o.id, o.aggregateid, o.aggregate_version,
                    o.type, o.payload, 'no such address', 1, 0
             from outbox o join outbox_log l using (seq)
             where o.aggregateid like '%1fc' and o.type = 'OrderConfirmed';
             delete from processed_events where event_id in (select event_id from dead_letters);
             insert into show_stock values ('gala', 1, 6, 1, 3, 0, null, 1);",
        )
        .await;
        self.event(Event::StockChanged(StockChanged {
            show_id: SHOW.parse().unwrap(),
            free: 6,
            held: 1,
            sold: 3,
            sections: Vec::new(),
        }))
        .await;
        self.history.push(self.answer(Deal::of(1)));
        self.history.push(self.answer(Deal::of(1)));
    }

    /// What a client is told of its order.
    pub(crate) fn answer(&self, deal: Deal) -> Value {
        let told =
            json!({"hold_id": deal.hold(), "order_id": deal.order(), "seats": [deal.seat()]});
        check_trail::line("order", deal.fan, 5_000, told)
    }

    /// A fan takes a seat.
    pub(crate) async fn hold(&mut self, deal: Deal) {
        let (hold, seat, made) = (deal.hold(), deal.seat(), at(4_000).as_millis());
        let (fan, ticket) = (fan(deal.fan), ticket(deal.ticket));
        self.run(&format!(
            "insert into holds values ('{hold}', '{SHOW}', '{fan}', '{ticket}', '[\"{seat}\"]', 39000,
             'BRL', 'live', {made} + 240000, {made}, 1,
             (select count(*) + 1 from holds where ticket_id = '{ticket}'));
             update seats set state = 'held', hold_id = '{hold}' where seat = '{seat}';"
        ))
        .await;
        self.event(Event::HoldPlaced(HoldPlaced {
            hold_id: hold,
            show_id: SHOW.parse().unwrap(),
            seats: vec![seat],
            total: price(),
            expires_at: at(244_000),
            fan_id: Some(fan),
        }))
        .await;
    }

    async fn expire(&mut self, deal: Deal) {
        let hold = deal.hold();
        self.run(&format!(
            "update holds set state = 'expired', version = 2 where hold_id = '{hold}';
             update seats set state = 'free', hold_id = null where hold_id = '{hold}';"
        ))
        .await;
        self.event(Event::HoldExpired(HoldExpired {
            hold_id: hold,
            show_id: SHOW.parse().unwrap(),
            seats: vec![deal.seat()],
            reason: "expired".into(),
        }))
        .await;
    }

    /// The held seat is ordered.
    pub(crate) async fn order(&mut self, deal: Deal) {
        let (hold, order, seat) = (deal.hold(), deal.order(), deal.seat());
        let (fan, ticket, made) = (fan(deal.fan), ticket(deal.ticket), at(5_000).as_millis());
        self.run(&format!(
            "insert into orders values ('{order}', '{hold}', '{SHOW}', '{fan}', '{ticket}',
             'ana@example.com', 'en', '[\"{seat}\"]', 39000, 'BRL', 'pending', null, {made}, {made},
             {made}, 1);
             update holds set state = 'ordered' where hold_id = '{hold}';"
        ))
        .await;
        self.event(Event::OrderPlaced(deal.facts())).await;
    }

    /// The order is paid, without its event.
    pub(crate) async fn pay(&self, deal: Deal) {
        let (hold, order) = (deal.hold(), deal.order());
        self.run(&format!(
            "insert into payments values ('{order}', 1, 'approved', null, 'r', 0);
             update orders set status = 'confirmed', version = 2 where order_id = '{order}';
             update seats set state = 'sold' where hold_id = '{hold}';"
        ))
        .await;
    }

    /// Order, payment, event and message.
    pub(crate) async fn buy(&mut self, deal: Deal) {
        self.order(deal).await;
        self.pay(deal).await;
        self.event(Event::OrderConfirmed(deal.facts())).await;
    }

    async fn decline(&mut self, deal: Deal) {
        self.order(deal).await;
        let (hold, order) = (deal.hold(), deal.order());
        self.run(&format!(
            "insert into payments values ('{order}', 1, 'declined', null, null, 0);
             update orders set status = 'declined', version = 2 where order_id = '{order}';
             update seats set state = 'free', hold_id = null where hold_id = '{hold}';"
        ))
        .await;
        self.event(Event::OrderDeclined(deal.facts())).await;
    }

    /// The fan's order is an event only.
    pub(crate) async fn rumour(&mut self, deal: Deal) {
        self.event(Event::OrderPlaced(deal.facts())).await;
    }

    /// Writes an event, sends it, lets everybody handle it, and tells whom it concerns.
    async fn event(&mut self, event: Event) {
        self.events += 1;
        let seq = self.events;
        let id = EventId(Uuid::from_u128(seq.into()));
        let (kind, aggregate) = (event.kind(), event.aggregate());
        let envelope = Envelope {
            id,
            version: 1,
            at: at(5_000),
            trace: None,
            event,
        };
        let (key, payload) = (envelope.key(), codec::to_json(&envelope));
        let (partition, now) = (partition::of_key(&key), at(5_000).as_millis());
        self.run(&format!(
            "insert into outbox select {seq}, '{id}', '{aggregate}', '{key}',
             (select count(*) + 1 from outbox where aggregateid = '{key}'), '{kind}', '{payload}',
             {partition}, null, {now};
             insert into outbox_log select {partition}, count(*), {seq}, {now}
             from outbox_log where partition = {partition};
             update outbox_partitions set floor_seq = {seq};
             update log_groups set offset = offset + 1, updated_at_ms = {now}
             where partition = {partition};"
        ))
        .await;
        if matches!(kind, "OrderConfirmed" | "OrderDeclined") {
            let order: OrderId = key.parse().unwrap();
            self.run(&format!(
                "insert into processed_events (consumer, event_id, key, version, at_ms)
                 values ('notify', '{id}', '{key}', 2, {now});
                 insert into notices values ('{id}', '{order}', '{kind}', 'en', 'a.eml', {now});"
            ))
            .await;
            let mail = format!("Message-ID: <{id}@catraca.example>\r\nSubject: x\r\n\r\nHello");
            std::fs::write(self.mail(order), mail).unwrap();
        }
    }

    /// The message about an order.
    pub(crate) fn mail(&self, order: OrderId) -> PathBuf {
        self.path(&format!("mailbox/{order}.eml"))
    }
}
