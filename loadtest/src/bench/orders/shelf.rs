//! What a shop remembers of a section that it sells, as the shop's own `shelf.rs` does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Free seats that nobody was given, ascending, and the last that somebody was.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<(VecDeque<i64>, i64)>);

impl Shelf {
    fn seats(&self) -> MutexGuard<'_, (VecDeque<i64>, i64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Two neighbours that nobody else is given.
    pub(super) fn give(&self) -> Option<[i64; 2]> {
        let mut seats = self.seats();
        let pair = [seats.0.pop_front()?, seats.0.pop_front()?];
        seats.1 = pair[1];
        Some(pair)
    }

    /// What a look saw.
    pub(super) fn saw(&self, free: &[i64]) {
        let mut seats = self.seats();
        let given = seats.1;
        seats.0 = free.iter().copied().filter(|seat| given < *seat).collect();
    }
}
