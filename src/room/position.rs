//! How many are ahead of a fan: a subtraction from a board, and stored nowhere.
//!
//! Some places between the turn and a fan are known to be empty, and are not counted: numbers that
//! nobody has claimed since a loss, and in a draw the places of those who left. Which places of a draw
//! are empty nobody looks up, only how many: they are taken to be spread evenly.

use crate::base::ids::{Number, Place};
use crate::room::draw::Table;
use crate::room::model::command::{Board, Gap};
use crate::room::model::place_of;

/// The place of a number; none as long as the draw has yet to give it one, or where `table` is not
/// that of the board's draw.
pub fn place(board: &Board, table: Option<&Table>, number: Number) -> Option<Place> {
    match board.draw.and_then(|draw| Some((draw.size, draw.seed?))) {
        Some((size, _)) if size < number.0 => Some(place_of(number)),
        Some((size, seed)) => table
            .filter(|table| (table.size(), table.seed()) == (size, seed))
            .map(|table| table.place(number)),
        None if board.settings.draw.is_some() && board.serving == Place(0) => None,
        None => Some(place_of(number)),
    }
}

/// At most this many are called before and with this place: 1 is next. Never rises while no lost fan
/// comes back.
pub fn position(board: &Board, place: Place) -> u64 {
    let drawn = Place(draw_size(board));
    let in_draw = if place <= drawn {
        empty_in_draw(board, drawn, place)
    } else {
        board.empty
    };
    distance(board, place).saturating_sub(in_draw).max(1)
}

/// How many places a line passes until this one is called, those of a draw that are empty included: a
/// measured pace counts them too.
pub fn distance(board: &Board, place: Place) -> u64 {
    let passed = board.serving.max(Place(draw_size(board)));
    let ahead = place.0.saturating_sub(board.serving.0);
    let lost: u64 = board
        .gaps
        .iter()
        .map(|gap| empty_ahead(gap, passed, place))
        .sum();
    ahead.saturating_sub(lost).max(1)
}

/// The place at which this many more fans have been called.
pub fn place_after(board: &Board, fans: u64) -> Place {
    let left = draw_size(board).saturating_sub(board.serving.0);
    let held = left.saturating_sub(board.empty);
    let places = if held < fans {
        left.saturating_add(fans - held)
    } else {
        let spread = u128::from(fans) * u128::from(left) / u128::from(held.max(1));
        u64::try_from(spread).unwrap_or(u64::MAX)
    };
    Place(board.serving.0.saturating_add(places))
}

/// How many places a tick that asks for `want` calls should name, so that it finds as many fans: the
/// empty ones among them are more by chance than on average, rarely by more than this allows.
pub fn places_to_name(board: &Board, want: u64) -> usize {
    let left = draw_size(board).saturating_sub(board.serving.0);
    let held = left.saturating_sub(board.empty).max(1);
    let on_average = u128::from(want) * u128::from(left) / u128::from(held);
    let with_luck = on_average + on_average / 4 + 32;
    usize::try_from(with_luck.min(u128::from(left))).unwrap_or(usize::MAX)
}

/// D of an open draw, else 0.
fn draw_size(board: &Board) -> u64 {
    let open = board.draw.filter(|draw| draw.seed.is_some());
    open.map_or(0, |draw| draw.size)
}

