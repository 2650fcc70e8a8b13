//! Sends batches to Kafka: what was acknowledged can be marked in the outbox, at the offsets that Kafka gave.
//!
//! A relay that lost its lease meanwhile is refused when it marks, as ever; what it sent by then is sent
//! again by the next, with the same event ids. Of each version of a key the first copy comes after the
//! first copy of the version before (see `waves.rs`).

use async_trait::async_trait;
use tokio::time::Instant;

use crate::driver::kafka::KafkaFault;
use crate::driver::kafka::producer::{Answer, Producer, Record, SendError, ack_deadline};
use crate::event::headers::{self, About};
use crate::relay::plan::{Batch, Unsent};
use crate::relay::store::{Sent, Sink};
use crate::relay::waves::Sending;

/// A topic of Kafka.
#[derive(Debug)]
pub struct ViaKafka {
    producer: Producer,
}

impl ViaKafka {
    /// To where this producer sends.
    pub fn new(producer: Producer) -> Self {
        Self { producer }
    }

    /// Sends all that is acknowledged in time, and answers the last failure, if there was one.
    async fn send_all(&self, sending: &mut Sending) -> Option<KafkaFault> {
        let until = ack_deadline();
        let mut failure = None;
        loop {
            let wave = sending.wave();
            if wave.is_empty() {
                return failure;
            }
            if until <= Instant::now() {
                return Some(KafkaFault::Slow);
            }
            let answers = match self.send_wave(sending, &wave, until).await {
                Ok(answers) => answers,
                Err(fault) => return Some(fault),
            };
            for (row, answer) in wave.into_iter().zip(answers) {
                match answer {
                    Ok(offset) => sending.acknowledged(row, offset),
                    Err(SendError::Refused(reason)) => sending.refused(row, reason),
                    Err(SendError::Unsure(fault)) => {
                        sending.unsure(row);
                        failure = Some(fault);
                    }
                }
            }
        }
    }

    async fn send_wave(
        &self,
        sending: &Sending,
        wave: &[usize],
        until: Instant,
    ) -> Result<Vec<Answer>, KafkaFault> {
        let rows = wave.iter().map(|row| sending.row(*row));
        let headers: Vec<_> = rows.clone().map(about).collect();
        let records: Vec<Record<'_>> = rows
            .zip(&headers)
            .map(|(row, headers)| Record {
                partition: sending.partition(),
                key: row.key.1.as_bytes(),
                payload: row.payload.as_bytes(),
                headers: headers
                    .iter()
                    .map(|(name, value)| (*name, value.as_bytes()))
                    .collect(),
            })
            .collect();
        self.producer.send(&records, until).await
    }
}

fn about(row: &Unsent) -> Vec<(&'static str, String)> {
    headers::write(&About {
        id: &row.id,
        kind: &row.kind,
        aggregate: &row.key.0,
        version: row.version,
        at: row.at,
        trace: row.trace.as_deref(),
    })
}

#[async_trait]
impl Sink for ViaKafka {
    async fn send(&self, batch: Batch) -> Sent {
        let mut sending = Sending::new(batch);
        let failure = self.send_all(&mut sending).await;
        Sent {
            marks: sending.into_marks(),
            failure: failure.map(anyhow::Error::from),
        }
    }
}
