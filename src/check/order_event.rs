//! Promise 11: order and event are one fact. No state without its outbox row, none the other way.
//!
//! The events of a key are its history: versions without a gap, every step legal, the last one the
//! state of the row. Holds and orders are held against them in both directions.

use std::collections::BTreeMap;

use crate::base::ids::{HoldId, OrderId};
use crate::check::facts::{Facts, HoldState, OrderStatus, Outgoing, Purchase};
use crate::check::verdict::{Promise, Verdict};
use crate::event::partition::of_key;
use crate::event::{Event, Order};

/// The events of one key, in the order of their versions.
type Story<'a> = Vec<&'a Outgoing>;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::OrderEvent);
    let stories = stories(facts);
    for ((aggregate, key), story) in &stories {
        check_story(facts, &format!("{aggregate} {key}"), story, &mut verdict);
        let is_known = match *aggregate {
            "hold" => key
                .parse()
                .is_ok_and(|id: HoldId| facts.shop.holds.contains_key(&id)),
            "order" => key
                .parse()
                .is_ok_and(|id: OrderId| facts.shop.orders.contains_key(&id)),
            // A show's events are statements of the shop, not the other half of a row.
            _ => true,
        };
        if !is_known {
            let last = story[story.len() - 1];
            verdict.breaks(|| {
                format!(
                    "event {} ({}) is about {aggregate} {key}, which is none",
                    last.id, last.kind
                )
            });
        }
    }
    check_rows(facts, &stories, &mut verdict);
    verdict.saw(facts.events.outbox.len(), "events");
    verdict.saw(facts.shop.holds.len(), "holds");
    verdict.saw(facts.shop.orders.len(), "orders");
    verdict
}

fn stories(facts: &Facts) -> BTreeMap<(&str, &str), Story<'_>> {
    let mut stories: BTreeMap<(&str, &str), Story<'_>> = BTreeMap::new();
    for row in facts.events.outbox.values() {
        stories
            .entry((&row.aggregate, &row.key))
            .or_default()
            .push(row);
    }
    for story in stories.values_mut() {
        story.sort_by_key(|row| row.version);
    }
    stories
}

/// Each event is what its columns say, and versions have no gap.
fn check_story(facts: &Facts, what: &str, story: &Story<'_>, verdict: &mut Verdict) {
    let is_trimmed = facts.events.is_trimmed(story[0].partition);
    let mut expected = if is_trimmed { story[0].version } else { 1 };
    for row in story {
        if row.version != expected {
            verdict.breaks(|| {
                format!(
                    "{what} has event {} with version {} where {expected} is next",
                    row.id, row.version
                )
            });
        }
        expected = row.version + 1;
        if row.partition != of_key(&row.key) {
            verdict.breaks(|| {
                format!(
                    "event {} of {what} is in partition {}",
                    row.id, row.partition
                )
            });
        }
        match &row.payload {
            Err(error) => {
                verdict.breaks(|| format!("event {} of {what} cannot be read: {error}", row.id))
            }
            Ok(envelope) => {
                let is_same = envelope.id == row.id
                    && envelope.key() == row.key
                    && envelope.event.kind() == row.kind
                    && envelope.event.aggregate() == row.aggregate;
                if !is_same {
                    verdict.breaks(|| {
                        format!(
                            "event {} of {what} ({}) carries event {} of {} ({})",
                            row.id,
                            row.kind,
                            envelope.id,
                            envelope.key(),
                            envelope.event.kind()
                        )
                    });
                }
            }
        }
    }
}

fn check_rows(facts: &Facts, stories: &BTreeMap<(&str, &str), Story<'_>>, verdict: &mut Verdict) {
    let mut removed = 0;
    for (id, hold) in &facts.shop.holds {
        let what = format!("hold {id}");
        let key = id.to_string();
        let Some(story) = stories.get(&("hold", key.as_str())) else {
            removed += missing(facts, &what, &key, verdict);
            continue;
        };
        let kinds: Vec<&str> = story.iter().map(|row| row.kind.as_str()).collect();
        let is_told = match hold.state {
            HoldState::Live | HoldState::Ordered => matches!(kinds[..], ["HoldPlaced"]),
            HoldState::Expired | HoldState::Released => {
                matches!(kinds[..], ["HoldPlaced", "HoldExpired"] | ["HoldExpired"])
            }
        };
        if !is_told {
            verdict.breaks(|| {
                format!(
                    "{what} is {}, and its events are {}",
                    hold.state,
                    kinds.join(", ")
                )
            });
        }
        check_last(&what, &hold.what, story, verdict);
    }
    for (id, order) in &facts.shop.orders {
        let what = format!("order {id}");
        let key = id.to_string();
        let Some(story) = stories.get(&("order", key.as_str())) else {
            removed += missing(facts, &what, &key, verdict);
            continue;
        };
        match told_status(story) {
            Err(text) => verdict.breaks(|| format!("{what}: {text}")),
            Ok(told) if told != order.status => verdict.breaks(|| {
                format!(
                    "{what} is {}, and its events end with {}",
                    order.status, told
                )
            }),
            Ok(_) => {}
        }
        check_last(&what, &order.what, story, verdict);
    }
    verdict.cannot_prove_some(
        removed,
        "holds and orders are older than what the outbox still has",
    );
}

