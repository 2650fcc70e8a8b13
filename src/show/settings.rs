//! A show's settings: the document that operators write, its defaults and its rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::base::bound::within;
use crate::base::limits::{
    CAPACITY_MAX, EXACT_INTEGER_MAX, MESSAGE_BYTES_MAX, RATE_MAX, SECTION_SEATS_MAX, SECTIONS_MAX,
    TICKET_TTL_MS_MAX, WAITING_MAX_DEFAULT, WINDOW_MS_MAX,
};
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::show::draw;

/// The last instant that a room can keep: its numbers are whole below this.
const INSTANT_MAX: Timestamp = Timestamp::from_unix_ms(EXACT_INTEGER_MAX.cast_signed() - 1);

/// What an operator decides about a show. Missing members take the defaults of `docs/shows.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The public name.
    pub name: String,
    /// Fans called in any window; 0 pauses the calling.
    pub rate: u64,
    /// The window of `rate`, in milliseconds.
    #[serde(default = "second")]
    pub window_ms: u64,
    /// The highest `rate` that may be set live; default twice the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_max: Option<u64>,
    /// Admissions that may be live at once; none: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How long a called fan's slot is kept.
    #[serde(default = "minute")]
    pub claim_ms: u64,
    /// How long a claimed admission runs.
    #[serde(default = "five_minutes")]
    pub ticket_ttl_ms: u64,
    /// How far an upstream may prolong it from now.
    #[serde(default = "quarter_hour")]
    pub ticket_ttl_max_ms: u64,
    /// Fans in line; beyond, joins are answered 503 `full`.
    #[serde(default = "waiting_max")]
    pub waiting_max: u64,
    /// Status polls a second that the operator is willing to serve, and fans a second that may come
    /// back after a loss.
    #[serde(default = "restore_per_s")]
    pub restore_per_s: u64,
    /// When joining begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_at: Option<Timestamp>,
    /// When calling begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
    /// When the sale ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes_at: Option<Timestamp>,
    /// When the show itself starts, RFC 3339 with the venue's offset; printed in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
    /// Where an admitted fan buys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shop_url: Option<String>,
    /// Draw lots among everybody who joined before the opening. Fixed at creation, as is `beacon`:
    /// every pass carries the commitment.
    #[serde(default)]
    pub draw: bool,
    /// The public random number that the draw is to hang on, by name and round, as fans can look it
    /// up; it must be published after the opening. Without one the operator can know the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<String>,
    /// Call only fans who have lately shown that they are there; the others stand by without a slot.
    #[serde(default)]
    pub require_presence: bool,
    /// Call no more fans than there are seats for.
    #[serde(default = "yes")]
    pub stock_guard: bool,
    /// Live holds that one ticket may have.
    #[serde(default = "one")]
    pub holds_per_ticket: u32,
    /// How long a hold lasts.
    #[serde(default = "four_minutes")]
    pub hold_ms: u64,
    /// What is sold.
    #[serde(default)]
    pub sections: Vec<Section>,
    /// A line from the operator to everybody, by language (`pt-BR`, `en`, `es`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub message: BTreeMap<String, String>,
}

/// A part of the house with one price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its name, which begins the names of its seats: `B` has `B-1`, `B-2`…
    pub name: String,
    /// How many seats it has.
    pub seats: u32,
    /// Whether fans may choose seats by name.
    #[serde(default)]
    pub numbered: bool,
    /// The price of one seat.
    pub price: Money,
}

fn second() -> u64 {
    1_000
}

fn minute() -> u64 {
    60_000
}

fn four_minutes() -> u64 {
    240_000
}

fn five_minutes() -> u64 {
    300_000
}

fn quarter_hour() -> u64 {
    900_000
}

fn waiting_max() -> u64 {
    WAITING_MAX_DEFAULT
}

