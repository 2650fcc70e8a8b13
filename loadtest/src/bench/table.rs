//! What a run comes to: rows of ratios, as text and as JSON.

use anyhow::bail;
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

impl Row {
    /// The same where the peer is not there: there is no ratio, and nothing is kept or missed.
    pub(super) fn without_peer(self, why: &anyhow::Error) -> Self {
        Self {
            peer: f64::NAN,
            ratio: f64::NAN,
            must: Must::Nothing,
            note: format!("peer missing: {why:#}"),
            ..self
        }
    }
}

/// Refuses rows that are not measured here.
pub(super) fn expect_known(wanted: &[u8], rows: &[u8]) -> anyhow::Result<()> {
    match wanted.iter().find(|row| !rows.contains(row)) {
        Some(row) => bail!("row {row} is not measured here; those that are: {rows:?}"),
        None => Ok(()),
    }
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
            let figure = |figure: f64, digits: usize| match figure.is_nan() {
                true => "–".to_owned(), // nothing was measured
                false => format!("{figure:.digits$}"),
            };
            text.push_str(&format!(
                "| {number} | {} | {} | {} | {} | {} | {must} | {} | {} |\n",
                row.what,
                figure(row.ours, 3),
                figure(row.peer, 3),
                row.unit,
                figure(row.ratio, 2),
                kept,
                row.note
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_peer_keeps_and_misses_nothing() {
        let beside = Row {
            number: 6,
            what: "joins".to_owned(),
            ours: 1.0,
            peer: 4.0,
            ratio: 0.25,
            unit: "µs",
            must: Must::AtMost(0.5),
            note: "beside another".to_owned(),
        };
        let render = |row: Row| {
            let table = Table {
                server: String::new(),
                machine: String::new(),
                rows: vec![row],
            };
            let text = table.render();
            text.lines().last().map(str::to_owned).unwrap_or_default()
        };
        let alone = beside.without_peer(&anyhow::anyhow!("no nginx"));
        assert_eq!(
            render(alone),
            "| 6 | joins | 1.000 | – | µs | – |  |  | peer missing: no nginx |"
        );
    }

    #[test]
    fn a_row_that_is_not_measured_is_refused() {
        assert!(expect_known(&[3, 8], &[3, 5, 8]).is_ok());
        let error = expect_known(&[3, 4], &[3, 5, 8]).map_err(|error| error.to_string());
        let says = "row 4 is not measured here; those that are: [3, 5, 8]";
        assert_eq!(error, Err(says.to_owned()));
    }
}
