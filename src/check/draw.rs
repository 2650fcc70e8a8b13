//! A draw, computed anew from its seed: the text of the design, and none of the room's code.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::base::ids::{Number, Place, Seed};

/// Which place each number of a draw has, and the other way round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draw {
    places: BTreeMap<Number, Place>,
    numbers: BTreeMap<Place, Number>,
}

impl Draw {
    /// The draw of so many numbers that follows from a seed.
    pub(super) fn of(seed: &Seed, size: u64) -> Self {
        let mut order: Vec<u64> = (1..=size).collect();
        let mut stream = (0_u64..).flat_map(|block| {
            let hash = Sha256::new()
                .chain_update(seed.0)
                .chain_update(block.to_be_bytes())
                .finalize();
            let words = hash.chunks(4).map(|word| {
                word.iter()
                    .fold(0, |value, byte| (value << 8) | u64::from(*byte))
            });
            words.collect::<Vec<u64>>()
        });
        for m in (2..=size).rev() {
            let fair = (1 << 32) / m * m;
            let drawn = stream.find(|value| *value < fair).unwrap_or_default();
            let at = |n: u64| usize::try_from(n).unwrap_or_default();
            order.swap(at(m - 1), at(drawn % m));
        }
        let pairs = || (1..).map(Number).zip(order.iter().copied().map(Place));
        Self {
            places: pairs().collect(),
            numbers: pairs().map(|(number, place)| (place, number)).collect(),
        }
    }

    /// The place of a number: its own for whoever took no part.
    pub(super) fn place(&self, number: Number) -> Place {
        let drawn = self.places.get(&number);
        drawn.copied().unwrap_or(Place(number.0))
    }

    /// The number of a place.
    pub(super) fn number(&self, place: Place) -> Number {
        let drawn = self.numbers.get(&place);
        drawn.copied().unwrap_or(Number(place.0))
    }

    /// Whether a number took part.
    pub(super) fn has(&self, number: Number) -> bool {
        self.places.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_draw_that_everybody_computes() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/draw.json")).unwrap();
        let mut compared = 0;
        for row in golden["draws"].as_array().unwrap() {
            let seed: Seed = serde_json::from_value(row["seed"].clone()).unwrap();
            let Some(places) = row["places"].as_array() else {
                continue;
            };
            let draw = Draw::of(&seed, row["size"].as_u64().unwrap());
            for (number, place) in (1..).map(Number).zip(places) {
                let place = Place(place.as_u64().unwrap());
                assert_eq!((draw.place(number), draw.number(place)), (place, number));
                compared += 1;
            }
            assert_eq!(draw.place(Number(9_999_999)), Place(9_999_999));
        }
        assert!(10 < compared);
    }
}
