//! Every row of the catalogue of hostile input has a test whose comment names it, or a line on the page
//! that says why there is none. docs/hostile.md is the page; `Row 7` and `Rows 1, 3 to 5 and 9` are names.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;

use crate::house::{Findings, expect_none, root, rust_files};

const PAGE: &str = "docs/hostile.md";
/// Gateway, paths, tickets, line, operators, shop.
const ROWS: RangeInclusive<u16> = 1..=122;

/// The rows that the comments of a file name. What stands at its head is about the whole file, and names
/// none.
fn named(text: &str) -> BTreeSet<u16> {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let words = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("// "))?;
        words.contains("Row").then_some(words)
    });
    let lists = comments.flat_map(|words| words.split("Row").skip(1));
    lists
        .flat_map(|list| of(list.trim_start_matches('s')))
        .collect()
}

/// `1, 3 to 5 and 9: ...`, as far as it is a list.
fn of(list: &str) -> BTreeSet<u16> {
    let mut rows = BTreeSet::new();
    let (mut last, mut is_range) = (None, false);
    for word in list.split([' ', ',']).filter(|word| !word.is_empty()) {
        let number = word.trim_end_matches([':', '.', ';']).parse::<u16>().ok();
        match (word, number) {
            ("to", _) => is_range = true,
            ("and", _) => {}
            (_, None) => break,
            (_, Some(number)) => {
                let from = last.filter(|_| is_range).unwrap_or(number);
                rows.extend(from..=number);
                (last, is_range) = (Some(number), false);
            }
        }
        if number.is_some() && word.ends_with([':', '.', ';']) {
            break;
        }
    }
    rows
}

/// The rows that the page has a line for: `| 25 | what | why there is no test |`.
fn excused(page: &str) -> BTreeSet<u16> {
    let first = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
    page.lines().filter_map(first).collect()
}

fn check(tested: &BTreeSet<u16>, page: &str) -> Findings {
    let excused = excused(page);
    let lacking = ROWS.filter(|row| !tested.contains(row) && !excused.contains(row));
    let lacking = lacking.map(|row| format!("{PAGE}:1: no test names row {row}"));
    let in_vain = excused.intersection(tested);
    let in_vain = in_vain.map(|row| format!("{PAGE}:1: row {row} has a test after all"));
    let unknown = tested.iter().filter(|row| !ROWS.contains(row));
    let unknown = unknown.map(|row| format!("{PAGE}:1: a test names row {row}, which is none"));
    lacking.chain(in_vain).chain(unknown).collect()
}

#[test]
fn every_row_has_a_test_that_names_it() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let mut tested = BTreeSet::new();
    for chapter in ["tests/it/e2e", "tests/it/contract"] {
        for file in rust_files(chapter) {
            tested.append(&mut named(
                &fs::read_to_string(root().join(&file.path)).unwrap(),
            ));
        }
    }
    expect_none(&check(&tested, &page));
}

#[test]
fn rows_are_read_from_comments() {
    let text = "//! All of it (rows 1 to 122).\n/// Rows 1, 3 to 5 and 9: x 7\n    // Row 34. Row 36: y\n/// Rows 7 and 8.\n let row = 12;";
    assert_eq!(named(text), BTreeSet::from([1, 3, 4, 5, 7, 8, 9, 34, 36]));
    let mut tested: BTreeSet<u16> = ROWS.collect();
    assert!(check(&tested, "| row | why |").is_empty());
    tested.remove(&25);
    tested.insert(200);
    assert_eq!(check(&tested, "").len(), 2);
    assert_eq!(check(&tested, "| 25 | WebSockets |").len(), 1);
    assert_eq!(check(&tested, "| 26 | is tested |").len(), 3);
}
