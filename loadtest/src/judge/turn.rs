//! Promise 3 for the called: the same ticket and the same end, whenever they ask, unless a hold prolonged it. [pure]

use crate::judge::Fault;

/// What an answer says of an admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// `jti` of the ticket.
    pub ticket_id: Box<str>,
    /// Milliseconds since the Unix epoch.
    pub expires_ms: i64,
}

/// Whether something may have moved the end of an admission since the fan was last told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prolonged {
    /// A hold was asked for since: the end may lie later, never sooner.
    Maybe,
    /// Nothing was asked for.
    No,
}

/// An admission told again.
pub fn told_again(
    before: &Admission,
    now: &Admission,
    prolonged: Prolonged,
) -> Vec<(Fault, String)> {
    let mut faults = Vec::new();
    if before.ticket_id != now.ticket_id {
        let text = format!("was ticket {}, is told {}", before.ticket_id, now.ticket_id);
        faults.push((Fault::TicketChanged, text));
    }
    let moved = now.expires_ms - before.expires_ms;
    if moved < 0 || (moved != 0 && prolonged == Prolonged::No) {
        faults.push((
            Fault::ExpiryChanged,
            format!("the end moved by {moved} ms, prolonged: {prolonged:?}"),
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(ticket_id: &str, expires_ms: i64) -> Admission {
        Admission {
            ticket_id: ticket_id.into(),
            expires_ms,
        }
    }

    #[test]
    fn only_a_hold_moves_the_end_and_only_later() {
        let before = admission("a", 1_000);
        for (now, prolonged, fault) in [
            (admission("a", 1_000), Prolonged::No, None),
            (admission("a", 1_500), Prolonged::Maybe, None),
            (
                admission("a", 1_500),
                Prolonged::No,
                Some(Fault::ExpiryChanged),
            ),
            (
                admission("a", 999),
                Prolonged::Maybe,
                Some(Fault::ExpiryChanged),
            ),
            (
                admission("b", 1_000),
                Prolonged::Maybe,
                Some(Fault::TicketChanged),
            ),
        ] {
            let found = told_again(&before, &now, prolonged);
            assert_eq!(found.first().map(|f| f.0), fault, "{now:?} {prolonged:?}");
        }
    }
}
