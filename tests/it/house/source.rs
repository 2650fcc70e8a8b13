//! A Rust file as the checkers see it: the same lines, without what only looks like code.

/// One file, three times, line by line the same.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    /// As it stands.
    pub(crate) raw: String,
    /// Without comments; inside of strings only `~`.
    pub(crate) code: String,
    /// `code` without what is compiled for tests only.
    pub(crate) product: String,
}

impl Source {
    pub(crate) fn new(path: &str, raw: String) -> Self {
        let code = without_comments(&raw);
        let product = if path.ends_with("/tests.rs") {
            String::new()
        } else {
            without_tests(&code)
        };
        Self {
            path: path.to_owned(),
            raw,
            code,
            product,
        }
    }
}

/// Whether `text` has `word` with no identifier running on at either end of it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_word);
        let after = text[at + word.len()..].chars().next().is_some_and(is_word);
        !(before && word.starts_with(is_word) || after && word.ends_with(is_word))
    })
}

/// Whether a character can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The line, counted from 1, on which a byte of the text stands.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The byte after the item that begins at `from`: past its closing brace or its semicolon.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => braces += 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        if braces == 0 && (c == '}' || c == ';' && brackets == 0) {
            return from + at + 1;
        }
    }
    code.len()
}

fn without_tests(code: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut product = String::with_capacity(code.len());
    let mut done = 0;
    while let Some(found) = code[done..].find(ATTRIBUTE) {
        let start = done + found;
        let end = item_end(code, start + ATTRIBUTE.len());
        product.push_str(&code[done..start]);
        product.extend(code[start..end].chars().filter(|c| *c == '\n'));
        done = end;
    }
    product.push_str(&code[done..]);
    product
}

/// Blanks comments and fills strings. Knows nested comments, raw strings, and that `'a` is no
/// character.
fn without_comments(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let identifier_before = out.chars().next_back().is_some_and(is_word);
        let (taken, fill) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), ' ')
        } else if rest.starts_with("/*") {
            (block_comment(rest), ' ')
        } else if let Some(length) = raw_string(rest).filter(|_| !identifier_before) {
            (length, '~')
        } else if c == '"' {
            (string(rest), '~')
        } else if c == '\'' {
            (character(rest), '~')
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(
            rest[..taken]
                .chars()
                .map(|c| if c == '\n' { c } else { fill }),
        );
        rest = &rest[taken..];
    }
    out
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    if !body[hashes..].starts_with('"') {
        return None;
    }
    let start = rest.len() - body.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(
        rest[start..]
            .find(&close)
            .map_or(rest.len(), |end| start + end + close.len()),
    )
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or 1 where the quote begins a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |end| end + 4),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            Some(_) | None => 1,
        },
        None => 1,
    }
}

#[test]
fn what_only_looks_like_code_is_blank() {
    let raw = r##"fn a<'x>(c: char) { // unwrap()
    let s = "unwrap() { \" }"; /* { /* { */ unwrap() */
    let r = r#"unwrap() " { "#; let quote = '"'; let q = '\''; let b = '{';
}
#[cfg(test)]
mod tests {
    fn b(x: [u8; 2]) { x.unwrap() }
}
fn c() {}"##;
    let source = Source::new("src/a.rs", raw.to_owned());
    assert!(!source.product.contains("unwrap"), "{}", source.product);
    assert!(source.code.contains("x.unwrap()") && source.product.contains("fn c() {}"));
    for text in [&source.code, &source.product] {
        assert_eq!(text.lines().count(), raw.lines().count());
        assert_eq!(
            text.matches('{').count(),
            text.matches('}').count(),
            "{text}"
        );
    }
}

#[test]
fn words_have_ends() {
    assert!(has_word("use tokio::time;", "tokio") && has_word("clock.now()", "now()"));
    assert!(!has_word("tokio_util", "tokio") && !has_word("async_trait", "async"));
    assert!(!has_word("snow()", "now()") && has_word("a.unwrap()", ".unwrap()"));
}
