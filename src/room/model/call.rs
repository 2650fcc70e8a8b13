//! Call: who is next.
//!
//! First those who came back, by place. Then, while a draw is not through, the numbers that its table
//! names for the next places; nobody may hold one of them any more, and it is passed over. Then the
//! queue. Who is found absent goes to standby and takes nobody's turn.

use crate::base::ids::{FanId, Place};
use crate::base::limits::{TICK_LOOKED_MAX, TICK_PLACES_MAX};
use crate::base::time::Timestamp;
use crate::room::model::command::Drawn;
use crate::room::model::line::{Standing, place_of};
use crate::room::model::{State, presence};

/// Whom a tick took out of the line, and from which places.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) called: Vec<(FanId, Place)>,
    pub(super) absent: Vec<(FanId, Place)>,
}

/// Takes the next fans out of the line, at most `most`, and keeps a slot for each.
pub(super) fn call(room: &mut State, now: Timestamp, drawn: Option<&Drawn>, most: u64) -> Taken {
    let mut taking = Taking {
        room,
        now,
        most,
        taken: Taken::default(),
    };
    taking.take_returned();
    if taking.room.is_drawing()
        && let Some(drawn) = drawn
    {
        taking.take_drawn(drawn);
    }
    if !taking.room.is_drawing() {
        taking.take_queue();
    }
    taking.taken
}

struct Taking<'a> {
    room: &'a mut State,
    now: Timestamp,
    most: u64,
    taken: Taken,
}

impl Taking<'_> {
    fn is_over(&self) -> bool {
        let called = self.taken.called.len() as u64;
        let looked_at = called + self.taken.absent.len() as u64;
        self.most <= called || TICK_LOOKED_MAX <= looked_at
    }

    /// Who came back has shown up.
    fn take_returned(&mut self) {
        while !self.is_over()
            && let Some((fan, place)) = self.room.line.first_returned()
        {
            self.call(fan, place);
        }
    }

    fn take_drawn(&mut self, drawn: &Drawn) {
        let before = self.room.serving;
        for number in drawn.numbers.iter().take(TICK_PLACES_MAX) {
            if self.is_over() || !self.room.is_drawing() {
                break;
            }
            let place = Place(self.room.serving.0 + 1);
            self.room.serving = place;
            if let Some(fan) = self.room.line.holder(*number) {
                self.look_at(fan, place);
            }
        }
        if before < self.room.serving {
            self.room.changed();
        }
    }

    fn take_queue(&mut self) {
        while !self.is_over()
            && let Some((fan, number)) = self.room.line.first_in_queue()
        {
            self.look_at(fan, place_of(number));
        }
    }

    fn look_at(&mut self, fan: FanId, place: Place) {
        if presence::is_absent(self.room, self.now, fan) {
            self.room.line.set_absent(fan, self.now, place);
            self.room.seen.forget(fan);
            self.taken.absent.push((fan, place));
        } else {
            self.call(fan, place);
        }
    }

    fn call(&mut self, fan: FanId, place: Place) {
        let until = self.now.plus_ms(self.room.settings.claim_ms);
        self.room.line.set(fan, Standing::Called { until, place });
        self.room.seen.forget(fan);
        self.taken.called.push((fan, place));
    }
}

/// Raises `serving` to the last place that has been called or given up. Not while those who were
/// lost are coming back, for an empty queue means nothing then; nor before or in a draw, where numbers
/// say nothing of places.
pub(super) fn move_serving(room: &mut State) {
    if room.restoring_until.is_some() || room.needs_draw() || room.is_drawing() {
        return;
    }
    let passed = match room.line.lowest() {
        Some(lowest) => Place(place_of(lowest).0.saturating_sub(1)),
        None => place_of(room.seq),
    };
    if room.serving < passed {
        room.serving = passed;
        room.gaps.retain(|gap| passed < place_of(gap.last));
        room.changed();
    }
}
