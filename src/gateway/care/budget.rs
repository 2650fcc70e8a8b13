//! How often a request may be repeated: one repeat for every five requests, so that repeats never add
//! more than a fifth to what an upstream that is in trouble has to bear.

/// Requests that earn one repeat.
const PRICE: u32 = 5;
/// Repeats that can be saved up, so that one bad moment after a quiet time costs nobody an error.
const SAVED_MAX: u32 = 100;

/// What may be spent on repeats.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In requests.
    saved: u32,
}

impl Budget {
    /// All that can be saved.
    pub(crate) fn full() -> Self {
        Self {
            saved: PRICE * SAVED_MAX,
        }
    }

    /// A request is sent for the first time.
    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + 1).min(PRICE * SAVED_MAX);
    }

    /// Pays for a repeat, if there is enough.
    pub(crate) fn spend(&mut self) -> bool {
        let rest = self.saved.checked_sub(PRICE);
        self.saved = rest.unwrap_or(self.saved);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_add_a_fifth_at_most() {
        let mut budget = Budget::full();
        let repeats = (0..10_000)
            .filter(|_| {
                budget.earn();
                budget.spend()
            })
            .count();
        let fifth = 10_000 / 5;
        assert!(
            (fifth..=fifth + SAVED_MAX as usize).contains(&repeats),
            "{repeats}"
        );
    }
}
