//! The gateway over real sockets, with an embedded room behind it and a small shop.

mod away;
mod door;
mod forwarding;
mod gate;
mod hostile;
mod limits;
pub(crate) mod shop;
mod visit;
