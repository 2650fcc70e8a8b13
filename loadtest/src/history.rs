//! The history of a run: one JSON line an operation, written by a thread of its own.
//!
//! `HISTORY.md` says what each field means. Only operations that prove something are written: not the
//! polls that found nothing new.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;
use serde::Serialize;

/// Lines that may wait for the disk; beyond, the crowd waits too.
const WAITING_MAX: usize = 65_536;

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Answered 2xx or 3xx.
    Ok,
    /// Answered 4xx: it was not done.
    Refused,
    /// Never sent.
    Failed,
    /// Sent and not answered, or answered 5xx: it may have been done.
    Unknown,
}

impl Outcome {
    /// The outcome of an answered operation.
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=399 => Self::Ok,
            400..=499 => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Serialize)]
pub struct Line<'a> {
    pub show: &'a str,
    pub op: &'a str,
    pub fan_no: u32,
    pub sent_us: u64,
    pub done_us: u64,
    pub outcome: Outcome,
    /// Whether the fan uses the API; false: pages and cookies.
    pub js: bool,
    #[serde(flatten)]
    pub facts: Facts<'a>,
}

/// What the answer said, as far as it said it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(default)]
pub struct Facts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seats: Option<&'a [Box<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'a str>,
}

/// Where lines go.
#[derive(Debug, Default)]
pub struct History {
    writing: Option<(SyncSender<String>, JoinHandle<std::io::Result<()>>)>,
}

impl History {
    /// A history that keeps nothing.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// A history in a new file.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn in_file(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || write_all(file, &receiver))
            .context("starting the history's thread")?;
        Ok(Self {
            writing: Some((sender, thread)),
        })
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Line<'_>) {
        let Some((sender, _)) = &self.writing else {
            return;
        };
        let text = serde_json::to_string(line).expect("a line has text, numbers and lists only");
        // A closed channel means that the disk failed: `close` says so.
        drop(sender.send(text));
    }

    /// Waits until every line is on the disk.
    ///
    /// # Errors
    /// A line could not be written.
    pub fn close(&mut self) -> anyhow::Result<()> {
        let Some((sender, thread)) = self.writing.take() else {
            return Ok(());
        };
        drop(sender);
        let written = thread
            .join()
            .map_err(|_| anyhow::anyhow!("the history's thread panicked"))?;
        written.context("writing the history")
    }
}

fn write_all(file: File, lines: &Receiver<String>) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    while let Ok(first) = lines.recv() {
        for line in std::iter::once(first).chain(lines.try_iter()) {
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.flush()?; // somebody may read along
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::Instant;

    fn line() -> Line<'static> {
        Line {
            show: "s",
            op: "join",
            fan_no: 3,
            sent_us: 10,
            done_us: 20,
            outcome: Outcome::of_status(201),
            js: true,
            facts: Facts {
                status: Some(201),
                number: Some(7),
                ..Facts::default()
            },
        }
    }

    #[test]
    fn lines_say_what_is_known_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.ndjson");
        let mut history = History::in_file(&path).unwrap();
        let line = line();
        history.write(&line);
        history.write(&line);
        history.close().unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        let expected = r#"{"show":"s","op":"join","fan_no":3,"sent_us":10,"done_us":20,"outcome":"ok","js":true,"status":201,"number":7}"#;
        assert_eq!(written.lines().collect::<Vec<_>>(), [expected, expected]);
    }

    #[test]
    fn whoever_reads_along_sees_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.ndjson");
        let mut history = History::in_file(&path).unwrap();
        history.write(&line());
        let written = || std::fs::read_to_string(&path).unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while !written().ends_with('\n') {
            assert!(Instant::now() < end, "nothing can be read before the end");
            std::thread::yield_now();
        }
        history.close().unwrap();
    }

    #[test]
    fn a_server_error_may_have_been_done() {
        assert_eq!(Outcome::of_status(503), Outcome::Unknown);
        assert_eq!(Outcome::of_status(409), Outcome::Refused);
    }
}
