//! What a fan is told beside the position: ETA, reach, and when to ask again. All from a board and a
//! place.
//!
//! Nothing here asks the room, so two million polls cost it nothing. Times come from Little's law:
//! whoever has n places before them waits n ÷ pace. They are ranges, and when a range has to rise its
//! cause stands beside it.

use crate::base::ids::Place;
use crate::base::limits::{
    ETA_HALF_S_MAX, ETA_SLACK_S, POLL_MS_MAX, POLL_MS_MIN, POLL_NEAR_MS, POLLS_PER_ETA,
};
use crate::base::time::Timestamp;
use crate::room::model::command::{Board, Cause, RoomState};
use crate::room::model::seats_per_fan_milli;
use crate::room::position::{distance, place_after, position};

/// Half the width of a range, in thousandths, until the pace has been measured.
const SPREAD_MILLI_UNKNOWN: u64 = 200;
/// 1 + ln(longest ÷ shortest advice), in thousandths: what the fans with an ETA in between poll. The
/// n-th of them asks every n ÷ (pace × polls per ETA) seconds, and the sum of 1/n is a logarithm.
const NEAR_POLLS_MILLI: u128 = 3_708;

/// How long until a place is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// The middle.
    pub seconds: u64,
    /// From here …
    pub low: u64,
    /// … to here. At most max(30 s, half the middle) away.
    pub high: u64,
    /// Why it may have risen.
    pub cause: Option<Cause>,
}

/// Places per 1,000 seconds: as measured, else what the rate promises. 0 = nobody is called.
fn pace_milli(board: &Board) -> u64 {
    if 0 < board.measured.pace_milli {
        return board.measured.pace_milli;
    }
    let per_window = u128::from(board.settings.rate) * 1_000_000;
    clamp_u64(per_window / u128::from(board.settings.window_ms.max(1)))
}

/// How long until this place is called, at room time `now`; none where nobody can know: the show is
/// over, has no hour of opening, or stands still.
pub fn eta(board: &Board, place: Place, now: Timestamp) -> Option<Eta> {
    let before = match board.state {
        RoomState::Open | RoomState::Paused => 0,
        RoomState::Scheduled | RoomState::Early => board.settings.opens_at?.ms_since(now),
        RoomState::Restoring => board.restoring_until.map_or(0, |until| until.ms_since(now)),
        RoomState::SoldOut | RoomState::Closed | RoomState::Off => return None,
    };
    let pace = match pace_milli(board) {
        0 => return None,
        pace => u128::from(pace),
    };
    // A measured pace counts places, the empty ones of a draw too; a rate counts fans.
    let ahead = match board.measured.pace_milli {
        0 => position(board, place),
        _ => distance(board, place),
    };
    let in_line = (u128::from(ahead) * 1_000).div_ceil(pace);
    let seconds = before.div_ceil(1_000).saturating_add(clamp_u64(in_line));
    let measured = Some(board.measured.spread_milli).filter(|spread| 0 < *spread);
    let spread_milli = measured.unwrap_or(SPREAD_MILLI_UNKNOWN);
    let half = (u128::from(seconds) * u128::from(spread_milli)).div_ceil(1_000);
    let half = clamp_u64(half)
        .max(ETA_SLACK_S)
        .min(ETA_HALF_S_MAX.max(seconds / 4));
    Some(Eta {
        seconds,
        low: seconds.saturating_sub(half),
        high: seconds.saturating_add(half),
        cause: board.measured.cause,
    })
}

/// The place up to which seats are expected to last; none if the shop has not said what is left.
/// Seats that those inside will take on average are not left for those in line.
pub fn reach(board: &Board) -> Option<Place> {
    let stock = board.stock?;
    let per_fan_milli = seats_per_fan_milli(&board.measured);
    let left_milli = stock.free.saturating_add(stock.held).saturating_mul(1_000);
    let promised_milli = board.live.saturating_mul(per_fan_milli);
    let fans = left_milli.saturating_sub(promised_milli) / per_fan_milli;
    Some(place_after(board, fans))
}

