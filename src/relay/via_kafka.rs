//! Sends batches to Kafka, and marks in the outbox what was acknowledged, at the offsets that Kafka gave.
//!
//! No transaction is open while Kafka is waited for. A relay that lost its lease meanwhile is refused when
//! it marks, as ever; what it sent by then is sent again by the next, with the same event ids. Of each
//! version of a key the first copy comes after the first copy of the version before (see `waves.rs`).

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::base::limits::ACK_DEADLINE_MS;
use crate::base::time::Timestamp;
use crate::driver::kafka::KafkaFault;
use crate::driver::kafka::producer::{Answer, Producer, Record, SendError, ack_deadline};
use crate::event::headers::{self, About};
use crate::relay::plan::{Batch, Lease, Page, Unsent};
use crate::relay::store::{Cleaned, Published, Store, StoreError};
use crate::relay::waves::Sending;

/// An outbox whose events go to Kafka.
#[derive(Debug)]
pub struct ViaKafka {
    outbox: Arc<dyn Store>,
    producer: Producer,
}

impl ViaKafka {
    /// The events of this outbox, to where this producer sends.
    pub fn new(outbox: Arc<dyn Store>, producer: Producer) -> Self {
        Self { outbox, producer }
    }

    /// Sends all that is acknowledged in time, and answers the last failure, if there was one.
    async fn send(&self, batches: &mut [Sending]) -> Option<KafkaFault> {
        let until = ack_deadline();
        let mut failure = None;
        loop {
            let wave: Vec<(usize, usize)> = (0..)
                .zip(&*batches)
                .flat_map(|(batch, sending)| {
                    sending.wave().into_iter().map(move |row| (batch, row))
                })
                .collect();
            if wave.is_empty() {
                return failure;
            }
            if until <= Instant::now() {
                return Some(KafkaFault::Slow);
            }
            let answers = match self.send_wave(batches, &wave, until).await {
                Ok(answers) => answers,
                Err(fault) => return Some(fault),
            };
            for ((batch, row), answer) in wave.into_iter().zip(answers) {
                match answer {
                    Ok(offset) => batches[batch].acknowledged(row, offset),
                    Err(SendError::Refused(reason)) => batches[batch].refused(row, reason),
                    Err(SendError::Unsure(fault)) => {
                        batches[batch].unsure(row);
                        failure = Some(fault);
                    }
                }
            }
        }
    }

    async fn send_wave(
        &self,
        batches: &[Sending],
        wave: &[(usize, usize)],
        until: Instant,
    ) -> Result<Vec<Answer>, KafkaFault> {
        let headers: Vec<_> = wave
            .iter()
            .map(|(batch, row)| about(batches[*batch].row(*row)))
            .collect();
        let records: Vec<Record<'_>> = wave
            .iter()
            .zip(&headers)
            .map(|((batch, row), headers)| {
                let row = batches[*batch].row(*row);
                Record {
                    partition: batches[*batch].partition(),
                    key: row.key.1.as_bytes(),
                    payload: row.payload.as_bytes(),
                    headers: headers
                        .iter()
                        .map(|(name, value)| (*name, value.as_bytes()))
                        .collect(),
                }
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
impl Store for ViaKafka {
    /// For so much longer as Kafka may take to acknowledge.
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        self.outbox.lease(holder, ttl_ms + ACK_DEADLINE_MS).await
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        self.outbox.resign(holder).await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        self.outbox.unsent(partition, max).await
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        let mut sending: Vec<Sending> = batches.iter().cloned().map(Sending::new).collect();
        let failure = self.send(&mut sending).await;
        let marks: Vec<Batch> = sending.into_iter().map(Sending::into_marks).collect();
        let answers = self.outbox.publish(&marks).await?;
        let is_some = |batch: &Batch| !(batch.send.is_empty() && batch.quarantine.is_empty());
        let has_sent = marks.iter().any(is_some);
        match failure {
            None => {}
            // The rest is unsent as before, and the next step begins with it.
            Some(fault) if has_sent => {
                let fault = anyhow::Error::from(fault);
                tracing::warn!("Kafka did not take all of a step's events: {fault:#}");
            }
            Some(fault) => return Err(StoreError::Log(fault.into())),
        }
        Ok(answers)
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        self.outbox.clean_up(before, max).await
    }
}
