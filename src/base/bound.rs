//! Numbers that an operator sets, and the ranges in which they can be meant.
//!
//! A bound of 0 is seldom meant as one: it would let nothing pass, and say so only to the fans. One that
//! is far too high is a slip of the pen. Both are said at start, in one form.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Whether a number is in its range.
///
/// # Errors
/// A sentence that names key, value and range.
pub fn within<T>(key: &str, value: T, range: &RangeInclusive<T>) -> Result<(), String>
where
    T: PartialOrd + Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(format!(
        "{key} ({value}) must be between {least} and {most}"
    ))
}

/// The same; the sentence also says what would happen with less.
///
/// # Errors
/// As [`within`].
pub fn within_or<T>(
    key: &str,
    value: T,
    range: &RangeInclusive<T>,
    with_less: &str,
) -> Result<(), String>
where
    T: PartialOrd + Display,
{
    let is_less = value < *range.start();
    within(key, value, range).map_err(|says| match is_less {
        true => format!("{says}, or {with_less}"),
        false => says,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_said_with_the_range() {
        let nothing = "nothing would pass";
        assert_eq!(within_or("a.b_ms", 1, &(1..=9), nothing), Ok(()));
        assert_eq!(within_or("a.b_ms", 9, &(1..=9), nothing), Ok(()));
        for (value, says) in [
            (
                0,
                "a.b_ms (0) must be between 1 and 9, or nothing would pass",
            ),
            (10, "a.b_ms (10) must be between 1 and 9"),
        ] {
            assert_eq!(
                within_or("a.b_ms", value, &(1..=9), nothing),
                Err(says.to_owned())
            );
        }
    }
}
