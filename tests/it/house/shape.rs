//! How long a file and a function may be, how a file begins, and words that no file contains.

use crate::house::source::{Source, has_word, is_word, item_end, line_at};
use crate::house::{Findings, expect_at, expect_none, rust_files};

/// Lines of a file, its unit tests included.
const FILE_LINES_MAX: usize = 400;
/// Lines of a function's body that are neither blank nor comment, as clippy counts.
const FUNCTION_LINES_MAX: usize = 70;

/// Words of code that no file contains, each with what to write instead.
const NOWHERE: &[(&str, &str)] = &[
    ("#[allow(", "use #[expect(.., reason = \"..\")]"),
    ("#![allow(", "use #![expect(.., reason = \"..\")]"),
    ("#[ignore", "no test is ignored: fix it or delete it"),
];

fn check(sources: &[Source]) -> Findings {
    sources.iter().flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Findings {
    let path = &source.path;
    let mut findings = Vec::new();
    if !source.raw.starts_with("//! ") {
        findings.push(format!(
            "{path}:1: begins without `//!` (say what the file is for)"
        ));
    }
    let lines = source.raw.lines().count();
    if FILE_LINES_MAX < lines {
        findings.push(format!(
            "{path}:{lines}: {lines} lines (at most {FILE_LINES_MAX})"
        ));
    }
    for (line, raw) in (1..).zip(source.raw.lines()) {
        if is_bare_todo(raw) {
            findings.push(format!(
                "{path}:{line}: work left undone, and no issue `(#1)` named"
            ));
        }
    }
    for (line, code) in (1..).zip(source.code.lines()) {
        for (word, instead) in NOWHERE {
            if code.contains(word) {
                findings.push(format!("{path}:{line}: `{word}` ({instead})"));
            }
        }
    }
    if !path.starts_with("tests/") && !path.starts_with("loadtest/tests/") {
        for (line, code) in (1..).zip(source.product.lines()) {
            if has_word(code, ".unwrap()") {
                findings.push(format!(
                    "{path}:{line}: unwrap (`expect` says why it cannot fail)"
                ));
            }
        }
    }
    findings.extend(long_functions(source));
    findings
}

/// Whether a line promises work without saying where it is written down.
fn is_bare_todo(line: &str) -> bool {
    let word = concat!("TO", "DO");
    has_word(line, word) && {
        let after = line.split(word).nth(1).unwrap_or_default();
        let issue = after
            .strip_prefix("(#")
            .and_then(|rest| rest.split_once(')'));
        issue.is_none_or(|(number, _)| number.parse::<u32>().is_err())
    }
}

fn long_functions(source: &Source) -> Findings {
    let code = &source.code;
    let mut findings = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = code[at + 3..].chars().take_while(|c| is_word(*c)).collect();
        if name.is_empty() || code[..at].ends_with(is_word) {
            continue;
        }
        let item = &code[at..item_end(code, at)];
        let body = item.split_once('{').map_or("", |(_, body)| body);
        // The first and the last line hold the braces.
        let inner: Vec<&str> = body.lines().skip(1).collect();
        let lines = inner
            .iter()
            .rev()
            .skip(1)
            .filter(|line| !line.trim().is_empty())
            .count();
        if FUNCTION_LINES_MAX < lines {
            let line = line_at(code, at);
            let path = &source.path;
            findings.push(format!(
                "{path}:{line}: {name} has {lines} lines (at most {FUNCTION_LINES_MAX})"
            ));
        }
    }
    findings
}

#[test]
fn files_and_functions_are_short_and_plain() {
    let mut sources = rust_files("src");
    sources.extend(rust_files("loadtest"));
    sources.extend(rust_files("tests"));
    expect_none(&check(&sources));
}

#[test]
fn bad_shapes_are_found() {
    let long = format!("//! Long.\nfn long() {{\n{}}}\n", "    f();\n".repeat(71));
    let fits = format!(
        "//! Fits.\nfn fits() {{\n{}\n// x\n}}\n",
        "    f();\n".repeat(70)
    );
    let endless = format!("//! Endless.\n{}", "\n".repeat(FILE_LINES_MAX));
    let todo = [
        "//! ",
        concat!("TO", "DO"),
        "(#12) is fine, ",
        "\n//! ",
        concat!("TO", "DO"),
        " is not.\n",
    ];
    let sources = [
        ("src/a.rs", "fn a() {}\n".to_owned()),
        ("src/b.rs", long),
        ("src/c.rs", fits),
        ("src/d.rs", endless),
        ("src/e.rs", todo.concat()),
        (
            "src/f.rs",
            "//! F.\nfn f() { x.unwrap(); }\n#[allow(dead_code)]\nfn g() {}\n".to_owned(),
        ),
        (
            "src/g.rs",
            "//! G.\n#[cfg(test)]\nmod tests {\n  fn f() { x.unwrap() }\n  #[ignore]\n}\n"
                .to_owned(),
        ),
        (
            "tests/it/h.rs",
            "//! H.\nfn f() { x.unwrap() }\n".to_owned(),
        ),
    ]
    .map(|(path, text)| Source::new(path, text));
    expect_at(
        &check(&sources),
        &[
            "src/a.rs:1: begins",
            "src/b.rs:2: long has 71 lines",
            "src/d.rs:401: 401 lines",
            "src/e.rs:2: work left undone",
            "src/f.rs:3: `#[allow(`",
            "src/f.rs:2: unwrap",
            "src/g.rs:5: `#[ignore`",
        ],
    );
}
