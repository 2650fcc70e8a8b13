//! The ground that everything stands on: identifiers, time, limits and secrets.

pub mod ids;
pub mod limits;
pub mod secret;
pub mod time;
