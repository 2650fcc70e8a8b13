//! Our manners on the wire.

pub mod body;
mod clients;
mod conn;
pub mod extract;
pub(crate) mod fields;
mod frames;
mod framing;
mod head;
pub mod layers;
pub mod patience;
pub mod problem;
pub mod server;
mod streams;
mod strict;
pub mod tls;
