//! What the database and the provider have, held against what fans have heard.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use catraca::app::database::Database;
use catraca::check;
use catraca::orders::payment::via_sandbox::{Record, ViaSandbox};
use catraca::orders::rules::PaymentId;
use tokio::time::{Instant, sleep};

use crate::chaos::orders_killed::heard::Heard;
use crate::chaos::orders_killed::{Death, Place};
use crate::support::database::{all, count};
use crate::support::process::run_in;
use crate::support::sale::at_the_end;
use crate::support::{postgres, until};

/// How long what is open may take to come to its end: a hold of the long form, and some.
const REST_MAX: Duration = Duration::from_secs(300);
/// Holds, orders and payments of which somebody still has to decide something, and their seats.
const OPEN: &str = "select (select count(*) from holds where state = 'live')
  + (select count(*) from orders where status = 'pending')
  + (select count(*) from payments where state in ('asked', 'refunding'))
  + (select count(*) from seats where state = 'held')";

/// An order as it stands.
#[derive(Debug)]
pub(super) struct Order {
    hold: String,
    status: String,
    seats: Vec<String>,
    placed_ms: i64,
    changed_ms: i64,
}

impl Order {
    fn is_confirmed(&self) -> bool {
        self.status == "confirmed"
    }
}

/// What it came to.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) database: &'static str,
    confirmed: Vec<Order>,
    pub(super) free: i64,
    pub(super) sold: usize,
    /// How often the provider was asked to take money.
    pub(super) charges: u32,
    /// What the checker says.
    pub(super) verdicts: String,
}

impl Ended {
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed.len()
    }

    /// Orders that were placed before a death and confirmed after it.
    pub(super) fn paid_across(&self, deaths: &[Death]) -> usize {
        let is_across = |order: &&Order| {
            let mut at_ms = deaths
                .iter()
                .map(|death| (death.at_us / 1_000).cast_signed());
            at_ms.any(|at| (order.placed_ms..order.changed_ms).contains(&at))
        };
        self.confirmed.iter().filter(is_across).count()
    }
}

/// All orders. Each of which somebody has heard is among them, of the hold that they were told.
pub(super) async fn orders(db: &Database, heard: &Heard) -> BTreeMap<String, Order> {
    let rows = "select order_id, hold_id, status, seats, placed_at_ms, updated_at_ms from orders";
    let rows: Vec<(String, String, String, String, i64, i64)> = all(db, rows).await;
    let order = |(id, hold, status, seats, placed_ms, changed_ms): (String, _, _, String, _, _)| {
        let order = Order {
            hold,
            status,
            seats: serde_json::from_str(&seats).unwrap(),
            placed_ms,
            changed_ms,
        };
        (id, order)
    };
    let orders: BTreeMap<String, Order> = rows.into_iter().map(order).collect();
    for (id, hold) in &heard.orders {
        let stored = orders.get(id).map(|order| &order.hold);
        assert_eq!(stored, Some(hold), "order {id} was answered");
    }
    for id in &heard.confirmed {
        assert!(orders[id].is_confirmed(), "order {id} was confirmed");
    }
    orders
}

/// Waits until nothing is open any more, and looks at everything then.
pub(super) async fn at_rest(place: &Place<'_>, heard: &Heard) -> Ended {
    let db = &place.db;
    let end = Instant::now() + REST_MAX;
    while 0 < count(db, OPEN).await {
        assert!(Instant::now() < end, "something is open for ever");
        sleep(Duration::from_millis(200)).await;
    }
    let orders = orders(db, heard).await;
    let charges = money(place.folder, &orders);
    let confirmed: Vec<Order> = orders.into_values().filter(Order::is_confirmed).collect();
    let seats = async |state| {
        let seats = format!("select count(*) from seats where state = '{state}'");
        count(db, &seats).await
    };
    let sold: usize = confirmed.iter().map(|order| order.seats.len()).sum();
    assert_eq!(seats("sold").await, i64::try_from(sold).unwrap());
    Ended {
        database: match db {
            Database::Sqlite(_) => "SQLite",
            Database::Postgres(_) => "PostgreSQL",
        },
        confirmed,
        free: seats("free").await,
        sold,
        charges,
        verdicts: judged(place).await,
    }
}

