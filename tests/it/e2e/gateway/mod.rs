//! The gateway over real sockets, with an embedded room behind it and a small shop.

mod accounts;
mod away;
mod behind;
mod buyers;
mod cable;
mod care;
mod completeness;
mod cors;
mod door;
mod draw;
mod forwarding;
mod gate;
mod hostile;
mod liar;
mod limits;
mod many;
mod overload;
mod script;
pub(crate) mod shop;
mod states;
mod strangers;
mod streaming;
mod till;
mod upstreams;
mod visit;
mod waits;
