//! What the crowd knows from the board, which it reads once a second for everybody. [pure]

use serde::Deserialize;

use crate::crowd::clock::Moment;
use crate::crowd::wire::instant_ms;
use crate::judge::Fault;

/// The board as it is published.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Snapshot {
    state: String,
    edition: u64,
    generation: u64,
    serving: u64,
    waiting: u64,
    rate: f64,
    window_ms: Option<u64>,
    sold_out_at: Option<String>,
    stock: Option<Stock>,
    draw: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Stock {
    left: Option<u64>,
}

impl Snapshot {
    #[expect(clippy::cast_precision_loss, reason = "a window is at most an hour")]
    fn per_second(&self) -> f64 {
        self.rate * 1_000.0 / self.window_ms.unwrap_or(1_000).max(1) as f64
    }
}

/// What was read so far.
#[derive(Debug, Clone, Default)]
pub struct Board {
    latest: Snapshot,
    /// How often it was read.
    pub reads: u64,
    /// Seats of the show, as far as the crowd can tell: what was left when it was first told, and what it
    /// had bought by then. Never fewer than there are, unless others buy as well.
    pub seats: Option<u64>,
    /// The highest rate it named, in calls a second.
    pub rate_max: f64,
    /// When the show ended, by the board's own word, else when the crowd first read it.
    pub over: Option<Moment>,
}

impl Board {
    /// Reads a board, when the crowd may have bought so many seats. Answers what must not be.
    pub fn read(&mut self, now: Moment, body: &[u8], sold_max: u64) -> Option<(Fault, String)> {
        let Ok(next) = serde_json::from_slice::<Snapshot>(body) else {
            return Some((Fault::UnexpectedAnswer, "the board is not JSON".to_owned()));
        };
        let before = std::mem::replace(&mut self.latest, next);
        self.reads += 1;
        self.rate_max = self.rate_max.max(self.latest.per_second());
        self.seats = self.seats.or(self.left().map(|left| left + sold_max));
        if matches!(&*self.latest.state, "sold_out" | "closed") && self.over.is_none() {
            let named = self.latest.sold_out_at.as_deref().and_then(instant_ms);
            self.over = Some(named.map_or(now, Moment::from_unix_ms));
        }
        let same =
            (before.edition, before.generation) == (self.latest.edition, self.latest.generation);
        if !same || before.serving <= self.latest.serving {
            return None;
        }
        let text = format!("serving was {}, is {}", before.serving, self.latest.serving);
        // A page keeps the greatest.
        self.latest.serving = before.serving;
        Some((Fault::ServingFell, text))
    }

    /// The greatest `serving` of this edition and generation.
    pub const fn serving(&self) -> u64 {
        self.latest.serving
    }

    /// Fans in line, by the board.
    pub const fn waiting(&self) -> u64 {
        self.latest.waiting
    }

    /// Seats that are not sold, by the board.
    pub fn left(&self) -> Option<u64> {
        self.latest.stock.and_then(|stock| stock.left)
    }

    /// Whether places are drawn, so that a number says nothing of them.
    pub const fn draws(&self) -> bool {
        self.latest.draw.is_some()
    }

    /// The state it names.
    pub fn state(&self) -> &str {
        &self.latest.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(board: &mut Board, text: &str) -> Option<Fault> {
        board
            .read(Moment::from_us(9_000_000), text.as_bytes(), 4)
            .map(|fault| fault.0)
    }

    #[test]
    fn serving_may_fall_with_a_new_generation_only() {
        let mut board = Board::default();
        assert_eq!(
            read(
                &mut board,
                r#"{"generation":1,"serving":5,"stock":{"left":9}}"#
            ),
            None
        );
        let fell = read(
            &mut board,
            r#"{"generation":1,"serving":4,"stock":{"left":8}}"#,
        );
        assert_eq!((fell, board.serving()), (Some(Fault::ServingFell), 5));
        assert_eq!(read(&mut board, r#"{"generation":2,"serving":3}"#), None);
        assert!(!board.draws());
        read(
            &mut board,
            r#"{"generation":2,"serving":3,"draw":{"size":null}}"#,
        );
        assert!(board.draws());
        read(&mut board, r#"{"generation":2,"serving":3,"draw":null}"#);
        assert_eq!(
            (board.serving(), board.seats, board.left()),
            (3, Some(9 + 4), None)
        );
    }

    #[test]
    fn the_end_is_when_the_board_says_it_was() {
        let mut board = Board::default();
        read(
            &mut board,
            r#"{"state":"sold_out","sold_out_at":"1970-01-01T00:00:02Z"}"#,
        );
        assert_eq!(board.over, Some(Moment::from_us(2_000_000)));
        let mut silent = Board::default();
        read(
            &mut silent,
            r#"{"state":"closed","rate":60,"window_ms":2000}"#,
        );
        assert_eq!(
            (silent.over, silent.rate_max),
            (Some(Moment::from_us(9_000_000)), 30.0)
        );
        assert_eq!(read(&mut silent, "<html>"), Some(Fault::UnexpectedAnswer));
    }
}
