//! Kafka as we use it: one topic, every deadline explicit, nothing that the library decides by itself.
//!
//! `access.rs` is how we are let in, `topics.rs` makes the topic and refuses one of another shape, `producer.rs` sends and waits for what
//! was acknowledged, `member.rs` reads as one of a group. The library's own threads do the network; its
//! calls that block run where blocking is allowed.

pub mod access;
pub mod member;
pub mod producer;
pub mod topics;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

use crate::driver::kafka::access::{Access, Heard, Tls};
use crate::driver::kafka::topics::Shape;
use crate::telemetry::metrics;

/// How `log.url` begins, and where everything goes through TLS.
pub const SCHEME: &str = "kafka://";
/// See [`SCHEME`].
pub const TLS_SCHEME: &str = "kafka+ssl://";
/// How long a broker may take to accept a connection, and to answer a request.
const CONNECT_MS: &str = "5000";
const REQUEST_MS: &str = "5000";
/// What the name of the topic of dead letters ends with, after that of the events' topic.
const DEAD_LETTERS: &str = "-dlt";
/// The same of the topic of thin events.
const THIN: &str = "-thin";
/// How a topic is that does what it is asked.
const OK: &str = "ok";
/// How long a fault stands before somebody looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Longest name of the events' topic: the broker allows 249 bytes, and the others' are longer.
const TOPIC_BYTES_MAX: usize = 249 - THIN.len();

/// A cluster, and the topic that events go to.
#[derive(Debug, Clone)]
pub struct Kafka {
    brokers: String,
    topic: String,
    access: Access,
    /// How it was when it was last asked, by whoever shares this.
    known: Arc<Mutex<Option<State>>>,
}

/// How a topic was when it was last asked.
#[derive(Debug, Clone, Copy)]
struct State {
    word: &'static str,
    at: Instant,
}

/// Why Kafka did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KafkaFault {
    /// The address or the name of the topic is none.
    #[error("{0}")]
    Address(String),
    /// The topic is not there, and we make none by writing to it.
    #[error("Kafka has no topic {0}; `catraca topics apply` makes it")]
    NoTopic(String),
    /// The topic has another number of partitions, so keys would move.
    #[error("{0}")]
    Shape(Shape),
    /// The group's next events are no longer in the topic, or the topic was made anew.
    #[error(
        "group {group}: Kafka no longer has offset {offset} of partition {partition} of its topic"
    )]
    Gone {
        /// Whose events.
        group: String,
        /// Where.
        partition: u16,
        /// What it was to read next.
        offset: u64,
    },
    /// Kafka is away, too slow, or refuses.
    #[error("Kafka did not do what it was asked")]
    Away(#[from] KafkaError),
    /// It does not let the user in.
    #[error("Kafka does not accept log.user, log.password and log.sasl: {0}")]
    Login(String),
    /// It is not one that we trust, or it does not trust us.
    #[error("no TLS to Kafka with log.ca_file and log.cert_file, to the hosts in log.url: {0}")]
    Tls(String),
    /// It expects TLS, or a user, and we do not, or the other way round.
    #[error("Kafka expects another scheme in log.url, or log.sasl: {0}")]
    Scheme(String),
    /// It expects TLS, as far as can be guessed of a broker that hangs up.
    #[error("Kafka hangs up, as it does where it expects TLS (kafka+ssl:// in log.url): {0}")]
    WantsTls(String),
    /// The same of a user.
    #[error(
        "Kafka hangs up, as it does where it expects a user (log.sasl, log.user, log.password): {0}"
    )]
    WantsLogin(String),
    /// It has not said in time whether it did.
    #[error("Kafka did not acknowledge in time")]
    Slow,
    /// It has a record that was sent before, and no longer knows where.
    #[error("Kafka has an event and does not say where: it is sent again")]
    Unplaced,
}

impl KafkaFault {
    /// What a code of the library's means, asked of a broker.
    pub(super) fn of_code(code: RDKafkaErrorCode) -> Self {
        Self::Away(KafkaError::Global(code))
    }

    /// The same in a word, for readiness and metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::NoTopic(_) => "no-topic",
            Self::Shape(_) => "shape",
            Self::Gone { .. } => "gone",
            Self::Away(_) => "away",
            Self::Login(_) => "login-refused",
            Self::Tls(_) => "tls-refused",
            Self::Scheme(_) => "scheme",
            Self::WantsTls(_) => "wants-tls",
            Self::WantsLogin(_) => "wants-login",
            Self::Slow | Self::Unplaced => "slow",
        }
    }
}

