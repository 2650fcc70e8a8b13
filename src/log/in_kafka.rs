//! The log in Kafka, as a consumer group sees it.
//!
//! Kafka hands the partitions of a group to the processes that run it; to the others a partition looks as
//! if nothing were new. Where the group stands is told by the inbox, which moves it in the transaction of
//! the effect; Kafka is told too, for its own tools. So a partition that changes hands, or a commit that
//! Kafka lost, repeats and loses nothing.
//!
//! What is set aside goes to a topic of its own as it stood, and its headers say why and whence.
//!
//! How far a group is behind is what the relay's marks say: each has the offset that Kafka gave, and what is
//! added to it since the topic was made anew (`topic_in_*.rs`). What went with a topic is read in the outbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::base::time::Timestamp;
use crate::driver::kafka::member::{Held, Member, Standing};
use crate::driver::kafka::producer::{Producer, Record, SendError, ack_deadline};
use crate::driver::kafka::{Kafka, KafkaFault};
use crate::event::headers::{self, About, Aside};
use crate::log::inbox::{Because, Inbox, Stands};
use crate::log::standings::Standings;
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
    members: Mutex<BTreeMap<String, Joined>>,
}

/// This process in a group, and where the topic began when it joined.
#[derive(Debug)]
struct Joined {
    member: Member,
    begins: BTreeMap<u16, u64>,
}

impl Joined {
    /// The offset in Kafka of a place in the log; none where its record went with an older topic.
    fn offset(&self, partition: u16, place: u64) -> Option<u64> {
        place.checked_sub(self.begins.get(&partition).copied().unwrap_or_default())
    }
}

impl InKafka {
    /// The log in a topic, for groups that stand where this inbox says; `marks` is the outbox read as a
    /// log, which has what went with an older topic.
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

    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Joined>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record as it stands in the topic.
    fn held(&self, group: &str, delivery: &Delivery) -> Result<Held, LogError> {
        let members = self.members();
        let held = members.get(group).and_then(|joined| {
            let offset = joined.offset(delivery.partition, delivery.offset)?;
            joined.member.held(delivery.partition, offset)
        });
        let gone = || LogError::Unavailable(anyhow::anyhow!("the partition is another's now"));
        held.cloned().ok_or_else(gone)
    }

    /// Makes this process one of the group, of the topic that is there now. Whoever joined when it was another
    /// holds records of that one, and joins anew.
    async fn join(&self, group: &str, stands: &Stands) -> Result<(), KafkaFault> {
        let is_one = |joined: &Joined| joined.begins == stands.begins;
        if self.members().get(group).is_some_and(is_one) {
            return Ok(());
        }
        self.leave(group);
        self.kafka.check_topic().await?;
        // Groups of other systems may have the same name in the same cluster.
        let name = format!("{}.{group}", self.kafka.topic());
        let joined = Joined {
            member: Member::join(&self.kafka, &name)?,
            begins: stands.begins.clone(),
        };
        self.members().insert(group.to_owned(), joined);
        Ok(())
    }

    fn leave(&self, group: &str) {
        if let Some(left) = self.members().remove(group) {
            // It waits for its threads.
            drop(tokio::task::spawn_blocking(move || drop(left)));
        }
    }

    /// What is there of a partition, once this process is one of the group.
    async fn seek(
        &self,
        group: &str,
        stands: &Stands,
        of: (u16, usize),
    ) -> Result<Vec<Held>, KafkaFault> {
        self.join(group, stands).await?;
        if self.kafka.is_to_be_asked() {
            self.kafka.check_topic().await?;
        }
        let looked = self.look(group, stands, of);
        looked.inspect_err(|fault| self.kafka.note(Some(fault)))
    }

    fn look(
        &self,
        group: &str,
        stands: &Stands,
        (partition, max): (u16, usize),
    ) -> Result<Vec<Held>, KafkaFault> {
        let mut members = self.members();
        let Some(joined) = members.get_mut(group) else {
            return Ok(Vec::new()); // it has left meanwhile
        };
        let next = stands.next.iter();
        let standing: Standing = next
            .map(|(partition, next)| {
                let offset = joined.offset(*partition, *next);
                (*partition, offset.unwrap_or_default())
            })
            .collect();
        joined.member.look(partition, &standing, max)
    }

