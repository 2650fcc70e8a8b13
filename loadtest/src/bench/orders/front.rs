//! Where buyers of the best seats begin to look, as the shop's own `front.rs` remembers it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After which seat free ones began, for a second.
#[derive(Debug)]
pub(super) struct Front(Mutex<(i64, Instant)>);

impl Default for Front {
    fn default() -> Self {
        Self(Mutex::new((0, Instant::now())))
    }
}

impl Front {
    /// After which seat to look.
    pub(super) fn after(&self) -> i64 {
        let front = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if front.1.elapsed() < Duration::from_secs(1) {
            front.0
        } else {
            0
        }
    }

    /// `seen`: where free seats began, further on where nobody could have any.
    pub(super) fn saw(&self, after: i64, seen: i64) {
        let mut front = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if after == 0 {
            *front = (seen, Instant::now());
        } else if after == front.0 {
            front.0 = seen;
        }
    }
}
