//! The words of the command line, and what they come to.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, Subcommand};

use crate::bench::Bench;
use crate::crowd::plan::{Range, Shares};

/// A crowd of fans in front of a waiting room, from outside.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Send a crowd to a show: join, wait, hold, think, pay, read the message.
    ///
    /// The load is open: every fan has an intended time of arrival, and latency counts from the
    /// intended time, so a slow server does not slow the measuring. Each fan has an address of its
    /// own (X-Forwarded-For 10.x.y.z), so let the gateway trust this machine as a proxy.
    ///
    /// Exit code: 0 nothing wrong was seen, 1 faults (listed in the report) or no server, 2 usage.
    Crowd(Box<CrowdArgs>),
    /// Measure the program side by side with peers: ratios of CPU time, on two cores of this machine.
    ///
    /// It starts what it measures itself, on private ports. Exit code: 0 measured (a figure that is
    /// missed says so in the table), 1 something is missing or failed.
    #[command(subcommand)]
    Bench(Bench),
}

/// Words of `loadtest crowd`.
#[derive(Debug, Args)]
pub struct CrowdArgs {
    /// Where the gateway listens.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// The show to queue for.
    #[arg(long, value_name = "ID")]
    pub show: String,
    /// Sections that fans ask for; name it again or separate by commas.
    #[arg(
        long = "section",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "floor"
    )]
    pub sections: Vec<String>,
    /// How many fans [default: 20000; 1500 with --fast].
    #[arg(long)]
    pub fans: Option<u32>,
    /// Seconds in which they arrive, most of them early [default: 60; 5 with --fast].
    #[arg(long, value_name = "S")]
    pub arrive_s: Option<f64>,
    /// Keep-alive connections that all fans share [default: 200; 64 with --fast].
    #[arg(long, value_name = "N")]
    pub connections: Option<u16>,
    /// Decides who does what and when; the same seed, the same crowd.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seconds that a fan with seats thinks before paying [default: 5..40; 0.3..2 with --fast].
    #[arg(long, value_name = "FROM..TO")]
    pub think_s: Option<String>,
    /// Milliseconds the show keeps a called fan's slot; sleepers come back after it
    /// [default: 60000; 10000 with --fast].
    #[arg(long, value_name = "MS")]
    pub claim_ms: Option<u64>,
    /// Seats the show has in all [default: what is left before any of the crowd is called, if the board
    /// says so by then].
    #[arg(long, value_name = "N")]
    pub seats: Option<u64>,
    /// End after so many seconds, whatever is still open.
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    pub for_s: u64,
    /// Folder for report.json and report.txt; made where it is missing.
    #[arg(long, value_name = "DIR")]
    pub report: PathBuf,
    /// File for the history of the run: one JSON line an operation.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Folder of .eml files to look for the buyers' messages in.
    #[arg(long, value_name = "DIR")]
    pub mail_dir: Option<PathBuf>,
    /// Seconds to wait at the end for messages that are still missing.
    #[arg(long, value_name = "S", default_value_t = 20)]
    pub mail_wait_s: u64,
    /// A small crowd in a hurry, for tests: changes the defaults above.
    #[arg(long)]
    pub fast: bool,
    /// Who does what, as shares of the crowd.
    #[command(flatten)]
    pub shares: Shares,
}

/// What holds where nothing is said.
#[derive(Debug)]
struct Defaults {
    fans: u32,
    arrive_s: f64,
    connections: u16,
    think_s: (f64, f64),
    claim_ms: u64,
}

const SLOW: Defaults = Defaults {
    fans: 20_000,
    arrive_s: 60.0,
    connections: 200,
    think_s: (5.0, 40.0),
    claim_ms: 60_000,
};

const FAST: Defaults = Defaults {
    fans: 1_500,
    arrive_s: 5.0,
    connections: 64,
    think_s: (0.3, 2.0),
    claim_ms: 10_000,
};

/// What a run is to be, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host:port` of the gateway.
    pub authority: String,
    pub show: String,
    pub sections: Vec<String>,
    pub fans: u32,
    pub arrive_ms: u64,
    pub connections: u16,
    pub seed: u64,
    pub think_ms: Range,
    pub claim_ms: u64,
    pub seats: Option<u64>,
    pub for_s: u64,
    pub report: PathBuf,
    pub history: Option<PathBuf>,
    pub mail_dir: Option<PathBuf>,
    pub mail_wait_s: u64,
    pub shares: Shares,
}

