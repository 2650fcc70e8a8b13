//! The draw: a fair shuffle of everybody who joined before the opening, and what proves it.
//!
//! ```text
//! before   commitment = SHA-256(.. show, secret, which beacon)      on the board from the beginning
//! opening  seed       = SHA-256(.. show, secret, beacon's value, D) on the board, with the secret
//! then     table      = Fisher and Yates, fed by SHA-256(seed, 0), SHA-256(seed, 1), …
//! ```
//!
//! Everybody who has seed and size builds the same table: gateways, admitters, pages, the command
//! line. `tests/golden/draw.json` holds all of them to the same bytes. Every order of D fans is
//! exactly as likely as every other, for each D.
//!
//! Absent on purpose: where secret and beacon come from, and who may know them when.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::base::ids::{Number, Place, ShowId};
use crate::base::limits::DRAW_SIZE_MAX;

pub use crate::base::ids::{Commitment, DrawSecret, Seed};

/// What is known of a show's draw before it: part of the settings, so of every board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Public from the show's creation on.
    pub commitment: Commitment,
    /// Name and round of a public source of chance whose value is published only after everybody
    /// who takes part has joined; none: the operator could have known the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<String>,
    /// The reveal, once the draw is open: with it anybody can check commitment and seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revealed: Option<Revealed>,
}

/// What the draw was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revealed {
    /// The secret behind the commitment.
    pub secret: DrawSecret,
    /// The beacon's value, as it was published; none without a beacon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon_value: Option<String>,
}

/// A draw under way: who takes part, and their order once it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// D: the numbers from 1 to this one take part; later ones queue behind.
    pub size: u64,
    /// None while the draw is only frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// The commitment to a secret and to a beacon (name and round; empty: none).
pub fn commitment(show: &ShowId, secret: &DrawSecret, beacon: &str) -> Commitment {
    let hash = Sha256::new()
        .chain_update("catraca commitment 1")
        .chain_update(show.as_str())
        .chain_update(secret.0)
        .chain_update(beacon);
    Commitment(hash.finalize().into())
}

/// The seed that follows from the secret, the beacon's value (empty: none) and the draw's size.
pub fn seed(show: &ShowId, secret: &DrawSecret, beacon_value: &str, size: u64) -> Seed {
    let hash = Sha256::new()
        .chain_update("catraca draw 1")
        .chain_update(show.as_str())
        .chain_update(secret.0)
        .chain_update(beacon_value)
        .chain_update(size.to_be_bytes());
    Seed(hash.finalize().into())
}

/// The order of a draw: which place each number has, and which number each place. Eight bytes a fan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    seed: Seed,
    /// Place of number n at n - 1.
    places: Vec<u32>,
    /// Number of place p at p - 1.
    numbers: Vec<u32>,
}

impl Table {
    /// Builds the table: tens of milliseconds for two million.
    ///
    /// # Panics
    /// If `size` is beyond [`DRAW_SIZE_MAX`]: whoever reads a size from elsewhere checks it there.
    pub fn new(seed: &Seed, size: u64) -> Self {
        assert!(size <= DRAW_SIZE_MAX, "a draw of {size}");
        let size = u32::try_from(size).expect("far below 2^32");
        let mut places: Vec<u32> = (1..=size).collect();
        let mut chance = Chance::new(seed);
        for m in (2..=size).rev() {
            places.swap(m as usize - 1, chance.below(m) as usize);
        }
        let mut numbers = vec![0; places.len()];
        for (number, place) in (1..).zip(&places) {
            numbers[*place as usize - 1] = number;
        }
        Self {
            seed: *seed,
            places,
            numbers,
        }
    }

    /// The table's seed: with the size, its identity.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// D.
    pub fn size(&self) -> u64 {
        self.places.len() as u64
    }

    /// The place of a number: its own for whoever came after the draw.
    pub fn place(&self, number: Number) -> Place {
        Place(looked_up(&self.places, number.0))
    }

    /// The number of a place.
    pub fn number(&self, place: Place) -> Number {
        Number(looked_up(&self.numbers, place.0))
    }

    /// The numbers of the places that follow `serving`, in order, at most `most`: what a tick is told.
    pub fn next(&self, serving: Place, most: usize) -> Vec<Number> {
        let served = usize::try_from(serving.0).unwrap_or(usize::MAX);
        let rest = self.numbers.iter().skip(served).take(most);
        rest.map(|number| Number(u64::from(*number))).collect()
    }
}

fn looked_up(table: &[u32], at: u64) -> u64 {
    let index = at.checked_sub(1).and_then(|at| usize::try_from(at).ok());
    let found = index.and_then(|index| table.get(index));
    found.map_or(at, |found| u64::from(*found))
}

/// The endless stream of a seed.
struct Chance {
    seed: Seed,
    blocks: u64,
    block: [u8; 32],
    used: usize,
}

impl Chance {
    fn new(seed: &Seed) -> Self {
        Self {
            seed: *seed,
            blocks: 0,
            block: [0; 32],
            used: 32,
        }
    }

    fn next(&mut self) -> u32 {
        if self.used == self.block.len() {
            let hash = Sha256::new()
                .chain_update(self.seed.0)
                .chain_update(self.blocks.to_be_bytes());
            (self.block, self.used) = (hash.finalize().into(), 0);
            self.blocks += 1;
        }
        let bytes = self.block[self.used..].first_chunk();
        self.used += 4;
        u32::from_be_bytes(*bytes.expect("32 is a multiple of four"))
    }

