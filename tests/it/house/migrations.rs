//! Migrations are numbered without a gap, say what they do, and are the same for every database: the
//! same names, tables, columns and named constraints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::house::{Findings, expect_at, expect_none, files, root};

/// What only one database has, for a reason that its file gives.
const ALONE: &[&str] = &["outbox.xid", "outbox_log.xid", "seats_pkey"];

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

/// The columns, as `table.column`, and the constraints and indexes with a name.
fn said(sql: &str) -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    let mut table = "";
    for line in sql.lines().filter(|line| !line.trim().starts_with("--")) {
        let line = line.split(" --").next().unwrap_or(line);
        let words: Vec<&str> = line
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .collect();
        if let ["create", "table", name, ..] = &*words {
            table = name;
        }
        for pair in words
            .windows(2)
            .filter(|pair| matches!(pair[0], "constraint" | "index"))
        {
            said.insert(pair[1].to_owned());
        }
        let is_column = line.starts_with("  ") && !line.starts_with("   ");
        if let [column, kind, ..] = &*words
            && is_column
            && !matches!(*column, "constraint" | "primary")
        {
            let kind = if *kind == "text" { "text" } else { "not text" };
            said.insert(format!("{table}.{column}: {kind}"));
        }
    }
    said
}

/// What two files of the same name do not share.
fn compare(name: &str, sqlite: &str, postgres: &str) -> Findings {
    let (sqlite, postgres) = (said(sqlite), said(postgres));
    let differ = sqlite.symmetric_difference(&postgres);
    let differ = differ.filter(|what| !ALONE.iter().any(|alone| what.starts_with(alone)));
    differ
        .map(|what| format!("migrations/postgres/{name}:1: and its twin differ in {what}"))
        .collect()
}

#[test]
fn migrations_are_numbered_and_alike() {
    let paths = files("migrations", "sql");
    assert!(!paths.is_empty());
    expect_none(&check(&paths));
    for path in paths {
        let Some(name) = path.strip_prefix("migrations/postgres/") else {
            continue;
        };
        let text = |folder: &str| {
            let path = root().join("migrations").join(folder).join(name);
            fs::read_to_string(path).unwrap()
        };
        expect_none(&compare(name, &text("sqlite"), &text("postgres")));
    }
}

#[test]
fn twins_that_differ_are_found() {
    let sqlite = "create table t (\n  a integer not null,\n  b text constraint once unique\n);\n";
    let postgres = "create table t (\n  a text not null,\n  b text\n);\ncreate index i on t (a);\n";
    let found = compare("0001_t.sql", sqlite, postgres);
    let what: Vec<&str> = found
        .iter()
        .filter_map(|f| f.split(" in ").nth(1))
        .collect();
    assert_eq!(what, ["i", "once", "t.a: not text", "t.a: text"]);
    assert_eq!(compare("0001_t.sql", sqlite, sqlite), Findings::new());
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
