//! The pages tell the truth, as far as a program can tell: verbs exist, links lead somewhere, every
//! word is explained, and nothing names a machine or a registry.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::house::source::has_word;
use crate::house::{Findings, expect_at, expect_none, files, root};
use crate::support::need::{CHROMIUM, GIT, REDIS, STRICT, VALKEY};

/// The words of this system. Each has a row in docs/vocabulary.md: what it means, and what it is
/// never called.
const WORDS: &[&str] = &[
    "show",
    "fan",
    "number",
    "place",
    "serving",
    "position",
    "pass",
    "call",
    "admission",
    "claim",
    "standby",
    "returned",
    "ticket",
    "tick",
    "rate",
    "window",
    "capacity",
    "lease",
    "fencing token",
    "edition",
    "generation",
    "ledger",
    "board",
    "hold",
    "order",
    "outbox",
    "relay",
    "log",
    "group",
    "offset",
    "lag",
    "delivery",
    "inbox",
    "dead letter",
    "notice",
];

/// Parts that every decision page has.
const DECISION: &[&str] = &["## Context", "## Decision", "## Consequences"];

/// What no file of the repository names: registries belong to everybody's own configuration, and
/// paths of one machine mean nothing on the next.
const NOWHERE: &[&str] = &[
    "crates.io",
    "static.crates",
    "pypi.org",
    "npmjs.org",
    "deb.debian.org",
    "/work/",
    "/root/",
];

/// Largest file of the repository.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All pages, by path, with their text.
fn pages() -> Vec<(String, String)> {
    let mut paths = files("docs", "md");
    paths.extend(["README.md", "CHANGELOG.md"].map(str::to_owned));
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), page(&path)))
        .collect()
}

/// The verbs of `./dev`: its functions `verb_<name>`.
fn verbs(dev: &str) -> BTreeSet<&str> {
    dev.lines()
        .filter_map(|line| line.strip_prefix("verb_"))
        .filter_map(|line| line.split_once("()").map(|(verb, _)| verb))
        .collect()
}

fn check_verbs(path: &str, text: &str, verbs: &BTreeSet<&str>) -> Findings {
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for (at, call) in content.match_indices("./dev ") {
            let rest = &content[at + call.len()..];
            let end = rest
                .find(|c: char| !c.is_ascii_lowercase())
                .unwrap_or(rest.len());
            if 0 < end && !verbs.contains(&rest[..end]) {
                findings.push(format!(
                    "{path}:{line}: `./dev {}` is no verb",
                    &rest[..end]
                ));
            }
        }
    }
    findings
}

fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Findings {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for target in content
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || file.is_empty();
            if !elsewhere && !exists(&join(folder, file)) {
                findings.push(format!("{path}:{line}: the link to {target} leads nowhere"));
            }
        }
    }
    findings
}

/// `docs/decisions` and `../style.md` make `docs/style.md`.
fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn check_words(text: &str, words: &[&str]) -> Findings {
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    let explained = |word: &&&str| {
        rows.iter().any(|row| {
            row.len() == 3
                && row.iter().all(|cell| !cell.is_empty())
                && row[0].split(", ").any(|name| name == **word)
        })
    };
    let missing = words.iter().filter(|word| !explained(word));
    missing
        .map(|word| format!("docs/vocabulary.md:1: no full row for `{word}`"))
        .collect()
}

fn check_names(path: &str, text: &str) -> Findings {
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for name in NOWHERE.iter().filter(|name| has_word(content, name)) {
            findings.push(format!("{path}:{line}: names {name}"));
        }
    }
    findings
}

#[test]
fn every_verb_that_a_page_names_exists() {
    let dev = page("dev");
    let verbs = verbs(&dev);
    assert!(
        verbs.contains("demo") && verbs.contains("test"),
        "{verbs:?}"
    );
    for (path, text) in pages() {
        expect_none(&check_verbs(&path, &text, &verbs));
    }
}

#[test]
fn every_link_leads_somewhere() {
    for (path, text) in pages() {
        expect_none(&check_links(&path, &text, |target| {
            root().join(target).exists()
        }));
    }
}

#[test]
fn every_word_is_explained() {
    expect_none(&check_words(&page("docs/vocabulary.md"), WORDS));
}

#[test]
fn every_decision_is_listed_and_whole() {
    let index = page("docs/decisions/README.md");
    for path in files("docs/decisions", "md") {
        let name = path.rsplit('/').next().unwrap();
        let text = page(&path);
        let whole = DECISION
            .iter()
            .all(|part| text.lines().any(|line| line == *part));
        assert!(
            name == "README.md" || whole,
            "{path}:1: a decision has {DECISION:?}"
        );
        assert!(
            name == "README.md" || index.contains(&format!("]({name})")),
            "docs/decisions/README.md:1: does not list {name}"
        );
    }
}

/// `./dev` and the tests agree on how they tell each other what is there.
#[test]
fn dev_sets_what_the_tests_read() {
    let dev = page("dev");
    for variable in [STRICT, CHROMIUM.variable, REDIS.variable, VALKEY.variable] {
        assert!(has_word(&dev, variable), "dev:1: does not know {variable}");
    }
    for need in [CHROMIUM, REDIS, VALKEY] {
        for program in need.programs {
            assert!(
                has_word(&dev, program),
                "dev:1: does not look for {program}"
            );
        }
    }
}

#[test]
fn the_licence_is_the_one_the_manifest_names() {
    assert!(page("Cargo.toml").contains("license = \"Apache-2.0\""));
    assert!(page("LICENSE").contains("Apache License\n                           Version 2.0"));
}

#[test]
fn tracked_files_are_small_and_name_no_machine() {
    let Some(git) = GIT.find() else { return };
    let list = Command::new(git)
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        list.status.success(),
        "{}",
        String::from_utf8_lossy(&list.stderr)
    );
    for path in String::from_utf8(list.stdout)
        .unwrap()
        .split_terminator('\0')
    {
        // A file that is deleted and not yet committed is still listed.
        let Ok(bytes) = fs::read(root().join(path)) else {
            continue;
        };
        let size = u64::try_from(bytes.len()).unwrap();
        assert!(
            size <= FILE_BYTES_MAX,
            "{path}:1: {size} bytes (at most {FILE_BYTES_MAX})"
        );
        if path != "Cargo.lock" && path != file!() {
            expect_none(&check_names(path, &String::from_utf8_lossy(&bytes)));
        }
    }
}

#[test]
fn lies_are_found() {
    let verbs = verbs("verb_demo() {\nother() {\n");
    expect_at(
        &check_verbs("a.md", "./dev demo --fast, `./dev`\n./dev fly\n", &verbs),
        &["a.md:2: "],
    );

    let text = "[a](b.md#part) [c](../d.md) [e](https://example.com/f.md) [g](#h)\n[i](j.md)\n";
    let findings = check_links("docs/a.md", text, |path| {
        ["docs/b.md", "d.md"].contains(&path)
    });
    expect_at(&findings, &["docs/a.md:2: the link to j.md"]);

    let table =
        "| word | means | never |\n| --- | --- | --- |\n| rate, window | x | y |\n| call | | z |\n";
    let findings = check_words(table, &["rate", "window", "call", "fan"]);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("`call`") && findings[1].contains("`fan`"));

    expect_at(
        &check_names("a", "fine\nsee crates.io/x\n"),
        &["a:2: names crates.io"],
    );
}
