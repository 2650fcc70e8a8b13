//! Promise 12: no event is lost, none is out of order for its key, each effect happens once.
//!
//! From the outbox to the log, from the log to every consumer's inbox; `notices.rs` goes on to the
//! people. What is still on its way is unproved, unless the log has long gone on without it.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::EventId;
use crate::check::facts::{Events, Facts, Mark, Outgoing};
use crate::check::notices;
use crate::check::verdict::{Promise, Verdict};

/// An event that the log has not after this long, though it took others, is lost.
const LOST_MS: u64 = 30_000;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::EventsDelivered);
    let events = &facts.events;
    verdict.saw(events.outbox.len(), "events");
    verdict.saw(events.log.len(), "in the log");
    check_log(events, &mut verdict);
    check_unsent(events, &mut verdict);
    let places = places(events);
    for (consumer, inbox) in &events.inboxes {
        for event in inbox.keys().filter(|event| !places.contains_key(event)) {
            if !is_any_trimmed(events) {
                verdict.breaks(|| {
                    format!("{consumer} has handled event {event}, which the log has not")
                });
            }
        }
    }
    for consumer in events.groups.keys() {
        check_consumer(events, consumer, &mut verdict);
    }
    if events.groups.is_empty() && !events.log.is_empty() {
        verdict.cannot_prove("no consumer has read anything");
    }
    notices::check(facts, &places, &mut verdict);
    verdict
}

/// Where each event stands in the log.
pub(super) type Places<'a> = BTreeMap<EventId, &'a Mark>;

fn places(events: &Events) -> Places<'_> {
    let place = |mark: &'_ _| -> Option<EventId> {
        let mark: &Mark = mark;
        events.outbox.get(&mark.seq).map(|row| row.id)
    };
    events
        .log
        .iter()
        .filter_map(|mark| Some((place(mark)?, mark)))
        .collect()
}

fn is_any_trimmed(events: &Events) -> bool {
    events
        .groups
        .values()
        .flat_map(BTreeMap::keys)
        .any(|partition| events.is_trimmed(*partition))
}

/// Offsets have no gap, but in Kafka, marks stand for events, and the versions of a key rise.
fn check_log(events: &Events, verdict: &mut Verdict) {
    let mut next: BTreeMap<u16, u64> = BTreeMap::new();
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut versions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for mark in &events.log {
        let place = format!("{}/{}", mark.partition, mark.offset);
        let expected = *next.entry(mark.partition).or_insert(mark.offset);
        if mark.offset != expected && !events.is_in_kafka {
            verdict
                .breaks(|| format!("the log goes on at {place} where offset {expected} is next"));
        }
        next.insert(mark.partition, mark.offset + 1);
        if !seen.insert(mark.seq) {
            verdict.breaks(|| {
                format!(
                    "outbox row {} is in the log twice, at {place} too",
                    mark.seq
                )
            });
        }
        let Some(row) = events.outbox.get(&mark.seq) else {
            verdict.breaks(|| {
                format!(
                    "the log has outbox row {} at {place}, which is none",
                    mark.seq
                )
            });
            continue;
        };
        if row.partition != mark.partition {
            verdict.breaks(|| {
                format!(
                    "event {} is at {place}, and belongs to partition {}",
                    row.id, row.partition
                )
            });
        }
        if events.quarantine.contains_key(&mark.seq) {
            verdict.breaks(|| format!("event {} is at {place}, and in quarantine", row.id));
        }
        let before = versions.insert((&row.aggregate, &row.key), row.version);
        if before.is_some_and(|before| row.version <= before) {
            verdict.breaks(|| {
                format!(
                    "{} {} is at {place} with version {} after version {}",
                    row.aggregate,
                    row.key,
                    row.version,
                    before.unwrap_or_default()
                )
            });
        }
    }
}

