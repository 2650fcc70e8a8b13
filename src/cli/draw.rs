//! `catraca draw verify`: computes a draw anew from what is public, and says what that proves.

use std::fs::read_to_string;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;

use crate::base::ids::{Edition, Number, ShowId};
use crate::base::limits::DRAW_SIZE_MAX;
use crate::cli::admin_api::{Away, fetch};
use crate::cli::{FAILED, OK, UNAVAILABLE, USAGE, complain, print};
use crate::room::draw::{Commitment, DrawSecret, Seed, Table, commitment, seed};
use crate::token::pass::Pass;
use crate::token::receipt::Receipt;

/// `catraca draw …`
#[derive(Debug, Subcommand)]
pub enum DrawVerb {
    /// Compute a draw anew from its board and a receipt or pass, and say what that proves.
    #[command(
        after_help = "Examples:\n  catraca draw verify --url https://tickets.example.com --show \
stadium-show --receipt my-receipt.txt\n  catraca draw verify --board board.json --jwks jwks.json \
--receipt my-receipt.txt\n\nExit codes: 0 everything holds, 1 something does not or the draw has \
not been held, 2 the data cannot be read, 69 the gateway cannot be reached."
    )]
    Verify(VerifyArgs),
}

/// What is to be verified.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The gateway, to read board and public keys from. By https, what this machine trusts counts, or the
    /// certificates (PEM) in the file that SSL_CERT_FILE names.
    #[arg(long, value_name = "URL", requires = "show", conflicts_with = "board")]
    pub url: Option<String>,
    /// The show, with --url.
    #[arg(long, value_name = "SHOW", requires = "url")]
    pub show: Option<ShowId>,
    /// A saved answer of /v1/shows/{show}/board.
    #[arg(long, value_name = "FILE", required_unless_present = "url")]
    pub board: Option<String>,
    /// A saved answer of /.well-known/jwks.json, to check a receipt's signature.
    #[arg(long, value_name = "FILE")]
    pub jwks: Option<String>,
    /// A file with a receipt, as /v1/shows/{show}/receipt answers it.
    #[arg(long, value_name = "FILE", conflicts_with = "pass")]
    pub receipt: Option<String>,
    /// A file with a pass. Only the sale itself can check its signature.
    #[arg(long, value_name = "FILE")]
    pub pass: Option<String>,
}

/// As much of a board as a draw needs.
#[derive(Debug, Deserialize)]
struct Board {
    show: ShowId,
    edition: Edition,
    draw: Option<Told>,
}

/// What a board tells of its draw.
#[derive(Debug, Clone, Deserialize)]
struct Told {
    commitment: Commitment,
    beacon: Option<String>,
    size: Option<u64>,
    beacon_value: Option<String>,
    seed: Option<Seed>,
    secret: Option<DrawSecret>,
}

/// What a fan was given when they joined.
#[derive(Debug, Clone)]
struct Given {
    show: ShowId,
    edition: Edition,
    number: Number,
    commitment: Option<Commitment>,
    /// What is known of its signature.
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signature {
    /// A receipt, checked with the published keys.
    Checked,
    /// A receipt, and no keys were given; or a pass, for which nobody else has a key.
    Unchecked,
}

/// Carries out `catraca draw …`.
pub async fn draw(verb: DrawVerb) -> u8 {
    let DrawVerb::Verify(args) = verb;
    let (board, given) = match read(&args).await {
        Ok(read) => read,
        Err(error) => {
            complain(&error);
            return if error.is::<Away>() {
                UNAVAILABLE
            } else {
                USAGE
            };
        }
    };
    let report = examine(&board, given.as_ref());
    print(&report.lines.join("\n"));
    if report.holds { OK } else { FAILED }
}

async fn read(args: &VerifyArgs) -> anyhow::Result<(Board, Option<Given>)> {
    let (board, mut jwks) = match (&args.url, &args.show, &args.board) {
        (Some(url), Some(show), _) => {
            let url = url.trim_end_matches('/');
            let board = fetch(url, &format!("/v1/shows/{show}/board")).await?;
            (board, Some(fetch(url, "/.well-known/jwks.json").await?))
        }
        (_, _, Some(file)) => (text_of(file)?, None),
        (_, _, None) => bail!("there is no board to read: --url and --show, or --board"),
    };
    if let Some(file) = &args.jwks {
        jwks = Some(text_of(file)?);
    }
    let board = serde_json::from_str(&board).context("the board cannot be read")?;
    let keys = jwks
        .map(|text| serde_json::from_str::<JwkSet>(&text))
        .transpose()
        .context("the public keys cannot be read")?;
    let given = match (&args.receipt, &args.pass) {
        (Some(file), _) => Some(Given::of_receipt(&text_of(file)?, keys.as_ref())?),
        (None, Some(file)) => Some(Given::of_pass(&text_of(file)?)?),
        (None, None) => None,
    };
    Ok((board, given))
}

fn text_of(file: &str) -> anyhow::Result<String> {
    read_to_string(file).with_context(|| format!("cannot read {file}"))
}

impl Given {
    fn of_receipt(text: &str, keys: Option<&JwkSet>) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Answer {
            receipt: String,
        }
        // The route's answer as it came, or the receipt alone.
        let answer = serde_json::from_str::<Answer>(text);
        let jwt = answer.map_or_else(|_| text.trim().to_owned(), |answer| answer.receipt);
        let (receipt, signature) = match keys {
            Some(keys) => (Receipt::verify(&jwt, keys), Signature::Checked),
            None => (Receipt::claimed(&jwt), Signature::Unchecked),
        };
        let receipt = receipt.context(match keys {
            Some(_) => "none of the public keys has signed this receipt",
            None => "the receipt cannot be read",
        })?;
        Ok(Self {
            show: receipt.show,
            edition: receipt.edition,
            number: receipt.number,
            commitment: receipt.commitment,
            signature,
        })
    }

