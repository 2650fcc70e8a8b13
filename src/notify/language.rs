//! How each of our languages writes amounts and dates, and which one a reader gets.

use jiff::civil::{Date, Time};
use jiff::fmt::temporal::Pieces;

use crate::event::money::Money;

/// A language that messages are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Brazilian Portuguese.
    PtBr,
    /// English.
    En,
    /// Spanish.
    Es,
}

const MONTHS_PT: [&str; 12] = [
    "janeiro",
    "fevereiro",
    "março",
    "abril",
    "maio",
    "junho",
    "julho",
    "agosto",
    "setembro",
    "outubro",
    "novembro",
    "dezembro",
];
const MONTHS_EN: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const MONTHS_ES: [&str; 12] = [
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
];

impl Language {
    /// The language for a BCP 47 tag: by its first part, English where we do not speak it.
    pub fn of(locale: &str) -> Self {
        let primary = locale.split(['-', '_']).next().unwrap_or_default();
        match primary.to_ascii_lowercase().as_str() {
            "pt" => Self::PtBr,
            "es" => Self::Es,
            _ => Self::En,
        }
    }

    /// The BCP 47 tag.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::PtBr => "pt-BR",
            Self::En => "en",
            Self::Es => "es",
        }
    }

    /// An amount as its readers write it: `R$ 1.780,00`, `R$1,780.00`, `1780,00 R$`.
    pub fn amount(self, money: Money) -> String {
        let decimal = money.decimal();
        let (sign, unsigned) = match decimal.strip_prefix('-') {
            Some(unsigned) => ("-", unsigned),
            None => ("", decimal.as_str()),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let (group, point, ungrouped_max) = match self {
            Self::PtBr => (".", ",", 3),
            Self::En => (",", ".", 3),
            // Spanish groups from five digits on.
            Self::Es => (".", ",", 4),
        };
        let mut number = grouped(whole, group, ungrouped_max);
        if !fraction.is_empty() {
            number.push_str(point);
            number.push_str(fraction);
        }
        let code = money.currency.code();
        let symbol = match code {
            "BRL" => Some("R$"),
            "EUR" => Some("€"),
            "USD" => Some("US$"),
            _ => None,
        };
        match (self, symbol) {
            (Self::PtBr, _) => format!("{sign}{} {number}", symbol.unwrap_or(code)),
            (Self::En, Some(symbol)) => format!("{sign}{symbol}{number}"),
            (Self::En, None) => format!("{sign}{code} {number}"),
            (Self::Es, _) => format!("{sign}{number} {}", symbol.unwrap_or(code)),
        }
    }

    /// When a show starts, in the venue's own time: `1 de maio de 2027, 21:00 (UTC-03:00)`. `None`
    /// for a text that is no RFC 3339 instant.
    pub fn instant(self, rfc3339: &str) -> Option<String> {
        let pieces = Pieces::parse(rfc3339).ok()?;
        let (date, time) = (self.date(pieces.date()), pieces.time()?);
        let seconds = pieces.to_numeric_offset()?.seconds();
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.unsigned_abs() / 60;
        Some(format!(
            "{date}, {} (UTC{sign}{:02}:{:02})",
            clock(time),
            minutes / 60,
            minutes % 60
        ))
    }

    fn date(self, date: Date) -> String {
        let (day, year) = (date.day(), date.year());
        let month = usize::from(date.month().unsigned_abs() - 1);
        match self {
            Self::PtBr => format!("{day} de {} de {year}", MONTHS_PT[month]),
            Self::En => format!("{day} {} {year}", MONTHS_EN[month]),
            Self::Es => format!("{day} de {} de {year}", MONTHS_ES[month]),
        }
    }
}

fn clock(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

/// Digits in groups of three, unless there are at most `ungrouped_max`.
fn grouped(digits: &str, group: &str, ungrouped_max: usize) -> String {
    if digits.len() <= ungrouped_max {
        return digits.to_owned();
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if 0 < i && (digits.len() - i).is_multiple_of(3) {
            text.push_str(group);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Language::{En, Es, PtBr};
    use super::*;

    #[test]
    fn a_reader_gets_their_language_or_english() {
        for (locale, language) in [
            ("pt-BR", PtBr),
            ("pt", PtBr),
            ("PT_pt", PtBr),
            ("es-419", Es),
            ("en-GB", En),
            ("de", En),
            ("", En),
            ("português", En),
        ] {
            assert_eq!(Language::of(locale), language, "{locale}");
        }
    }

    #[test]
    fn amounts_are_written_as_each_language_does() {
        for (minor, currency, pt, en, es) in [
            (78_000, "BRL", "R$ 780,00", "R$780.00", "780,00 R$"),
            (123_456, "BRL", "R$ 1.234,56", "R$1,234.56", "1234,56 R$"),
            (-5, "EUR", "-€ 0,05", "-€0.05", "-0,05 €"),
            (
                1_234_567,
                "JPY",
                "JPY 1.234.567",
                "JPY 1,234,567",
                "1.234.567 JPY",
            ),
            (1_234, "KWD", "KWD 1,234", "KWD 1.234", "1,234 KWD"),
        ] {
            let currency = currency.parse().unwrap();
            let money = Money { minor, currency };
            assert_eq!(
                [PtBr, En, Es].map(|language| language.amount(money)),
                [pt, en, es]
            );
        }
    }

    #[test]
    fn a_show_starts_in_the_time_of_its_venue() {
        let at = "2027-05-01T21:00:00-03:00";
        assert_eq!(
            PtBr.instant(at).as_deref(),
            Some("1 de maio de 2027, 21:00 (UTC-03:00)")
        );
        assert_eq!(
            En.instant("2027-12-31T09:05:00+05:30").as_deref(),
            Some("31 December 2027, 09:05 (UTC+05:30)")
        );
        assert_eq!(
            Es.instant(at).as_deref(),
            Some("1 de mayo de 2027, 21:00 (UTC-03:00)")
        );
        for bad in [
            "",
            "tomorrow",
            "2027-05-01",
            "2027-05-01T21:00:00",
            "2027-13-01T21:00:00Z",
        ] {
            assert_eq!(En.instant(bad), None, "{bad}");
        }
    }
}
