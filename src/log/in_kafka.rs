//! The log in Kafka, as a consumer group sees it.
//!
//! Kafka hands the partitions of a group to the processes that run it; to the others a partition looks as
//! if nothing were new. Where the group stands is told by the inbox, which moves it in the transaction of
//! the effect; Kafka is told too, for its own tools. So a partition that changes hands, or a commit that
//! Kafka lost, repeats and loses nothing.
//!
//! What is set aside goes to a topic of its own as it stood, and its headers say why and whence.
//!
//! How far a group is behind is what the relay's marks say: each has the offset that Kafka gave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::base::time::Timestamp;
use crate::driver::kafka::member::{Held, Member, Standing};
use crate::driver::kafka::producer::{Producer, Record, SendError, ack_deadline};
use crate::driver::kafka::{Kafka, KafkaFault};
use crate::event::headers::{self, About, Aside};
use crate::log::inbox::{Because, Inbox};
use crate::log::{Delivery, Lag, LogError, Subscriber, in_sql};

/// The log in one topic.
#[derive(Debug)]
pub struct InKafka {
    kafka: Kafka,
    inbox: Arc<dyn Inbox>,
    marks: Arc<dyn Subscriber>,
    dead_letters: Producer,
    standings: Standings,
    /// This process in its groups.
    members: Mutex<BTreeMap<String, Member>>,
}

/// Where groups stand, by what the inbox said last. One answer serves a whole turn through the partitions:
/// what is handled of one moves no other. It is never ahead of the group.
#[derive(Debug, Default)]
struct Standings(Mutex<BTreeMap<String, Known>>);

#[derive(Debug)]
struct Known {
    standing: Standing,
    /// The partitions that this answer has served; the second time it is old.
    served: BTreeSet<u16>,
}

impl Standings {
    /// Where the group stands, for a look at this partition.
    async fn of<E>(
        &self,
        group: &str,
        partition: u16,
        asked: impl Future<Output = Result<Standing, E>>,
    ) -> Result<Standing, E> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get_mut(group)
            && known.served.insert(partition)
        {
            return Ok(known.standing.clone());
        }
        let standing = asked.await?;
        let answer = Known {
            standing: standing.clone(),
            served: BTreeSet::from([partition]),
        };
        known().insert(group.to_owned(), answer);
        Ok(standing)
    }
}

impl InKafka {
    /// The log in a topic, for groups that stand where this inbox says; `marks` is the outbox read as a
    /// log, which is never polled.
    pub fn new(kafka: Kafka, inbox: Arc<dyn Inbox>, marks: Arc<dyn Subscriber>) -> Self {
        Self {
            dead_letters: Producer::new(kafka.dead_letters()),
            kafka,
            inbox,
            marks,
            standings: Standings::default(),
            members: Mutex::default(),
        }
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record as it stands in the topic.
    fn held(&self, group: &str, delivery: &Delivery) -> Result<Held, LogError> {
        let members = self.members();
        let member = members.get(group);
        let held = member.and_then(|member| member.held(delivery.partition, delivery.offset));
        let gone = || LogError::Unavailable(anyhow::anyhow!("the partition is another's now"));
        held.cloned().ok_or_else(gone)
    }

    fn look(
        &self,
        group: &str,
        standing: &Standing,
        (partition, max): (u16, usize),
    ) -> Result<Vec<Held>, KafkaFault> {
        let mut members = self.members();
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
        let asked = self.inbox.standing(group);
        let standing = self.standings.of(group, partition, asked).await?;
        let held = self.look(group, &standing, (partition, max))?;
        Ok(held.into_iter().map(|held| read(partition, held)).collect())
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.marks.lag(group).await
    }

    async fn set_aside(
        &self,
        group: &str,
        delivery: &Delivery,
        because: &Because,
    ) -> Result<(), LogError> {
        let mut held = self.held(group, delivery)?;
        let about = headers::write_aside(&Aside {
            group,
            reason: in_sql::cut(&because.reason),
            attempts: because.attempts,
            topic: self.kafka.topic(),
            partition: delivery.partition,
            offset: delivery.offset,
        });
        // In the place of those of an earlier life: what is set aside again and again does not grow.
        let about = about.map(|(name, value)| (name.to_owned(), value.into_bytes()));
        held.headers.extend(about);
        let record = Record {
            partition: delivery.partition,
            key: &held.key,
            payload: &held.payload,
            headers: held
                .headers
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect(),
        };
        let mut answers = self.dead_letters.send(&[record], ack_deadline()).await?;
        match answers.pop().expect("one answer a record") {
            Ok(_) => Ok(()),
            Err(SendError::Unsure(fault)) => Err(fault.into()),
            // It would be refused for ever, and the inbox keeps all of it.
            Err(SendError::Refused(why)) => {
                let event_id = &delivery.event_id;
                tracing::error!(
                    event.id = event_id,
                    group,
                    "no copy of a dead letter: {why}"
                );
                Ok(())
            }
        }
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn one_answer_serves_one_turn_through_the_partitions() {
        let (standings, times) = (Standings::default(), Mutex::new(0));
        let look = async |group: &str, partition| {
            let asked = async {
                let mut times = times.lock().unwrap();
                *times += 1;
                Ok::<_, Infallible>(Standing::from([(partition, *times)]))
            };
            standings.of(group, partition, asked).await.unwrap();
        };
        for (turn, first) in [(1, 0), (2, 4), (3, 2)] {
            for step in 0..6 {
                look("notify", (first + step) % 6).await;
            }
            assert_eq!(*times.lock().unwrap(), turn);
        }
        look("stock", 0).await;
        assert_eq!(*times.lock().unwrap(), 4, "each group has its own");
        look("notify", 2).await;
        look("notify", 2).await;
        assert_eq!(
            *times.lock().unwrap(),
            6,
            "the same partition again is a new turn"
        );
    }
}
