//! The table of a draw, as the program builds it for whoever verifies one.
//!
//! One operation: `catraca draw verify` on a board and a receipt made here, less the same for a draw of
//! two, which is the start of the program and the reading of both.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tokio::time::Instant;

use crate::bench::machine::{SERVER_CORE, median};
use crate::bench::table::{Must, Row};

/// The number of the row.
pub(super) const ROW: u8 = 0;
/// As many as the largest sale that is promised.
const SIZE: u64 = 2_000_000;
/// How long the table may take.
const MS_MAX: f64 = 100.0;
/// Times that each is done; the two take turns.
const RUNS: usize = 5;

/// The row.
pub(super) fn row(catraca: &Path, folder: &Path) -> anyhow::Result<Row> {
    let (large, small) = (Draw::write(SIZE, folder)?, Draw::write(2, folder)?);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        with.push(large.verify(catraca)?);
        without.push(small.verify(catraca)?);
    }
    let ours = median(with) - median(without);
    Ok(Row {
        number: ROW,
        what: format!("the table of a draw of {SIZE}"),
        ours,
        peer: MS_MAX,
        ratio: ours / MS_MAX,
        unit: "ms",
        must: Must::AtMost(1.0),
        note: "no peer: beside what is promised".to_owned(),
    })
}

/// A board and a receipt of a draw of this size. They prove nothing: no seal fits.
struct Draw {
    size: u64,
    board: String,
    receipt: String,
}

impl Draw {
    fn write(size: u64, folder: &Path) -> anyhow::Result<Self> {
        let digest = "5e".repeat(32);
        let board = json!({
            "show": "bench", "edition": 1,
            "draw": { "commitment": digest, "secret": digest, "seed": digest, "size": size },
        });
        let claims = json!({
            "iss": "catraca", "aud": "bench", "sub": "00".repeat(16), "number": 1, "ed": 1,
            "gen": 1, "iat": 0, "commitment": digest,
        });
        let parts = [
            r#"{"alg":"EdDSA","typ":"receipt+jwt"}"#,
            &claims.to_string(),
            "",
        ];
        let receipt = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let keep = |name: &str, text: String| {
            let path = folder.join(format!("{size}-{name}"));
            std::fs::write(&path, text)?;
            anyhow::Ok(path.display().to_string())
        };
        Ok(Self {
            size,
            board: keep("board.json", board.to_string())?,
            receipt: keep("receipt.jwt", receipt)?,
        })
    }

    /// How long it takes, in milliseconds.
    fn verify(&self, catraca: &Path) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let output = Command::new("taskset")
            .args(["-c", SERVER_CORE])
            .arg(catraca)
            .args([
                "draw",
                "verify",
                "--board",
                &self.board,
                "--receipt",
                &self.receipt,
            ])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("starting {} with taskset", catraca.display()))?;
        let took = begun.elapsed();
        let said = String::from_utf8_lossy(&output.stdout);
        let drew = format!("of {}", self.size);
        ensure!(said.contains(&drew), "no place was drawn: {said}");
        Ok(took.as_secs_f64() * 1_000.0)
    }
}
