//! ...with real servers and cut cables?

mod crew;
mod election;
mod lines;
mod stalls;
mod verdict;
mod wrong_clock;
