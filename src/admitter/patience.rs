//! How long an admitter holds its hand: while somebody else may be mending a room, or a room that seems
//! lost may live on another server.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::ids::Generation;
use crate::base::time::Timestamp;
use crate::show::Show;

/// How long somebody else's mend may take before it is taken for dead; twice that for each attempt
/// that came to nothing, so that menders on a slow day do not overtake each other for ever.
const PATIENCE: Duration = Duration::from_secs(2);
/// At most so often is the patience doubled.
const DOUBLINGS_MAX: u64 = 3;
/// How long after its last checkpoint a room may still be thought to live elsewhere. Checkpoints come
/// every second.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// How much of the time since the last look at SQL counts as watched. Looks come ten times a second, and
/// every second after failures.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How long SQL has said the same. Of the time between two looks at most [`LOOK_MAX`] counts: while SQL
/// cannot be asked, nobody else can tell it anything either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Same<T> {
    word: T,
    looked_at: Instant,
    lasted: Duration,
}

impl<T: PartialEq> Same<T> {
    /// What SQL says `now`; `before` is what was seen last.
    fn seen(before: Option<Self>, word: T, now: Instant) -> Self {
        let same = before.filter(|before| before.word == word);
        Self {
            word,
            looked_at: now,
            lasted: same.map_or(Duration::ZERO, |before| {
                before.lasted + LOOK_MAX.min(now - before.looked_at)
            }),
        }
    }
}

/// A mend that was begun, by whomever, and is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unfinished {
    generation: Same<Generation>,
    patience: Duration,
}

impl Unfinished {
    /// The mend that SQL says is unfinished, if one is; `before` is the one that was seen last.
    pub(super) fn seen(before: Option<Self>, show: &Show, now: Instant) -> Option<Self> {
        let attempts = show.generation.0.checked_sub(show.mended.0 + 1)?;
        let before = before.map(|before| before.generation);
        Some(Self {
            generation: Same::seen(before, show.generation, now),
            patience: PATIENCE * (1 << attempts.min(DOUBLINGS_MAX)),
        })
    }

    /// Whether its mender may still be at it, as far as anybody can tell.
    pub(super) fn may_go_on(&self) -> bool {
        self.generation.lasted < self.patience
    }
}

/// A life of the room that SQL knows of and that did not answer us. While its leader writes checkpoints,
/// it is whole on another server, and ours is a primary that was replaced: to mend it would take the
/// room from everybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elsewhere {
    checkpoint_at: Same<Timestamp>,
}

impl Elsewhere {
    /// The life that SQL says was whole last, if none was begun since; `before` is what was seen last.
    pub(super) fn seen(before: Option<Self>, show: &Show, now: Instant) -> Option<Self> {
        if show.mended < show.generation {
            return None;
        }
        let before = before.map(|before| before.checkpoint_at);
        let checkpoint_at = Same::seen(before, show.checkpoint_at, now);
        Some(Self { checkpoint_at })
    }

    /// Whether somebody leads it there, as far as anybody can tell.
    pub(super) fn may_go_on(&self) -> bool {
        self.checkpoint_at.lasted < ELSEWHERE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_did_not_last() {
        let start = Instant::now();
        let mut same = None;
        // (ms since the start, what SQL said then, for how many ms it has counted)
        for (at_ms, word, lasted_ms) in [
            (0, 'a', 0),
            (700, 'a', 700),
            (1_400, 'a', 1_400),
            // Then SQL was away, or took so long to answer.
            (60_000, 'a', 2_400),
            (60_100, 'a', 2_500),
            (60_200, 'b', 0),
            (60_300, 'a', 0),
        ] {
            let now = start + Duration::from_millis(at_ms);
            same = Some(Same::seen(same, word, now));
            let lasted = same.map(|same| same.lasted);
            assert_eq!(lasted, Some(Duration::from_millis(lasted_ms)), "{at_ms} ms");
        }
    }
}
