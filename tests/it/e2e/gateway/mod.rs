//! The gateway over real sockets, with an embedded room behind it and a small shop.

mod away;
mod completeness;
mod door;
mod forwarding;
mod gate;
mod hostile;
mod liar;
mod limits;
mod shop;
mod strangers;
mod visit;