impl Kafka {
    /// The cluster at this address, `kafka://host:port,host:port`, and a topic there. Through TLS where it
    /// begins with `kafka+ssl://`, with what [`Kafka::let_in_by`] is given.
    ///
    /// # Errors
    /// [`KafkaFault::Address`] where either cannot be one.
    pub fn new(url: &str, topic: &str) -> Result<Self, KafkaFault> {
        let wrong = |what: &str| Err(KafkaFault::Address(what.to_owned()));
        let schemes = [(SCHEME, None), (TLS_SCHEME, Some(Tls::default()))];
        let mut known = schemes.into_iter();
        let named = known.find_map(|(scheme, tls)| Some((url.strip_prefix(scheme)?, tls)));
        let Some((brokers, tls)) = named.filter(|(hosts, _)| hosts.split(',').all(is_broker))
        else {
            return wrong("must be kafka://host:port,host:port or kafka+ssl:// and the same");
        };
        let known = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
        if topic.is_empty() || TOPIC_BYTES_MAX < topic.len() || !topic.bytes().all(known) {
            return wrong(
                "the topic must be 1 to 244 of a-z, A-Z, 0-9, dot, underscore and hyphen",
            );
        }
        Ok(Self {
            brokers: brokers.to_owned(),
            topic: topic.to_owned(),
            access: Access { tls, login: None },
            known: Arc::default(),
        })
    }

    /// The same, with these certificates, which only TLS asks for, and this user.
    #[must_use]
    pub fn let_in_by(self, access: Access) -> Self {
        let tls = self.access.tls.and(access.tls);
        let access = Access { tls, ..access };
        Self { access, ..self }
    }

    /// The topic that events go to.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic of what was set aside, in the same cluster.
    pub fn dead_letters(&self) -> Self {
        Self {
            topic: format!("{}{DEAD_LETTERS}", self.topic),
            known: Arc::default(),
            ..self.clone()
        }
    }

    /// The topic of thin events, in the same cluster.
    pub fn thin(&self) -> Self {
        Self {
            topic: format!("{}{THIN}", self.topic),
            known: Arc::default(),
            ..self.clone()
        }
    }

    /// How the topic was when it was last asked: `ok`, or a fault's word; none where nobody has asked.
    pub fn state(&self) -> Option<&'static str> {
        self.known().map(|state| state.word)
    }

    /// Whether it was not well, and nobody has looked for a while.
    pub fn is_to_be_asked(&self) -> bool {
        let state = self.known();
        state.is_some_and(|state| state.word != OK && LOOK_AGAIN <= state.at.elapsed())
    }

    /// Keeps how it is, and counts what is wrong.
    pub fn note(&self, fault: Option<&KafkaFault>) {
        if let Some(fault) = fault {
            metrics::kafka_fault(fault.word());
        }
        let word = fault.map_or(OK, KafkaFault::word);
        let at = Instant::now();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(State { word, at });
    }

    fn known(&self) -> Option<State> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every client of ours has.
    fn settings(&self) -> ClientConfig {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "catraca")
            .set("socket.connection.setup.timeout.ms", CONNECT_MS)
            .set("socket.timeout.ms", REQUEST_MS)
            .set("socket.keepalive.enable", "true")
            .set("reconnect.backoff.ms", "100")
            .set("reconnect.backoff.max.ms", "2000")
            // Another broker may be the leader by now; do not wait for minutes to learn it.
            .set("topic.metadata.refresh.interval.ms", "30000")
            // The same of a topic that is no longer there.
            .set("topic.metadata.propagation.max.ms", "5000")
            .set("allow.auto.create.topics", "false");
        // Why a broker hung up it says at this level only.
        settings.set_log_level(RDKafkaLogLevel::Info);
        self.access.apply(&mut settings);
        settings
    }

    /// What one of our clients hears.
    fn heard(&self) -> Heard {
        Heard::of(&self.access)
    }

    /// A client that only looks: it is in no group and makes no topic.
    fn looker(&self) -> Result<BaseConsumer<Heard>, KafkaFault> {
        Ok(self.settings().create_with_context(self.heard())?)
    }
}

fn is_broker(text: &str) -> bool {
    let host_port = text.rsplit_once(':');
    host_port.is_some_and(|(host, port)| {
        let is_host = |c: u8| c.is_ascii_alphanumeric() || b".-[]:".contains(&c);
        !host.is_empty() && host.bytes().all(is_host) && port.parse::<u16>().is_ok_and(|p| 0 < p)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_hosts_and_ports() {
        for good in [
            "kafka://localhost:9092",
            "kafka://10.0.0.1:9092,kafka-2.example.com:9093",
            "kafka://[::1]:9092",
            "kafka+ssl://kafka-1.example.com:9093,kafka-2.example.com:9093",
        ] {
            assert!(Kafka::new(good, "order-events").is_ok(), "{good}");
        }
        for bad in [
            "",
            "sql:",
            "localhost:9092",
            "kafka://",
            "kafka://localhost",
            "kafka://localhost:0",
            "kafka://localhost:9092,",
            "kafka://user:word@localhost:9092",
            "kafka://localhost:9092/topic",
            "kafka+ssl://",
            "kafka+tls://localhost:9092",
        ] {
            assert!(Kafka::new(bad, "order-events").is_err(), "{bad}");
        }
        for bad in ["", "order events", "pedidos-é", &"a".repeat(245)] {
            assert!(Kafka::new("kafka://localhost:9092", bad).is_err(), "{bad}");
        }
    }
}
