//! The log in Kafka, as a consumer group sees it.
//!
//! Kafka hands the partitions of a group to the processes that run it; to the others a partition looks as
//! if nothing were new. Where the group stands is told by the inbox, which moves it in the transaction of
//! the effect; Kafka is told too, for its own tools. So a partition that changes hands, or a commit that
//! Kafka lost, repeats and loses nothing.
//!
//! How far a group is behind is what the relay's marks say: each has the offset that Kafka gave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::base::time::Timestamp;
use crate::driver::kafka::member::{Held, Member, Standing};
use crate::driver::kafka::{Kafka, KafkaFault};
use crate::event::headers::{self, About};
use crate::log::inbox::Inbox;
use crate::log::{Delivery, Lag, LogError, Subscriber};

/// The log in one topic.
#[derive(Debug)]
pub struct InKafka {
    kafka: Kafka,
    inbox: Arc<dyn Inbox>,
    marks: Arc<dyn Subscriber>,
    /// This process in its groups.
    members: Mutex<BTreeMap<String, Member>>,
}

impl InKafka {
    /// The log in a topic, for groups that stand where this inbox says; `marks` is the outbox read as a
    /// log, which is never polled.
    pub fn new(kafka: Kafka, inbox: Arc<dyn Inbox>, marks: Arc<dyn Subscriber>) -> Self {
        Self {
            kafka,
            inbox,
            marks,
            members: Mutex::default(),
        }
    }

    fn look(
        &self,
        group: &str,
        standing: &Standing,
        (partition, max): (u16, usize),
    ) -> Result<Vec<Held>, KafkaFault> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if !members.contains_key(group) {
            // Groups of other systems may have the same name in the same cluster.
            let name = format!("{}.{group}", self.kafka.topic());
            members.insert(group.to_owned(), Member::join(&self.kafka, &name)?);
        }
        let member = members.get_mut(group).expect("it was just put there");
        member.look(partition, standing, max)
    }
}

#[async_trait]
impl Subscriber for InKafka {
    async fn poll(
        &self,
        group: &str,
        partition: u16,
        max: usize,
    ) -> Result<Vec<Delivery>, LogError> {
        let standing = self.inbox.standing(group).await?;
        let held = self.look(group, &standing, (partition, max))?;
        Ok(held.into_iter().map(|held| read(partition, held)).collect())
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.marks.lag(group).await
    }
}

/// A record that is no event of ours is passed over, and said: nobody could handle it.
fn read(partition: u16, held: Held) -> Delivery {
    let offset = held.offset;
    event(partition, held).unwrap_or_else(|what| {
        tracing::warn!(
            partition,
            offset,
            "a record of the topic is no event of ours: {what}"
        );
        stranger(partition, offset)
    })
}

fn event(partition: u16, held: Held) -> Result<Delivery, &'static str> {
    let About {
        id,
        kind,
        version,
        at,
        trace,
        ..
    } = headers::read(&held.headers)?;
    Ok(Delivery {
        partition,
        offset: held.offset,
        event_id: id.to_owned(),
        key: String::from_utf8(held.key).map_err(|_| "key")?,
        version,
        kind: kind.to_owned(),
        payload: String::from_utf8(held.payload).map_err(|_| "value")?,
        trace: trace.map(str::to_owned),
        at,
    })
}

/// No consumer is concerned with such a delivery, so all pass it over.
fn stranger(partition: u16, offset: u64) -> Delivery {
    Delivery {
        partition,
        offset,
        event_id: format!("stranger-{partition}-{offset}"),
        key: String::new(),
        version: 0,
        kind: String::new(),
        payload: String::new(),
        trace: None,
        at: Timestamp::default(),
    }
}

impl From<KafkaFault> for LogError {
    fn from(fault: KafkaFault) -> Self {
        Self::Unavailable(fault.into())
    }
}
