//! Every `crate::…` path that a file names, with groups written out.

use crate::house::source::{Source, is_word, line_at};

/// One path of our own crate, as a file names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Counted from 1.
    pub(crate) line: usize,
    /// What follows `crate`.
    pub(crate) path: Vec<String>,
}

/// The paths in a file's product code, imports and others alike.
pub(crate) fn mentions(source: &Source) -> Vec<Mention> {
    const PREFIX: &str = "crate::";
    let text = &source.product;
    let mut found = Vec::new();
    for (at, _) in text.match_indices(PREFIX) {
        if !text[..at].ends_with(is_word) {
            Reader {
                text,
                at: at + PREFIX.len(),
            }
            .tree(&[], &mut found);
        }
    }
    found
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// Reads `a::b`, `a::{b, c::d}` or `a::*`, and stops behind it.
    fn tree(&mut self, prefix: &[String], found: &mut Vec<Mention>) {
        let mut path = prefix.to_vec();
        loop {
            self.skip_space();
            let line = line_at(self.text, self.at);
            if self.take('{') {
                return self.group(&path, found);
            }
            let word: String = self.text[self.at..]
                .chars()
                .take_while(|c| is_word(*c))
                .collect();
            self.at += word.len();
            if !word.is_empty() && word != "self" {
                path.push(word);
            }
            if self.text[self.at..].starts_with("::") {
                self.at += 2;
            } else {
                return found.push(Mention { line, path });
            }
        }
    }

    fn group(&mut self, prefix: &[String], found: &mut Vec<Mention>) {
        while self.at < self.text.len() {
            self.skip_space();
            if self.take('}') {
                return;
            }
            self.tree(prefix, found);
            // What a tree leaves over: `*`, or `as name`.
            let over = self.text[self.at..].find([',', '}']).unwrap_or(0);
            self.at += over;
            if !self.take(',') && !self.text[self.at..].starts_with('}') {
                return;
            }
        }
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, c: char) -> bool {
        let here = self.text[self.at..].starts_with(c);
        if here {
            self.at += c.len_utf8();
        }
        here
    }
}

#[test]
fn groups_are_written_out() {
    let text = "use crate::room::{self, model::{State, apply as run}, *};\n\
                use crate::base::ids::FanId;\n\
                fn f() -> crate::log::Offset { my_crate::no(); crate::event::codec::<u8>() }\n";
    let found = mentions(&Source::new("src/a.rs", text.to_owned()));
    let lines: Vec<String> = found
        .iter()
        .map(|m| format!("{} {}", m.line, m.path.join("::")))
        .collect();
    assert_eq!(
        lines,
        [
            "1 room",
            "1 room::model::State",
            "1 room::model::apply",
            "1 room",
            "2 base::ids::FanId",
            "3 log::Offset",
            "3 event::codec"
        ]
    );
}
