//! Journeys: for an order that stopped anywhere, the stage is named, and since when.

use catraca::base::ids::{HoldId, OrderId};
use catraca::base::limits::PARTITIONS;
use catraca::base::time::{Clock, Timestamp};
use catraca::event::Event;
use catraca::journey::Journeys;
use catraca::journey::fold::{Journey, Stage, State, Station};
use catraca::journey::text::text;
use catraca::log::patience::Failure;

use crate::contract::desk::{Desk, T0, facts};
use crate::contract::provider::{Mood, Provider, transient};
use crate::support::database::on_every_database;

on_every_database! {
    Desk:
    an_order_that_nobody_placed_has_no_journey,
    it_stops_at_the_request_while_there_is_only_a_hold,
    it_says_for_how_long_and_whose_turn_it_is,
    it_stops_at_the_order_while_nobody_has_paid,
    it_stops_at_the_outbox_where_an_event_is_missing,
    it_stops_at_the_log_until_it_is_relayed_and_in_quarantine,
    it_stops_at_a_group_that_has_not_read_it,
    it_stops_at_a_delivery_that_is_tried_again_and_so_does_what_is_behind_it,
    it_stops_at_a_dead_letter_until_that_is_replayed,
    an_order_that_has_arrived_tells_the_whole_way,
}

async fn place(desk: &Desk, order: OrderId) {
    let now = desk.clock.now().as_millis();
    let until = now + 60_000;
    desk.run(&format!(
        "insert into orders (order_id, hold_id, show, fan, ticket_id, email, locale, seats,
                             total_minor, currency, status, placed_at_ms, payable_until_ms,
                             updated_at_ms, version)
         values ('{order}', '{order}', 'stadium-show', 'f', '{order}', 'a@example.com', 'en', '[]',
                 1, 'BRL', 'pending', {now}, {until}, {now}, 1)"
    ))
    .await;
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
}

async fn confirm(desk: &Desk, order: OrderId) {
    let now = desk.clock.now().as_millis();
    desk.run(&format!(
        "update orders set status = 'confirmed', updated_at_ms = {now}, version = 2
         where order_id = '{order}'"
    ))
    .await;
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
}

/// An order that is confirmed and relayed, which the stock group has read.
async fn relayed(desk: &Desk, order: OrderId) {
    place(desk, order).await;
    confirm(desk, order).await;
    desk.relay_all().await;
    let all: Vec<(u16, u64)> = (0..PARTITIONS).map(|p| (p, 99)).collect();
    desk.inbox().pass("stock", &all).await.unwrap();
}

async fn journey(desk: &Desk, order: OrderId) -> Journey {
    let journeys = Journeys::new(desk.stores.journeys.clone(), desk.time());
    journeys.of(order).await.unwrap().unwrap()
}

/// Where the order stopped, how, and how many milliseconds after the beginning.
async fn stopped(desk: &Desk, order: OrderId) -> (Station, State, u64, String) {
    let Stage {
        stage,
        state,
        at,
        detail,
        ..
    } = journey(desk, order).await.stopped.unwrap();
    (stage, state, at.ms_since(T0), detail)
}

async fn an_order_that_nobody_placed_has_no_journey(desk: Desk) {
    let journeys = Journeys::new(desk.stores.journeys.clone(), desk.time());
    assert_eq!(journeys.of(desk.order()).await.unwrap(), None);
}