    /// What of a partition went with an older topic, from where the group stands: the outbox has it.
    async fn lost(
        &self,
        group: &str,
        (partition, begins): (u16, u64),
        max: usize,
    ) -> Result<Vec<Delivery>, LogError> {
        let mut found = self.marks.poll(group, partition, max).await?;
        let lost = found.partition_point(|delivery| delivery.offset < begins);
        if lost == 0 && !found.is_empty() {
            self.inbox.pass(group, &[(partition, begins - 1)]).await?;
        }
        found.truncate(lost);
        Ok(found)
    }

    /// Keeps in which partitions the topic was made anew: it ends before what was marked already when it was asked.
    async fn renew(&self, stands: &Stands) -> Result<(), LogError> {
        let marked = self.inbox.marked().await?;
        let mut ends = self.kafka.ends().await?;
        let of = |places: &BTreeMap<u16, u64>, partition: &u16| {
            places.get(partition).copied().unwrap_or_default()
        };
        ends.retain(|partition, end| of(&stands.begins, partition) + *end < of(&marked, partition));
        self.inbox.renew(stands, &ends).await
    }

    /// What a fault says about the topic, as far as this process can do something about it.
    async fn learn(
        &self,
        group: &str,
        stands: &Stands,
        fault: &KafkaFault,
    ) -> Result<(), LogError> {
        match fault {
            KafkaFault::Gone { .. } => self.renew(stands).await,
            // A member looks for a topic again after minutes.
            KafkaFault::NoTopic(_) => {
                self.leave(group);
                Ok(())
            }
            KafkaFault::Address(_)
            | KafkaFault::Shape(_)
            | KafkaFault::Away(_)
            | KafkaFault::Login(_)
            | KafkaFault::Tls(_)
            | KafkaFault::Scheme(_)
            | KafkaFault::WantsTls(_)
            | KafkaFault::WantsLogin(_)
            | KafkaFault::Slow
            | KafkaFault::Unplaced => Ok(()),
        }
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
        let asked = self.inbox.stands(group);
        let stands = self.standings.of(group, partition, asked).await?;
        let of = |places: &BTreeMap<u16, u64>| places.get(&partition).copied().unwrap_or_default();
        let (next, begins) = (of(&stands.next), of(&stands.begins));
        let held = match self.seek(group, &stands, (partition, max)).await {
            Ok(held) => held,
            Err(fault) => {
                self.learn(group, &stands, &fault).await?;
                return Err(fault.into());
            }
        };
        if next < begins {
            return self.lost(group, (partition, begins), max).await;
        }
        Ok(held
            .into_iter()
            .map(|held| read((partition, begins), held))
            .collect())
    }

    fn state(&self) -> Option<&'static str> {
        self.kafka.state()
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        let lag = self.marks.lag(group).await?;
        let stands = self.inbox.stands(group).await?;
        // Whoever stands at the beginning of a topic hears of no fault where it was made anew and has nothing yet.
        let is_at_its_beginning = |lag: &Lag| {
            let of = |places: &BTreeMap<u16, u64>| places.get(&lag.partition).copied();
            0 < lag.records && of(&stands.next) <= of(&stands.begins).or(Some(0))
        };
        if lag.iter().any(is_at_its_beginning)
            && let Err(error) = self.renew(&stands).await
        {
            let error = anyhow::Error::from(error);
            tracing::debug!(group, "whether the topic is new is not known: {error:#}");
        }
        Ok(lag)
    }

    async fn set_aside(
        &self,
        group: &str,
        delivery: &Delivery,
        because: &Because,
    ) -> Result<(), LogError> {
        let stands = self.inbox.stands(group).await?;
        let begins = stands.begins.get(&delivery.partition).copied();
        if delivery.offset < begins.unwrap_or_default() {
            let event_id = &delivery.event_id;
            tracing::error!(
                event.id = event_id,
                group,
                "no copy of a dead letter: its record went with an older topic"
            );
            return Ok(());
        }
        let mut held = self.held(group, delivery)?;
        let about = headers::write_aside(&Aside {
            group,
            reason: in_sql::cut(&because.reason),
            attempts: because.attempts,
            topic: self.kafka.topic(),
            partition: delivery.partition,
            offset: held.offset,
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

/// A record at its place in a log that begins there. One that is no event of ours is passed over, and said:
/// nobody could handle it.
fn read((partition, begins): (u16, u64), held: Held) -> Delivery {
    let offset = begins + held.offset;
    event((partition, offset), held).unwrap_or_else(|what| {
        tracing::warn!(
            partition,
            offset,
            "a record of the topic is no event of ours: {what}"
        );
        stranger(partition, offset)
    })
}

fn event((partition, offset): (u16, u64), held: Held) -> Result<Delivery, &'static str> {
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
        offset,
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