impl CrowdArgs {
    /// What the words come to, or the first that makes no sense.
    ///
    /// # Errors
    /// One line that names the flag.
    pub fn settings(self) -> anyhow::Result<Settings> {
        let defaults = if self.fast { FAST } else { SLOW };
        let fans = self.fans.unwrap_or(defaults.fans);
        ensure!(
            (1..=16_000_000).contains(&fans),
            "--fans must be 1 to 16,000,000"
        );
        let arrive_s = self.arrive_s.unwrap_or(defaults.arrive_s);
        let connections = self.connections.unwrap_or(defaults.connections);
        ensure!(
            (1..=10_000).contains(&connections),
            "--connections must be 1 to 10,000"
        );
        let think = match &self.think_s {
            Some(text) => parse_range(text)
                .with_context(|| format!("--think-s `{text}` is not FROM..TO in seconds"))?,
            None => defaults.think_s,
        };
        let named = !self.show.is_empty() && !self.sections.iter().any(String::is_empty);
        ensure!(named, "--show and --section must not be empty");
        self.shares.check()?;
        Ok(Settings {
            authority: authority(&self.url)?,
            show: self.show,
            sections: self.sections,
            fans,
            arrive_ms: millis(arrive_s).context("--arrive-s must be 0 to 86,400")?,
            connections,
            seed: self.seed,
            think_ms: Range {
                low: millis(think.0).context("--think-s must be 0 to 86,400")?,
                high: millis(think.1).context("--think-s must be 0 to 86,400")?,
            },
            claim_ms: self.claim_ms.unwrap_or(defaults.claim_ms),
            seats: self.seats,
            for_s: self.for_s.min(86_400),
            report: self.report,
            history: self.history,
            mail_dir: self.mail_dir,
            mail_wait_s: self.mail_wait_s.min(3_600),
            shares: self.shares,
        })
    }
}

/// `host:port` out of a plain HTTP address.
fn authority(url: &str) -> anyhow::Result<String> {
    let uri: http::Uri = url
        .parse()
        .with_context(|| format!("--url `{url}` is not an address"))?;
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("--url `{url}` must begin with http://");
    };
    ensure!(
        matches!(uri.path(), "" | "/"),
        "--url `{url}` must not have a path"
    );
    let port = authority.port_u16().unwrap_or(80);
    Ok(format!("{}:{port}", authority.host()))
}

fn parse_range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once("..")?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

/// Milliseconds of a number of seconds, at most a day.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 86,400,000"
)]
fn millis(seconds: f64) -> Option<u64> {
    (0.0..=86_400.0)
        .contains(&seconds)
        .then(|| (seconds * 1_000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> anyhow::Result<Settings> {
        let words = format!("loadtest crowd --show s --report r {line}");
        match Cli::try_parse_from(words.split_whitespace())?.verb {
            Verb::Crowd(arguments) => arguments.settings(),
            Verb::Bench(bench) => bail!("not a crowd: {bench:?}"),
        }
    }

    #[test]
    fn fast_changes_defaults_and_nothing_that_was_said() {
        let slow = settings("").unwrap();
        assert_eq!(
            (slow.fans, slow.arrive_ms, slow.think_ms.high),
            (20_000, 60_000, 40_000)
        );
        let fast = settings("--fast --fans 9").unwrap();
        assert_eq!(
            (fast.fans, fast.arrive_ms, fast.think_ms.low),
            (9, 5_000, 300)
        );
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(
            settings("--url http://localhost").unwrap().authority,
            "localhost:80"
        );
        assert_eq!(
            settings("--url http://[::1]:81/").unwrap().authority,
            "[::1]:81"
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, flag) in [
            ("--url https://x", "--url"),
            ("--url http://x/y", "--url"),
            ("--fans 0", "--fans"),
            ("--connections 0", "--connections"),
            ("--think-s 5", "--think-s"),
            ("--think-s 9..5", "--think-s"),
            ("--arrive-s NaN", "--arrive-s"),
            ("--buy 1.5", "--buy"),
            ("--sleep 0.6 --retry 0.6", "--sleep"),
        ] {
            let error = settings(line).expect_err(line);
            assert!(error.to_string().contains(flag), "{line}: {error}");
        }
    }
}
