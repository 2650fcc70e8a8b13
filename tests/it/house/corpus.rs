//! The corpus of events is written once: what stood in a log must be read for ever, so no file of it is
//! changed or removed, and a new one is written down.

use std::collections::BTreeSet;
use std::fs;

use sha2::{Digest, Sha256};

use crate::house::{Findings, expect_none, root};

/// What is wrong between the sums that were written down and those of the files, `name` and sum each.
fn check(known: &BTreeSet<(String, String)>, found: &BTreeSet<(String, String)>) -> Findings {
    let changed = known.difference(found);
    let new = found.difference(known);
    changed
        .map(|(name, _)| format!("tests/golden/event/{name}:1: was changed or removed"))
        .chain(new.map(|(name, sum)| format!("tests/golden/event/sums:1: has no `{sum}  {name}`")))
        .collect()
}

fn known() -> BTreeSet<(String, String)> {
    let sums = fs::read_to_string(root().join("tests/golden/event/sums")).unwrap();
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ").unwrap();
        (name.to_owned(), sum.to_owned())
    };
    sums.lines().map(line).collect()
}

fn found() -> BTreeSet<(String, String)> {
    let corpus = root().join("tests/golden/event");
    let mut found = BTreeSet::new();
    for schema in fs::read_dir(&corpus).unwrap().map(Result::unwrap) {
        if !schema.file_type().unwrap().is_dir() {
            continue;
        }
        for file in fs::read_dir(schema.path()).unwrap().map(Result::unwrap) {
            let path = file.path();
            let name = path.strip_prefix(&corpus).unwrap().display().to_string();
            let sum = Sha256::digest(fs::read(&path).unwrap());
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            found.insert((name, sum));
        }
    }
    found
}

#[test]
fn no_event_of_the_corpus_is_changed() {
    assert!(9 < known().len());
    expect_none(&check(&known(), &found()));
}

#[test]
fn what_is_changed_new_or_gone_is_named() {
    let set = |rows: &[(&str, &str)]| {
        let row = |(name, sum): &(&str, &str)| ((*name).to_owned(), (*sum).to_owned());
        rows.iter().map(row).collect()
    };
    let known = set(&[
        ("v1/a.json", "0a"),
        ("v1/b.json", "0b"),
        ("v1/c.json", "0c"),
    ]);
    let found = set(&[
        ("v1/a.json", "0a"),
        ("v1/b.json", "1b"),
        ("v2/d.json", "0d"),
    ]);
    assert_eq!(
        check(&known, &found),
        [
            "tests/golden/event/v1/b.json:1: was changed or removed",
            "tests/golden/event/v1/c.json:1: was changed or removed",
            "tests/golden/event/sums:1: has no `1b  v1/b.json`",
            "tests/golden/event/sums:1: has no `0d  v2/d.json`",
        ]
    );
}
