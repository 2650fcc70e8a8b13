//! Thin events in a topic of Kafka, on the partitions of the events.

use async_trait::async_trait;

use crate::driver::kafka::producer::{Producer, Record, SendError, ack_deadline};
use crate::event::thin::Thin;
use crate::log::{Delivery, LogError};
use crate::thin::store::Sink;

/// The topic of thin events.
#[derive(Debug)]
pub struct ViaKafka {
    producer: Producer,
}

impl ViaKafka {
    /// To where this producer sends.
    pub fn new(producer: Producer) -> Self {
        Self { producer }
    }
}

#[async_trait]
impl Sink for ViaKafka {
    async fn send(&self, deliveries: &[&Delivery]) -> Result<Vec<Result<(), LogError>>, LogError> {
        let written: Vec<_> = deliveries
            .iter()
            .map(|delivery| {
                let thin = thin(delivery);
                (thin.to_json(), thin.headers())
            })
            .collect();
        let records: Vec<Record<'_>> = deliveries
            .iter()
            .zip(&written)
            .map(|(delivery, (payload, headers))| Record {
                partition: delivery.partition,
                key: delivery.key.as_bytes(),
                payload: payload.as_bytes(),
                headers: headers
                    .iter()
                    .map(|(name, value)| (*name, value.as_bytes()))
                    .collect(),
            })
            .collect();
        let answers = self.producer.send(&records, ack_deadline()).await?;
        Ok(deliveries
            .iter()
            .zip(answers)
            .map(|(delivery, answer)| settled(delivery, answer))
            .collect())
    }
}

fn thin(delivery: &Delivery) -> Thin<'_> {
    Thin {
        id: &delivery.event_id,
        kind: &delivery.kind,
        subject: &delivery.key,
        version: delivery.version,
        at: delivery.at,
        trace: delivery.trace.as_deref(),
    }
}

/// What the topic will never take, it has no use for: waiting would only stop the partition.
fn settled(delivery: &Delivery, answer: Result<u64, SendError>) -> Result<(), LogError> {
    match answer {
        Ok(_) => Ok(()),
        Err(SendError::Unsure(fault)) => Err(fault.into()),
        Err(SendError::Refused(why)) => {
            let event_id = &delivery.event_id;
            tracing::error!(event.id = event_id, "no thin event of it: {why}");
            Ok(())
        }
    }
}
