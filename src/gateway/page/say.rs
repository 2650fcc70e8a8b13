//! Numbers and times as people say them, in each language.
//!
//! `web/say.js` says the same for the script; `tests/it/e2e/page/` holds the two equal.

use crate::base::ids::Place;
use crate::gateway::page::texts::Texts;
use crate::room::estimate::Eta;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Replaces each `{word}` by its value. Values are not looked into: a show may be called `{name}`.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut said = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, after) = after.split_once('}').unwrap_or((after, ""));
        said.push_str(before);
        let value = values.iter().find(|(name, _)| *name == word);
        said.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    said.push_str(rest);
    said
}

/// A number with its groups of three digits: 1,204,000.
pub(super) fn number(n: u64, t: &Texts) -> String {
    let digits = n.to_string();
    let mut said = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            said.push_str(t.thousands);
        }
        said.push(digit);
    }
    said
}

/// A duration in its two largest units: "3 hours and 5 minutes". Seconds round up, and are left out
/// from ten minutes on.
pub(super) fn duration(ms: u64, t: &Texts) -> String {
    let total = ms.div_ceil(1_000);
    let total = if total < 10 * MINUTE {
        total
    } else {
        total.next_multiple_of(MINUTE)
    };
    let units = [
        (total / DAY, t.day_one, t.day_other),
        (total % DAY / HOUR, t.hour_one, t.hour_other),
        (total % HOUR / MINUTE, t.minute_one, t.minute_other),
        (total % MINUTE, t.second_one, t.second_other),
    ];
    let first = units.iter().position(|unit| 0 < unit.0).unwrap_or(3);
    let count = |&(n, one, other): &(u64, &str, &str)| {
        fill(if n == 1 { one } else { other }, &[("n", &n.to_string())])
    };
    match units.get(first + 1).filter(|second| 0 < second.0) {
        None => count(&units[first]),
        Some(second) => fill(
            t.duration_of_two,
            &[("a", &count(&units[first])), ("b", &count(second))],
        ),
    }
}

/// A waiting time, always as a range and never narrower than it is known: in minutes up to an hour
/// and a half, beyond in steps of five.
pub(super) fn eta(eta: Eta, t: &Texts) -> String {
    if eta.high <= MINUTE {
        return t.eta_soon.to_owned();
    }
    let (low, high) = (eta.low / MINUTE, eta.high.div_ceil(MINUTE));
    if 90 < high {
        let (low, high) = (low / 5 * 5, high.next_multiple_of(5));
        let (low, high) = (hours_minutes(low, t), hours_minutes(high, t));
        return fill(t.eta_range_long, &[("low", &low), ("high", &high)]);
    }
    let text = match low {
        0 => t.eta_up_to,
        low if low == high => t.eta_about,
        _ => t.eta_range,
    };
    fill(
        text,
        &[("low", &low.to_string()), ("high", &high.to_string())],
    )
}

fn hours_minutes(minutes: u64, t: &Texts) -> String {
    let text = match (minutes / 60, minutes % 60) {
        (0, _) => t.minutes_short,
        (_, 0) => t.hours_short,
        (_, _) => t.hours_minutes,
    };
    let (h, m) = ((minutes / 60).to_string(), (minutes % 60).to_string());
    fill(text, &[("h", &h), ("m", &m)])
}

/// Whether seats will last, for a fan in this place: an estimate, so a tenth to each side is open.
pub(super) fn reach(reach: Place, place: Place, t: &Texts) -> String {
    let text = if place.0.saturating_mul(10) <= reach.0.saturating_mul(9) {
        t.reach_likely
    } else if place.0.saturating_mul(10) <= reach.0.saturating_mul(11) {
        t.reach_close
    } else {
        t.reach_unlikely
    };
    let about = number(three_digits(reach.0), t);
    fill(text, &[("reach", &about), ("place", &number(place.0, t))])
}

/// A number known only roughly, rounded down to three digits that mean something.
fn three_digits(n: u64) -> u64 {
    let mut unit = 1;
    while 1_000 <= n / unit {
        unit *= 10;
    }
    n / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::page::language::Language;

    #[test]
    fn only_the_text_is_filled_in() {
        for (text, expected) in [
            ("a {x} b {y}", "a {y} b 2"),
            ("{z}", ""),
            ("{x", "{y}"),
            ("plain", "plain"),
        ] {
            assert_eq!(fill(text, &[("x", "{y}"), ("y", "2")]), expected, "{text}");
        }
    }

    #[test]
    fn numbers_have_groups() {
        let (en, es) = (Language::En.texts(), Language::Es.texts());
        for (n, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_204_000, "1,204,000"),
        ] {
            assert_eq!(number(n, en), expected);
        }
        assert_eq!(number(1_204_000, es), "1.204.000");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (ms, expected) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (61_000, "1 minute and 1 second"),
            (120_000, "2 minutes"),
            (599_001, "10 minutes"),
            (600_500, "11 minutes"),
            (3_600_000, "1 hour"),
            (11_100_000, "3 hours and 5 minutes"),
            (90_060_000, "1 day and 1 hour"),
            (86_460_000, "1 day"),
        ] {
            assert_eq!(duration(ms, Language::En.texts()), expected, "{ms}");
        }
    }

    fn range(low: u64, high: u64) -> Eta {
        Eta {
            seconds: u64::midpoint(low, high),
            low,
            high,
            cause: None,
        }
    }

    #[test]
    fn an_eta_is_a_range() {
        for (low, high, expected) in [
            (0, 0, "less than a minute"),
            (30, 60, "less than a minute"),
            (30, 61, "up to 2 minutes"),
            (120, 120, "about 2 minutes"),
            (150, 290, "about 2 to 5 minutes"),
            (3_000, 5_400, "about 50 to 90 minutes"),
            (3_300, 5_401, "55 min to 1 h 35 min"),
            (5_000, 7_100, "1 h 20 min to 2 h"),
        ] {
            let said = eta(range(low, high), Language::En.texts());
            assert_eq!(said, expected, "{low} {high}");
        }
    }

    #[test]
    fn reach_is_told_calmly_and_roughly() {
        for (place, starts) in [
            (27_900, "so there should be some left"),
            (31_400, "it will be close"),
            (34_600, "there will probably be none left"),
        ] {
            let said = reach(Place(31_420), Place(place), Language::En.texts());
            assert!(
                said.contains(starts) && said.contains("about place 31,400"),
                "{said}"
            );
        }
    }
}
