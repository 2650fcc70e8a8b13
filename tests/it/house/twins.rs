//! An adapter has the same functions on every database, in the same order.

use std::collections::BTreeMap;

use crate::house::source::Source;
use crate::house::{Findings, expect_at, expect_none, rust_files};

/// Folders whose twins do the same in other steps, with the reason.
const APART: &[(&str, &str)] = &[(
    "src/orders/",
    "SQLite has one writer; with many, decisions are checked where they are written",
)];

/// The names of a file's functions, in order, those of its tests left out.
fn functions(source: &Source) -> Vec<&str> {
    let pieces = source.product.split("fn ").skip(1);
    let names = pieces.filter_map(|piece| piece.split(['(', '<']).next());
    names
        .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect()
}

fn check(sources: &[Source]) -> Findings {
    let by_path: BTreeMap<&str, &Source> = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    let mut findings = Findings::new();
    for source in sources {
        let path = source.path.as_str();
        if !path.contains("in_postgres") || APART.iter().any(|(start, _)| path.starts_with(start)) {
            continue;
        }
        let Some(twin) = by_path.get(path.replace("in_postgres", "in_sqlite").as_str()) else {
            findings.push(format!("{path}:1: has no twin in SQLite"));
            continue;
        };
        let (ours, theirs) = (functions(source), functions(twin));
        let differ = (0..ours.len().max(theirs.len())).find(|i| ours.get(*i) != theirs.get(*i));
        if let Some(i) = differ {
            findings.push(format!(
                "{path}:1: function {} is {:?}, and in its twin {:?}",
                i + 1,
                ours.get(i),
                theirs.get(i)
            ));
        }
    }
    findings
}

#[test]
fn twins_have_the_same_functions() {
    let sources = rust_files("src");
    let twins = sources.iter().filter(|s| s.path.contains("in_postgres"));
    assert!(6 < twins.count());
    expect_none(&check(&sources));
}

#[test]
fn twins_that_went_apart_are_found() {
    let source = |path: &str, text: &str| Source::new(path, text.to_owned());
    let sources = [
        source("src/log/in_sqlite.rs", "fn a() {}\nasync fn b<T>() {}\n"),
        source(
            "src/log/in_postgres.rs",
            "fn a() {}\nfn c() {}\nfn b() {}\n",
        ),
        source("src/show/in_postgres.rs", "fn a() {}\n"),
        source("src/stock/in_sqlite.rs", "pub fn a() {}\n"),
        source(
            "src/stock/in_postgres.rs",
            "fn a() {}\n#[cfg(test)]\nfn b() {}\n",
        ),
    ];
    expect_at(
        &check(&sources),
        &[
            "src/log/in_postgres.rs:1: function 2 is Some(\"c\"), and in its twin Some(\"b\")",
            "src/show/in_postgres.rs:1: has no twin",
        ],
    );
}
