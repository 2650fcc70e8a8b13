//! Every Rust file is part of the program: a file that nobody declares is never compiled, and a
//! test in it never fails.

use std::collections::BTreeMap;

use crate::house::source::{Source, has_word};
use crate::house::{Findings, expect_at, expect_none, rust_files};

/// The files that cargo itself finds.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];

/// `folder` is where the roots of one package or test binary lie.
fn check(folder: &str, sources: &[Source]) -> Findings {
    let code: BTreeMap<&str, &str> = sources
        .iter()
        .map(|source| (source.path.as_str(), source.code.as_str()))
        .collect();
    let mut findings = Vec::new();
    for source in sources {
        let (mut parent, mut name) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        if parent == folder && ROOTS.contains(&name) {
            continue;
        }
        if name == "mod.rs" {
            (parent, name) = parent.rsplit_once('/').unwrap_or(("", parent));
        }
        let declaration = format!("mod {};", name.trim_end_matches(".rs"));
        let candidates = if parent == folder { ROOTS } else { &["mod.rs"] };
        let declared = candidates.iter().any(|candidate| {
            let above = code.get(format!("{parent}/{candidate}").as_str());
            above.is_some_and(|code| has_word(code, &declaration))
        });
        if !declared {
            findings.push(format!(
                "{}:1: nobody says `{declaration}` above it",
                source.path
            ));
        }
    }
    findings
}

#[test]
fn every_file_is_compiled() {
    for folder in ["src", "loadtest/src", "tests/it"] {
        expect_none(&check(folder, &rust_files(folder)));
    }
}

#[test]
fn a_forgotten_file_is_found() {
    let sources = [
        ("src/lib.rs", "pub mod room;\n// mod lost;\n"),
        ("src/room/mod.rs", "mod model;\n"),
        ("src/room/model/mod.rs", ""),
        ("src/room/batch.rs", ""),
        ("src/lost.rs", ""),
    ]
    .map(|(path, text)| Source::new(path, text.to_owned()));
    expect_at(
        &check("src", &sources),
        &["src/room/batch.rs:1: nobody", "src/lost.rs:1: nobody"],
    );
}
