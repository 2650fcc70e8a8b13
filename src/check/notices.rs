//! The last step of promise 12: whatever becomes of an order has exactly one message, or a dead
//! letter that says why not.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::EventId;
use crate::check::delivery::Places;
use crate::check::facts::{Events, Facts, Mail};
use crate::check::verdict::Verdict;

/// The consumer that tells people.
pub(super) const CONSUMER: &str = "notify";
/// Of those below, what a sale is about.
const CONFIRMED: &str = "OrderConfirmed";
/// What they must be told of.
pub(super) const KINDS: [&str; 4] = [
    CONFIRMED,
    "OrderDeclined",
    "OrderCancelled",
    "OrderRefunded",
];

pub(super) fn check(facts: &Facts, places: &Places<'_>, verdict: &mut Verdict) {
    let events = &facts.events;
    let mail = facts.mail.as_deref().map(by_event);
    let dead: BTreeSet<EventId> = (events.dead_letters.iter())
        .filter(|letter| letter.consumer == CONSUMER && !letter.is_replayed)
        .map(|letter| letter.event)
        .collect();
    let progress = events.groups.get(CONSUMER);
    let mut confirmed = 0;
    for row in events
        .outbox
        .values()
        .filter(|row| KINDS.contains(&row.kind.as_str()))
    {
        confirmed += usize::from(row.kind == CONFIRMED);
        let is_read = places.get(&row.id).is_some_and(|mark| {
            let next = progress.and_then(|progress| progress.get(&mark.partition));
            next.is_some_and(|progress| mark.offset < progress.next)
        });
        let has_notice = events.notices.contains_key(&row.id);
        if is_read && !has_notice && !dead.contains(&row.id) {
            verdict.breaks(|| {
                format!(
                    "order {} has event {} ({}), and that has neither notice nor dead letter",
                    row.key, row.id, row.kind
                )
            });
        }
    }
    for (event, notice) in &events.notices {
        if dead.contains(event) {
            verdict.breaks(|| format!("event {event} has a notice and a dead letter"));
        }
        if !places.contains_key(event) && !may_lack(events, event) {
            verdict.breaks(|| {
                format!(
                    "order {} had a notice of event {event}, which the log has not",
                    notice.order
                )
            });
        }
        match mail
            .as_ref()
            .map(|mail| mail.get(event).map_or(&[][..], Vec::as_slice))
        {
            None | Some([_]) => {}
            Some([]) => verdict.breaks(|| {
                format!(
                    "order {} has a notice of event {event}, and no message with that id",
                    notice.order
                )
            }),
            Some([first, second, ..]) => verdict.breaks(|| {
                format!(
                    "order {} had two messages of event {event}: {first} and {second}",
                    notice.order
                )
            }),
        }
    }
    verdict.saw(confirmed, "orders confirmed");
    verdict.saw(events.notices.len(), "notices");
    check_mail(facts, mail.as_ref(), verdict);
    if facts.mail.is_none() && !events.notices.is_empty() {
        verdict.cannot_prove("no mailbox: only the list of notices was looked at");
    }
}

type ByEvent<'a> = BTreeMap<EventId, Vec<&'a str>>;

fn by_event(mail: &[Mail]) -> ByEvent<'_> {
    let mut by_event: ByEvent<'_> = BTreeMap::new();
    for mail in mail {
        if let Ok(event) = mail.message_id.parse() {
            by_event.entry(event).or_default().push(&mail.file);
        }
    }
    by_event
}

/// A message that no notice knows: the provider took it, and the notice was not committed. That may
/// be so for a moment; two of a kind, or one about nothing, may not.
fn check_mail(facts: &Facts, by_event: Option<&ByEvent<'_>>, verdict: &mut Verdict) {
    let (Some(mail), Some(by_event)) = (&facts.mail, by_event) else {
        return;
    };
    for mail in mail
        .iter()
        .filter(|mail| mail.message_id.parse::<EventId>().is_err())
    {
        verdict.breaks(|| {
            format!(
                "message {} has id {:?}, which is no event's",
                mail.file, mail.message_id
            )
        });
    }
    let known: BTreeSet<EventId> = facts.events.outbox.values().map(|row| row.id).collect();
    let mut unknown = 0;
    for (event, files) in by_event {
        if facts.events.notices.contains_key(event) {
            continue;
        }
        if !known.contains(event) {
            verdict
                .breaks(|| format!("message {} is about event {event}, which is none", files[0]));
        } else if 1 < files.len() {
            verdict.breaks(|| {
                format!(
                    "event {event} had two messages: {} and {}",
                    files[0], files[1]
                )
            });
        } else {
            unknown += 1;
        }
    }
    verdict.saw(mail.len(), "messages");
    verdict.cannot_prove_some(unknown, "messages are out whose notice is not written yet");
}

/// Whether the log may be without an event that a person was told of: its mark was removed, or is yet to
/// be written where consumers may be quicker.
fn may_lack(events: &Events, event: &EventId) -> bool {
    let is_ahead = events.is_in_kafka && events.outbox.values().any(|row| row.id == *event);
    let mut marks = events.log.iter();
    is_ahead || marks.any(|mark| 0 < mark.offset && events.is_trimmed(mark.partition))
}

#[cfg(test)]
mod tests {
    use crate::check::delivery::judge;
    use crate::check::facts::{Facts, Mail};
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, dead_letter, delivered, event_id,
    };

    fn mail(file: &str, id: u128) -> Mail {
        Mail {
            file: file.to_owned(),
            message_id: event_id(id).to_string(),
        }
    }

    #[test]
    fn a_confirmed_order_has_one_message() {
        type Break = fn(&mut Facts);
        let rows: [(Break, &str); 6] = [
            (
                |facts| facts.events.notices.clear(),
                "neither notice nor dead letter",
            ),
            (|facts| facts.mail = Some(vec![]), "no message with that id"),
            (
                |facts| facts.mail.as_mut().unwrap().push(mail("b.eml", 4)),
                "a.eml and b.eml",
            ),
            (
                |facts| facts.mail.as_mut().unwrap().push(mail("b.eml", 77)),
                "which is none",
            ),
            (
                |facts| facts.mail.as_mut().unwrap()[0].message_id = "x".into(),
                "no message with that id",
            ),
            (
                |facts| facts.events.dead_letters.push(dead_letter(4)),
                "a notice and a dead letter",
            ),
        ];
        for (breaks, says) in rows {
            let mut facts = delivered();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn a_dead_letter_stands_for_the_message() {
        let mut facts = delivered();
        facts.events.notices.clear();
        facts.mail = Some(vec![]);
        facts.events.inboxes.get_mut("notify").unwrap().clear();
        facts.events.dead_letters.push(dead_letter(4));
        assert_clean(&judge(&facts));
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        let mut facts = delivered();
        facts.mail = None;
        assert_unproved(&judge(&facts), "no mailbox");
        let mut facts = delivered();
        facts.mail.as_mut().unwrap().push(mail("b.eml", 3));
        assert_unproved(&judge(&facts), "notice is not written yet");
    }
}
