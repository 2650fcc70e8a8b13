//! What an operator decides about the gateway.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;

use crate::base::bound::within;
use crate::base::limits::{ANSWER_MS, CHALLENGE_WAIT_MS_MIN};
use crate::limit;
use crate::limit::gcra::Ladder;
use crate::seller;
use crate::token::challenge::LEVEL_MAX;

/// `[gateway]`: the listener and its patience.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where fans connect.
    pub listen: SocketAddr,
    /// Proxies whose X-Forwarded-For is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Connections of the process.
    pub connections_max: usize,
    /// Connections of one client (an IPv4 address or an IPv6 /64) that is no trusted proxy.
    pub connections_per_client_max: usize,
    /// How long the head of a request may take, from its first byte or from connecting.
    pub head_ms: u64,
    /// How long a client may be silent inside a body, whoever reads it.
    pub body_silence_ms: u64,
    /// How long a client may read nothing of an answer.
    pub stall_ms: u64,
    /// How long a connection may lie idle between requests.
    pub idle_ms: u64,
    /// Requests being answered at once; beyond, 503 `busy`.
    pub in_flight_max: usize,
    /// How long one of our own answers may take to begin, and a client to send a request that is
    /// forwarded.
    pub request_ms: u64,
    /// How long a connection to an upstream may take.
    pub connect_ms: u64,
    /// How long an upstream may take to begin its answer to a request that it has; then 504.
    pub upstream_ms: u64,
    /// How long an upstream may be silent inside an answer. A client inside a request, too; but there
    /// `body_silence_ms` holds as well, so that the shorter of the two counts.
    pub silence_ms: u64,
    /// Requests at one upstream at once, answers under way included; beyond, 503 `busy`.
    pub upstream_in_flight_max: usize,
    /// Longest request body that is forwarded.
    pub forward_body_bytes_max: u64,
    /// Sites whose scripts may ask us, as browsers write an origin.
    pub cors_origins: Vec<String>,
    /// How long a drain may take.
    pub drain_ms: u64,
    /// What the gate does while a room cannot be asked.
    pub degraded: Degraded,
    /// How often one may ask.
    pub limits: limit::Settings,
    /// The certificate; empty: no TLS.
    pub tls: TlsFiles,
    /// What who joins too often is asked for.
    pub challenge: Challenging,
    /// Whose accounts have one place each.
    pub seller: seller::Settings,
}

/// What the gate does with a good ticket while the room cannot be asked whether it is still live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Degraded {
    /// It lets nobody pass: 503.
    Closed,
    /// It lets pass until `exp`. Who was revoked or has bought passes as well.
    Signature,
}

/// `[gateway.tls]`: both files, or neither.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFiles {
    /// The chain of certificates in PEM, ours first.
    pub cert_file: PathBuf,
    /// Its private key in PEM.
    pub key_file: PathBuf,
}

impl TlsFiles {
    /// Whether TLS is spoken.
    pub fn are_given(&self) -> bool {
        !self.cert_file.as_os_str().is_empty() && !self.key_file.as_os_str().is_empty()
    }
}

impl Settings {
    /// The rates of joins.
    pub fn ladder(&self) -> Ladder {
        let ladder = Ladder::of(&self.limits);
        match self.challenge.always {
            true => ladder.with_nothing_free(),
            false => ladder,
        }
    }
}

/// `[gateway.challenge]`: what a join has to show where its prefix is over the limit.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Challenging {
    /// Whether every join is challenged, and not only those over the limit.
    pub always: bool,
    /// How hard it is at least.
    pub level_min: u8,
    /// How hard it gets, shortly before joins are refused.
    pub level_max: u8,
    /// How long an answer counts.
    pub answer_ms: u64,
    /// How long those wait who have no scripts.
    pub wait_ms: u64,
}

impl Default for Challenging {
    fn default() -> Self {
        Self {
            always: false,
            level_min: 2,
            level_max: LEVEL_MAX,
            answer_ms: 120_000,
            wait_ms: 20_000,
        }
    }
}

impl Challenging {
    /// The first rule that the settings break.
    ///
    /// # Errors
    /// A sentence that names key and value.
    pub fn check(&self) -> Result<(), String> {
        within("challenge.level_min", self.level_min, &(0..=LEVEL_MAX))?;
        let harder = self.level_min..=LEVEL_MAX;
        within("challenge.level_max", self.level_max, &harder)?;
        within("challenge.answer_ms", self.answer_ms, &ANSWER_MS)?;
        // Whoever has waited then has to press the button before the answer is too old.
        let wait = CHALLENGE_WAIT_MS_MIN..=self.answer_ms;
        within("challenge.wait_ms", self.wait_ms, &wait)
    }

    /// How hard a challenge is for a prefix that has used up so much, in thousandths.
    pub fn level(&self, used_milli: u64) -> u8 {
        let range = u64::from(self.level_max - self.level_min);
        let more = (used_milli * (range + 1) / 1_000).min(range);
        self.level_min + u8::try_from(more).unwrap_or_default()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            trusted_proxies: Vec::new(),
            connections_max: 50_000,
            connections_per_client_max: 1_024,
            head_ms: 10_000,
            body_silence_ms: 10_000,
            stall_ms: 30_000,
            idle_ms: 75_000,
            in_flight_max: 20_000,
            request_ms: 30_000,
            connect_ms: 1_000,
            upstream_ms: 15_000,
            silence_ms: 30_000,
            upstream_in_flight_max: 5_000,
            forward_body_bytes_max: 1_048_576,
            cors_origins: Vec::new(),
            drain_ms: 10_000,
            degraded: Degraded::Closed,
            limits: limit::Settings::default(),
            tls: TlsFiles::default(),
            challenge: Challenging::default(),
            seller: seller::Settings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_a_prefix_the_harder_the_challenge() {
        let challenging = Challenging {
            level_min: 2,
            level_max: 5,
            ..Challenging::default()
        };
        let levels = [0, 249, 250, 500, 999, 1_000].map(|used| challenging.level(used));
        assert_eq!(levels, [2, 2, 3, 4, 5, 5]);
        let one = Challenging {
            level_max: 2,
            ..challenging
        };
        assert_eq!([0, 1_000].map(|used| one.level(used)), [2, 2]);
    }

    #[test]
    fn challenges_that_cannot_be_meant_are_refused() {
        let good = Challenging::default();
        good.check().unwrap();
        for (settings, names) in [
            (
                Challenging {
                    level_min: 6,
                    level_max: 5,
                    ..good
                },
                "challenge.level_max (5) must be between 6 and 7",
            ),
            (
                Challenging {
                    level_max: 8,
                    ..good
                },
                "challenge.level_max (8) must be between 2 and 7",
            ),
            (
                Challenging {
                    answer_ms: 10,
                    ..good
                },
                "challenge.answer_ms (10) must be between 10000 and 3600000",
            ),
            (
                Challenging {
                    wait_ms: 130_000,
                    ..good
                },
                "challenge.wait_ms (130000) must be between 1000 and 120000",
            ),
        ] {
            let says = settings.check().unwrap_err();
            assert!(says.starts_with(names), "{says}");
        }
    }
}
