//! How a hold ends without an order: its time runs out, the fan gives it back, or its show is
//! cancelled.

use crate::base::ids::{FanId, ShowId};
use crate::base::time::Timestamp;
use crate::event::{Event, HoldExpired};
use crate::orders::rules::{Decision, Hold, HoldState, Refusal, Write};

/// A fan gives a hold back. Repeating it changes nothing, nor does giving back what has expired.
///
/// # Errors
/// The refusal.
pub fn release(hold: Option<&Hold>, fan: FanId, show: &ShowId) -> Result<Decision<()>, Refusal> {
    let hold = hold
        .filter(|hold| hold.fan == fan && hold.show == *show)
        .ok_or(Refusal::NoSuchHold)?;
    match hold.state {
        HoldState::Live => Ok(end(hold, HoldState::Released, "released")),
        HoldState::Expired | HoldState::Released => Ok(Decision::unchanged(())),
        HoldState::Ordered => Err(Refusal::HoldOrdered),
    }
}

/// Ends a hold whose time is over. Repeating it changes nothing.
pub fn expire(hold: &Hold, now: Timestamp) -> Decision<()> {
    if hold.state != HoldState::Live || now < hold.expires_at {
        return Decision::unchanged(());
    }
    end(hold, HoldState::Expired, "expired")
}

/// Ends a hold because its show was cancelled. Repeating it changes nothing.
pub fn cancel(hold: &Hold) -> Decision<()> {
    if hold.state != HoldState::Live {
        return Decision::unchanged(());
    }
    end(hold, HoldState::Released, "cancelled")
}

fn end(hold: &Hold, state: HoldState, reason: &str) -> Decision<()> {
    let ended = Hold {
        state,
        version: hold.version + 1,
        ..hold.clone()
    };
    let event = HoldExpired {
        hold_id: hold.id,
        show_id: hold.show.clone(),
        seats: hold.seats.clone(),
        reason: reason.to_owned(),
    };
    Decision {
        answer: (),
        writes: vec![
            Write::Free(hold.id, hold.seats.len()),
            Write::Hold(ended.clone()),
            Write::Event(ended.version, Event::HoldExpired(event)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{IdSource, TicketId};
    use crate::event::money::Money;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

    #[test]
    fn a_hold_ends_once() {
        let hold = Hold {
            id: IdSource::seeded(1).hold(NOW),
            show: "show".parse().unwrap(),
            fan: FanId([1; 16]),
            ticket: TicketId([2; 16]),
            nth: 1,
            seats: vec!["B-1".to_owned(), "B-2".to_owned()],
            total: Money::parse("780", "BRL".parse().unwrap()).unwrap(),
            state: HoldState::Live,
            created_at: NOW,
            expires_at: NOW.plus_ms(240_000),
            version: 1,
        };
        assert_eq!(
            expire(&hold, hold.expires_at.minus_ms(1)),
            Decision::unchanged(())
        );
        let ended = expire(&hold, hold.expires_at);
        let [Write::Free(_, 2), Write::Hold(expired), Write::Event(2, _)] = &ended.writes[..]
        else {
            panic!("{ended:?}");
        };
        assert_eq!((expired.state, expired.version), (HoldState::Expired, 2));
        assert_eq!(
            expire(expired, NOW.plus_ms(999_999)),
            Decision::unchanged(())
        );

        assert_eq!(cancel(&hold).writes.len(), 3);
        assert_eq!(cancel(expired), Decision::unchanged(()));
        let give_back = |hold: &Hold, fan| release(Some(hold), FanId([fan; 16]), &hold.show);
        assert_eq!(give_back(&hold, 9), Err(Refusal::NoSuchHold));
        assert_eq!(give_back(&hold, 1).unwrap().writes.len(), 3);
        assert_eq!(give_back(expired, 1), Ok(Decision::unchanged(())));
        let ordered = Hold {
            state: HoldState::Ordered,
            ..hold.clone()
        };
        assert_eq!(expire(&ordered, hold.expires_at), Decision::unchanged(()));
        assert_eq!(give_back(&ordered, 1), Err(Refusal::HoldOrdered));
    }
}
