//! Migrations are numbered without a gap, say what they do, and are the same for every database.

use std::collections::BTreeMap;

use crate::house::{Findings, expect_at, expect_none, files};

/// `paths` are those of all migrations: `migrations/<database>/<number>_<what>.sql`.
fn check(paths: &[String]) -> Findings {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        names.entry(folder).or_default().push(name);
    }
    let mut findings = Vec::new();
    let first = names.values().next().cloned().unwrap_or_default();
    for (folder, mut here) in names {
        here.sort_unstable();
        for (number, name) in (1..).zip(&here) {
            if !is_numbered(name, number) {
                findings.push(format!("{folder}/{name}:1: is not {number:04}_<what>.sql"));
            }
        }
        let mut other = first.clone();
        other.sort_unstable();
        if here != other {
            findings.push(format!(
                "{folder}:1: has other migrations than the first database"
            ));
        }
    }
    findings
}

fn is_numbered(name: &str, number: usize) -> bool {
    let what = name
        .strip_prefix(&format!("{number:04}_"))
        .and_then(|n| n.strip_suffix(".sql"));
    what.is_some_and(|what| {
        !what.is_empty() && what.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    })
}

#[test]
fn migrations_are_numbered_and_alike() {
    let paths = files("migrations", "sql");
    assert!(!paths.is_empty());
    expect_none(&check(&paths));
}

#[test]
fn gaps_and_strangers_are_found() {
    let paths = [
        "migrations/a/0001_shows.sql",
        "migrations/a/0003_log.sql",
        "migrations/b/0001_shows.sql",
        "migrations/b/2.sql",
    ]
    .map(str::to_owned);
    expect_at(
        &check(&paths),
        &[
            "migrations/a/0003_log.sql:1: is not 0002_",
            "migrations/b/2.sql:1: is not 0002_",
            "migrations/b:1: has other",
        ],
    );
}
