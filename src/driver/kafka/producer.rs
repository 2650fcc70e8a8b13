//! Sends records to the topic and says of each at which offset it was acknowledged.
//!
//! acks=all, idempotent, ten seconds. Many may send at once, by one client of the library. What has had no
//! answer goes by another the next time, which looks at the topic first, so that whoever waits learns why, and
//! knows nothing of before; partitions that are well go on by the first. Where the other has an answer, it is
//! everybody's. A client never sends again after a fatal error of the library, and is thrown away.
//!
//! What was not acknowledged in time may have been written all the same: whoever sends it again makes a
//! second copy, with the same event id.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::base::limits::ACK_DEADLINE_MS;
use crate::driver::kafka::access::Heard;
use crate::driver::kafka::{Kafka, KafkaFault};

/// A record on its way.
#[derive(Debug)]
pub struct Record<'a> {
    /// 0 to `PARTITIONS` − 1.
    pub partition: u16,
    /// The record's key.
    pub key: &'a [u8],
    /// The record's value.
    pub payload: &'a [u8],
    /// By name.
    pub headers: Vec<(&'a str, &'a [u8])>,
}

/// Why a record was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It can never be sent.
    #[error("Kafka takes no such record: {0}")]
    Refused(String),
    /// It may be sent again, and may have been written.
    #[error(transparent)]
    Unsure(KafkaFault),
}

/// The offset at which a record stands.
pub type Answer = Result<u64, SendError>;

/// Sends to one topic.
pub struct Producer {
    kafka: Kafka,
    /// By this all goes but what has failed.
    well: Mutex<Held>,
    /// By this goes what has failed.
    other: Mutex<Held>,
    /// Partitions of which something had no answer.
    failed: std::sync::Mutex<BTreeSet<u16>>,
}

type Client = FutureProducer<Heard>;

/// By what the next records go.
#[derive(Default)]
struct Held {
    client: Option<Arc<Client>>,
    /// When there was none to be had, and why.
    missing: Option<(Instant, KafkaFault)>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("kafka", &self.kafka)
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// One that connects when it has something to send.
    pub fn new(kafka: Kafka) -> Self {
        Self {
            kafka,
            well: Mutex::default(),
            other: Mutex::default(),
            failed: std::sync::Mutex::default(),
        }
    }

