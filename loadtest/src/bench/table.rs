//! What a run comes to: rows of ratios, as text and as JSON.

use serde::Serialize;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// Of the list of what must be; 0: it has none there.
    pub(super) number: u8,
    pub(super) what: String,
    pub(super) ours: f64,
    pub(super) peer: f64,
    pub(super) ratio: f64,
    pub(super) unit: &'static str,
    pub(super) must: Must,
    /// What each side does for one operation, or which peer is missing.
    pub(super) note: String,
}

/// What a ratio must be.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) enum Must {
    AtLeast(f64),
    AtMost(f64),
    /// Told for comparison.
    Nothing,
}

impl Must {
    /// The bound in words, and whether it is kept.
    fn tell(self, ratio: f64) -> (String, &'static str) {
        let word = |kept: bool| if kept { "kept" } else { "missed" };
        match self {
            Self::AtLeast(least) => (format!("≥ {least}"), word(least <= ratio)),
            Self::AtMost(most) => (format!("≤ {most}"), word(ratio <= most)),
            Self::Nothing => (String::new(), ""),
        }
    }
}

/// Everything that a run came to.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    pub(super) server: String,
    pub(super) machine: String,
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// For people.
    pub(super) fn render(&self) -> String {
        let mut text = format!("{}; {}\n\n", self.server, self.machine);
        text.push_str("| row | what | ours | peer | unit | ratio | must | | one operation |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let (must, kept) = row.must.tell(row.ratio);
            let number = match row.number {
                0 => "–".to_owned(),
                number => number.to_string(),
            };
            text.push_str(&format!(
                "| {number} | {} | {:.3} | {:.3} | {} | {:.2} | {must} | {} | {} |\n",
                row.what, row.ours, row.peer, row.unit, row.ratio, kept, row.note
            ));
        }
        text
    }
}

/// Where it was measured.
pub(super) fn machine_of() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |line| line.trim_start_matches(['\t', ' ', ':']));
    format!("{cores} core seen after pinning, {model}")
}
