//! The heads of the scripts tell the truth, and the scripts keep their size.

use std::fs;

use crate::house::{Findings, expect_at, expect_none, files, root};

/// Lines of a script; the tick does the work of four.
const LINES_MAX: usize = 80;
const TICK_LINES_MAX: usize = 120;
/// Columns of a line.
const COLUMNS_MAX: usize = 120;

/// What only scripts do: their heads say with what.
const NOT_IN_PARTS: &[&str] = &["KEYS", "ARGV", "'TIME'", "'INFO'"];

/// A part computes from what it is given, and says whose rule it repeats.
fn check_part(path: &str, text: &str, rest: &Rest<'_>) -> Findings {
    let name = path.rsplit('/').next().unwrap().trim_end_matches(".lua");
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = sizes(path, &lines, LINES_MAX);
    if !lines[0].starts_with(&format!("-- part/{name}: ")) {
        findings.push(format!("{path}:1: does not begin with `-- part/{name}: `"));
    }
    findings.extend(target(path, &lines, rest));
    for (line, code) in (1..).zip(&lines) {
        for word in NOT_IN_PARTS.iter().filter(|word| code.contains(**word)) {
            findings.push(format!("{path}:{line}: {word} in a part"));
        }
    }
    findings
}

fn sizes(path: &str, lines: &[&str], most: usize) -> Findings {
    let mut findings = Vec::new();
    if most < lines.len() {
        let count = lines.len();
        findings.push(format!("{path}:{count}: {count} lines (at most {most})"));
    }
    for (line, text) in (1..).zip(lines) {
        if COLUMNS_MAX < text.len() {
            let columns = text.len();
            let most = COLUMNS_MAX;
            findings.push(format!("{path}:{line}: {columns} columns (at most {most})"));
        }
    }
    findings
}

/// The function of the definition that a head names, where there is none.
fn target(path: &str, lines: &[&str], rest: &Rest<'_>) -> Option<String> {
    let named = head(lines, "-- Same as: ").unwrap_or_default();
    let (module, function) = named.rsplit_once("::").unwrap_or_default();
    let definition = (rest.model)(module).unwrap_or_default();
    let is_there = definition.contains(&format!("fn {function}("));
    let mut numbered = (1..).zip(lines);
    let line = numbered.find(|(_, text)| text.starts_with("-- Same as: "));
    let line = line.map_or(2, |(line, _)| line);
    (!is_there).then(|| format!("{path}:{line}: `{named}` is no function"))
}

/// What a script must agree with.
struct Rest<'a> {
    /// Sources that read answers.
    readers: &'a str,
    /// Text of the definition's module, by its name.
    model: &'a dyn Fn(&str) -> Option<String>,
}

fn check(path: &str, text: &str, rest: &Rest<'_>) -> Findings {
    let (folder, name) = path.trim_end_matches(".lua").rsplit_once('/').unwrap();
    let folder = folder.rsplit('/').next().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let most = if name == "tick" {
        TICK_LINES_MAX
    } else {
        LINES_MAX
    };
    let mut findings = sizes(path, &lines, most);
    findings.extend(target(path, &lines, rest));
    let mut find = |line: usize, what: String| findings.push(format!("{path}:{line}: {what}"));
    if !lines[0].starts_with(&format!("-- {folder}/{name}: ")) {
        find(1, format!("does not begin with `-- {folder}/{name}: `"));
    }
    let named = head(&lines, "-- KEYS: ").map_or(0, |keys| keys.split(", ").count());
    let used = (1..=20)
        .rev()
        .find(|n| text.contains(&format!("KEYS[{n}]")));
    let in_loops = text.contains("KEYS[k]")
        || text.contains("KEYS[key")
        || text.contains("KEYS[({")
        || text.contains("unpack(KEYS");
    if used.unwrap_or(0) != named && !in_loops || named < used.unwrap_or(0) {
        find(3, format!("names {named} keys and uses {used:?}"));
    }
    for (line, word) in out_words(&lines) {
        if !rest.readers.contains(&format!("\"{word}\"")) {
            find(line, format!("nobody reads `{word}`"));
        }
    }
    if text.contains("redis.call('TIME')") as usize + text.matches("'TIME'").count() != 2 {
        find(1, "asks for the time other than once".into());
    }
    findings
}