    /// A number below `m`, each as likely as the others: values from the last, shorter run of `m` are
    /// thrown away.
    fn below(&mut self, m: u32) -> u32 {
        let whole_runs = (1 << 32) / u64::from(m) * u64::from(m);
        loop {
            let value = self.next();
            if u64::from(value) < whole_runs {
                return value % m;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SECRET: DrawSecret = DrawSecret([7; 32]);

    fn show() -> ShowId {
        "stadium-show".parse().unwrap()
    }

    fn table(size: u64, salt: u64) -> Table {
        Table::new(&seed(&show(), &SECRET, &salt.to_string(), size), size)
    }

    #[derive(Deserialize)]
    struct Golden {
        draws: Vec<Row>,
    }

    #[derive(Deserialize)]
    struct Row {
        show: ShowId,
        secret: DrawSecret,
        beacon: String,
        commitment: Commitment,
        beacon_value: String,
        size: u64,
        seed: Seed,
        places: Option<Vec<u32>>,
        places_sha256: String,
    }

    #[test]
    fn every_byte_is_as_the_design_says() {
        let golden = include_str!("../../tests/golden/draw.json");
        let golden: Golden = serde_json::from_str(golden).unwrap();
        for row in golden.draws {
            assert_eq!(
                commitment(&row.show, &row.secret, &row.beacon),
                row.commitment
            );
            let seed = seed(&row.show, &row.secret, &row.beacon_value, row.size);
            assert_eq!(seed, row.seed);
            let table = Table::new(&seed, row.size);
            if let Some(places) = row.places {
                assert_eq!(table.places, places);
            }
            let bytes: Vec<u8> = table.places.iter().flat_map(|p| p.to_be_bytes()).collect();
            let hash = Seed(Sha256::digest(bytes).into());
            assert_eq!(hash.to_string(), row.places_sha256, "{} fans", row.size);
        }
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let sizes = (0..200).chain((200..10_000).step_by(701)).chain([10_000]);
        for size in sizes {
            let table = table(size, 1);
            let mut places = table.places.clone();
            places.sort_unstable();
            assert!(places.into_iter().eq(1..=u32::try_from(size).unwrap()));
            for number in (1..=size).map(Number) {
                assert_eq!(table.number(table.place(number)), number);
            }
            for late in [size + 1, size + 2, u64::MAX] {
                assert_eq!(table.place(Number(late)), Place(late));
                assert_eq!(table.number(Place(late)), Number(late));
            }
        }
    }

    #[test]
    fn the_next_numbers_are_those_of_the_places_behind_serving() {
        let table = table(9, 3);
        for (serving, most) in [(0, 9), (0, 4), (5, 3), (7, 9), (9, 1), (u64::MAX, 1)] {
            let next = table.next(Place(serving), most);
            let last = (serving.saturating_add(most as u64)).min(9);
            let places: Vec<u64> = next.iter().map(|number| table.place(*number).0).collect();
            assert!(places.into_iter().eq(serving.saturating_add(1)..=last));
        }
    }

    /// How far the orders of many draws are from being equally frequent, in standard deviations.
    fn deviation(size: u64, order: impl Fn(u64) -> Vec<u32>) -> f64 {
        let orders: u64 = (1..=size).product();
        let each = 40;
        let mut counts = BTreeMap::<Vec<u32>, f64>::new();
        for salt in 0..orders * each {
            *counts.entry(order(salt)).or_default() += 1.0;
        }
        let expected = 40.0;
        let seen: f64 = counts.values().map(|n| (n - expected).powi(2)).sum();
        let missing = orders - counts.len() as u64;
        let number = |n: u64| f64::from(u32::try_from(n).unwrap());
        let chi_square = seen / expected + number(missing) * expected;
        let freedom = number(orders - 1);
        (chi_square - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn every_order_of_up_to_seven_fans_is_as_likely_as_every_other() {
        for size in 2..=7 {
            let off = deviation(size, |salt| table(size, salt).places);
            assert!(off.abs() < 4.0, "{size} fans: {off} deviations off");
        }
        // The test would notice a shuffle that draws every swap from all of the places.
        let careless = |salt| {
            let mut chance = Chance::new(&seed(&show(), &SECRET, "", salt));
            let mut places = (1..=6).collect::<Vec<u32>>();
            (0..6).for_each(|at| places.swap(at, chance.below(6) as usize));
            places
        };
        assert!(10.0 < deviation(6, careless));
    }

    #[test]
    fn values_of_the_last_short_run_are_thrown_away() {
        // Two thirds of 2^32: without the rule every third value would be drawn twice as often.
        let m = (1_u32 << 31) + (1 << 30);
        let mut chance = Chance::new(&Seed([1; 32]));
        let low = (0..3_000).filter(|_| chance.below(m) < m / 2).count();
        assert!((1_380..1_620).contains(&low), "{low} of 3,000");
    }

    #[test]
    fn digests_read_back_and_a_secret_does_not_print() {
        let seed = seed(&show(), &SECRET, "", 3);
        assert_eq!(seed.to_string().parse::<Seed>().unwrap(), seed);
        assert_eq!(format!("{SECRET:?}"), "***");
        for bad in ["", "0g", &"A".repeat(64), &"0".repeat(63), &"é".repeat(32)] {
            assert!(bad.parse::<Seed>().is_err(), "{bad}");
        }
    }
}
