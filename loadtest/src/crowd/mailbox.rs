//! Reads the folder of messages: what the buyers find in their mail.

use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::judge::messages::Message;

/// Every `.eml` file of a folder; none where there is no folder yet.
///
/// # Errors
/// The folder or a file in it cannot be read.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Message>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut messages = Vec::new();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("reading {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "eml") {
            let bytes =
                std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let file = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            messages.push(parse(file, &String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(messages)
}

/// A message, unfolded as far as an order's id needs it.
fn parse(file: String, raw: &str) -> Message {
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-language")
            .then(|| value.trim().to_owned())
    };
    let language = raw
        .lines()
        .take_while(|line| !line.is_empty())
        .find_map(header);
    // Soft line breaks of quoted-printable; parts in base64 are decoded and added.
    let unfolded = raw.replace("=\r\n", "").replace("=\n", "");
    let decoded = base64_parts(raw);
    let text = format!("{file}\n{unfolded}\n{decoded}");
    let language = language.or_else(|| by_words(&text));
    Message {
        text,
        file,
        language,
    }
}

/// The language of a message that does not name it, by the word that speaks to its reader.
fn by_words(text: &str) -> Option<String> {
    const WORDS: [(&str, &str); 6] = [
        ("seu", "pt-BR"),
        ("sua", "pt-BR"),
        ("your", "en"),
        ("you", "en"),
        ("tu", "es"),
        ("tus", "es"),
    ];
    let words = text.split(|c: char| !c.is_alphabetic());
    let named = words.filter_map(|word| {
        WORDS
            .iter()
            .find(|(known, _)| word.eq_ignore_ascii_case(known))
            .map(|(_, tag)| *tag)
    });
    let mut tags: Vec<&str> = named.collect();
    tags.sort_unstable();
    tags.dedup();
    // Words of two languages name neither.
    if let [tag] = tags[..] {
        Some(tag.to_owned())
    } else {
        None
    }
}

fn base64_parts(raw: &str) -> String {
    let is_base64 = |line: &str| {
        !line.is_empty()
            && line
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    };
    let mut text = String::new();
    let mut block = String::new();
    for line in raw.lines().chain([""]) {
        if is_base64(line) {
            block.push_str(line);
            continue;
        }
        if let Ok(bytes) = STANDARD.decode(&block) {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        block.clear();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01958c5e-7a00-7000-8000-000000000001";

    #[test]
    fn an_id_is_found_whatever_the_encoding() {
        let encoded = STANDARD.encode(format!("Pedido {ID}, obrigado."));
        let (one, two) = encoded.split_at(20);
        for body in [
            format!("Pedido {ID}"),
            format!("Pedido {}=\r\n{}", &ID[..9], &ID[9..]),
            format!("{one}\r\n{two}"),
        ] {
            let message = parse(
                "m.eml".into(),
                &format!("Content-Language: pt-BR\r\n\r\n{body}\r\n"),
            );
            assert!(message.text.contains(ID), "{body}");
            assert_eq!(message.language.as_deref(), Some("pt-BR"));
        }
        let silent = parse("m.eml".into(), "Subject: x\r\n\r\nContent-Language: en");
        assert_eq!(silent.language, None, "only a header counts");
    }

    #[test]
    fn a_message_that_does_not_name_its_language_is_known_by_its_words() {
        for (body, language) in [
            ("Seu pedido está confirmado.", Some("pt-BR")),
            ("Your order is confirmed.", Some("en")),
            ("Tu pedido está confirmado.", Some("es")),
            ("Pedido 7", None),
            ("Your order, tu pedido", None),
        ] {
            let message = parse("m.eml".into(), &format!("Subject: x\r\n\r\n{body}\r\n"));
            assert_eq!(message.language.as_deref(), language, "{body}");
        }
    }

    #[test]
    fn only_messages_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.eml"), "Subject: x\r\n\r\nhello").unwrap();
        std::fs::write(folder.path().join("b.tmp"), "half a message").unwrap();
        assert_eq!(read(folder.path()).unwrap().len(), 1);
        assert!(read(&folder.path().join("nowhere")).unwrap().is_empty());
    }
}
