//! Every problem has a row in docs/problems.md: its word, its status and the wait, as in the code.

use std::collections::BTreeSet;
use std::fs;

use catraca::http::problem::Problem;
use http::StatusCode;

use crate::house::source::{Source, is_word};
use crate::house::{root, rust_files};

const PAGE: &str = "docs/problems.md";

/// A problem as clients tell it from others: its word, its status, and `Retry-After` in seconds.
type Row = (u16, String, String);

/// All that the sources make with a constructor of [`Problem`] and a word that stands there.
fn made(sources: &[Source]) -> BTreeSet<Row> {
    let mut rows = BTreeSet::from([
        row(&Problem::no_ticket(), "ticket-required", ""),
        row(&Problem::no_such_method(), "no-such-method", ""),
    ]);
    for source in sources {
        if source.path == "src/http/problem.rs" {
            continue; // its words are arguments
        }
        let text = source.raw.split("#[cfg(test)]").next().unwrap_or_default();
        for prefix in ["Problem::", "Self::"] {
            for (at, _) in text.match_indices(prefix) {
                rows.extend(call(&text[at + prefix.len()..]));
            }
        }
    }
    rows
}

/// The problem that a call makes; `text` begins with the constructor's name.
fn call(text: &str) -> Option<Row> {
    let (name, rest) = text.split_at(text.find(|c| !is_word(c))?);
    let (arguments, after) = rest.strip_prefix('(')?.split_at(closing(rest)? - 1);
    let word = arguments.split('"').nth(1)?;
    let (problem, wait) = match name {
        "new" => {
            let status = arguments.split("StatusCode::").nth(1)?;
            let status = status.split(|c| !is_word(c)).next()?;
            (Problem::new(named(status)?, "", ""), "")
        }
        "bad_request" => (Problem::bad_request("", ""), ""),
        "not_found" => (Problem::not_found("", ""), ""),
        "conflict" => (Problem::conflict("", ""), ""),
        "unprocessable" => (Problem::unprocessable("", ""), ""),
        "too_many" => (Problem::too_many("", 1), "told"),
        "internal" => (Problem::internal(""), ""),
        "unavailable" => (Problem::unavailable(""), "1"),
        _ => return None,
    };
    let again = after[1..].trim_start().strip_prefix(".retry_after(");
    let given = again.and_then(|rest| rest.split(')').next());
    Some(row(&problem, word, given.unwrap_or(wait)))
}

fn row(problem: &Problem, word: &str, wait: &str) -> Row {
    (problem.status().as_u16(), word.to_owned(), wait.to_owned())
}

/// Where the parenthesis with which the text begins is closed.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        (open == 0).then_some(at)
    })
}

/// The status of a constant: `URI_TOO_LONG` is 414 URI Too Long.
fn named(constant: &str) -> Option<StatusCode> {
    let all = (400..600).filter_map(|code| StatusCode::from_u16(code).ok());
    let mut named = all.filter(|status| {
        let reason = status.canonical_reason().unwrap_or_default();
        reason.to_uppercase().replace([' ', '-'], "_") == constant
    });
    named.next()
}

/// The rows of the page.
fn told(page: &str) -> BTreeSet<Row> {
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .filter_map(|cells| {
            let [word, status, wait, means] = cells[..] else {
                return None;
            };
            let word = word.strip_suffix('`').filter(|_| !means.is_empty())?;
            Some((status.parse().ok()?, word.to_owned(), wait.to_owned()))
        })
        .collect()
}

fn lines(rows: &BTreeSet<Row>) -> String {
    let line = |(status, word, wait): &Row| format!("| `{word}` | {status} | {wait} |\n");
    rows.iter().map(line).collect()
}

#[test]
fn every_problem_is_told_as_it_is_made() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (made, told) = (made(&rust_files("src")), told(&page));
    let missing: BTreeSet<_> = made.difference(&told).cloned().collect();
    let false_rows: BTreeSet<_> = told.difference(&made).cloned().collect();
    assert!(
        missing.is_empty() && false_rows.is_empty(),
        "{PAGE} lacks\n{}and has in vain\n{}all that there are\n{}",
        lines(&missing),
        lines(&false_rows),
        lines(&made)
    );
}

#[test]
fn each_way_to_make_a_problem_is_seen() {
    let source = r#"
        Problem::unavailable("full").retry_after(30)
        Self::internal("torn").caused_by(error)
        Problem::new(
            StatusCode::URI_TOO_LONG,
            "long (very)",
            "It is too long.",
        )
        Problem::too_many("often", seconds)
        Problem::into_response(problem)
        #[cfg(test)]
        Problem::conflict("only-a-test", "")
    "#;
    let sources = [Source::new("src/a.rs", source.to_owned())];
    let expected = "| `ticket-required` | 401 |  |\n\
        | `no-such-method` | 405 |  |\n\
        | `long (very)` | 414 |  |\n\
        | `often` | 429 | told |\n\
        | `torn` | 500 |  |\n\
        | `full` | 503 | 30 |\n";
    assert_eq!(lines(&made(&sources)), expected);
}
