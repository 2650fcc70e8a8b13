//! Is the definition of the room what we promise, and are the scripts the definition? Histories of
//! times and commands.

pub(crate) mod own_clock;
pub(crate) mod world;

mod happenings;
mod histories;
mod keyspace;
mod refusals;
mod loss_histories;
mod room_calls;
mod room_draw;
mod room_ends;
mod room_left;
mod room_loss;
mod room_presence;
mod room_rate;
mod room_states;
mod scripts;
mod scripts_far;
mod targets;
mod twins;
mod twins_mended;
mod witness;
