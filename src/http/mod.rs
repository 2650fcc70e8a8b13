//! Our manners on the wire.

pub mod body;
mod conn;
pub mod extract;
pub mod layers;
pub mod problem;
pub mod server;