fn restore_per_s() -> u64 {
    20_000
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl Settings {
    /// The highest rate that may be set live.
    pub fn rate_ceiling(&self) -> u64 {
        self.rate_max.unwrap_or_else(|| self.rate.saturating_mul(2))
    }

    /// Seats of the show.
    pub fn seats(&self) -> u64 {
        self.sections
            .iter()
            .map(|section| u64::from(section.seats))
            .sum()
    }

    /// The first rule that the settings break, as a sentence that names key and value.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() || 200 < self.name.len() {
            return Err("name must have between 1 and 200 bytes".to_owned());
        }
        if self.name.chars().any(char::is_control) {
            return Err("name must have no control characters".to_owned());
        }
        within("window_ms", self.window_ms, &(100..=WINDOW_MS_MAX))?;
        let calls_max = RATE_MAX.saturating_mul(self.window_ms);
        within("rate", self.rate, &(0..=calls_max / 1_000))?;
        let ttl = 1_000..=TICKET_TTL_MS_MAX;
        within("claim_ms", self.claim_ms, &ttl)?;
        let ttl_max = self.ticket_ttl_max_ms;
        within("ticket_ttl_ms", self.ticket_ttl_ms, &(1_000..=ttl_max))?;
        within("ticket_ttl_max_ms", ttl_max, &ttl)?;
        within("hold_ms", self.hold_ms, &(1_000..=ttl_max))?;
        within("holds_per_ticket", self.holds_per_ticket, &(1..=10))?;
        within("waiting_max", self.waiting_max, &(1..=WAITING_MAX_DEFAULT))?;
        within("restore_per_s", self.restore_per_s, &(1..=1_000_000))?;
        if let Some(capacity) = self.capacity {
            within("capacity", capacity, &(1..=CAPACITY_MAX))?;
        }
        if let Some(rate_max) = self.rate_max {
            within("rate_max", rate_max, &(self.rate..=calls_max))?;
        }
        self.check_schedule()?;
        draw::check(self.draw, self.beacon.as_deref())?;
        self.check_sections()?;
        self.check_texts()
    }

    fn check_schedule(&self) -> Result<(), String> {
        let times = [
            ("early_at", self.early_at),
            ("opens_at", self.opens_at),
            ("closes_at", self.closes_at),
        ];
        let mut given = times.iter().filter_map(|(key, at)| at.map(|at| (key, at)));
        for (key, at) in given.clone() {
            within(key, at, &(Timestamp::default()..=INSTANT_MAX))?;
        }
        let Some(mut before) = given.next() else {
            return Ok(());
        };
        for after in given {
            if after.1 <= before.1 {
                return Err(format!("{} must be after {}", after.0, before.0));
            }
            before = after;
        }
        Ok(())
    }

    fn check_sections(&self) -> Result<(), String> {
        if SECTIONS_MAX < self.sections.len() {
            return Err(format!("sections must be at most {SECTIONS_MAX}"));
        }
        let mut names = BTreeSet::new();
        let mut house: Option<Money> = None;
        for (at, section) in self.sections.iter().enumerate() {
            let name = &section.name;
            let well_formed = (1..=32).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' ')
                && name.trim() == name;
            if !well_formed {
                return Err(format!(
                    "sections[{at}].name must have 1 to 32 letters, digits and spaces"
                ));
            }
            if !names.insert(name) {
                return Err(format!("sections[{at}].name is given twice"));
            }
            if !(1..=SECTION_SEATS_MAX).contains(&section.seats) {
                return Err(format!(
                    "sections[{at}].seats must be 1 to {SECTION_SEATS_MAX}"
                ));
            }
            if section.price.currency != self.sections[0].price.currency {
                return Err("all sections must have the same currency".to_owned());
            }
            let worth = section.price.times(section.seats);
            let Some(worth) = worth.filter(|worth| 0 <= worth.minor) else {
                return Err(format!("sections[{at}].price is impossible"));
            };
            house = match house {
                None => Some(worth),
                Some(house) => Some(house.plus(worth).ok_or_else(|| {
                    format!("sections[{at}].price is impossible: the whole house costs too much")
                })?),
            };
        }
        Ok(())
    }

    fn check_texts(&self) -> Result<(), String> {
        for (language, text) in &self.message {
            if !matches!(language.as_str(), "pt-BR" | "en" | "es") {
                return Err("message language must be pt-BR, en or es".to_owned());
            }
            if MESSAGE_BYTES_MAX < text.len() {
                return Err(format!(
                    "message must have at most {MESSAGE_BYTES_MAX} bytes"
                ));
            }
        }
        if let Some(url) = &self.shop_url {
            let fits =
                url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !fits {
                return Err("shop_url must be an absolute http or https URL".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOW: &str = r#"{"name": "Stadium Show", "rate": 30, "capacity": 600,
        "sections": [{"name": "B", "seats": 100, "price": {"amount": 390.00, "currency": "BRL"}}]}"#;

    fn with(member: &str, value: serde_json::Value) -> Result<(), String> {
        let mut document: serde_json::Value = serde_json::from_str(SHOW).unwrap();
        document[member] = value;
        serde_json::from_value::<Settings>(document)
            .map_err(|e| e.to_string())?
            .check()
    }

    #[test]
    fn missing_members_take_the_defaults() {
        let settings: Settings = serde_json::from_str(SHOW).unwrap();
        assert_eq!(settings.check(), Ok(()));
        assert_eq!((settings.window_ms, settings.claim_ms), (1_000, 60_000));
        assert_eq!(
            (settings.ticket_ttl_ms, settings.ticket_ttl_max_ms),
            (300_000, 900_000)
        );
        assert_eq!(
            (settings.rate_ceiling(), settings.waiting_max),
            (60, 20_000_000)
        );
        assert!(settings.stock_guard);
    }

    #[test]
    fn each_rule_says_what_it_wants() {
        for (member, value, says) in [
            ("name", serde_json::json!(" "), "name must"),
            ("name", serde_json::json!("a\nb"), "name must have no"),
            (
                "rate",
                serde_json::json!(6_000),
                "rate (6000) must be between 0 and 5000",
            ),
            ("rate", serde_json::json!(-1), "invalid value"),
            ("rate", serde_json::json!("500"), "invalid type"),
            ("window_ms", serde_json::json!(0), "window_ms (0)"),
            ("capacity", serde_json::json!(0), "capacity (0)"),
            (
                "ticket_ttl_ms",
                serde_json::json!(900_001),
                "ticket_ttl_ms (900001)",
            ),
            ("colour", serde_json::json!("red"), "unknown field `colour`"),
            (
                "beacon",
                serde_json::json!("drand quicknet, round 1"),
                "beacon needs draw",
            ),
            (
                "shop_url",
                serde_json::json!("javascript:alert(1)"),
                "shop_url must",
            ),
            (
                "message",
                serde_json::json!({"fr": "x"}),
                "message language",
            ),
        ] {
            let error = with(member, value).unwrap_err();
            assert!(error.contains(says), "{member}: {error}");
        }
        let twice = serde_json::json!([
            {"name": "B", "seats": 1, "price": {"amount": 1, "currency": "BRL"}},
            {"name": "B", "seats": 1, "price": {"amount": 1, "currency": "BRL"}}]);
        assert!(with("sections", twice).unwrap_err().contains("twice"));
        for key in ["early_at", "opens_at", "closes_at"] {
            for (at, says) in [
                ("0026-12-01T10:00:00Z", "(0026-12-01T10:00:00Z) must be"),
                (
                    "1969-12-31T23:59:59.999Z",
                    "between 1970-01-01T00:00:00Z and",
                ),
            ] {
                let why = with(key, at.into()).unwrap_err();
                assert!(why.starts_with(key) && why.contains(says), "{why}");
            }
            assert_eq!(with(key, "9999-12-30T00:00:00Z".into()), Ok(()));
        }
    }

    #[test]
    fn the_whole_house_has_a_price() {
        let house = |seats: [u32; 2], amounts: [&str; 2]| {
            let section = |name: &str, seats: u32, amount: &str| {
                format!(
                    r#"{{"name":"{name}","seats":{seats},"price":{{"amount":{amount},"currency":"BRL"}}}}"#
                )
            };
            let [a, b] = [("A", 0), ("B", 1)].map(|(name, n)| section(name, seats[n], amounts[n]));
            let document = format!(r#"{{"name":"Show","rate":1,"sections":[{a},{b}]}}"#);
            serde_json::from_str::<Settings>(&document).unwrap().check()
        };
        assert_eq!(house([1, 1], ["92233720368547758.06", "0.01"]), Ok(()));
        for (seats, amounts, says) in [
            (
                [1, 1],
                ["92233720368547758.07", "0.01"],
                "sections[1].price",
            ),
            (
                [1, 1],
                ["92233720368547758.07", "92233720368547758.07"],
                "whole house",
            ),
            ([2, 1], ["92233720368547758.07", "1"], "sections[0].price"),
            ([1, 1], ["1", "-1"], "sections[1].price"),
        ] {
            let why = house(seats, amounts).unwrap_err();
            assert!(why.contains(says), "{amounts:?}: {why}");
        }
    }
}
