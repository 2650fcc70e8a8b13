//! Facts in files: the histories of clients, and the messages of a mailbox.

use std::path::Path;

use serde::Deserialize;
use tokio::fs;

use crate::base::ids::{FanId, HoldId, Number, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::check::facts::{Mail, Operation, Outcome, Person};
use crate::check::load::CheckError;

/// One line of a history. Members that we don't know are skipped.
#[derive(Debug, Deserialize)]
struct Line {
    op: String,
    #[serde(default)]
    show: Option<ShowId>,
    fan_no: u64,
    sent_us: u64,
    done_us: u64,
    outcome: Outcome,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    fan: Option<FanId>,
    #[serde(default)]
    number: Option<Number>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    ticket_id: Option<TicketId>,
    #[serde(default)]
    expires_at: Option<Instant>,
    #[serde(default)]
    hold_id: Option<HoldId>,
    #[serde(default)]
    order_id: Option<OrderId>,
    #[serde(default)]
    order_status: Option<String>,
    #[serde(default)]
    seats: Option<Vec<String>>,
    #[serde(default)]
    js: Option<bool>,
}

/// An instant as RFC 3339, or as milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Instant {
    Text(Timestamp),
    Ms(i64),
}

impl From<Instant> for Timestamp {
    fn from(instant: Instant) -> Self {
        match instant {
            Instant::Text(instant) => instant,
            Instant::Ms(ms) => Self::from_unix_ms(ms),
        }
    }
}

/// Reads one history. A last line without an end is one that was being written, and is skipped.
pub(super) async fn history(path: &Path, file: usize) -> Result<Vec<Operation>, CheckError> {
    let text = fs::read_to_string(path)
        .await
        .map_err(|source| CheckError::File {
            path: path.to_owned(),
            source,
        })?;
    parse_history(&text, file).map_err(|what| CheckError::foreign(path, what))
}

fn parse_history(text: &str, file: usize) -> Result<Vec<Operation>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut operations = Vec::new();
    for (line, number) in whole.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let line: Line =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        // A crowd also writes down what it thinks of an answer, and who was left at its end.
        if !matches!(line.op.as_str(), "fault" | "open") {
            operations.push(operation(line, file));
        }
    }
    Ok(operations)
}

fn operation(line: Line, file: usize) -> Operation {
    Operation {
        show: line.show,
        person: Person {
            file,
            number: line.fan_no,
        },
        op: line.op,
        sent_us: line.sent_us,
        done_us: line.done_us,
        outcome: line.outcome,
        status: line.status,
        fan: line.fan,
        number: line.number,
        state: line.state,
        ticket: line.ticket_id,
        expires_at: line.expires_at.map(Timestamp::from),
        hold: line.hold_id,
        order: line.order_id,
        order_status: line.order_status,
        seats: line.seats,
        js: line.js,
    }
}

/// Reads the messages of a mailbox; none where there is no such folder.
pub(super) async fn mailbox(folder: &Path) -> Result<Option<Vec<Mail>>, CheckError> {
    let failed = |source| CheckError::File {
        path: folder.to_owned(),
        source,
    };
    let mut entries = match fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut mail = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "eml") {
            continue;
        }
        let bytes = fs::read(&path).await.map_err(|source| CheckError::File {
            path: path.clone(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        mail.push(Mail {
            file: entry.file_name().to_string_lossy().into_owned(),
            message_id: message_id(&text).unwrap_or_default(),
        });
    }
    mail.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(Some(mail))
}

/// What stands before the @ of the Message-ID, which may be folded over lines.
fn message_id(text: &str) -> Option<String> {
    let headers = text.split("\r\n\r\n").next()?.split("\n\n").next()?;
    let unfolded = headers
        .replace("\r\n", "\n")
        .replace("\n ", " ")
        .replace("\n\t", " ");
    let value = unfolded.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("message-id")
            .then(|| value.trim().to_owned())
    })?;
    let id = value.strip_prefix('<').unwrap_or(&value);
    Some(id.split(['@', '>']).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_whatever_else_they_say() {
        let text = concat!(
            r#"{"op":"join","fan_no":3,"sent_us":10,"done_us":2000,"outcome":"ok","js":true,"status":201,"fan":"00000000000000000000000000000007","number":7,"later":[1]}"#,
            "\n\n",
            r#"{"op":"status","fan_no":3,"sent_us":10,"done_us":20,"outcome":"unknown","expires_at":5000}"#,
            "\n",
            r#"{"op":"status","fan_no":3,"sent_us":10,"done_us":20,"outcome":"ok","expires_at":"1970-01-01T00:00:05Z"}"#,
            "\n",
            r#"{"op":"open","fan_no":3,"sent_us":10,"done_us":20,"outcome":"ok"}"#,
            "\n",
            r#"{"op":"stat"#,
        );
        let operations = parse_history(text, 1).unwrap();
        assert_eq!(operations.len(), 3);
        assert_eq!(operations[0].number, Some(Number(7)));
        assert_eq!(operations[0].done(), Timestamp::from_unix_ms(2));
        assert_eq!(operations[0].person, Person { file: 1, number: 3 });
        assert_eq!(operations[1].outcome, Outcome::Unknown);
        assert_eq!(operations[1].expires_at, operations[2].expires_at);
    }

    #[test]
    fn a_line_that_is_no_operation_is_named() {
        let error = parse_history("{\"op\":\"join\"}\n", 0).unwrap_err();
        assert!(error.starts_with("line 1: missing field"), "{error}");
    }

    #[test]
    fn message_ids_are_found_in_the_headers_only() {
        for (text, id) in [
            (
                "Subject: x\r\nMessage-ID: <abc@example.com>\r\n\r\nhi",
                Some("abc"),
            ),
            ("message-id:\r\n <abc@example.com>\r\n\r\nhi", Some("abc")),
            ("Message-Id: <abc>\n\nhi", Some("abc")),
            ("Subject: x\n\nMessage-ID: <abc@example.com>", None),
        ] {
            assert_eq!(message_id(text).as_deref(), id, "{text:?}");
        }
    }
}
