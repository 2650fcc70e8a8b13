//! Pages that list what the code has are complete, and list nothing else: metrics, and the members of
//! a show's settings.

use std::collections::BTreeSet;
use std::fs;

use catraca::show::settings::Settings;

use crate::house::root;

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What stands between the marks that open and close it: every second piece.
fn between(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// Names in backquotes in the first column of a page's tables.
fn first_column(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" |").next());
    cells
        .flat_map(|cell| cell.split(", "))
        .map(|name| name.trim_matches('`'))
        .collect()
}

#[test]
fn every_metric_is_told_with_its_labels() {
    let code = text("src/telemetry/metrics.rs");
    let made: BTreeSet<String> = code
        .lines()
        .filter_map(|line| line.split_once("(\"catraca_"))
        .map(|(_, call)| call.split(").").next().unwrap_or(call))
        .map(|call| {
            let (name, labels) = call.split_once('"').unwrap();
            let labels: Vec<String> = between(labels, '"').map(|l| format!("`{l}`")).collect();
            format!("| `catraca_{name}` | {} |", labels.join(", ")).replace("|  |", "| |")
        })
        .collect();
    assert!(made.contains("| `catraca_called_total` | |"), "{made:#?}");
    let page = text("docs/metrics.md");
    for row in &made {
        assert!(page.contains(row), "docs/metrics.md:1: lacks {row}");
    }
    let told = first_column(&page).len();
    assert_eq!(
        told,
        made.len(),
        "docs/metrics.md:1: tells of more than there are"
    );
}

#[test]
fn every_member_of_a_show_is_told() {
    let refused = serde_json::from_str::<Settings>(r#"{"": 0}"#)
        .unwrap_err()
        .to_string();
    let (_, known) = refused.split_once("expected one of ").unwrap();
    let known: BTreeSet<&str> = between(known, '`').collect();
    assert!(known.contains("rate"), "{refused}");
    let page = text("docs/shows.md");
    let (members, _) = page.split_once("## States").unwrap();
    assert_eq!(first_column(members), known, "docs/shows.md:1");
}