async fn it_stops_at_the_request_while_there_is_only_a_hold(desk: Desk) {
    let journeys = Journeys::new(desk.stores.journeys.clone(), desk.time());
    let order = desk.order();
    let hold: HoldId = order.to_string().parse().unwrap();
    assert_eq!(journeys.of_hold(hold).await.unwrap(), None);
    let (now, until) = (T0.as_millis(), T0.as_millis() + 60_000);
    desk.run(&format!(
        "insert into holds (hold_id, show, fan, ticket_id, seats, total_minor, currency, state,
                            expires_at_ms, created_at_ms, version)
         values ('{hold}', 'stadium-show', 'f', 't', '[]', 1, 'BRL', 'live', {until}, {now}, 1)"
    ))
    .await;
    desk.clock.advance_ms(1_234);
    let journey = journeys.of_hold(hold).await.unwrap().unwrap();
    let stage = journey.stopped.clone().unwrap();
    assert_eq!((journey.order, journey.hold), (None, hold));
    assert_eq!(
        (stage.stage, stage.state),
        (Station::Request, State::Waiting)
    );
    assert_eq!(stage.age_ms, Some(1_234));
    let text = text(&journey);
    let first = format!("no order yet, hold {hold} of stadium-show: live\n");
    assert!(text.starts_with(&first), "{text}");
    assert!(
        text.contains(", for 1.234 s: no order has come yet"),
        "{text}"
    );
    desk.clock.advance_ms(60_000);
    let stage = journeys.of_hold(hold).await.unwrap().unwrap().stopped;
    assert_eq!(stage.unwrap().state, State::Stuck, "the hold has ended");
    place(&desk, order).await;
    let journey = journeys.of_hold(hold).await.unwrap().unwrap();
    assert_eq!((journey.order, journey.hold), (Some(order), hold));
    assert_eq!(journey.stopped.unwrap().stage, Station::Order);
}

async fn it_says_for_how_long_and_whose_turn_it_is(desk: Desk) {
    let order = desk.order_in(2);
    place(&desk, order).await;
    let of_event = |journey: &Journey| {
        let mut stages = journey.stages.iter();
        stages
            .find(|stage| stage.stage == Station::Log)
            .cloned()
            .unwrap()
    };
    desk.clock.advance_ms(700);
    let log = of_event(&journey(&desk, order).await);
    assert_eq!(log.age_ms, Some(700));
    assert_eq!(log.owner.unwrap(), "no relay has partition 2");
    desk.run(
        "insert into outbox_partitions (partition, holder, token, until_ms, floor_seq)
         values (2, 'relay-1', 1, 1800000001000, 0)",
    )
    .await;
    let owner = of_event(&journey(&desk, order).await).owner.unwrap();
    assert!(
        owner.starts_with("relay-1 has partition 2 until "),
        "{owner}"
    );
    desk.clock.advance_ms(300);
    let owner = of_event(&journey(&desk, order).await).owner.unwrap();
    assert!(
        owner.starts_with("relay-1 had partition 2 until "),
        "{owner}"
    );
    assert!(owner.ends_with(", and nobody has it now"), "{owner}");
}

async fn it_stops_at_the_order_while_nobody_has_paid(desk: Desk) {
    desk.clock.advance_ms(10);
    let order = desk.order();
    place(&desk, order).await;
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!(
        (station, state, since),
        (Station::Order, State::Waiting, 10)
    );
    assert!(
        detail.contains("payment until 2027-01-15T08:01:00.01Z"),
        "{detail}"
    );
}

async fn it_stops_at_the_outbox_where_an_event_is_missing(desk: Desk) {
    let order = desk.order();
    relayed(&desk, order).await;
    desk.run("update orders set version = 3, updated_at_ms = updated_at_ms + 7")
        .await;
    desk.run(
        "insert into processed_events (consumer, event_id, key, version, at_ms)
         select 'notify', id, aggregateid, 2, 0 from outbox",
    )
    .await;
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!((station, state, since), (Station::Outbox, State::Stuck, 7));
    assert!(detail.starts_with("version 3 has no row"), "{detail}");
}

async fn it_stops_at_the_log_until_it_is_relayed_and_in_quarantine(desk: Desk) {
    let order = desk.order();
    place(&desk, order).await;
    desk.clock.advance_ms(20);
    confirm(&desk, order).await;
    let (station, state, since, _) = stopped(&desk, order).await;
    assert_eq!((station, state, since), (Station::Log, State::Waiting, 0));
    desk.bend_outbox("update outbox set payload = 'x'").await;
    desk.clock.advance_ms(20);
    desk.relay_all().await;
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!((station, state, since), (Station::Log, State::Stuck, 40));
    assert_eq!(detail, "in quarantine: its payload is not JSON");
}

