//! How a cluster lets us in, and how we know that it is ours: TLS, a certificate, a user with a password.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::base::secret::Secret;
use crate::driver::kafka::KafkaFault;

/// A broker that expects a user hangs up so soon after it was greeted, in milliseconds.
const HANGS_UP_WITHIN_MS: u64 = 2_000;

/// What is shown to a cluster, and what it has to show.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where everything goes through TLS.
    pub tls: Option<Tls>,
    /// Where it wants a user.
    pub login: Option<Login>,
}

/// Certificates, as PEM.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Those to trust; none: those that the machine trusts.
    pub ca: Option<String>,
    /// One's own with its chain, and its key.
    pub own: Option<(String, Secret)>,
}

/// A user and how they log in.
#[derive(Debug, Clone)]
pub struct Login {
    /// How the password is proved.
    pub mechanism: Mechanism,
    /// Who.
    pub user: String,
    /// Their password.
    pub password: Secret,
}

/// How a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// It is shown.
    Plain,
    /// It is not shown.
    ScramSha256,
    /// It is not shown.
    ScramSha512,
}

impl Mechanism {
    /// By its word in the configuration.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "plain" => Some(Self::Plain),
            "scram-sha-256" => Some(Self::ScramSha256),
            "scram-sha-512" => Some(Self::ScramSha512),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Whether these are certificates, and not none.
pub fn are_certificates(pem: &str) -> bool {
    let mut found = CertificateDer::pem_slice_iter(pem.as_bytes()).peekable();
    found.peek().is_some() && found.all(|one| one.is_ok())
}

/// Whether this is a key that needs no password.
pub fn is_key(pem: &str) -> bool {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).is_ok()
}

impl Access {
    /// Tells a client.
    pub(super) fn apply(&self, settings: &mut ClientConfig) {
        let protocol = match (&self.tls, &self.login) {
            (None, None) => "plaintext",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), None) => "ssl",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        settings.set("security.protocol", protocol);
        if let Some(Tls { ca, own }) = &self.tls {
            settings.set("ssl.endpoint.identification.algorithm", "https");
            if let Some(ca) = ca {
                settings.set("ssl.ca.pem", ca);
            }
            if let Some((certificate, key)) = own {
                settings.set("ssl.certificate.pem", certificate);
                settings.set("ssl.key.pem", key.expose());
            }
        }
        if let Some(login) = &self.login {
            settings.set("sasl.mechanisms", login.mechanism.name());
            settings.set("sasl.username", &login.user);
            settings.set("sasl.password", login.password.expose());
        }
    }
}

/// What the library says by itself. Most of it comes back as the error of a step, and is here for whoever
/// looks closely; but why nobody is let in it says only here, so that is kept.
#[derive(Debug)]
pub(super) struct Heard {
    speaks_tls: bool,
    logs_in: bool,
    why: Mutex<Option<(Why, String)>>,
}

/// Why there is no connection, which waiting does not mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Login,
    Tls,
    Scheme,
    WantsTls,
    WantsLogin,
}

impl Why {
    fn of(code: RDKafkaErrorCode, reason: &str) -> Option<Self> {
        // A listener without TLS answers a greeting of TLS with what is none.
        let is_plain = reason.contains("wrong version number") || reason.contains("packet length");
        match code {
            RDKafkaErrorCode::Authentication => Some(Self::Login),
            RDKafkaErrorCode::SSL if is_plain => Some(Self::Scheme),
            RDKafkaErrorCode::SSL => Some(Self::Tls),
            // What a broker has against a certificate of ours it says after the greeting.
            _ if reason.contains("SSL routines") => Some(Self::Tls),
            _ => Self::guessed(reason),
        }
    }

    /// What may be guessed where a broker says nothing and hangs up, of how far one had come: where it expects
    /// TLS, a question without is none to it; where it expects a user, it answers only which questions it knows.
    fn hung_up(message: &str, heard: &Heard) -> Option<Self> {
        if !message.contains("Disconnected") {
            return None;
        }
        if !heard.speaks_tls && message.contains("in state APIVERSION_QUERY") {
            return Some(Self::WantsTls);
        }
        let (_, after) = message.split_once("(after ")?;
        let (ms, _) = after.split_once("ms in state UP")?;
        let is_at_once = ms.parse().is_ok_and(|ms: u64| ms < HANGS_UP_WITHIN_MS);
        (!heard.logs_in && is_at_once).then_some(Self::WantsLogin)
    }

