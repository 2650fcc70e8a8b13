//! Verdicts as text for people and as JSON for programs.

use serde::Serialize;

use crate::check::verdict::{Finding, Verdict, grouped};

/// One line a promise, then what is broken and what is unproved, at length.
pub fn render(verdicts: &[Verdict]) -> String {
    let width = verdicts
        .iter()
        .map(|v| v.promise.title().len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for verdict in verdicts {
        line(
            &mut text,
            format_args!(
                "{:>2}  {:width$}  {:8}  {}",
                verdict.promise.number(),
                verdict.promise.title(),
                in_print(verdict.finding()),
                verdict.looked_at.join(", ")
            ),
        );
    }
    for verdict in verdicts {
        let Some(example) = &verdict.broken else {
            continue;
        };
        let (number, title) = (verdict.promise.number(), verdict.promise.title());
        line(
            &mut text,
            format_args!("\nBROKEN {number} {title}: {example}"),
        );
        if 0 < verdict.others {
            let others = grouped(usize::try_from(verdict.others).unwrap_or(usize::MAX));
            line(&mut text, format_args!("       and {others} more"));
        }
    }
    for verdict in verdicts
        .iter()
        .filter(|verdict| !verdict.unproved.is_empty())
    {
        let (number, title) = (verdict.promise.number(), verdict.promise.title());
        line(&mut text, format_args!("\nUNPROVED {number} {title}:"));
        for what in &verdict.unproved {
            line(&mut text, format_args!("       {what}"));
        }
    }
    line(&mut text, format_args!("\n{}", summary(verdicts)));
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.push_str(line.to_string().trim_end());
    text.push('\n');
}

/// What is not clean is loud.
const fn in_print(finding: Finding) -> &'static str {
    match finding {
        Finding::Clean => "clean",
        Finding::Unproved => "UNPROVED",
        Finding::Broken => "BROKEN",
    }
}

fn summary(verdicts: &[Verdict]) -> String {
    let count = |finding| {
        verdicts
            .iter()
            .filter(|verdict| verdict.finding() == finding)
            .count()
    };
    format!(
        "{} promises: {} clean, {} unproved, {} broken",
        verdicts.len(),
        count(Finding::Clean),
        count(Finding::Unproved),
        count(Finding::Broken)
    )
}

#[derive(Serialize)]
struct Wire<'a> {
    promise: u8,
    title: &'a str,
    finding: &'a str,
    looked_at: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<&'a str>,
    /// Counter-examples, the first included.
    broken_count: u64,
    unproved: &'a [String],
}

/// The verdicts as a JSON array, one object a promise.
pub fn to_json(verdicts: &[Verdict]) -> String {
    let wire: Vec<Wire<'_>> = verdicts
        .iter()
        .map(|verdict| Wire {
            promise: verdict.promise.number(),
            title: verdict.promise.title(),
            finding: verdict.finding().word(),
            looked_at: &verdict.looked_at,
            broken: verdict.broken.as_deref(),
            broken_count: verdict.others + u64::from(verdict.broken.is_some()),
            unproved: &verdict.unproved,
        })
        .collect();
    serde_json::to_string_pretty(&wire).expect("text, numbers and lists always serialize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::verdict::Promise;

    fn verdicts() -> Vec<Verdict> {
        let mut clean = Verdict::on(Promise::OnePlace);
        clean.saw(20_000, "numbers");
        clean.saw(7, "calls");
        let mut unproved = Verdict::on(Promise::RealTimeOrder);
        unproved.cannot_prove("no history");
        let mut broken = Verdict::on(Promise::EventsDelivered);
        broken.breaks(|| "event 7 is lost".to_owned());
        broken.breaks(String::new);
        vec![clean, unproved, broken]
    }

    #[test]
    fn one_line_a_promise_and_then_the_details() {
        let expected = [
            " 1  one place         clean     20,000 numbers, 7 calls",
            " 2  real-time order   UNPROVED",
            "12  events delivered  BROKEN",
            "",
            "BROKEN 12 events delivered: event 7 is lost",
            "       and 1 more",
            "",
            "UNPROVED 2 real-time order:",
            "       no history",
            "",
            "3 promises: 1 clean, 1 unproved, 1 broken",
        ];
        assert_eq!(render(&verdicts()).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn programs_read_the_same() {
        let json: serde_json::Value = serde_json::from_str(&to_json(&verdicts())).unwrap();
        assert_eq!(json[0]["finding"], "clean");
        assert_eq!(json[2]["broken"], "event 7 is lost");
        assert_eq!(json[2]["broken_count"], 2);
        assert!(json[0].get("broken").is_none());
    }
}