/// Every event is in the log, or in quarantine, or waits behind one of its key that is.
fn check_unsent(events: &Events, verdict: &mut Verdict) {
    let sent: BTreeSet<u64> = events.log.iter().map(|mark| mark.seq).collect();
    let stuck: BTreeSet<(&str, &str)> = events
        .quarantine
        .keys()
        .filter_map(|seq| events.outbox.get(seq))
        .map(|row| (row.aggregate.as_str(), row.key.as_str()))
        .collect();
    let mut under_way = 0;
    for (seq, row) in &events.outbox {
        let is_stuck = stuck.contains(&(row.aggregate.as_str(), row.key.as_str()));
        if sent.contains(seq) || events.quarantine.contains_key(seq) || is_stuck {
            continue;
        }
        match overtaken(events, *seq, row) {
            Some(how) => verdict.breaks(|| {
                format!(
                    "event {} ({}, outbox row {seq}) of {} is not in the log: {how}",
                    row.id, row.kind, row.at
                )
            }),
            None => under_way += 1,
        }
    }
    verdict.saw(events.quarantine.len(), "in quarantine");
    verdict.cannot_prove_some(under_way, "events are not in the log yet");
}

/// What shows that an event will never be sent.
fn overtaken(events: &Events, seq: u64, row: &Outgoing) -> Option<String> {
    if events
        .floors
        .get(&row.partition)
        .is_some_and(|floor| seq <= *floor)
    {
        return Some("its partition is marked as sent up to there".to_owned());
    }
    let deadline = row.at.plus_ms(LOST_MS);
    let later = events.log.iter().find(|mark| {
        let is_later = mark.partition == row.partition && seq < mark.seq;
        is_later && is_same_key(events, mark, row) || deadline < mark.at
    })?;
    Some(format!(
        "outbox row {} was sent to {}/{} at {}",
        later.seq, later.partition, later.offset, later.at
    ))
}

fn is_same_key(events: &Events, mark: &Mark, row: &Outgoing) -> bool {
    events
        .outbox
        .get(&mark.seq)
        .is_some_and(|other| other.aggregate == row.aggregate && other.key == row.key)
}

/// A consumer's inbox has every event that it has passed, of the kinds that it handles at all, or a
/// dead letter has it.
fn check_consumer(events: &Events, consumer: &str, verdict: &mut Verdict) {
    let progress = &events.groups[consumer];
    let nothing = BTreeMap::new();
    let inbox = events.inboxes.get(consumer).unwrap_or(&nothing);
    let dead: BTreeSet<EventId> = events
        .dead_letters
        .iter()
        .filter(|letter| letter.consumer == consumer)
        .map(|letter| letter.event)
        .collect();
    let mut kinds = handled_kinds(events, inbox);
    if consumer == notices::CONSUMER {
        kinds.extend(notices::KINDS);
    }
    let (mut read, mut behind) = (0, 0);
    for mark in &events.log {
        let Some(row) = events.outbox.get(&mark.seq) else {
            continue;
        };
        let next = progress
            .get(&mark.partition)
            .map_or(0, |progress| progress.next);
        if next <= mark.offset {
            behind += 1;
            continue;
        }
        read += 1;
        if kinds.contains(row.kind.as_str())
            && !inbox.contains_key(&row.id)
            && !dead.contains(&row.id)
        {
            verdict.breaks(|| {
                format!(
                    "{consumer} has read past event {} ({}) at {}/{}, and neither its inbox nor a dead letter has it",
                    row.id, row.kind, mark.partition, mark.offset
                )
            });
        }
    }
    for (partition, progress) in progress {
        let head = events.head(*partition);
        if head < progress.next && !events.is_in_kafka {
            verdict.breaks(|| {
                format!(
                    "{consumer} has read up to {partition}/{}, and the log ends at {head}",
                    progress.next
                )
            });
        }
    }
    verdict.saw(read, &format!("read by {consumer}"));
    verdict.cannot_prove_some(behind, &format!("events were not yet read by {consumer}"));
}

