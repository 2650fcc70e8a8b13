//! Promise 2: if A's join was answered before B's first join was sent, A's number is smaller.
//!
//! One sweep over time: who asks is held against the highest number answered before.

use crate::base::ids::{Number, ShowId};
use crate::base::time::Timestamp;
use crate::check::facts::{Facts, Person, Show};
use crate::check::turns::{self, Turn};
use crate::check::verdict::{Promise, Verdict};

/// A join, from the first request to the first answer.
#[derive(Debug, Clone, Copy)]
struct Join {
    person: Person,
    number: Number,
    sent_us: u64,
    done_us: u64,
}

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::RealTimeOrder);
    let mut count = 0;
    for (id, show) in &facts.shows {
        let joins = joins(facts, id, show);
        count += joins.len();
        sweep(id, &joins, &mut verdict);
    }
    verdict.saw(count, "joins");
    if facts.history.is_none() {
        verdict.cannot_prove("no history: nobody knows who asked when");
    }
    verdict.cannot_prove_some(facts.unplaced(), "operations name no show");
    verdict
}

/// The joins whose number a client was told. A page does not say the number, its first status does.
fn joins(facts: &Facts, id: &ShowId, show: &Show) -> Vec<Join> {
    let (turns, _) = turns::of(facts, id, show);
    let join = |turn: Turn| {
        Some(Join {
            person: turn.person,
            number: turn.number?,
            sent_us: turn.sent_us,
            done_us: turn.done_us?,
        })
    };
    turns.into_iter().filter_map(join).collect()
}

fn sweep(id: &ShowId, joins: &[Join], verdict: &mut Verdict) {
    let mut by_sent: Vec<&Join> = joins.iter().collect();
    by_sent.sort_by_key(|join| join.sent_us);
    let mut by_done: Vec<&Join> = joins.iter().collect();
    by_done.sort_by_key(|join| join.done_us);
    let mut answered = by_done.into_iter().peekable();
    let mut highest: Option<&Join> = None;
    for join in by_sent {
        while let Some(earlier) = answered.next_if(|earlier| earlier.done_us < join.sent_us) {
            if highest.is_none_or(|highest| highest.number < earlier.number) {
                highest = Some(earlier);
            }
        }
        let Some(earlier) = highest.filter(|highest| join.number < highest.number) else {
            continue;
        };
        verdict.breaks(|| {
            format!(
                "show {id}: {} was answered number {} at {}, {} µs before {} asked and got number {}",
                earlier.person,
                earlier.number,
                Timestamp::default().plus_ms(earlier.done_us / 1_000),
                join.sent_us - earlier.done_us,
                join.person,
                join.number
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::{Operation, Outcome};
    use crate::check::sample::{assert_broken, assert_clean, assert_unproved, facts, join};

    fn verdict(history: Vec<Operation>) -> Verdict {
        judge(&Facts {
            history: Some(history),
            ..facts(vec![])
        })
    }

    #[test]
    fn order_counts_where_an_answer_came_before_a_request() {
        assert_unproved(&judge(&facts(vec![])), "no history");
        assert_clean(&verdict(vec![join(1, 0, 10, 1), join(2, 20, 30, 2)]));
        // Requests that overlap may be numbered either way, and so may one sent at the same moment.
        assert_clean(&verdict(vec![join(1, 0, 10, 2), join(2, 5, 15, 1)]));
        assert_clean(&verdict(vec![join(1, 0, 10, 2), join(2, 10, 15, 1)]));
        assert_broken(
            &verdict(vec![join(1, 0, 10, 2), join(2, 11, 15, 1)]),
            "1000 µs before",
        );
    }

    #[test]
    fn the_highest_answered_number_counts_not_the_last() {
        let history = vec![
            join(1, 0, 1, 9),
            join(4, 0, 4, 1),
            join(2, 2, 3, 10),
            join(3, 5, 6, 8),
        ];
        assert_broken(&verdict(history), "number 10");
    }

    #[test]
    fn a_repeated_join_counts_from_its_first_request() {
        let lost = Operation {
            outcome: Outcome::Unknown,
            fan: None,
            ..join(2, 5, 8, 0)
        };
        let history = vec![join(1, 0, 10, 2), lost, join(2, 20, 30, 1)];
        assert_clean(&verdict(history));
    }

    #[test]
    fn refused_joins_prove_nothing() {
        let refused = Operation {
            outcome: Outcome::Refused,
            ..join(2, 20, 30, 1)
        };
        assert_clean(&verdict(vec![join(1, 0, 10, 2), refused]));
    }
}
