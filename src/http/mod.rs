//! Our manners on the wire.

pub mod body;
mod brief;
mod clients;
mod conn;
pub mod extract;
pub(crate) mod fields;
mod frames;
mod framing;
mod head;
pub mod interim;
pub mod layers;
pub mod patience;
pub mod problem;
mod refused;
pub mod server;
pub mod service;
mod streams;
mod strict;
mod talk;
pub mod tls;
