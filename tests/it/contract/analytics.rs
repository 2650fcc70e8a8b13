//! Sales by minute of event time: each once, in its own minute or as late, whenever it is read.

use catraca::analytics;
use catraca::analytics::step::Teller;
use catraca::analytics::store::Minute;
use catraca::analytics::window::{LATENESS_MS, MINUTE};
use catraca::base::ids::OrderId;
use catraca::base::limits::GROUP_RUNS_MS;
use catraca::base::time::Timestamp;
use catraca::event::{Event, partition};
use catraca::log::Consumer;
use catraca::log::inbox::{Rewound, Run};
use catraca::search::step::Lister;

use crate::contract::desk::{Desk, T0, facts};
use crate::contract::groups::{go_on, left, orders};
use crate::support::database::{self, End, on_every_log};

on_every_log! {
    Desk:
    every_sale_counts_once_in_its_own_minute_or_as_late,
    sales_are_built_again_the_same,
    what_dies_before_its_commit_has_written_nothing,
    a_sale_that_no_sum_takes_is_set_aside_and_stops_nobody,
}

async fn count_all(desk: &Desk) {
    let teller = Teller::new(desk.stores.analytics.clone());
    go_on(desk, teller, analytics::GROUP).await;
}

/// An order that was paid then, and perhaps paid back.
async fn sell(desk: &Desk, order: OrderId, at: Timestamp, refunded_at: Option<Timestamp>) {
    let facts = facts(order);
    let mut envelopes = vec![
        desk.envelope(Event::OrderPlaced(facts.clone()), 1),
        desk.envelope(Event::OrderConfirmed(facts.clone()), 2),
    ];
    envelopes[1].at = at;
    if let Some(refunded_at) = refunded_at {
        let mut refunded = desk.envelope(Event::OrderRefunded(facts), 3);
        refunded.at = refunded_at;
        envelopes.push(refunded);
    }
    database::append(&desk.db, &envelopes, End::Commit).await;
}

async fn minutes(desk: &Desk) -> Vec<Minute> {
    let show = "stadium-show".parse().unwrap();
    let begin = Timestamp::from_unix_ms(0);
    let sales = desk.stores.analytics.minutes(&show, begin);
    sales.await.unwrap()
}

/// Minutes since `T0`, kind, then orders, seats and centavos in time and late.
type Row = (u64, String, (u64, u64, i64), (u64, u64, i64));

fn row(minute: &Minute) -> Row {
    let (sum, late) = (minute.in_time, minute.late);
    (
        minute.minute.ms_since(T0) / MINUTE.0,
        minute.kind.clone(),
        (sum.orders, sum.seats, sum.total.minor),
        (late.orders, late.seats, late.total.minor),
    )
}

async fn every_sale_counts_once_in_its_own_minute_or_as_late(mut desk: Desk) {
    let minute = |n: u64| T0.plus_ms(n * MINUTE.0);
    let closes = minute(1).plus_ms(LATENESS_MS);
    // All in one partition, in this order.
    let order = || desk.order_in(2);
    sell(&desk, order(), T0, None).await;
    sell(&desk, order(), minute(1).minus_ms(1), Some(minute(1))).await;
    sell(&desk, order(), closes.minus_ms(1), None).await;
    sell(&desk, order(), T0.plus_ms(7), None).await; // out of order, and not late
    sell(&desk, order(), closes, None).await; // closes the first minute
    sell(&desk, order(), T0.plus_ms(7), None).await; // late
    sell(&desk, order(), minute(1), None).await; // the next minute is open still
    // Another partition is not as far, so the same is in time there.
    sell(&desk, desk.order_in(3), T0.plus_ms(7), None).await;
    desk.relay_all().await;
    count_all(&desk).await;

    let orders = |n: u64| (n, 2 * n, 78_000 * n.cast_signed());
    let rows: Vec<Row> = minutes(&desk).await.iter().map(row).collect();
    let expected = [
        (0, "sold".to_owned(), orders(4), orders(1)),
        (1, "refunded".to_owned(), orders(1), orders(0)),
        (1, "sold".to_owned(), orders(1), orders(0)),
        (2, "sold".to_owned(), orders(1), orders(0)),
        (3, "sold".to_owned(), orders(1), orders(0)),
    ];
    assert_eq!(rows, expected);

    // Handed over again, whatever the group remembers of its place.
    desk.run("update log_groups set \"offset\" = 0 where consumer = 'analytics'")
        .await;
    desk.restart();
    count_all(&desk).await;
    let rows: Vec<Row> = minutes(&desk).await.iter().map(row).collect();
    assert_eq!(rows, expected);
}

