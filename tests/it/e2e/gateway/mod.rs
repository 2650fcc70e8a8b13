//! The gateway over real sockets, with an embedded room behind it and a small shop.

mod accounts;
mod away;
mod buyers;
mod cable;
mod completeness;
mod door;
mod draw;
mod forwarding;
mod gate;
mod hostile;
mod liar;
mod limits;
pub(crate) mod shop;
mod strangers;
mod till;
mod visit;
