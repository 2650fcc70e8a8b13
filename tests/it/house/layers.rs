//! Who may import whom, and what a file of a kind may contain: `tables.rs`, held against the code.

use std::collections::BTreeSet;

use crate::house::paths::{Mention, mentions};
use crate::house::source::{Source, has_word};
use crate::house::tables::{
    CELLS, FORMATS, Kind, METRIC_MACROS, PORTS, PURE, RESERVED, SOURCES, TIME_AND_CHANCE, rules,
};
use crate::house::{Findings, expect_at, expect_none, root, rust_files};

fn check(sources: &[Source]) -> Findings {
    let tree: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let mut findings = Vec::new();
    for source in sources {
        let file = File::of(&source.path);
        for (line, code) in (1..).zip(source.product.lines()) {
            findings.extend(
                words(&file, code)
                    .into_iter()
                    .map(|what| format!("{}:{line}: {what}", source.path)),
            );
        }
        for mention in mentions(source) {
            findings.extend(
                import(&file, &mention, &tree)
                    .map(|what| format!("{}:{}: {what}", source.path, mention.line)),
            );
        }
    }
    findings
}

/// A file of `src/`, by its path.
struct File<'a> {
    /// Below `src/`.
    path: &'a str,
    /// The first folder, or the file itself without its extension.
    module: &'a str,
    kind: Kind,
}

impl<'a> File<'a> {
    fn of(path: &'a str) -> Self {
        let path = path.strip_prefix("src/").unwrap_or(path);
        let module = path
            .split('/')
            .next()
            .unwrap_or(path)
            .trim_end_matches(".rs");
        Self {
            path,
            module,
            kind: kind(path, module),
        }
    }

    fn is_among(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            self.path == *place || place.ends_with('/') && self.path.starts_with(place)
        })
    }

    /// `sqlite` of `orders/in_sqlite.rs` and of `log/outbox_in_sqlite.rs`.
    fn backend(&self) -> Option<&str> {
        self.path.split('/').find_map(|part| {
            let part = part.trim_end_matches(".rs");
            part.strip_prefix("in_")
                .or_else(|| part.strip_prefix("via_"))
                .or_else(|| part.split_once("_in_").map(|(_, backend)| backend))
        })
    }
}

fn kind(path: &str, module: &str) -> Kind {
    let file = File {
        path,
        module,
        kind: Kind::Service,
    };
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match module {
        "app" | "config" | "cli" | "main" | "lib" => Kind::Root,
        "check" => Kind::Checker,
        _ if file.is_among(PURE) => Kind::Pure,
        _ if file.backend().is_some() => Kind::Adapter,
        "telemetry" => Kind::Telemetry,
        "driver" => Kind::Driver,
        "http" => Kind::Http,
        _ if name == "store.rs" || name == "inbox.rs" => Kind::Port,
        _ if name == "mod.rs" && PORTS.contains(&folder) => Kind::Port,
        _ => Kind::Service,
    }
}

/// What is wrong with the words of one line.
fn words(file: &File<'_>, code: &str) -> Findings {
    let mut findings = Vec::new();
    for word in rules(file.kind).1 {
        let sanctioned = TIME_AND_CHANCE.contains(word) && SOURCES.contains(&file.path);
        if has_word(code, word) && !sanctioned {
            findings.push(format!("`{word}` in a file of kind {:?}", file.kind));
        }
    }
    for (word, places) in RESERVED {
        if file.kind == Kind::Pure && has_word(code, word) && !file.is_among(places) {
            findings.push(format!(
                "`{word}` in a pure file other than {}",
                places.join(", ")
            ));
        }
    }
    for word in METRIC_MACROS {
        if has_word(code, word) && !["telemetry", "base"].contains(&file.module) {
            findings.push("a metric outside telemetry (one function a metric, one place)".into());
        }
    }
    if code.contains("crate::{") {
        findings.push("`crate::{` (imports have one form: `use crate::room::model::{...}`)".into());
    }
    if has_word(code, "super::") {
        findings.push("`super::` (imports have one form: `use crate::room::model::{...}`)".into());
    }
    findings
}

/// What is wrong with one path that a file names.
fn import(file: &File<'_>, mention: &Mention, tree: &BTreeSet<&str>) -> Option<String> {
    let named = mention.path.join("::");
    let target_path = resolve(&mention.path, tree);
    let target = File::of(&target_path);
    let own = target.module == file.module;
    if file.module == "lib" || own && file.kind == target.kind {
        return None;
    }
    let (Some(from), Some(to)) = (cell(file.module), cell(target.module)) else {
        return Some(format!(
            "`crate::{named}`: one of the two modules has no cell in the table"
        ));
    };
    if !own && from <= to {
        let side = if from == to {
            "in the same cell as"
        } else {
            "to the right of"
        };
        return Some(format!(
            "`crate::{named}`: {} stands {side} {}",
            target.module, file.module
        ));
    }
    if file.kind == Kind::Checker && !FORMATS.contains(&target.module) {
        return Some(format!(
            "`crate::{named}`: the checker shares {} only",
            FORMATS.join(", ")
        ));
    }
    let at_home = own && file.kind != Kind::Pure && target.kind != Kind::Adapter;
    let twin = file.kind == Kind::Adapter
        && target.kind == Kind::Adapter
        && (own || file.backend() == target.backend());
    if at_home || twin || rules(file.kind).0.contains(&target.kind) {
        return None;
    }
    Some(format!(
        "`crate::{named}`: {:?} may not import {:?}",
        file.kind, target.kind
    ))
}

