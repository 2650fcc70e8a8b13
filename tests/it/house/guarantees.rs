//! Every promise of docs/guarantees.md names tests which are there.

use std::fs;

use crate::house::invariants::is_there;
use crate::house::{Findings, expect_at, expect_none, root};

const PAGE: &str = "docs/guarantees.md";

/// `read` gives the text of a file of the tests.
fn check(page: &str, read: impl Fn(&str) -> Option<String>) -> Findings {
    let mut findings = Findings::new();
    let lines = (1..).zip(page.lines());
    let rows = lines.filter(|(_, line)| line.starts_with('|'));
    for (number, line) in rows.skip(2) {
        let cells: Vec<&str> = line.split('|').collect();
        let tests = cells.get(5).copied().unwrap_or_default();
        let mut tests = tests.split('`').skip(1).step_by(2).peekable();
        if tests.peek().is_none() {
            findings.push(format!("{PAGE}:{number}: a promise without a test"));
        }
        for test in tests.filter(|test| !is_there(test, &read)) {
            findings.push(format!("{PAGE}:{number}: there is no test {test}"));
        }
    }
    findings
}

#[test]
fn every_promise_of_a_consumer_has_its_tests() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    assert!(10 < page.matches("\n|").count(), "{PAGE} has no rows");
    expect_none(&check(&page, |file| {
        fs::read_to_string(root().join(file)).ok()
    }));
}

#[test]
fn a_promise_without_a_test_is_found() {
    let head = "| group | writes | what | dies | test |\n|---|---|---|---|---|\n";
    let rows =
        "| a | b | c | d | `a::b::c` |\n| a | b | c | d | `a::b::d` |\n| a | b | c | d | |\n";
    let read = |file: &str| (file == "tests/it/a/b.rs").then(|| "async fn c(x)".to_owned());
    expect_at(
        &check(&format!("{head}{rows}"), read),
        &[
            "docs/guarantees.md:4: there is no test a::b::d",
            "docs/guarantees.md:5: a promise without a test",
        ],
    );
}
