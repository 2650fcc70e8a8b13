//! Every invariant of the shop and of events has a row in its page that names tests which are there.

use std::fs;
use std::ops::RangeInclusive;

use crate::house::{Findings, expect_at, expect_none, root};

/// A letter, and which numbers.
type Family = (char, RangeInclusive<u8>);

/// Of the shop: of idempotency and of seats, and numbers in the catalogues of what always holds, of hostile
/// requests and of faults. In the order of the page.
const SHOP: (&str, &[Family]) = (
    "docs/invariants.md",
    &[
        ('I', 1..=9),
        ('H', 1..=12),
        ('A', 26..=31),
        ('C', 111..=122),
        ('F', 30..=38),
    ],
);
/// Of events: of the outbox and of consumers, and numbers in the same catalogues.
const EVENTS: (&str, &[Family]) = (
    "docs/event-invariants.md",
    &[
        ('O', 1..=11),
        ('C', 1..=17),
        ('A', 32..=38),
        ('C', 123..=134),
        ('F', 39..=47),
    ],
);

fn names(families: &[Family]) -> impl Iterator<Item = String> {
    let of = |(letter, numbers): &Family| {
        let letter = *letter;
        numbers.clone().map(move |n| format!("{letter}{n}"))
    };
    families.iter().flat_map(of)
}

/// The rows of the page: name and paths of tests.
fn rows(page: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let rows = page.lines().zip(1..).filter_map(|(line, number)| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').collect();
        let [name, _, tests, ..] = cells[..] else {
            return None;
        };
        let tests = tests.split('`').skip(1).step_by(2).collect();
        Some((number, name.trim_end_matches(['`', ' ']), tests))
    });
    rows.collect()
}

/// `read` gives the text of a file of the tests.
fn check(
    (name_of_page, page): (&str, &str),
    mut expected: impl Iterator<Item = String>,
    read: impl Fn(&str) -> Option<String>,
) -> Findings {
    let rows = rows(page);
    let mut findings = Findings::new();
    for (line, name, tests) in &rows {
        if expected.next().as_deref() != Some(*name) {
            findings.push(format!(
                "{name_of_page}:{line}: {name} stands in another's place"
            ));
        }
        if tests.is_empty() {
            findings.push(format!("{name_of_page}:{line}: {name} has no test"));
        }
        for test in tests {
            if !is_there(test, &read) {
                findings.push(format!(
                    "{name_of_page}:{line}: {name}: there is no test {test}"
                ));
            }
        }
    }
    findings.extend(expected.map(|name| format!("{name_of_page}:1: {name} has no row")));
    findings
}

/// Whether there is a test of this path.
pub(crate) fn is_there(test: &str, read: impl Fn(&str) -> Option<String>) -> bool {
    let (file, function) = test.rsplit_once("::").unwrap_or(("", test));
    let (module, function) = (file.replace("::", "/"), format!("fn {function}("));
    let files = [".rs", "/mod.rs"].map(|end| format!("tests/it/{module}{end}"));
    let mut texts = files.iter().filter_map(|file| read(file));
    texts.any(|text| text.contains(&function))
}

#[test]
fn every_invariant_has_its_tests() {
    for (name, families) in [SHOP, EVENTS] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        expect_none(&check((name, &page), names(families), |file| {
            fs::read_to_string(root().join(file)).ok()
        }));
    }
}

#[test]
fn an_invariant_without_a_test_is_found() {
    let known = |name: &str| format!("| `{name}` | holds | `a::b::c` |\n");
    let names = || names(&SHOP.1[..2]);
    let mut page: String = names().take(18).map(|name| known(&name)).collect();
    page += "| `H10` | holds | |\n| `H12` | holds | `a::b::d` |\n";
    let read = |file: &str| (file == "tests/it/a/b.rs").then(|| "async fn c(x)".to_owned());
    expect_at(
        &check((SHOP.0, &page), names(), read),
        &[
            "docs/invariants.md:19: H10 has no test",
            "docs/invariants.md:20: H12 stands in another's place",
            "docs/invariants.md:20: H12: there is no test a::b::d",
            "docs/invariants.md:1: H12 has no row",
        ],
    );
}
