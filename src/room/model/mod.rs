//! What a waiting room is, and every way it can change.
//!
//! Fans take numbers; a tick calls the next ones and raises `serving`. A position is a subtraction
//! and is stored nowhere, so two million people polling cost the room nothing.
//!
//! This folder is the definition: [`apply`] takes a room, a time and a command, and every command
//! has an outcome in every state. A store is this function and a way to keep what it says.
//!
//! Absent on purpose: clocks, chance, I/O and errors.

pub mod command;
pub mod outcome;
pub mod words;

mod board;
mod call;
mod claim;
mod facts;
mod join;
mod ledger;
mod line;
mod mend;
mod opening;
mod presence;
mod restore;
mod schedule;
mod state;
mod tick;

pub use facts::Facts;
pub use line::{Standing, number_of, place_of};
pub use state::State;
pub use tick::seats_per_fan_milli;

use state::Fence;

use crate::base::time::Timestamp;
use crate::room::model::command::{Command, Outcome};

/// Fans up to which every command of a debug build ends with a check of the whole room.
const CHECKED_FANS_MAX: usize = 1_000;

/// Applies one command at the time that the store's clock shows. Repeating a command is harmless.
///
/// The clock may jump: room time never goes back, and it never stands still while the clock runs.
pub fn apply(room: &mut State, now: Timestamp, command: &Command) -> Outcome {
    if !room.is_whole() && !matches!(command, Command::Mend(_)) {
        return Outcome::Unfenced;
    }
    let now = room.pass_time(now);
    let outcome = match command {
        Command::Join { joining } => Outcome::Joined(join::join(room, now, joining)),
        Command::Tick(tick) => Outcome::Ticked(tick::tick(room, now, tick)),
        Command::Claim { fans } => Outcome::Claimed(claim::claim(room, now, fans)),
        Command::Check { fans } => Outcome::Checked(claim::check(room, now, fans)),
        Command::Extend { fan, until } => Outcome::Extended(claim::extend(room, now, *fan, *until)),
        Command::Consume { fan } => Outcome::Consumed(claim::consume(room, now, *fan)),
        Command::Leave { fan } => Outcome::Left(claim::leave(room, now, *fan)),
        Command::Revoke { fans, then } => Outcome::Revoked(claim::revoke(room, now, fans, *then)),
        Command::Restore { restoring } => Outcome::Restored(restore::restore(room, now, restoring)),
        Command::Touch { fans } => Outcome::Touched(presence::touch(room, now, fans)),
        Command::Freeze => Outcome::Frozen(opening::freeze(room)),
        Command::OpenDraw { size, seed } => {
            Outcome::DrawOpened(opening::open(room, now, *size, *seed))
        }
        Command::Configure(asked) => Outcome::Configured(schedule::configure(room, now, asked)),
        Command::Stock(told) => {
            schedule::tell_stock(room, now, told);
            Outcome::Done
        }
        Command::RaiseCeiling { ceiling } => {
            if room.ceiling < *ceiling {
                room.ceiling = *ceiling;
                room.changed();
            }
            Outcome::Done
        }
        Command::Mend(step) => Outcome::Mended(mend::mend(room, step)),
        Command::Board => Outcome::Board(Box::new(board::board(room, now))),
        Command::Ledger { max } => Outcome::Ledger(ledger::read(room, *max)),
        Command::Trim { through } => {
            ledger::trim(room, *through);
            Outcome::Done
        }
    };
    debug_assert!(
        CHECKED_FANS_MAX < room.size() || room.check() == Ok(()),
        "{:?}",
        room.check()
    );
    outcome
}