fn cell(module: &str) -> Option<usize> {
    CELLS.iter().position(|cell| cell.contains(&module))
}

/// The deepest file that a path leads to.
fn resolve(path: &[String], tree: &BTreeSet<&str>) -> String {
    let mut found = format!("src/{}.rs", path.first().map_or("lib", String::as_str));
    for length in 1..=path.len() {
        let stem = format!("src/{}", path[..length].join("/"));
        let file = [format!("{stem}.rs"), format!("{stem}/mod.rs")]
            .into_iter()
            .find(|candidate| tree.contains(candidate.as_str()));
        found = file.unwrap_or(found);
    }
    found
}

#[test]
fn modules_import_to_the_left() {
    expect_none(&check(&rust_files("src")));
}

#[test]
fn every_module_has_a_cell() {
    for source in rust_files("src") {
        let module = File::of(&source.path).module.to_owned();
        assert!(
            module == "lib" || cell(&module).is_some(),
            "{}: no cell in the table",
            source.path
        );
    }
}

/// The crowd is a client like any other: it shares no code with what it measures.
#[test]
fn the_crowd_stands_alone() {
    let manifest = std::fs::read_to_string(root().join("loadtest/Cargo.toml")).unwrap();
    assert!(
        !manifest.lines().any(|line| line.starts_with("catraca")),
        "loadtest depends on catraca"
    );
}

#[cfg(test)]
mod samples {
    use super::*;

    fn sample(files: &[(&str, &str)]) -> Findings {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(path, (*text).to_owned()))
            .collect();
        check(&sources)
    }

    #[test]
    fn directions_are_checked() {
        let findings = sample(&[
            ("src/base/ids.rs", "use crate::event::Event;\n"),
            (
                "src/event/mod.rs",
                "//! x\nuse crate::token::Pass;\nuse crate::base::ids::Id;\n",
            ),
            ("src/gateway/mod.rs", "use crate::{base, room};\n"),
            (
                "src/gateway/visit.rs",
                "use super::Gateway;\nuse crate::nowhere::X;\n",
            ),
            (
                "src/orders/api.rs",
                "fn f() -> crate::gateway::Gateway {}\n",
            ),
            ("src/base/mod.rs", "pub mod ids;\n"),
            ("src/room/mod.rs", "pub mod in_memory;\n"),
            ("src/token/mod.rs", "pub mod pass;\n"),
        ]);
        expect_at(
            &findings,
            &[
                "src/base/ids.rs:1: `crate::event::Event`: event stands to the right of base",
                "src/event/mod.rs:2: `crate::token::Pass`: token stands in the same cell as event",
                "src/gateway/mod.rs:1: `crate::{`",
                "src/gateway/visit.rs:1: `super::`",
                "src/gateway/visit.rs:2: `crate::nowhere::X`: one of the two",
                "src/orders/api.rs:1: `crate::gateway::Gateway`: gateway stands in the same cell",
            ],
        );
    }

    #[test]
    fn kinds_are_checked() {
        let findings = sample(&[
            (
                "src/orders/api.rs",
                "use crate::orders::in_sqlite::Orders;\nuse crate::log::in_sqlite::Log;\n",
            ),
            (
                "src/orders/in_sqlite.rs",
                "use crate::log::in_sqlite::append;\nuse axum::Json;\n",
            ),
            (
                "src/orders/rules/hold.rs",
                "use serde::Serialize;\nuse crate::orders::api::Hold;\n",
            ),
            ("src/orders/store.rs", "use sqlx::Row;\n"),
            (
                "src/room/model/mod.rs",
                "async fn f(c: &dyn Clock) { c.now(); }\n#[cfg(test)]\nuse rand::Rng;\n",
            ),
            (
                "src/log/in_sqlite.rs",
                "use crate::driver::sql::Pool;\nfn f() { counter!(\"x\"); }\n",
            ),
            ("src/driver/sql.rs", "use sqlx::Pool;\n"),
            ("src/event/mod.rs", "pub mod codec;\n"),
            (
                "src/check/mod.rs",
                "use crate::event::codec;\nuse crate::room::model::State;\n",
            ),
        ]);
        expect_at(
            &findings,
            &[
                "src/orders/api.rs:1: `crate::orders::in_sqlite::Orders`: Service may not import",
                "src/orders/api.rs:2: `crate::log::in_sqlite::Log`: Service may not import Adapter",
                "src/orders/in_sqlite.rs:2: `axum` in a file of kind Adapter",
                "src/orders/rules/hold.rs:1: `serde` in a pure file",
                "src/orders/rules/hold.rs:2: `crate::orders::api::Hold`: Pure may not import Service",
                "src/orders/store.rs:1: `sqlx` in a file of kind Port",
                "src/room/model/mod.rs:1: `async` in a file of kind Pure",
                "src/room/model/mod.rs:1: `Clock` in a file of kind Pure",
                "src/log/in_sqlite.rs:2: a metric outside telemetry",
                "src/check/mod.rs:2: `crate::room::model::State`: the checker shares",
            ],
        );
    }
}
