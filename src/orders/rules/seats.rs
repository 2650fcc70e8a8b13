//! Which free seats are the best n together.
//!
//! Seats are known by their ordinals in a section; neighbours are next to each other. The best are n
//! neighbours, those with the lowest ordinals first. Where there is no such run, the group is split
//! into as few pieces as possible, and of those splits the one that spreads least.

use std::ops::Range;

/// Where in `free`, which is ascending, the first `n` begin that are neighbours; `n` is at least one.
pub fn run(free: &[u32], n: usize) -> Option<usize> {
    let spread = u32::try_from(n).ok()?.saturating_sub(1);
    free.windows(n.max(1))
        .position(|seats| seats[seats.len() - 1] - seats[0] == spread)
}

/// The best `n` of the free seats; `None` where fewer are free. `free` is ascending.
pub fn best(free: &[u32], n: usize) -> Option<Vec<u32>> {
    if free.len() < n {
        return None;
    }
    if let Some(start) = run(free, n) {
        return Some(free[start..start + n].to_vec());
    }
    let islands = islands(free);
    let pieces = pieces_needed(&islands, n);
    (0..islands.len())
        .filter_map(|first| tightest_from(&islands[first..], n, pieces))
        .map(|chosen| seats_of(free, &chosen, n))
        .min_by_key(|seats| (spread(seats), seats[0]))
}

/// Maximal groups of neighbours, as ranges of indices into `free`.
fn islands(free: &[u32]) -> Vec<Range<usize>> {
    let mut islands: Vec<Range<usize>> = Vec::new();
    for i in 0..free.len() {
        match islands.last_mut() {
            Some(last) if free[i - 1] + 1 == free[i] => last.end = i + 1,
            Some(_) | None => islands.push(i..i + 1),
        }
    }
    islands
}

/// The fewest islands that together have `n` seats.
fn pieces_needed(islands: &[Range<usize>], n: usize) -> usize {
    let mut lengths: Vec<usize> = islands.iter().map(Range::len).collect();
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let mut sum = 0;
    lengths
        .iter()
        .take_while(|length| {
            let short = sum < n;
            sum += **length;
            short
        })
        .count()
}

/// Of the islands from the first on, the shortest stretch in which `pieces` have `n` seats: those
/// pieces, in order. Looks no further than the first stretch: a longer one is not tighter.
fn tightest_from(islands: &[Range<usize>], n: usize, pieces: usize) -> Option<Vec<Range<usize>>> {
    // The longest islands of the stretch, longest first, earlier ones first among equals.
    let mut longest: Vec<Range<usize>> = Vec::new();
    for island in islands {
        let at = longest.partition_point(|other| island.len() <= other.len());
        longest.insert(at, island.clone());
        longest.truncate(pieces);
        if n <= longest.iter().map(Range::len).sum() {
            longest.sort_unstable_by_key(|island| island.start);
            return Some(longest);
        }
    }
    None
}

/// The first `n` seats of the pieces. Each piece is needed, so what is too much fits into the last.
fn seats_of(free: &[u32], pieces: &[Range<usize>], n: usize) -> Vec<u32> {
    pieces
        .iter()
        .flat_map(|piece| &free[piece.clone()])
        .take(n)
        .copied()
        .collect()
}

fn spread(seats: &[u32]) -> u32 {
    seats[seats.len() - 1] - seats[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_first_then_the_fewest_and_tightest_pieces() {
        for (free, n, expected) in [
            (vec![1, 2, 3, 4], 2, Some(vec![1, 2])),
            (vec![1, 3, 4, 6, 7, 8], 3, Some(vec![6, 7, 8])),
            (vec![1, 3, 4, 9, 10], 3, Some(vec![1, 3, 4])),
            (vec![1, 2, 8, 9, 11], 3, Some(vec![8, 9, 11])),
            (vec![1, 3, 5, 7], 3, Some(vec![1, 3, 5])),
            (vec![1, 2, 50, 60, 61], 4, Some(vec![1, 2, 60, 61])),
            (vec![4], 1, Some(vec![4])),
            (vec![4], 2, None),
            (vec![], 1, None),
        ] {
            assert_eq!(best(&free, n), expected, "{n} of {free:?}");
        }
    }

    /// (pieces, spread, first): what the choice minimises.
    fn rank(seats: &[u32]) -> (usize, u32, u32) {
        (islands(seats).len(), spread(seats), seats[0])
    }

    fn choices(free: &[u32], n: usize) -> Vec<Vec<u32>> {
        (0_u32..1 << free.len())
            .filter(|mask| mask.count_ones() as usize == n)
            .map(|mask| {
                (0..free.len())
                    .filter(|i| mask >> i & 1 == 1)
                    .map(|i| free[i])
                    .collect()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn no_choice_is_better(
            free in prop::collection::btree_set(1_u32..24, 1..13),
            n in 1_usize..7,
        ) {
            let free: Vec<u32> = free.into_iter().collect();
            let expected = choices(&free, n).iter().map(|seats| rank(seats)).min();
            prop_assert_eq!(best(&free, n).map(|seats| rank(&seats)), expected);
        }
    }
}