    /// What the library guesses where a broker says nothing and hangs up.
    fn guessed(reason: &str) -> Option<Self> {
        let guesses = ["SSL listener", "PLAINTEXT broker listener", "require SASL"];
        let is_one = guesses.iter().any(|guess| reason.contains(guess));
        is_one.then_some(Self::Scheme)
    }
}

impl Heard {
    /// Nothing yet, of a broker that lets us in by this.
    pub(super) fn of(access: &Access) -> Self {
        Self {
            speaks_tls: access.tls.is_some(),
            logs_in: access.login.is_some(),
            why: Mutex::default(),
        }
    }

    /// What was said is over: somebody was let in.
    pub(super) fn forget(&self) {
        *self.why() = None;
    }

    fn why(&self) -> MutexGuard<'_, Option<(Why, String)>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, why: Option<Why>, reason: &str) {
        if let Some(why) = why {
            *self.why() = Some((why, reason.to_owned()));
        }
    }

    /// Why nobody was let in, where the library has said so; else this error.
    pub(super) fn fault(&self, error: KafkaError) -> KafkaFault {
        // The library says it once, and then only that nobody is there.
        match self.why().clone() {
            None => KafkaFault::Away(error),
            Some((Why::Login, reason)) => KafkaFault::Login(reason),
            Some((Why::Tls, reason)) => KafkaFault::Tls(reason),
            Some((Why::Scheme, reason)) => KafkaFault::Scheme(reason),
            Some((Why::WantsTls, reason)) => KafkaFault::WantsTls(reason),
            Some((Why::WantsLogin, reason)) => KafkaFault::WantsLogin(reason),
        }
    }
}

impl ClientContext for Heard {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "librdkafka: {message}");
        // That a broker hung up is no error to the library.
        if facility == "FAIL" {
            let why = Why::guessed(message).or_else(|| Why::hung_up(message, self));
            self.keep(why, message);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {error}: {reason}");
        let code = error.rdkafka_error_code();
        self.keep(code.and_then(|code| Why::of(code, reason)), reason);
    }
}

impl ConsumerContext for Heard {}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the library says it of a broker 4.4.
    #[test]
    fn a_broker_that_hangs_up_is_understood_by_how_far_one_had_come() {
        let tls = || Some(Tls::default());
        let login = || {
            Some(Login {
                mechanism: Mechanism::Plain,
                user: "catraca".to_owned(),
                password: Secret::new("swordfish"),
            })
        };
        let closed =
            "kafka:9092/1: Disconnected: connection closed by peer: receive 0 after POLLIN";
        for (tls, login, after, expected) in [
            (
                None,
                None,
                "87ms in state APIVERSION_QUERY",
                Some(Why::WantsTls),
            ),
            (
                None,
                login(),
                "87ms in state APIVERSION_QUERY",
                Some(Why::WantsTls),
            ),
            (tls(), None, "87ms in state APIVERSION_QUERY", None),
            (None, None, "1ms in state UP", Some(Why::WantsLogin)),
            (
                tls(),
                None,
                "0ms in state UP, 1 identical error(s) suppressed",
                Some(Why::WantsLogin),
            ),
            (tls(), login(), "1ms in state UP", None),
            (None, None, "2000ms in state UP", None),
            (None, None, "1ms in state CONNECT", None),
        ] {
            let heard = Heard::of(&Access { tls, login });
            let message = format!("{closed} (after {after})");
            assert_eq!(Why::hung_up(&message, &heard), expected, "{after}");
        }
        let heard = Heard::of(&Access::default());
        let other = "kafka:9092/1: Connect failed (after 1ms in state UP)";
        assert_eq!(Why::hung_up(other, &heard), None);
    }
}