/// Consumers pass over kinds that do not concern them; one that handled an event of a kind handles
/// them all.
fn handled_kinds<'a, T>(events: &'a Events, inbox: &BTreeMap<EventId, T>) -> BTreeSet<&'a str> {
    let rows = events.outbox.values();
    rows.filter(|row| inbox.contains_key(&row.id))
        .map(|row| row.kind.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::{Facts, Progress};
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, at, delivered, event_id, order_facts,
        outgoing,
    };
    use crate::event::Event;

    #[test]
    fn everything_is_delivered() {
        assert_clean(&judge(&delivered()));
    }

    type Break = fn(&mut Facts);

    fn check(rows: &[(Break, &str)]) {
        for (breaks, says) in rows {
            let mut facts = delivered();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    /// Takes an event out of the log before anybody has read it.
    fn unsend(facts: &mut Facts, seq: u64) {
        let events = &mut facts.events;
        events.log.retain(|mark| mark.seq != seq);
        for same in events.log.chunk_by_mut(|a, b| a.partition == b.partition) {
            same.iter_mut()
                .zip(0..)
                .for_each(|(mark, offset)| mark.offset = offset);
        }
        events.inboxes.clear();
        events.groups.clear();
        events.notices.clear();
        facts.mail = None;
    }

    /// An event that was sent twice stands there twice, and its mark has one of the two offsets.
    #[test]
    fn offsets_may_have_gaps_in_kafka() {
        let mut facts = delivered();
        let spread = |offset: &mut u64| *offset = 2 * *offset + 3;
        let events = &mut facts.events;
        events
            .log
            .iter_mut()
            .for_each(|mark| spread(&mut mark.offset));
        let groups = events.groups.values_mut().flat_map(BTreeMap::values_mut);
        groups.for_each(|progress| spread(&mut progress.next));
        assert_broken(&judge(&facts), "where offset");
        facts.events.is_in_kafka = true;
        assert_clean(&judge(&facts));
    }

    #[test]
    fn every_way_to_lose_an_event_before_the_log() {
        let below_the_floor: Break = |facts| {
            unsend(facts, 4);
            facts.events.floors = (0..6).map(|partition| (partition, 4)).collect();
        };
        let a_hole: Break = |facts| {
            let fourth = facts.events.log.iter_mut().find(|mark| mark.seq == 4);
            fourth.unwrap().offset += 7;
        };
        let long_ago: Break = |facts| {
            unsend(facts, 4);
            facts.events.log[0].at = at(30_001);
        };
        check(&[
            (below_the_floor, "marked as sent up to there"),
            (long_ago, "was sent to"),
            (|facts| unsend(facts, 3), "outbox row 4 was sent"),
            (
                |facts| facts.events.outbox.retain(|seq, _| *seq != 1),
                "which is none",
            ),
            (
                |facts| facts.events.log[0].partition ^= 1,
                "belongs to partition",
            ),
            (a_hole, "is next"),
        ]);
    }

    #[test]
    fn every_way_to_lose_an_event_after_the_log() {
        fn forget(facts: &mut Facts, consumer: &str, event: u128) {
            let inbox = facts.events.inboxes.get_mut(consumer).unwrap();
            inbox.remove(&event_id(event));
        }
        let beyond_the_end: Break = |facts| {
            let group = facts.events.groups.get_mut("stock").unwrap();
            group.insert(
                0,
                Progress {
                    next: 99,
                    at: at(0),
                },
            );
        };
        let from_nowhere: Break = |facts| {
            let inbox = facts.events.inboxes.get_mut("stock").unwrap();
            inbox.insert(event_id(77), at(0));
        };
        check(&[
            (|facts| forget(facts, "stock", 1), "neither its inbox"),
            (|facts| forget(facts, "notify", 4), "neither its inbox"),
            (beyond_the_end, "the log ends at"),
            (from_nowhere, "which the log has not"),
        ]);
    }

    #[test]
    fn versions_of_a_key_rise_in_the_log() {
        let mut facts = delivered();
        let (third, fourth) = (
            facts
                .events
                .log
                .iter()
                .position(|mark| mark.seq == 3)
                .unwrap(),
            facts
                .events
                .log
                .iter()
                .position(|mark| mark.seq == 4)
                .unwrap(),
        );
        facts.events.log[third].seq = 4;
        facts.events.log[fourth].seq = 3;
        assert_broken(&judge(&facts), "with version 1 after version 2");
    }

    #[test]
    fn what_is_on_its_way_is_unproved() {
        let mut facts = delivered();
        let late = outgoing(5, Event::OrderPlaced(order_facts(3)), 10, 1);
        facts.events.outbox.insert(5, late);
        assert_unproved(&judge(&facts), "1 events are not in the log yet");
        facts.events.quarantine.insert(5, "not JSON".to_owned());
        assert_clean(&judge(&facts));
        let mut facts = delivered();
        for progress in facts.events.groups.get_mut("stock").unwrap().values_mut() {
            progress.next = 0;
        }
        facts.events.inboxes.get_mut("stock").unwrap().clear();
        assert_unproved(&judge(&facts), "4 events were not yet read by stock");
    }
}
