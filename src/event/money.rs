//! Amounts of money: integers of the smallest unit inside, a decimal number on the wire.
//!
//! The decimal is written from the integer and read back digit by digit. No float is ever involved,
//! so 780.00 stays 780.00 and sums are exact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A currency by its ISO 4217 code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The three letters.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).expect("three ASCII letters by construction")
    }

    /// Digits after the decimal point (ISO 4217 minor units): 2 but for the currencies listed.
    pub fn digits(self) -> usize {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG"
            | b"RWF" | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            _ => 2,
        }
    }
}

impl FromStr for Currency {
    type Err = BadMoney;

    fn from_str(text: &str) -> Result<Self, BadMoney> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_uppercase) => Ok(Self(code)),
            Ok(_) | Err(_) => Err(BadMoney),
        }
    }
}

/// A text that is no amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an amount of money")]
pub struct BadMoney;

/// An amount in a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Money {
    /// The amount in the currency's smallest unit (centavos, cents, yen).
    pub minor: i64,
    /// The currency.
    pub currency: Currency,
}

impl Money {
    /// The amount as a decimal with all of the currency's digits: `780.00`.
    pub fn decimal(&self) -> String {
        let digits = self.currency.digits();
        let sign = if self.minor < 0 { "-" } else { "" };
        let unit = 10_u64.pow(u32::try_from(digits).expect("at most four digits"));
        let (whole, rest) = (
            self.minor.unsigned_abs() / unit,
            self.minor.unsigned_abs() % unit,
        );
        if digits == 0 {
            format!("{sign}{whole}")
        } else {
            format!("{sign}{whole}.{rest:0digits$}")
        }
    }

    /// Reads a plain decimal with at most the currency's digits: `780`, `780.0` and `780.00`.
    ///
    /// # Errors
    /// [`BadMoney`] for exponents, missing digits, too many digits and amounts past 64 bits.
    pub fn parse(decimal: &str, currency: Currency) -> Result<Self, BadMoney> {
        let (negative, unsigned) = match decimal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, decimal),
        };
        let (whole, fraction) = match unsigned.split_once('.') {
            Some((_, "")) => return Err(BadMoney),
            Some(parts) => parts,
            None => (unsigned, ""),
        };
        let digits = currency.digits();
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || digits < fraction.len() || !plain(whole) || !plain(fraction) {
            return Err(BadMoney);
        }
        let minor: i64 = format!("{whole}{fraction:0<digits$}")
            .parse()
            .map_err(|_| BadMoney)?;
        Ok(Self {
            minor: if negative { -minor } else { minor },
            currency,
        })
    }

    /// `count` times this amount; `None` past 64 bits.
    pub fn times(self, count: u32) -> Option<Self> {
        Some(Self {
            minor: self.minor.checked_mul(i64::from(count))?,
            ..self
        })
    }

    /// The sum; `None` past 64 bits or across currencies.
    pub fn plus(self, other: Self) -> Option<Self> {
        if self.currency != other.currency {
            return None;
        }
        Some(Self {
            minor: self.minor.checked_add(other.minor)?,
            ..self
        })
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency.code(), self.decimal())
    }
}

#[derive(Serialize, Deserialize)]
struct Wire {
    amount: Box<RawValue>,
    currency: String,
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amount = RawValue::from_string(self.decimal()).map_err(serde::ser::Error::custom)?;
        Wire {
            amount,
            currency: self.currency.code().to_owned(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let currency = wire.currency.parse().map_err(serde::de::Error::custom)?;
        Self::parse(wire.amount.get(), currency).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(minor: i64, code: &str) -> Money {
        Money {
            minor,
            currency: code.parse().unwrap(),
        }
    }

    #[test]
    fn amounts_keep_every_digit_of_their_currency() {
        for (minor, code, json) in [
            (78_000, "BRL", r#"{"amount":780.00,"currency":"BRL"}"#),
            (5, "EUR", r#"{"amount":0.05,"currency":"EUR"}"#),
            (-105, "USD", r#"{"amount":-1.05,"currency":"USD"}"#),
            (1_200, "JPY", r#"{"amount":1200,"currency":"JPY"}"#),
            (1_234, "KWD", r#"{"amount":1.234,"currency":"KWD"}"#),
            (
                i64::MAX,
                "BRL",
                r#"{"amount":92233720368547758.07,"currency":"BRL"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&money(minor, code)).unwrap(), json);
            assert_eq!(
                serde_json::from_str::<Money>(json).unwrap(),
                money(minor, code)
            );
        }
    }

    #[test]
    fn what_is_no_plain_decimal_is_refused() {
        let brl: Currency = "BRL".parse().unwrap();
        for bad in [
            "",
            "-",
            ".5",
            "1.",
            "1.234",
            "1e2",
            "+1",
            "1,5",
            "NaN",
            "99999999999999999999",
        ] {
            assert_eq!(Money::parse(bad, brl), Err(BadMoney), "{bad}");
        }
        assert_eq!(Money::parse("780", brl), Ok(money(78_000, "BRL")));
        assert_eq!(Money::parse("780.5", brl), Ok(money(78_050, "BRL")));
        assert!("brl".parse::<Currency>().is_err() && "BR".parse::<Currency>().is_err());
    }
}
