//! Does the code keep its own rules?
//!
//! Rules are checked as text: no rule here needs more than words, braces and paths, and a failure
//! then names the file and line to open. Each checker is a plain function from sources to findings,
//! and has a test of its own on a small bad sample, so that none of them can fall asleep.

mod catalogue;
mod corpus;
mod docs;
mod guarantees;
mod invariants;
mod layers;
mod migrations;
mod modules;
mod openapi;
mod paths;
mod problems;
mod scripts;
mod shape;
mod source;
mod tables;
mod told;
mod twins;

use std::fs;
use std::path::{Path, PathBuf};

use crate::house::source::Source;

/// What one checker has found: `file:line: what is wrong (the rule)`.
type Findings = Vec<String>;

/// The folder of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with all findings at once.
#[track_caller]
fn expect_none(findings: &Findings) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Fails unless exactly one finding names each of the places, in this order.
#[track_caller]
fn expect_at(findings: &Findings, places: &[&str]) {
    let matches = findings.len() == places.len()
        && findings
            .iter()
            .zip(places)
            .all(|(finding, place)| finding.starts_with(place));
    assert!(matches, "expected {places:#?}, found {findings:#?}");
}

/// All Rust files below a folder of the repository, by path.
fn rust_files(folder: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = files(folder, "rs")
        .into_iter()
        .map(|path| Source::new(&path, fs::read_to_string(root().join(&path)).unwrap()))
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Paths, relative to the repository, of all files below a folder with this extension.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let relative = path.strip_prefix(root()).unwrap();
                found.push(relative.to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    found
}
