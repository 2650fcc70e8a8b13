//! The ground that everything stands on: identifiers, time, limits, outages, secrets, addresses of
//! mail and sets of bytes.

pub mod ascii;
pub mod bound;
pub mod email;
pub mod ids;
pub mod limits;
pub mod outage;
pub mod secret;
pub mod time;