    /// Sends these records, in this order within a partition, and waits for all of them until then.
    /// One answer a record: the offset at which it stands.
    ///
    /// # Errors
    /// [`KafkaFault`] where the topic is not as it should be: nothing was sent.
    pub async fn send(
        &self,
        records: &[Record<'_>],
        until: Instant,
    ) -> Result<Vec<Answer>, KafkaFault> {
        let has_failed = {
            let failed = self.failed();
            let mut partitions = records.iter().map(|record| record.partition);
            partitions.any(|partition| failed.contains(&partition))
        };
        let held = if has_failed { &self.other } else { &self.well };
        let client = self.client(held, until).await?;
        let sent: Vec<_> = records
            .iter()
            .map(|record| self.begin(&client, record))
            .collect();
        let mut answers = Vec::with_capacity(sent.len());
        for begun in sent {
            answers.push(acknowledged(begun, until).await);
        }
        if 1 < records.len() {
            self.refuse_alone(&client, records, &mut answers, until)
                .await;
        }
        if answers.iter().any(Result::is_ok) {
            self.kafka.note(None);
        }
        let unsure: Vec<u16> = records
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| matches!(answer, Err(SendError::Unsure(_))))
            .map(|(record, _)| record.partition)
            .collect();
        let fatal = client.client().fatal_error();
        if let Some((code, reason)) = &fatal {
            tracing::warn!("Kafka's client is beyond help and is built anew: {code}: {reason}");
        }
        if fatal.is_some() {
            let_go(&self.well, &client).await;
        }
        if fatal.is_some() || !unsure.is_empty() {
            let_go(&self.other, &client).await;
            self.failed().extend(unsure);
        } else if has_failed {
            self.is_well(&client).await;
        }
        retire(client);
        Ok(answers)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client that is held, or a new one.
    async fn client(&self, held: &Mutex<Held>, until: Instant) -> Result<Arc<Client>, KafkaFault> {
        let asked_at = Instant::now();
        let mut held = held.lock().await;
        if until <= Instant::now() {
            return Err(KafkaFault::Slow); // whoever was first has taken all the time
        }
        if let Some(client) = &held.client {
            return Ok(Arc::clone(client));
        }
        if let Some((at, fault)) = &held.missing
            && asked_at <= *at
        {
            return Err(fault.clone()); // whoever was first has asked for all
        }
        let made = self.connect().await;
        match &made {
            Ok(client) => held.client = Some(Arc::clone(client)),
            Err(fault) => held.missing = Some((Instant::now(), fault.clone())),
        }
        made
    }

    /// All goes by this one from now on, by which what had failed was answered.
    async fn is_well(&self, client: &Arc<Client>) {
        let_go(&self.other, client).await;
        self.failed().clear();
        let before = self.well.lock().await.client.replace(Arc::clone(client));
        if let Some(before) = before {
            retire(before);
        }
    }

    /// A broker takes or refuses what came in one request as one. Only a record that is refused alone is
    /// refused for its own sake, so each of those that were not alone goes once more.
    async fn refuse_alone(
        &self,
        client: &Client,
        records: &[Record<'_>],
        answers: &mut [Answer],
        until: Instant,
    ) {
        for (record, answer) in records.iter().zip(answers) {
            if matches!(answer, Err(SendError::Refused(_))) {
                *answer = acknowledged(self.begin(client, record), until).await;
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Client>, KafkaFault> {
        self.kafka.check_topic().await?;
        let deadline = ACK_DEADLINE_MS.to_string();
        let mut settings = self.kafka.settings();
        settings
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", &deadline)
            .set("linger.ms", "0")
            .set("compression.type", "lz4");
        let client = settings.create_with_context(self.kafka.heard())?;
        Ok(Arc::new(client))
    }

    fn begin(&self, client: &Client, record: &Record<'_>) -> Result<DeliveryFuture, KafkaError> {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            let value = Some(*value);
            headers = headers.insert(Header { key, value });
        }
        let record = FutureRecord::to(self.kafka.topic())
            .partition(i32::from(record.partition))
            .key(record.key)
            .payload(record.payload)
            .headers(headers);
        client.send_result(record).map_err(|(error, _)| error)
    }
}

/// Nothing new goes by this one.
async fn let_go(held: &Mutex<Held>, client: &Arc<Client>) {
    let is_this = |held: &mut Arc<Client>| Arc::ptr_eq(held, client);
    drop(held.lock().await.client.take_if(is_this));
}

/// Whoever has it last ends it.
fn retire(client: Arc<Client>) {
    if let Some(client) = Arc::into_inner(client) {
        // It waits for its threads.
        drop(tokio::task::spawn_blocking(move || drop(client)));
    }
}

async fn acknowledged(begun: Result<DeliveryFuture, KafkaError>, until: Instant) -> Answer {
    let waiting = begun.map_err(refusal)?;
    match timeout_at(until, waiting).await {
        // The library takes a broker's word that it has a record already, which does not say where.
        Ok(Ok(Ok(delivery))) => {
            u64::try_from(delivery.offset).map_err(|_| SendError::Unsure(KafkaFault::Unplaced))
        }
        Ok(Ok(Err((error, _)))) => Err(refusal(error)),
        Ok(Err(_)) | Err(_) => Err(SendError::Unsure(KafkaFault::Slow)),
    }
}

/// Only a record's own fault is for ever.
fn refusal(error: KafkaError) -> SendError {
    match error.rdkafka_error_code() {
        Some(
            code @ (RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidRecord),
        ) => SendError::Refused(code.to_string()),
        Some(RDKafkaErrorCode::MessageTimedOut) => SendError::Unsure(KafkaFault::Slow),
        Some(_) | None => SendError::Unsure(KafkaFault::Away(error)),
    }
}

/// The deadline of what is sent now.
pub fn ack_deadline() -> Instant {
    Instant::now() + Duration::from_millis(ACK_DEADLINE_MS)
}