/// When a fan in the queue should ask again. `eta` is theirs, `seed` any number of theirs.
///
/// A tenth of the ETA, within bounds, give or take a fifth; stretched so that all together stay
/// within the poll budget. But nobody is sent away until after their turn may come: near the front for
/// at most a third of the least time that is left, further back until they are near. Those polls, ten to
/// twenty a called fan, are outside the budget: their number follows the pace, not the crowd.
pub fn poll_after_ms(board: &Board, eta: Option<Eta>, seed: u64) -> u64 {
    let advised = advised_ms(board, eta.map(|eta| eta.seconds));
    let scaled = u128::from(advised) * stretch_milli(board, eta) / 1_000;
    let jittered = jittered(clamp_u64(scaled), seed).max(POLL_MS_MIN);
    match eta {
        Some(eta) => {
            let left_ms = eta.low.saturating_mul(1_000);
            let until_near = left_ms.saturating_sub(POLL_NEAR_MS);
            jittered.min((left_ms / 3).max(until_near).max(POLL_MS_MIN))
        }
        None => jittered,
    }
}

/// When a fan in standby or returned should ask again: soon enough to use the slot.
pub fn poll_next_after_ms(board: &Board, seed: u64) -> u64 {
    let longest = (board.settings.claim_ms / 3).max(1);
    jittered(POLL_MS_MIN * 5 / 4, seed).min(longest)
}

/// The advice before jitter and budget. Without an ETA the operator may open at any moment, and a
/// slot is kept for `claim_ms` only.
fn advised_ms(board: &Board, eta_s: Option<u64>) -> u64 {
    match eta_s {
        Some(seconds) => {
            (seconds.saturating_mul(1_000) / POLLS_PER_ETA).clamp(POLL_MS_MIN, POLL_MS_MAX)
        }
        None => (board.settings.claim_ms / 3).clamp(POLL_MS_MIN, POLL_MS_MAX),
    }
}

/// By how much all advice is stretched so that the polls of everybody fit the budget, in thousandths.
fn stretch_milli(board: &Board, eta_of_fan: Option<Eta>) -> u128 {
    let waiting = u128::from(board.waiting) * 1_000;
    let front_s = eta(board, Place(board.serving.0.saturating_add(1)), board.now);
    let front_ms = u128::from(advised_ms(board, front_s.map(|eta| eta.seconds)));
    // Polls per 1,000 seconds. Nobody asks more often than the front …
    let at_most = waiting * 1_000 / front_ms;
    // … and with a pace those far behind ask seldom.
    let near = u128::from(pace_milli(board)) * u128::from(POLLS_PER_ETA);
    let far = waiting.saturating_sub(near * u128::from(POLL_MS_MAX) / 1_000);
    let by_pace = near * NEAR_POLLS_MILLI / 1_000 + far * 1_000 / u128::from(POLL_MS_MAX);
    let demand = match eta_of_fan {
        Some(_) => at_most.min(by_pace),
        None => at_most,
    };
    let budget = u128::from(board.settings.restore_per_s.max(1)) * 1_000;
    (demand * 1_000 / budget).max(1_000)
}

/// Give or take a fifth, so that those who came together do not stay together.
fn jittered(ms: u64, seed: u64) -> u64 {
    let milli = 800 + mixed(seed) % 401;
    clamp_u64(u128::from(ms) * u128::from(milli) / 1_000)
}