/// A row without events: 1 where they may have been removed, else a counter-example.
fn missing(facts: &Facts, what: &str, key: &str, verdict: &mut Verdict) -> usize {
    if facts.events.is_trimmed(of_key(key)) {
        return 1;
    }
    verdict.breaks(|| format!("{what} is there, and the outbox has no event of it"));
    0
}

/// The status to which the events of an order lead, each step a legal one.
fn told_status(story: &Story<'_>) -> Result<OrderStatus, String> {
    let mut status: Option<OrderStatus> = None;
    for row in story {
        let next = match row.kind.as_str() {
            "OrderPlaced" => OrderStatus::Pending,
            "OrderConfirmed" => OrderStatus::Confirmed,
            "OrderDeclined" => OrderStatus::Declined,
            "OrderCancelled" => OrderStatus::Cancelled,
            "OrderRefunded" => OrderStatus::Refunded,
            other => return Err(format!("event {} is a {other}", row.id)),
        };
        // The story may begin later than the order, where its first events were removed.
        let is_first = status.is_none() && (1 < row.version || next == OrderStatus::Pending);
        if !is_first && !status.is_some_and(|status| may_follow(status, next)) {
            let before = status.map_or("nothing".to_owned(), |status| status.to_string());
            return Err(format!("event {} makes it {} after {before}", row.id, next));
        }
        status = Some(next);
    }
    status.ok_or_else(|| "no events".to_owned())
}

/// A late approval takes a declined order's seats again or gives the money back.
const fn may_follow(before: OrderStatus, next: OrderStatus) -> bool {
    matches!(
        (before, next),
        (
            OrderStatus::Pending,
            OrderStatus::Confirmed
                | OrderStatus::Declined
                | OrderStatus::Cancelled
                | OrderStatus::Refunded
        ) | (
            OrderStatus::Declined,
            OrderStatus::Confirmed | OrderStatus::Refunded
        ) | (
            OrderStatus::Confirmed,
            OrderStatus::Cancelled | OrderStatus::Refunded
        ) | (OrderStatus::Cancelled, OrderStatus::Refunded)
    )
}

/// The last event has the row's version, and its facts.
fn check_last(what: &str, row: &Purchase, story: &Story<'_>, verdict: &mut Verdict) {
    let last = story[story.len() - 1];
    if last.version != row.version {
        verdict.breaks(|| {
            format!(
                "{what} has version {}, and its last event {} has {}",
                row.version, last.id, last.version
            )
        });
    }
    let Ok(envelope) = &last.payload else { return };
    let is_same = match &envelope.event {
        Event::HoldPlaced(told) => {
            told.show_id == row.show
                && told.seats == row.seats
                && told.total.minor == row.total_minor
                && told.fan_id.is_none_or(|fan| fan == row.fan)
        }
        Event::HoldExpired(told) => told.show_id == row.show && told.seats == row.seats,
        Event::OrderPlaced(told)
        | Event::OrderConfirmed(told)
        | Event::OrderDeclined(told)
        | Event::OrderCancelled(told)
        | Event::OrderRefunded(told) => is_told_rightly(told, row),
        Event::StockChanged(_) | Event::ShowSoldOut(_) | Event::JoinsCounted(_) => true,
    };
    if !is_same {
        verdict.breaks(|| {
            format!(
                "{what} has other facts than its last event {} ({})",
                last.id, last.kind
            )
        });
    }
}