/// Empty places of the draw that are taken to lie between `serving` and `place`. Passing a place,
/// empty or not, or losing a fan behind or ahead never lowers what is left of the others' position.
fn empty_in_draw(board: &Board, drawn: Place, place: Place) -> u64 {
    let left = drawn.0.saturating_sub(board.serving.0);
    let before = place.0.saturating_sub(board.serving.0.saturating_add(1));
    if left == 0 {
        return 0;
    }
    let share = u128::from(board.empty.min(left)) * u128::from(before) / u128::from(left);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Numbers of a gap between `passed` and `place` that surely nobody holds: all who came back are
/// taken to stand there.
fn empty_ahead(gap: &Gap, passed: Place, place: Place) -> u64 {
    let (first, last) = (place_of(gap.first).0, place_of(gap.last).0);
    let is_inside = first <= place.0 && place.0 <= last;
    let from = first.max(passed.0.saturating_add(1));
    let to = last.min(place.0.saturating_sub(1));
    let others = gap.restored.saturating_sub(u64::from(is_inside));
    (to.saturating_add(1))
        .saturating_sub(from)
        .saturating_sub(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::ShowId;
    use crate::base::time::Timestamp;
    use crate::room::draw::{Announced, Commitment, Draw, DrawSecret, seed};
    use crate::room::model::command::{RoomState, Settings};
    use std::collections::BTreeSet;

    fn board(serving: u64) -> Board {
        Board {
            version: 1,
            verb_version: 0,
            settings: Settings::default(),
            edition: Default::default(),
            generation: Default::default(),
            state: RoomState::Open,
            serving: Place(serving),
            issued: Number(0),
            ceiling: Number(0),
            waiting: 0,
            standby: 0,
            live: 0,
            gaps: Vec::new(),
            measured: Default::default(),
            stock: None,
            sold_out_at: None,
            restoring_until: None,
            now: Timestamp::from_unix_ms(0),
            uncopied: 0,
            leader: None,
            draw: None,
            empty: 0,
        }
    }

    fn table(size: u64, salt: u64) -> Table {
        let show: ShowId = "stadium-show".parse().unwrap();
        let seed = seed(&show, &DrawSecret([1; 32]), &salt.to_string(), size);
        Table::new(&seed, size)
    }

    #[test]
    fn gaps_ahead_are_not_counted_but_for_those_who_came_back() {
        let gap = Gap {
            first: Number(11),
            last: Number(20),
            restored: 3,
        };
        // serving, place, position
        let rows = [
            (0, 10, 10),
            (0, 21, 14),
            (5, 21, 9),
            (15, 21, 4),
            (0, 15, 13),
            (25, 30, 5),
            (9, 9, 1),
        ];
        for (serving, place, expected) in rows {
            let mut room = board(serving);
            room.gaps = vec![gap];
            assert_eq!(
                position(&room, Place(place)),
                expected,
                "{place} at {serving}"
            );
        }
    }

    #[test]
    fn a_number_has_a_place_once_the_draw_is_open() {
        let table = table(9, 1);
        let mut early = board(0);
        assert_eq!(place(&early, None, Number(4)), Some(Place(4)));
        early.settings.draw = Some(Announced {
            commitment: Commitment([0; 32]),
            beacon: None,
            revealed: None,
        });
        assert_eq!(place(&early, Some(&table), Number(4)), None);
        early.draw = Some(Draw {
            size: 9,
            seed: None,
        });
        assert_eq!(place(&early, Some(&table), Number(12)), None);

        let mut open = early.clone();
        open.draw = Some(Draw {
            size: 9,
            seed: Some(table.seed()),
        });
        let drawn = Some(table.place(Number(4)));
        assert_eq!(place(&open, Some(&table), Number(4)), drawn);
        assert_eq!(place(&open, None, Number(4)), None);
        assert_eq!(place(&open, None, Number(12)), Some(Place(12)));
        let other = self::table(9, 2);
        assert_eq!(place(&open, Some(&other), Number(4)), None);
        // Drawing was asked for when the first had been called: too late.
        early.draw = None;
        early.serving = Place(1);
        assert_eq!(place(&early, None, Number(4)), Some(Place(4)));
    }

    /// A line in which fans leave, are called and come late, told by the simplest means.
    struct Crowd {
        size: u64,
        late: u64,
        serving: u64,
        held: BTreeSet<u64>,
    }

    impl Crowd {
        fn board(&self) -> Board {
            let ahead = self.held.range(..=self.size).count() as u64;
            let left = self.size.saturating_sub(self.serving);
            let seed = table(1, 1).seed();
            Board {
                draw: Some(Draw {
                    size: self.size,
                    seed: Some(seed),
                }),
                empty: left - ahead,
                ..board(self.serving)
            }
        }

        /// What everybody in line is told.
        fn told(&self) -> Vec<(u64, u64)> {
            let board = self.board();
            let held = self.held.iter();
            held.map(|place| (*place, position(&board, Place(*place))))
                .collect()
        }

        fn step(&mut self, chance: u64) {
            let held: Vec<u64> = self.held.iter().copied().collect();
            match chance % 3 {
                // The next place is passed, whether somebody holds it or not.
                0 if self.serving < self.size + self.late => {
                    self.serving += 1;
                    self.held.remove(&self.serving);
                }
                1 if !held.is_empty() => {
                    let index = usize::try_from(chance / 3).unwrap() % held.len();
                    self.held.remove(&held[index]);
                }
                _ => {
                    self.late += 1;
                    self.held.insert(self.size + self.late);
                }
            }
        }
    }

    #[test]
    fn no_position_in_a_draw_ever_rises() {
        let mut chance = 1_u64;
        let mut next = || {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            chance >> 33
        };
        for size in (1..40).cycle().take(400) {
            let mut crowd = Crowd {
                size,
                late: 0,
                serving: 0,
                held: (1..=size).collect(),
            };
            let mut before = crowd.told();
            for _ in 0..3 * size {
                crowd.step(next());
                let now = crowd.told();
                for (place, told) in &now {
                    let known = before.iter().find(|(known, _)| known == place);
                    assert!(
                        known.is_none_or(|(_, before)| told <= before),
                        "{place} of {size} rose from {known:?} to {told} at {}",
                        crowd.serving
                    );
                }
                before = now;
            }
        }
    }

    #[test]
    fn everybody_in_line_counts_behind_the_draw_and_a_share_of_them_in_it() {
        let crowd = Crowd {
            size: 100,
            late: 1,
            serving: 20,
            held: (21..=100)
                .filter(|place| place % 4 == 0)
                .chain([101])
                .collect(),
        };
        let board = crowd.board();
        // place, position: 60 of the 80 places are empty, so 20 fans and the one who came late.
        for (place, expected) in [(21, 1), (24, 2), (60, 11), (100, 21), (101, 21)] {
            assert_eq!(position(&board, Place(place)), expected, "place {place}");
        }
        assert_eq!(distance(&board, Place(60)), 40);
        for (fans, place) in [(0, 20), (1, 24), (10, 60), (20, 100), (21, 101)] {
            assert_eq!(place_after(&board, fans), Place(place), "{fans} fans");
        }
        // All 80 fans are asked for: every place may be needed.
        assert_eq!(places_to_name(&board, 20), 80);
        assert_eq!(places_to_name(&board, 4), 16 + 4 + 32);
        assert_eq!(places_to_name(&board, 0), 32);
    }
}