/// Neighbouring seeds give unlike numbers (the finalizer of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn clamp_u64(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Number;
    use crate::room::model::command::{Settings, Stock};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    /// An open room with nobody in it.
    fn board(rate: u64) -> Board {
        Board {
            version: 1,
            verb_version: 0,
            settings: Settings {
                rate,
                window_ms: 1_000,
                claim_ms: 60_000,
                restore_per_s: 20_000,
                ..Settings::default()
            },
            edition: Default::default(),
            generation: Default::default(),
            state: RoomState::Open,
            serving: Place(0),
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
            now: at(0),
            uncopied: 0,
            leader: None,
            draw: None,
            empty: 0,
        }
    }

    #[test]
    fn forty_five_thousand_at_five_hundred_a_second_is_ninety_seconds() {
        let mut room = board(500);
        room.serving = Place(5_000);
        assert_eq!(position(&room, Place(50_000)), 45_000);
        let promised = eta(&room, Place(50_000), at(0)).unwrap();
        assert_eq!(
            (promised.seconds, promised.low, promised.high),
            (90, 72, 108)
        );

        room.settings.rate = 9;
        room.measured.pace_milli = 500_000;
        room.measured.spread_milli = 50;
        let measured = eta(&room, Place(50_000), at(0)).unwrap();
        assert_eq!(
            (measured.seconds, measured.low, measured.high),
            (90, 85, 95)
        );
    }

    #[test]
    fn a_range_is_at_most_thirty_seconds_or_half_its_middle_wide() {
        let mut room = board(10);
        for spread_milli in [0, 1, 100, 300, 5_000] {
            room.measured.spread_milli = spread_milli;
            for place in [1, 2, 10, 100, 500, 1_000, 10_000, 1_000_000, u64::MAX] {
                let Eta { low, high, .. } = eta(&room, Place(place), at(0)).unwrap();
                let middle = low.midpoint(high);
                assert!(
                    high - low <= 30.max(middle / 2 + 1),
                    "{place}: {low} to {high}"
                );
                assert!(low < high);
            }
        }
    }

    #[test]
    fn the_state_says_whether_there_is_an_eta() {
        let opens = Some(at(60_000));
        let rows = [
            (RoomState::Open, None, 10, Some(1)),
            (RoomState::Open, None, 0, None),
            (RoomState::Paused, None, 10, Some(1)),
            (RoomState::Early, opens, 10, Some(61)),
            (RoomState::Early, None, 10, None),
            (RoomState::Scheduled, opens, 10, Some(61)),
            (RoomState::Restoring, None, 10, Some(6)),
            (RoomState::SoldOut, None, 10, None),
            (RoomState::Closed, None, 10, None),
            (RoomState::Off, None, 10, None),
        ];
        for (state, opens_at, rate, expected) in rows {
            let mut room = board(rate);
            room.state = state;
            room.settings.opens_at = opens_at;
            room.restoring_until = (state == RoomState::Restoring).then_some(at(5_000));
            let seconds = eta(&room, Place(10), at(0)).map(|eta| eta.seconds);
            assert_eq!(seconds, expected, "{state:?} at {rate}");
        }
    }

    #[test]
    fn seats_last_as_far_as_those_inside_leave_some() {
        let mut room = board(10);
        assert_eq!(reach(&room), None);
        room.stock = Some(Stock {
            version: 1,
            free: 90,
            held: 10,
            sold: 0,
            as_of: at(0),
        });
        room.serving = Place(1_000);
        // live, seats per fan in thousandths, reach
        let rows = [
            (0, 0, 1_050),
            (10, 0, 1_040),
            (50, 0, 1_000),
            (90, 0, 1_000),
            (0, 1_000, 1_100),
            (0, 1, 1_200),
        ];
        for (live, seats_per_fan_milli, expected) in rows {
            room.live = live;
            room.measured.seats_per_fan_milli = seats_per_fan_milli;
            assert_eq!(reach(&room), Some(Place(expected)), "{live} inside");
        }
    }

    #[test]
    fn advice_lies_within_its_bounds() {
        let room = board(500);
        for seed in 0..50 {
            for (place, low, high) in [
                (1, 2_000, 2_000),
                (50_000, 8_000, 12_000),
                (1_000_000, 24_000, 36_000),
            ] {
                let eta = eta(&room, Place(place), at(0));
                let advice = poll_after_ms(&room, eta, seed);
                assert!((low..=high).contains(&advice), "{place}: {advice}");
            }
            let unknown = poll_after_ms(&room, None, seed);
            assert!((16_000..=24_000).contains(&unknown), "{unknown}");
            assert!((2_000..=3_000).contains(&poll_next_after_ms(&room, seed)));
        }
        let mut hasty = board(500);
        hasty.settings.claim_ms = 3_000;
        assert!(poll_next_after_ms(&hasty, 1) <= 1_000);
    }

    #[test]
    fn all_together_stay_within_the_budget() {
        // waiting, rate, budget
        let rows = [
            (2_000_000, 500, 20_000),
            (2_000_000, 500, 2_000),
            (2_000_000, 0, 20_000),
            (100_000, 5_000, 500),
            (20_000, 30, 200),
            (1_000, 30, 20_000),
        ];
        for (waiting, rate, budget) in rows {
            let mut room = board(rate);
            room.waiting = waiting;
            room.settings.restore_per_s = budget;
            let step = waiting / 1_000;
            let polls_per_s: f64 = (0..1_000)
                .map(|i| {
                    let eta = eta(&room, Place(i * step + step / 2 + 1), at(0));
                    let advice = poll_after_ms(&room, eta, i);
                    f64::from(u32::try_from(step).unwrap()) * 1_000.0
                        / f64::from(u32::try_from(advice).unwrap())
                })
                .sum();
            // Those near the front ask some times each, at the pace of the calls.
            let most = u32::try_from(budget + 17 * rate).unwrap();
            assert!(
                polls_per_s <= 1.05 * f64::from(most),
                "{waiting} fans: {polls_per_s} polls/s"
            );
        }
    }
}