    fn of_pass(text: &str) -> anyhow::Result<Self> {
        let pass = Pass::claimed(text.trim()).context("the pass cannot be read")?;
        Ok(Self {
            show: pass.show,
            edition: pass.edition,
            number: pass.number,
            commitment: pass.commitment,
            signature: Signature::Unchecked,
        })
    }
}

/// What was found, line by line.
#[derive(Debug)]
struct Report {
    lines: Vec<String>,
    holds: bool,
}

impl Report {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// A fact that must hold.
    fn must(&mut self, fact: &str, holds: bool) {
        let word = if holds { "holds " } else { "BROKEN" };
        self.lines.push(format!("{word}  {fact}"));
        self.holds &= holds;
    }

    fn fail(mut self, line: &str) -> Self {
        self.say(line);
        self.holds = false;
        self
    }
}

fn examine(board: &Board, given: Option<&Given>) -> Report {
    let mut report = Report {
        lines: vec![format!("show {}, edition {}", board.show, board.edition)],
        holds: true,
    };
    let Some(told) = &board.draw else {
        return report.fail("The show has no draw: places are numbers.");
    };
    report.say(format!("commitment  {}", told.commitment));
    let (beacon, value) = (told.beacon.as_deref(), told.beacon_value.as_deref());
    report.say(format!("beacon      {}", beacon.unwrap_or("none")));
    if let Some(given) = given {
        compare(&mut report, board, told, given);
    }
    let (Some(size), Some(drawn), Some(secret)) = (told.size, told.seed, told.secret) else {
        return report.fail("The draw has not been held yet: there is nothing more to verify.");
    };
    if DRAW_SIZE_MAX < size {
        return report.fail("BROKEN  the draw is larger than any can be");
    }
    report.say(format!("value       {}", value.unwrap_or("none")));
    let (beacon, value) = (beacon.unwrap_or_default(), value.unwrap_or_default());
    report.say(format!("size        {size}"));
    report.say(format!("seed        {drawn}"));
    report.must(
        "the commitment seals the secret that was revealed, and the beacon",
        commitment(&board.show, &secret, beacon) == told.commitment,
    );
    report.must(
        "the seed follows from the secret, the beacon's value and the size",
        seed(&board.show, &secret, value, size) == drawn,
    );
    report.must(
        "a value was entered exactly where a beacon was named",
        beacon.is_empty() == value.is_empty(),
    );
    if let Some(given) = given {
        report.say(place(given.number, &drawn, size));
    }
    conclude(&mut report, told, given);
    report
}

/// Holds a receipt or pass against the board.
fn compare(report: &mut Report, board: &Board, told: &Told, given: &Given) {
    report.must(
        "receipt or pass is of this show and edition",
        (&given.show, given.edition) == (&board.show, board.edition),
    );
    report.must(
        "the board's commitment is the one that was given at join",
        given.commitment == Some(told.commitment),
    );
}

fn place(number: Number, drawn: &Seed, size: u64) -> String {
    if size < number.0 {
        return format!("number {number} came after the draw: its place is {number}");
    }
    let place = Table::new(drawn, size).place(number);
    format!("number {number} drew place {place} of {size}")
}

