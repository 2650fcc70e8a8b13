//! Fans who join without end, what they were told, and what the checker makes of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::chaos::site::{Answer, Site};
use crate::support::client::Client;
use crate::support::process::run_in;
use crate::support::sale::SHOW;

/// Between two joins of one crowd.
const PAUSE: Duration = Duration::from_millis(10);
/// After a refusal: sooner than fans are asked to come back, and not so soon that it is all we do.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Who joined, and what was written down of it; for several crowds at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Joiners(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    history: Vec<Value>,
    joined: Vec<(u64, String)>,
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

impl Joiners {
    /// One more fan joins at this door.
    pub(crate) async fn join(&self, door: &Client) -> Answer {
        let sent_us = now_us();
        let answer = Site::join_at(door).await;
        let mut seen = self.0.lock().unwrap();
        match answer.status {
            201 => {
                let (fan, number) = (&answer.body["fan"], &answer.body["number"]);
                let line = json!({
                    "op": "join", "fan_no": seen.history.len(), "show": SHOW, "sent_us": sent_us,
                    "done_us": now_us(), "outcome": "ok", "status": 201, "fan": fan,
                    "number": number,
                });
                seen.history.push(line);
                let pass = answer.body["pass"].as_str().unwrap().to_owned();
                seen.joined.push((number.as_u64().unwrap(), pass));
            }
            503 => assert_eq!(answer.retry_after, "1", "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
        answer
    }

    /// Fans join at this door, one after the other, until it is told to stop.
    pub(crate) async fn keep_joining(self, door: Client, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let is_refused = self.join(&door).await.status == 503;
            tokio::time::sleep(if is_refused { REFUSED_PAUSE } else { PAUSE }).await;
        }
    }

    /// Numbers and passes, as they were acknowledged.
    pub(crate) fn joined(&self) -> Vec<(u64, String)> {
        self.0.lock().unwrap().joined.clone()
    }

    /// `catraca check` finds nothing broken, and nobody has another's number.
    pub(crate) async fn promises_are_kept(&self, folder: &Path) {
        let (lines, numbers, count) = {
            let seen = self.0.lock().unwrap();
            let lines: String = seen
                .history
                .iter()
                .map(|line| format!("{line}\n"))
                .collect();
            let numbers: BTreeSet<u64> = seen.joined.iter().map(|(number, _)| *number).collect();
            (lines, numbers, seen.joined.len())
        };
        assert_eq!(numbers.len(), count, "a number was given twice");
        std::fs::write(folder.join("history.ndjson"), lines).unwrap();
        let words = ["check", "--data-dir", ".", "--history", "history.ndjson"];
        let ended = run_in(folder, &words, &[]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