fn is_told_rightly(told: &Order, row: &Purchase) -> bool {
    told.event.id == row.show
        && told.customer.id == row.fan.to_string()
        && told.seats == row.seats
        && told.total.minor == row.total_minor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::Mark;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, at, event_id, facts, fan, hold, hold_id,
        order, order_events, order_id, story,
    };

    /// Hold 1 is live, hold 2 is ordered, and its order is confirmed.
    fn shop() -> Facts {
        let mut facts = facts(vec![]);
        facts.shop.holds.insert(hold_id(1), hold(1, 0));
        let mut ordered = hold(2, 0);
        ordered.state = HoldState::Ordered;
        facts.shop.holds.insert(hold_id(2), ordered);
        facts.shop.orders.insert(order_id(2), order(2, 0));
        facts.events.outbox = order_events();
        facts
    }

    #[test]
    fn rows_and_events_tell_the_same() {
        assert_clean(&judge(&shop()));
        let mut removed = shop();
        let first = removed.events.outbox.remove(&1).unwrap();
        let mark = Mark {
            partition: first.partition,
            offset: 7,
            seq: 9,
            at: at(0),
        };
        removed.events.log.push(mark);
        assert_unproved(&judge(&removed), "older than what the outbox still has");
        let mut older = shop();
        let first = older.events.outbox.get_mut(&1).unwrap().payload.as_mut();
        if let Event::HoldPlaced(told) = &mut first.unwrap().event {
            told.fan_id = None; // as it was written once
        }
        assert_clean(&judge(&older));
    }

    #[test]
    fn every_way_to_differ() {
        type Break = fn(&mut Facts);
        fn row(facts: &mut Facts, seq: u64) -> &mut Outgoing {
            facts.events.outbox.get_mut(&seq).unwrap()
        }
        let rows: [(Break, &str); 13] = [
            (
                |facts| drop(facts.events.outbox.remove(&4)),
                "is confirmed, and its events end with pending",
            ),
            (
                |facts| drop(facts.events.outbox.remove(&2)),
                "has no event of it",
            ),
            (
                |facts| drop(facts.shop.orders.remove(&order_id(2))),
                "which is none",
            ),
            (
                |facts| drop(facts.shop.holds.remove(&hold_id(1))),
                "which is none",
            ),
            (
                |facts| row(facts, 4).version = 3,
                "with version 3 where 2 is next",
            ),
            (|facts| row(facts, 4).partition ^= 1, "is in partition"),
            (
                |facts| row(facts, 4).payload = Err("eof".into()),
                "cannot be read: eof",
            ),
            (|facts| row(facts, 4).id = event_id(99), "carries event"),
            (
                |facts| row(facts, 4).kind = "OrderPlaced".into(),
                "(OrderPlaced) carries event",
            ),
            (
                |facts| facts.shop.holds.get_mut(&hold_id(1)).unwrap().state = HoldState::Expired,
                "its events are HoldPlaced",
            ),
            (
                |facts| facts.shop.holds.get_mut(&hold_id(1)).unwrap().what.version = 2,
                "has version 2",
            ),
            (
                |facts| facts.shop.holds.get_mut(&hold_id(1)).unwrap().what.fan = fan(9),
                "other facts",
            ),
            (
                |facts| {
                    facts
                        .shop
                        .orders
                        .get_mut(&order_id(2))
                        .unwrap()
                        .what
                        .total_minor = 7
                },
                "other facts",
            ),
        ];
        for (breaks, says) in rows {
            let mut facts = shop();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn only_legal_steps_lead_to_a_status() {
        for (kinds, status) in [
            (&["OrderPlaced"][..], Some(OrderStatus::Pending)),
            (
                &["OrderPlaced", "OrderDeclined", "OrderConfirmed"],
                Some(OrderStatus::Confirmed),
            ),
            (
                &["OrderPlaced", "OrderDeclined", "OrderRefunded"],
                Some(OrderStatus::Refunded),
            ),
            (
                &["OrderPlaced", "OrderConfirmed", "OrderCancelled"],
                Some(OrderStatus::Cancelled),
            ),
            (&["OrderConfirmed"], None),
            (&["OrderPlaced", "OrderConfirmed", "OrderConfirmed"], None),
            (&["OrderPlaced", "OrderCancelled", "OrderConfirmed"], None),
            (&["OrderPlaced", "HoldPlaced"], None),
        ] {
            let rows = story(kinds);
            let story: Story<'_> = rows.iter().collect();
            assert_eq!(told_status(&story).ok(), status, "{kinds:?}");
        }
    }
}
