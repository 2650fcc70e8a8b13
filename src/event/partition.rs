//! Where a key goes: the partition of the event log, as Kafka's Java client computes it.
//!
//! One partitioner everywhere (relay, consumers, tests), or the events of
//! one key would land on two partitions and lose their order.

use crate::base::limits::PARTITIONS;

/// The partition of a key, 0 to [`PARTITIONS`] − 1.
pub fn of_key(key: &str) -> u16 {
    let positive = murmur2(key.as_bytes()) & 0x7fff_ffff;
    u16::try_from(positive % u32::from(PARTITIONS)).expect("a remainder of a small number")
}

/// Murmur2 with Kafka's seed, 32 bits. <https://kafka.apache.org/protocol> leaves it to clients;
/// the test vectors are those of Kafka's own `UtilsTest`.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(bytes.len()).expect("keys are short");
    let mut hash = 0x9747_b28c ^ length;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("four bytes")).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_java_client() {
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }
}
