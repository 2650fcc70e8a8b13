//! Promises 1, 2 and the position's: one number a fan, unique, in real-time order; a position only falls. [pure]

use std::collections::HashMap;

use crate::crowd::clock::Moment;
use crate::judge::Fault;

/// What a fan knows of their join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    pub fan_no: u32,
    /// When the first request was sent.
    pub sent: Moment,
    /// When the first answer was there.
    pub done: Moment,
    pub number: u64,
}

/// The number a fan was told before and is told now.
pub fn number(before: Option<u64>, now: u64) -> Option<(Fault, String)> {
    let before = before.filter(|before| *before != now)?;
    Some((
        Fault::NumberChanged,
        format!("was number {before}, is told {now}"),
    ))
}

/// The position a fan was told before and is told now, with the cause the answer names.
pub fn position(before: u64, now: u64, cause: Option<&str>) -> Option<(Fault, String)> {
    if now <= before || cause == Some("restoring") {
        return None;
    }
    Some((
        Fault::PositionRose,
        format!("was {before}, is told {now}, cause {cause:?}"),
    ))
}

/// Numbers that two fans have.
pub fn shared(joins: &[Join]) -> Vec<(Fault, String)> {
    let mut owners = HashMap::with_capacity(joins.len());
    let mut faults = Vec::new();
    for join in joins {
        if let Some(other) = owners.insert(join.number, join.fan_no) {
            let text = format!(
                "number {} is fan {other}'s and fan {}'s",
                join.number, join.fan_no
            );
            faults.push((Fault::NumberShared, text));
        }
    }
    faults
}

/// Joins sent after another was answered, with a smaller number: one sweep over time.
pub fn out_of_order(joins: &[Join]) -> Vec<(Fault, String)> {
    let mut by_sent: Vec<&Join> = joins.iter().collect();
    by_sent.sort_unstable_by_key(|join| join.sent);
    let mut by_done: Vec<&Join> = joins.iter().collect();
    by_done.sort_unstable_by_key(|join| join.done);
    let mut answered = by_done.into_iter().peekable();
    let mut highest: Option<&Join> = None;
    let mut faults = Vec::new();
    for join in by_sent {
        while let Some(earlier) = answered.next_if(|earlier| earlier.done < join.sent) {
            if highest.is_none_or(|highest| highest.number < earlier.number) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest.filter(|highest| join.number < highest.number) {
            let text = format!(
                "fan {} was answered number {} {} µs before fan {} asked and got {}",
                earlier.fan_no,
                earlier.number,
                join.sent.us_since(earlier.done),
                join.fan_no,
                join.number
            );
            faults.push((Fault::JoinsOutOfOrder, text));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(fan_no: u32, sent: u64, done: u64, number: u64) -> Join {
        Join {
            fan_no,
            sent: Moment::from_us(sent),
            done: Moment::from_us(done),
            number,
        }
    }

    #[test]
    fn a_fan_keeps_the_number() {
        assert_eq!(number(None, 4), None);
        assert_eq!(number(Some(4), 4), None);
        assert_eq!(number(Some(4), 5).unwrap().0, Fault::NumberChanged);
    }

    #[test]
    fn a_position_rises_only_while_restoring() {
        assert_eq!(position(9, 9, None), None);
        assert_eq!(position(9, 10, Some("restoring")), None);
        assert_eq!(
            position(9, 10, Some("crowd")).unwrap().0,
            Fault::PositionRose
        );
        assert_eq!(position(9, 10, None).unwrap().0, Fault::PositionRose);
    }

    #[test]
    fn a_shared_number_is_found() {
        assert!(shared(&[join(0, 0, 1, 1), join(1, 0, 1, 2)]).is_empty());
        let found = shared(&[join(0, 0, 1, 1), join(1, 0, 1, 2), join(2, 5, 6, 1)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("fan 0's and fan 2's"), "{found:?}");
    }

    #[test]
    fn order_counts_only_where_an_answer_came_before_a_request() {
        // Overlapping requests may be numbered either way; so may one sent at the very moment.
        assert!(out_of_order(&[join(0, 0, 10, 2), join(1, 5, 15, 1)]).is_empty());
        assert!(out_of_order(&[join(0, 0, 10, 2), join(1, 10, 15, 1)]).is_empty());
        let found = out_of_order(&[join(0, 0, 10, 2), join(1, 11, 15, 1), join(2, 16, 17, 3)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].1.contains("fan 0") && found[0].1.contains("fan 1"),
            "{found:?}"
        );
    }

    #[test]
    fn order_is_held_against_the_highest_number_answered_not_the_last() {
        let found = out_of_order(&[
            join(0, 0, 1, 9),
            join(1, 2, 3, 10),
            join(2, 0, 4, 1),
            join(3, 5, 6, 8),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("number 10"), "{found:?}");
    }
}
