//! Changes good inputs by a seed, and holds a parser to a property.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Inputs for each parser when nobody asks for more.
const INPUTS: u64 = 4_000;
/// The variable that asks for more.
const INPUTS_VARIABLE: &str = "CATRACA_FUZZ";
/// The longest input that grows.
const BYTES_MAX: usize = 6_000;
/// Pieces that parsers trip over.
const PIECES: [&str; 40] = [
    "/", "//", "/.", "/..", "%", "%2f", "%2e", "%00", "%25", "%C3%A9", "\\", ";", "?", "#", "&",
    "=", "[]", "show=", ".", "..", ",", " ", "\t", "\r\n", "\0", ":", "::", "@", "[", "]", "\"",
    "{", "}", "null", "-1", "1e400", "\u{ff0f}", "\u{202e}", "catraca-", "__Host-",
];

/// Changes good inputs.
struct Mutator {
    random: SmallRng,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    fn new(seed: u64, seeds: &[String]) -> Self {
        let seeds = seeds.iter().map(|seed| seed.clone().into_bytes()).collect();
        Self {
            random: SmallRng::seed_from_u64(seed),
            seeds,
        }
    }

    fn seed(&mut self) -> Vec<u8> {
        self.seeds
            .choose(&mut self.random)
            .expect("there are some")
            .clone()
    }

    /// One input, changed in one to six places.
    fn input(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        for _ in 0..self.random.random_range(1..=6) {
            self.change(&mut input);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = self.random.random_range(at..=input.len());
        let byte: u8 = self.random.random();
        match self.random.random_range(0..9) {
            0 if at < input.len() => input[at] ^= 1 << (byte % 8),
            1 if at < input.len() => input[at] = byte,
            2 => input.insert(at, byte),
            3 => drop(input.drain(at..end)),
            4 if input.len() < BYTES_MAX => {
                let twice = input[at..end].to_vec();
                drop(input.splice(at..at, twice));
            }
            5 => input.truncate(at),
            6 => {
                let other = self.seed();
                let from = self.random.random_range(0..=other.len());
                drop(input.splice(at.., other[from..].iter().copied()));
            }
            7 => input[at..end].make_ascii_uppercase(),
            _ => {
                let piece = *PIECES.choose(&mut self.random).expect("there are some");
                drop(input.splice(at..at, piece.bytes()));
            }
        }
    }
}

/// Gives a parser's property many inputs; it returns whether the input was accepted.
pub(crate) fn fuzz(name: &str, seeds: &[String], accepts: impl Fn(&[u8]) -> bool) {
    let count = env::var(INPUTS_VARIABLE).map_or(INPUTS, |text| text.parse().unwrap());
    let seed: u64 = rand::random();
    let mut mutator = Mutator::new(seed, seeds);
    let mut accepted = 0_u64;
    for seed in seeds {
        assert!(
            accepts(seed.as_bytes()),
            "{name}: a good input is refused: {seed}"
        );
    }
    for _ in 0..count {
        let input = mutator.input();
        match catch_unwind(AssertUnwindSafe(|| accepts(&input))) {
            Ok(is_accepted) => accepted += u64::from(is_accepted),
            Err(_) => panic!("{name}: SEED={seed}: {:?}", String::from_utf8_lossy(&input)),
        }
    }
    eprintln!("fuzz {name}: {count} inputs, SEED={seed}, {accepted} accepted");
}
