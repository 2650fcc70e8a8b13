//! What fans have heard of their orders, read along in what the crowd writes down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::chaos::orders_killed::Death;

/// So close to a death an order may have been struck by it.
const NEAR_US: u64 = 200_000;

/// What they have heard so far.
#[derive(Debug)]
pub(super) struct Heard {
    path: PathBuf,
    read: u64,
    /// Orders that were answered 2xx, with their holds.
    pub(super) orders: BTreeMap<String, String>,
    /// Those that somebody has read to be confirmed.
    pub(super) confirmed: BTreeSet<String>,
    /// When each fan asked for an order, in microseconds, and whether an answer came of it.
    asked: BTreeMap<u64, Vec<(u64, bool)>>,
}

impl Heard {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join("history.ndjson"),
            read: 0,
            orders: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Reads what has been written since.
    pub(super) fn read_on(&mut self) {
        let Ok(mut file) = File::open(&self.path) else {
            return; // nobody has heard anything
        };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[..whole].lines() {
            self.hear(&serde_json::from_str(line).unwrap());
        }
        self.read += whole as u64;
    }

    fn hear(&mut self, line: &Value) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        match line["op"].as_str() {
            Some("order") => {
                let is_answered = line["outcome"] == "ok";
                let by_fan = self.asked.entry(line["fan_no"].as_u64().unwrap());
                let asked = (line["sent_us"].as_u64().unwrap(), is_answered);
                by_fan.or_default().push(asked);
                if is_answered {
                    self.orders.insert(text("order_id"), text("hold_id"));
                }
            }
            Some("read") if line["order_status"] == "confirmed" => {
                self.confirmed.insert(text("order_id"));
            }
            _ => {}
        }
    }

    /// Fans who have an order and asked for it so close to a death.
    pub(super) fn begun_near(&self, deaths: &[Death]) -> usize {
        let is_near = |(sent, _): &(u64, bool)| {
            deaths
                .iter()
                .any(|death| death.at_us.abs_diff(*sent) <= NEAR_US)
        };
        self.those(|asked| asked.iter().any(is_near))
    }

    /// Fans who have an order and had to ask for it more than once.
    pub(super) fn asked_again(&self) -> usize {
        self.those(|asked| asked.iter().any(|(_, is_answered)| !is_answered))
    }

    fn those(&self, are: impl Fn(&[(u64, bool)]) -> bool) -> usize {
        let have = |asked: &&Vec<(u64, bool)>| asked.iter().any(|(_, is_answered)| *is_answered);
        let fans = self.asked.values().filter(have);
        fans.filter(|asked| are(asked)).count()
    }
}
