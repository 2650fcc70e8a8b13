//! Promise 13: a poisoned event stops nobody else. It is set aside with its reason, and both its
//! partition and all other keys go on.

use std::collections::BTreeSet;

use crate::base::time::Timestamp;
use crate::check::facts::{DeadLetter, Events, Facts, Mark};
use crate::check::verdict::{Promise, Verdict};

/// Retries take a few seconds; a partition that stands this much longer than others is stuck.
const STUCK_MS: u64 = 30_000;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::PoisonContained);
    let events = &facts.events;
    for letter in &events.dead_letters {
        check_letter(events, letter, &mut verdict);
    }
    for consumer in events.groups.keys() {
        check_standing(events, consumer, &mut verdict);
    }
    check_quarantine(events, &mut verdict);
    let replayed = events
        .dead_letters
        .iter()
        .filter(|letter| letter.is_replayed)
        .count();
    verdict.saw(events.dead_letters.len(), "dead letters");
    verdict.saw(replayed, "of them replayed");
    verdict.saw(events.quarantine.len(), "events in quarantine");
    verdict.saw(events.groups.len(), "consumers");
    verdict
}

fn check_letter(events: &Events, letter: &DeadLetter, verdict: &mut Verdict) {
    let DeadLetter {
        consumer,
        event,
        partition,
        offset,
        ..
    } = letter;
    if letter.reason.trim().is_empty() {
        verdict.breaks(|| format!("the dead letter of event {event} for {consumer} has no reason"));
    }
    let next = events
        .groups
        .get(consumer)
        .and_then(|group| group.get(partition));
    if next.is_none_or(|progress| progress.next <= *offset) {
        verdict.breaks(|| {
            format!(
                "{consumer} still stands at {partition}/{offset}, the dead letter of event {event}"
            )
        });
    }
    if events.is_trimmed(*partition) {
        return;
    }
    let row = if events.is_in_kafka {
        let mut rows = events.outbox.values();
        rows.find(|row| row.id == *event && row.partition == *partition)
    } else {
        let mut marks = events.log.iter();
        let mark = marks.find(|mark| mark.partition == *partition && mark.offset == *offset);
        mark.and_then(|mark| events.outbox.get(&mark.seq))
    };
    if row.is_none_or(|row| row.id != *event || row.key != letter.key) {
        verdict.breaks(|| {
            format!("the dead letter of event {event} for {consumer} points to {partition}/{offset}, where it is not")
        });
    }
}

/// A partition at which a consumer stands, while it handles what others had later.
fn check_standing(events: &Events, consumer: &str, verdict: &mut Verdict) {
    let group = &events.groups[consumer];
    // A consumer whose effect is its own memory moves its offsets and keeps no inbox.
    let handled = events
        .inboxes
        .get(consumer)
        .and_then(|inbox| inbox.values().max());
    let moved = group.values().map(|progress| &progress.at).max();
    let Some(latest) = handled.or(moved) else {
        return;
    };
    for (partition, progress) in group {
        let at_head = |mark: &&_| {
            let mark: &Mark = mark;
            mark.partition == *partition && mark.offset == progress.next
        };
        let Some(head) = events.log.iter().find(at_head) else {
            continue;
        };
        let since = head.at.max(progress.at);
        if *latest <= since.plus_ms(STUCK_MS) {
            continue;
        }
        let event = events
            .outbox
            .get(&head.seq)
            .map(|row| format!(" (event {})", row.id));
        verdict.breaks(|| {
            format!(
                "{consumer} stands at {partition}/{}{} since {since}, and has handled others until {latest}",
                head.offset, event.unwrap_or_default()
            )
        });
    }
}

/// What can never be sent has a reason, and only its own key waits for it.
fn check_quarantine(events: &Events, verdict: &mut Verdict) {
    let sent: BTreeSet<u64> = events.log.iter().map(|mark| mark.seq).collect();
    for (seq, reason) in &events.quarantine {
        if reason.trim().is_empty() {
            verdict.breaks(|| format!("outbox row {seq} is in quarantine without a reason"));
        }
        let Some(stuck) = events.outbox.get(seq) else {
            continue;
        };
        let behind = events.outbox.iter().find(|(other, row)| {
            let is_behind = *seq < **other && row.partition == stuck.partition;
            let is_foreign = (&row.aggregate, &row.key) != (&stuck.aggregate, &stuck.key);
            is_behind
                && is_foreign
                && !sent.contains(other)
                && !events.quarantine.contains_key(other)
                && has_gone_on(events, row.at)
        });
        if let Some((other, row)) = behind {
            verdict.breaks(|| {
                format!("event {} (outbox row {other}) waits behind row {seq}, in quarantine, of another key", row.id)
            });
        }
    }
}

fn has_gone_on(events: &Events, since: Timestamp) -> bool {
    events
        .log
        .iter()
        .any(|mark| since.plus_ms(STUCK_MS) < mark.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{
        assert_broken, assert_clean, at, dead_letter, delivered, event_id, hold_placed, outgoing,
    };

    /// The event of order 2's confirmation is a dead letter.
    fn poisoned() -> Facts {
        let mut facts = delivered();
        facts.events.dead_letters.push(dead_letter(4));
        facts
    }

    #[test]
    fn a_dead_letter_has_a_reason_and_is_passed() {
        assert_clean(&judge(&delivered()));
        assert_clean(&judge(&poisoned()));
        type Break = fn(&mut Facts);
        let rows: [(Break, &str); 3] = [
            (
                |facts| facts.events.dead_letters[0].reason = " ".into(),
                "no reason",
            ),
            (
                |facts| facts.events.dead_letters[0].event = event_id(3),
                "where it is not",
            ),
            (
                |facts| {
                    let group = facts.events.groups.get_mut("notify").unwrap();
                    group.values_mut().for_each(|progress| progress.next = 0);
                },
                "still stands at",
            ),
        ];
        for (breaks, says) in rows {
            let mut facts = poisoned();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn a_partition_may_not_stand_while_others_go_on() {
        let mut facts = delivered();
        let partition = facts.events.outbox[&4].partition;
        let group = facts.events.groups.get_mut("stock").unwrap();
        group.get_mut(&partition).unwrap().next -= 1;
        assert_clean(&judge(&facts));
        facts
            .events
            .inboxes
            .get_mut("stock")
            .unwrap()
            .insert(event_id(1), at(30_001));
        assert_broken(&judge(&facts), "stock stands at");
    }

    #[test]
    fn a_quarantined_event_holds_up_its_own_key_only() {
        let mut facts = delivered();
        let mut stuck = outgoing(5, hold_placed(8), 0, 1);
        let mut behind = outgoing(6, hold_placed(9), 0, 1);
        (stuck.partition, behind.partition) = (0, 0);
        facts.events.outbox.extend([(5, stuck), (6, behind)]);
        facts.events.quarantine.insert(5, "not JSON".to_owned());
        assert_clean(&judge(&facts));
        facts.events.log[0].at = at(30_001);
        assert_broken(&judge(&facts), "waits behind row 5");
        facts.events.quarantine.insert(5, String::new());
        assert_broken(&judge(&facts), "without a reason");
    }
}