async fn sales_are_built_again_the_same(mut desk: Desk) {
    let many = orders(60);
    for n in 0..many {
        // Times that jump back and forth, so that some are late.
        let at = T0.plus_ms(n * 37_000 % 900_000);
        let refunded_at = (n % 5 == 0).then(|| at.plus_ms(90_000));
        sell(&desk, desk.order(), at, refunded_at).await;
    }
    desk.relay_all().await;
    count_all(&desk).await;
    let before = written(&desk).await;
    let sum = "select cast(sum(orders + late_orders) as bigint) from sales";
    let counted = many + many.div_ceil(5);
    assert_eq!(desk.count(sum).await.cast_unsigned(), counted);
    let late = "select cast(sum(late_orders) as bigint) from sales";
    assert!(0 < desk.count(late).await, "none is late");
    desk.run("update sales set orders = 1000, late_orders = 0")
        .await;
    let wrong = written(&desk).await;

    desk.clock.advance_ms(GROUP_RUNS_MS);
    let store = desk.stores.analytics.clone();
    let told = store.begin_again(Run::Dry).await.unwrap();
    assert_eq!(written(&desk).await, wrong, "a dry run changes nothing");
    let Rewound::From(stood) = store.begin_again(Run::Real).await.unwrap() else {
        panic!("{told:?}");
    };
    assert_eq!(told, Rewound::From(stood));
    let left = "select count(*) from sales";
    assert_eq!(desk.count(left).await, 0);
    desk.restart();
    count_all(&desk).await;
    assert_eq!(written(&desk).await, before);
}

/// Everything the group has written down, without the time at which it did.
async fn written(desk: &Desk) -> String {
    let sales = minutes(desk).await;
    let newest: Vec<(i64, i64)> =
        database::all(&desk.db, "select * from sales_newest order by partition").await;
    let inbox: Vec<(String, String, i64)> = database::all(
        &desk.db,
        "select event_id, key, version from processed_events where consumer = 'analytics'
         order by event_id",
    )
    .await;
    let stands = desk.inbox().standing(analytics::GROUP).await.unwrap();
    format!("{sales:?} {newest:?} {inbox:?} {stands:?}")
}

/// Effect, inbox and offset of both groups: where the last of them cannot be written, none is.
async fn what_dies_before_its_commit_has_written_nothing(desk: Desk) {
    desk.write(left("a", 3), 1).await;
    desk.write(Event::OrderConfirmed(facts(desk.order_in(2))), 1)
        .await;
    desk.relay_all().await;
    let found = |kind: &'static str, partition: u16| {
        let desk = &desk;
        async move {
            let all = desk.poll_all("nobody", partition).await;
            all.into_iter().find(|d| d.kind == kind).unwrap()
        }
    };
    let stock = found("StockChanged", partition::of_key("a")).await;
    let order = found("OrderConfirmed", 2).await;
    let lister = Lister::new(desk.stores.search.clone());
    let teller = Teller::new(desk.stores.analytics.clone());
    let written = async || {
        let mut rows = Vec::new();
        for table in ["listings", "sales", "sales_newest", "processed_events"] {
            rows.push(desk.count(&format!("select count(*) from {table}")).await);
        }
        rows
    };

    desk.run("alter table log_groups rename to away").await;
    lister.apply(&stock).await.unwrap_err();
    teller.apply(&order).await.unwrap_err();
    assert_eq!(written().await, [0, 0, 0, 0]);
    desk.run("alter table away rename to log_groups").await;
    for _ in 0..2 {
        lister.apply(&stock).await.unwrap();
        teller.apply(&order).await.unwrap();
        assert_eq!(written().await, [1, 1, 1, 2]);
    }
    let sum = minutes(&desk).await[0].in_time;
    assert_eq!((sum.orders, sum.seats), (1, 2), "handed over twice");
}

async fn a_sale_that_no_sum_takes_is_set_aside_and_stops_nobody(desk: Desk) {
    let dear = async |partition| {
        let mut order = facts(desk.order_in(partition));
        order.total.minor = i64::MAX;
        desk.write(Event::OrderConfirmed(order), 1).await
    };
    dear(2).await;
    let refused = dear(2).await;
    for partition in [2, 3] {
        sell(&desk, desk.order_in(partition), T0.plus_ms(MINUTE.0), None).await;
    }
    desk.relay_all().await;
    count_all(&desk).await;

    let none = (0, 0, 0);
    let rows: Vec<Row> = minutes(&desk).await.iter().map(row).collect();
    let expected = [
        (0, "sold".to_owned(), (1, 2, i64::MAX), none),
        (1, "sold".to_owned(), (2, 4, 156_000), none),
    ];
    assert_eq!(rows, expected);
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.delivery.event_id, refused.to_string());
    assert_eq!((&*letter.group, letter.because.attempts), ("analytics", 1));
    let reason = &letter.because.reason;
    assert!(reason.starts_with("no store takes it: "), "{reason}");
}