/// What stands behind a line's beginning.
fn head<'a>(lines: &[&'a str], begins: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| line.strip_prefix(begins))
}

/// The words in quotes of the head's last part, each with its line.
fn out_words<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str)> {
    (1..)
        .zip(lines)
        .skip_while(|(_, line)| !line.starts_with("-- OUT:"))
        .take_while(|(_, line)| line.starts_with("--"))
        .flat_map(|(number, line)| {
            line.split('\'')
                .skip(1)
                .step_by(2)
                .map(move |w| (number, w))
        })
        .collect()
}

/// `room::model::claim` is `src/room/model/claim.rs`, or a folder of that name.
fn module(name: &str) -> Option<String> {
    let path = format!("src/{}", name.replace("::", "/"));
    let file = fs::read_to_string(root().join(format!("{path}.rs")));
    file.or_else(|_| fs::read_to_string(root().join(format!("{path}/mod.rs"))))
        .ok()
}

#[test]
fn the_heads_of_the_scripts_tell_the_truth() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let readers = [
        "room/in_redis/answer",
        "room/model/words",
        "limit/joins_in_redis",
    ]
    .map(|path| read(&format!("src/{path}.rs")))
    .concat();
    let rest = Rest {
        readers: &readers,
        model: &module,
    };
    let paths = files("lua/room", "lua");
    assert!(10 < paths.len(), "{paths:?}");
    for path in paths.into_iter().chain(files("lua/limit", "lua")) {
        expect_none(&check(&path, &read(&path), &rest));
    }
    let parts = files("lua/part", "lua");
    assert!(2 < parts.len(), "{parts:?}");
    for path in parts {
        expect_none(&check_part(&path, &read(&path), &rest));
    }
}

#[test]
fn a_part_that_knows_more_than_it_is_given_is_found() {
    let rest = Rest {
        readers: "",
        model: &|module| (module == "a::b").then(|| "fn enter(x: u8)".to_owned()),
    };
    let good = "-- part/enter: a room enters.\n-- Same as: a::b::enter\nlocal function enter() end";
    let path = "lua/part/enter.lua";
    expect_at(&check_part(path, good, &rest), &[]);
    for (from, to, line) in [
        ("part/enter", "part/go", 1),
        ("b::enter", "b::go", 2),
        ("enter() end", "enter() return KEYS[1] end", 3),
    ] {
        let place = format!("{path}:{line}: ");
        expect_at(&check_part(path, &good.replace(from, to), &rest), &[&place]);
    }
}

#[test]
fn lies_in_a_head_are_found() {
    let rest = Rest {
        readers: "\"left\"",
        model: &|module| (module == "a::b").then(|| "fn leave(x: u8)".to_owned()),
    };
    let good = "-- room/leave: a fan goes.\n-- Same as: a::b::leave\n-- KEYS: 1 queue\n\
                -- OUT:  {'left'}\nredis.call('TIME', KEYS[1])\nredis.call('TIME')";
    let good = good.replace("redis.call('TIME', KEYS[1])", "local key = KEYS[1]");
    expect_at(&check("lua/room/leave.lua", &good, &rest), &[]);
    expect_at(
        &check("lua/room/go.lua", &good, &rest),
        &["lua/room/go.lua:1: "],
    );
    for (from, to, line) in [
        ("b::leave", "b::go", 2),
        ("1 queue", "1 queue, 2 room", 3),
        ("'left'", "'gone'", 4),
        ("redis.call('TIME')", "", 1),
    ] {
        let bad = good.replace(from, to);
        let place = format!("lua/room/leave.lua:{line}: ");
        expect_at(&check("lua/room/leave.lua", &bad, &rest), &[&place]);
    }
}