async fn it_stops_at_a_group_that_has_not_read_it(desk: Desk) {
    let order = desk.order();
    desk.clock.advance_ms(5);
    relayed(&desk, order).await;
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!(
        (station, state, since),
        (Station::Effect, State::Waiting, 5)
    );
    assert_eq!(detail, "the group has never read the log");
    desk.inbox().register("notify").await.unwrap();
    let (.., detail) = stopped(&desk, order).await;
    assert_eq!(detail, "not read yet: the group is 2 behind");
}

async fn it_stops_at_a_delivery_that_is_tried_again_and_so_does_what_is_behind_it(desk: Desk) {
    let (order, behind) = (desk.order_in(2), desk.order_in(2));
    relayed(&desk, order).await;
    relayed(&desk, behind).await;
    let provider = Provider::of(&desk, Mood::FailsFor(order, transient()));
    let mut consuming = desk.notifying(provider);
    desk.clock.advance_ms(100);
    consuming.step().await.unwrap();
    desk.clock.advance_ms(500);
    consuming.step().await.unwrap();
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!(
        (station, state, since),
        (Station::Effect, State::Retrying, 100)
    );
    assert!(detail.starts_with("2 attempts spent"), "{detail}");
    assert!(detail.ends_with("mailbox busy"), "{detail}");
    let stage = journey(&desk, order).await.stopped.unwrap();
    assert!(detail.ends_with(&stage.last_error.unwrap()), "{detail}");
    assert_eq!(stage.age_ms, Some(500));
    let owner = stage.owner.unwrap();
    assert!(
        owner.starts_with("a process that runs notify last said so at "),
        "{owner}"
    );
    let (station, state, since, detail) = stopped(&desk, behind).await;
    assert_eq!(
        (station, state, since),
        (Station::Effect, State::Waiting, 0)
    );
    assert!(detail.starts_with("waits behind event "), "{detail}");
}

async fn it_stops_at_a_dead_letter_until_that_is_replayed(desk: Desk) {
    let order = desk.order();
    relayed(&desk, order).await;
    let provider = Provider::of(
        &desk,
        Mood::Fails(Failure::Permanent("no such address".into())),
    );
    desk.clock.advance_ms(30);
    desk.notifying(provider.clone()).step().await.unwrap();
    let (station, state, since, detail) = stopped(&desk, order).await;
    assert_eq!((station, state, since), (Station::Effect, State::Stuck, 30));
    assert_eq!(
        detail,
        "set aside as dead letter 1 after 1 attempts: no such address"
    );
    provider.becomes(Mood::Well);
    desk.dead_letters(provider).replay(1).await.unwrap();
    assert_eq!(journey(&desk, order).await.stopped, None);
}

async fn an_order_that_has_arrived_tells_the_whole_way(desk: Desk) {
    let mailbox = desk.mailbox().await;
    let order = desk.order();
    relayed(&desk, order).await;
    desk.clock.advance_ms(1_500);
    desk.notifying(mailbox).step().await.unwrap();
    let journey = journey(&desk, order).await;
    assert_eq!(journey.stopped, None);
    assert_eq!(
        journey.trace.as_deref(),
        Some("0af7651916cd43dd8448eb211c80319c")
    );
    let way: Vec<Station> = journey.stages.iter().map(|stage| stage.stage).collect();
    use Station::{Effect, Log, Order, Outbox, Provider, Request};
    let expected = [
        Request, Order, Outbox, Log, Effect, Effect, Outbox, Log, Effect, Effect, Provider,
    ];
    assert_eq!(way, expected);
    let provider = journey.stages.last().unwrap();
    assert_eq!(provider.detail, desk.mails()[0]);
    assert_eq!(provider.at, Timestamp::from_unix_ms(T0.as_millis() + 1_500));
    let json = serde_json::to_string(&journey).unwrap();
    assert_eq!(serde_json::from_str::<Journey>(&json).unwrap(), journey);
    let text = text(&journey);
    assert!(
        text.starts_with(&format!("order {order} of stadium-show: confirmed\n")),
        "{text}"
    );
    assert!(
        text.contains("  effect notify    done       2027-01-15T08:00:01.5Z  handled\n"),
        "{text}"
    );
    assert!(text.ends_with("It has arrived.\n"), "{text}");
}