fn conclude(report: &mut Report, told: &Told, given: Option<&Given>) {
    if !report.holds {
        report.say("\nThis draw is not what was published: do not accept it.");
        return;
    }
    report.say(
        "\nThis proves that the order follows from what the board reveals, and that nobody\n\
         changed secret or beacon after the commitment was published.",
    );
    report.say(match given.map(|given| given.signature) {
        Some(Signature::Checked) => {
            "The receipt is signed by the sale: the commitment was public when the number was given."
        }
        Some(Signature::Unchecked) => {
            "No signature was checked: this convinces whoever kept the receipt or pass, nobody else."
        }
        None => "Without a receipt or pass it does not prove that the commitment was public before.",
    });
    report.say(match (&told.beacon, &told.beacon_value) {
        (Some(beacon), Some(value)) => format!(
            "Look up yourself that {beacon} is {value}, and that it was published after the line\n\
             was frozen. Then nobody, the operator included, could know the outcome before."
        ),
        (Some(_) | None, _) => "It does NOT prove that nobody knew the outcome: there was no beacon, \
             so the operator\nhad all that the seed is made of, and could have joined with more fans \
             to change it."
            .to_owned(),
    });
    report.say("It says nothing about who was let in: that is what `catraca check` proves.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn golden() -> Vec<Value> {
        let golden: Value =
            serde_json::from_str(include_str!("../../tests/golden/draw.json")).unwrap();
        golden["draws"].as_array().unwrap().clone()
    }

    fn board(row: &Value) -> Value {
        json!({
            "show": row["show"], "edition": 1, "serving": 3,
            "draw": {
                "commitment": row["commitment"], "size": row["size"], "seed": row["seed"],
                "secret": row["secret"], "empty": 0,
                "beacon": row["beacon"].as_str().filter(|text| !text.is_empty()),
                "beacon_value": row["beacon_value"].as_str().filter(|text| !text.is_empty()),
            },
        })
    }

    fn given(row: &Value, number: u64) -> Given {
        Given {
            show: serde_json::from_value(row["show"].clone()).unwrap(),
            edition: Edition(1),
            number: Number(number),
            commitment: Some(serde_json::from_value(row["commitment"].clone()).unwrap()),
            signature: Signature::Checked,
        }
    }

    fn examined(board: &Value, given: Option<&Given>) -> (bool, String) {
        let board = serde_json::from_value(board.clone()).unwrap();
        let report = examine(&board, given);
        (report.holds, report.lines.join("\n"))
    }

    #[test]
    fn a_draw_is_computed_anew_and_what_it_proves_is_said() {
        for row in golden() {
            let (holds, text) = examined(&board(&row), Some(&given(&row, 1)));
            assert!(holds, "{text}");
            let size = row["size"].as_u64().unwrap();
            if let Some(place) = row["places"].get(0).filter(|_| 0 < size) {
                assert!(
                    text.contains(&format!("drew place {place} of {size}")),
                    "{text}"
                );
            }
            let has_beacon = row["beacon"] != "";
            assert_eq!(text.contains("there was no beacon"), !has_beacon, "{text}");
            assert_eq!(text.contains("Look up yourself"), has_beacon, "{text}");
            let (_, alone) = examined(&board(&row), None);
            assert!(alone.contains("Without a receipt"), "{alone}");
            let (_, late) = examined(&board(&row), Some(&given(&row, size + 1)));
            assert!(late.contains("came after the draw"), "{late}");
        }
    }

    #[test]
    fn whatever_is_changed_is_found() {
        let row = golden().pop().unwrap();
        let fair = board(&row);
        for (member, value, broken) in [
            ("commitment", json!("00".repeat(32)), 2),
            ("secret", json!("00".repeat(32)), 2),
            ("seed", json!("00".repeat(32)), 1),
            ("size", json!(9), 1),
            ("beacon", json!("another"), 1),
            ("beacon", json!(null), 2),
            ("beacon_value", json!("0"), 1),
        ] {
            let mut bent = fair.clone();
            bent["draw"][member] = value;
            let (holds, text) = examined(&bent, Some(&given(&row, 1)));
            assert!(!holds, "{member}");
            assert_eq!(text.matches("BROKEN").count(), broken, "{member}: {text}");
        }
        let other = Given {
            edition: Edition(2),
            commitment: None,
            ..given(&row, 1)
        };
        let (holds, text) = examined(&fair, Some(&other));
        assert_eq!(
            (holds, text.matches("BROKEN").count()),
            (false, 2),
            "{text}"
        );
        let sealed = json!({"commitment": "00".repeat(32)});
        for (draw, says) in [(json!(null), "no draw"), (sealed, "not been held yet")] {
            let mut bent = fair.clone();
            bent["draw"] = draw;
            let (holds, text) = examined(&bent, None);
            assert!(!holds && text.contains(says), "{text}");
        }
    }
}