/// Money was kept once for each order that is confirmed, and for no other; and whoever came after a death asked
/// what had become of a payment before they charged for it. How often the provider was asked to take money.
fn money(folder: &Path, orders: &BTreeMap<String, Order>) -> u32 {
    let record = folder.join("sandbox.ndjson");
    let records = ViaSandbox::in_file(Duration::ZERO, &record)
        .unwrap()
        .records();
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    for (id, record) in &records {
        assert!(record.charges <= 1, "{id:?} was charged: {record:?}");
        let is_kept = record.is_taken && !record.is_returned;
        *kept.entry(id.order.to_string()).or_default() += usize::from(is_kept);
    }
    for (id, order) in orders {
        let times = kept.remove(id).unwrap_or_default();
        assert_eq!(times, usize::from(order.is_confirmed()), "{id}: {order:?}");
    }
    assert!(kept.is_empty(), "charged for no order: {kept:?}");
    records.values().map(|record| record.charges).sum()
}

/// What the provider was asked and did, as it wrote it down.
fn records(folder: &Path) -> BTreeMap<PaymentId, Record> {
    let file = folder.join("sandbox.ndjson");
    let sandbox = ViaSandbox::in_file(Duration::ZERO, &file);
    sandbox.unwrap().records()
}

/// Waits until of a cancelled show more is taken back or paid back than that: how many orders are.
pub(super) async fn comes_further(db: &Database, than: (i64, i64)) -> (i64, i64) {
    loop {
        let stand = "select count(*), count(case status when 'refunded' then 1 end)
          from orders where status in ('cancelled', 'refunded')";
        let stand = all::<(i64, i64)>(db, stand).await[0];
        if stand != than {
            return stand;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Of a cancelled show no seat is left, whoever paid has their money again, and all that it took is as clean as
/// before. How often the provider was asked to pay back.
pub(super) async fn all_is_taken_back(place: &Place<'_>, paid: usize) -> u32 {
    let db = &place.db;
    let refunded =
        "select count(*) from orders where status = 'refunded' and reason = 'show-cancelled'";
    assert_eq!(count(db, refunded).await, i64::try_from(paid).unwrap());
    let others =
        "select count(*) from orders where status in ('pending', 'confirmed', 'cancelled')";
    assert_eq!(count(db, others).await, 0);
    assert_eq!(count(db, "select count(*) from seats").await, 0);
    assert_eq!(count(db, OPEN).await, 0);
    let records = records(place.folder);
    for (id, record) in &records {
        assert_eq!(record.is_returned, record.is_taken, "{id:?}: {record:?}");
        assert!(record.charges <= 1, "{id:?}: {record:?}");
    }
    let returned = records.values().filter(|record| record.is_returned);
    assert_eq!(returned.count(), paid);
    judged(place).await;
    records.values().map(|record| record.refunds).sum()
}

/// `catraca check` finds nothing broken, and has judged all but the rate from below, which takes ten windows in
/// which nothing else limits.
async fn judged(place: &Place<'_>) -> String {
    let url = place.url.as_deref();
    let verdicts = at_the_end(place.folder, url).await;
    let words = ["check", "--data-dir", ".", "--history", "history.ndjson"];
    let database = url.map(|url| ["--database", url]);
    let words = [&words[..], database.as_ref().map_or(&[], |words| words)].concat();
    let checked = run_in(place.folder, &words, &[]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    check::render(&verdicts)
}

/// Nobody has a session of PostgreSQL any more, nor a transaction in it; and nobody has hurt the file.
pub(super) async fn nothing_is_left(place: Place<'_>) {
    if let Database::Sqlite(db) = &place.db {
        let said: String = sqlx::query_scalar("pragma integrity_check")
            .fetch_one(&db.write)
            .await
            .unwrap();
        assert_eq!(said, "ok");
    }
    place.db.close().await;
    let Some(url) = &place.url else { return };
    let others = "select count(*) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()";
    until("nobody has a session", || async {
        let mut own = postgres::connect(url).await;
        let others: i64 = sqlx::query_scalar(others)
            .fetch_one(&mut own)
            .await
            .unwrap();
        (others == 0).then_some(())
    })
    .await;
}
