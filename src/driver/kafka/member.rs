//! Reads the topic as one of a group: partitions come and go, and each begins where its owner says.
//!
//! Kafka hands out partitions; where a group stands is told by the owner, who keeps it with the effects.
//! Kafka is told of it as well, for whoever looks at the group with Kafka's own tools, and nothing of
//! ours reads it there.
//!
//! A look never waits. What has come is held here, by partition, until the group is past it; a partition
//! of which much is held is paused, so that one that stands still costs no memory and stops nobody.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;

use crate::base::limits::{HELD_RECORDS_MAX, PARTITIONS};
use crate::driver::kafka::access::Heard;
use crate::driver::kafka::{Kafka, KafkaFault};
use crate::telemetry::metrics;

/// Records that one look takes in at most.
const LOOK_MAX: usize = 2 * HELD_RECORDS_MAX;

/// A record that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its place.
    pub offset: u64,
    /// Its key; empty where it has none.
    pub key: Vec<u8>,
    /// Its value; empty where it has none.
    pub payload: Vec<u8>,
    /// Its headers, those without a value left out.
    pub headers: BTreeMap<String, Vec<u8>>,
}

/// Where a group stands: by partition, the next offset to read.
pub type Standing = BTreeMap<u16, u64>;

/// One of a group.
pub struct Member {
    group: String,
    topic: String,
    consumer: BaseConsumer<Given>,
    partitions: BTreeMap<u16, Partition>,
    /// Which giving of partitions `partitions` belongs to.
    giving: u64,
}

/// A partition that was given to us.
#[derive(Debug, Default)]
struct Partition {
    held: VecDeque<Held>,
    /// The next offset to hold: what comes below has come before.
    next: u64,
    is_paused: bool,
    /// What Kafka was last told.
    told: Option<u64>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group, partitions, ..
        } = self;
        write!(f, "Member {{ {group}: {:?} }}", partitions.keys())
    }
}

impl Member {
    /// Asks to be one of a group.
    ///
    /// # Errors
    /// [`KafkaFault`] where no client can be made.
    pub fn join(kafka: &Kafka, group: &str) -> Result<Self, KafkaFault> {
        let mut settings = kafka.settings();
        settings
            .set("group.id", group)
            .set("partition.assignment.strategy", "range")
            .set("session.timeout.ms", "10000")
            .set("heartbeat.interval.ms", "1000")
            .set("max.poll.interval.ms", "300000")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // Never skip silently: an offset that is gone is an error.
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "100")
            .set("queued.max.messages.kbytes", "16384");
        let consumer: BaseConsumer<Given> = settings.create_with_context(Given {
            group: group.to_owned(),
            heard: kafka.heard(),
            state: Mutex::default(),
        })?;
        consumer.subscribe(&[kafka.topic()])?;
        Ok(Self {
            group: group.to_owned(),
            topic: kafka.topic().to_owned(),
            consumer,
            partitions: BTreeMap::new(),
            giving: 0,
        })
    }

    /// What is there of a partition from where the group stands, at most so many; nothing where the
    /// partition is another member's.
    ///
    /// # Errors
    /// [`KafkaFault`] where Kafka says so; what is held stays.
    pub fn look(
        &mut self,
        partition: u16,
        standing: &Standing,
        max: usize,
    ) -> Result<Vec<Held>, KafkaFault> {
        self.consumer
            .context()
            .state()
            .standing
            .clone_from(standing);
        let taken = self.take_in(standing);
        self.let_go(standing)?;
        taken?;
        let Some(partition) = self.partitions.get(&partition) else {
            return Ok(Vec::new());
        };
        Ok(partition.held.iter().take(max).cloned().collect())
    }

    /// A record that has come and that the group is not past.
    pub fn held(&self, partition: u16, offset: u64) -> Option<&Held> {
        let held = &self.partitions.get(&partition)?.held;
        held.iter().find(|held| held.offset == offset)
    }

    /// Takes in what has come, and what was decided about partitions.
    fn take_in(&mut self, standing: &Standing) -> Result<(), KafkaFault> {
        for _ in 0..LOOK_MAX {
            let come = self.consumer.poll(Duration::ZERO);
            let come = come.map(|message| message.map(|message| read(&message)));
            let given = self.consumer.context().state();
            if given.giving != self.giving {
                self.giving = given.giving;
                let begin = |(partition, offset): (&u16, &u64)| {
                    let next = *offset;
                    let begun = Partition {
                        next,
                        ..Partition::default()
                    };
                    (*partition, begun)
                };
                self.partitions = given.partitions.iter().map(begin).collect();
            }
            drop(given);
            match come {
                None => break,
                Some(Ok((partition, record))) => self.hold(partition, record)?,
                Some(Err(error)) => return Err(self.fault(error, standing)),
            }
        }
        Ok(())
    }

    fn hold(&mut self, partition: u16, record: Held) -> Result<(), KafkaFault> {
        self.consumer.context().heard.forget();
        let known = self.partitions.get_mut(&partition);
        let Some(known) = known.filter(|known| known.next <= record.offset) else {
            return Ok(()); // it was taken from us meanwhile, or has come before
        };
        if known.next == 0 && 0 < record.offset {
            let (group, offset) = (&self.group, record.offset);
            tracing::error!(group, partition, offset, "what was before is gone unread");
        }
        known.next = record.offset + 1;
        known.held.push_back(record);
        if HELD_RECORDS_MAX <= known.held.len() && !known.is_paused {
            self.consumer
                .pause(&self.list(partition, Offset::Invalid))?;
            self.set_paused(partition, true);
        }
        Ok(())
    }

    /// Lets go of what the group is past, and tells Kafka.
    fn let_go(&mut self, standing: &Standing) -> Result<(), KafkaFault> {
        let mut resumed = Vec::new();
        let mut told = TopicPartitionList::new();
        for (number, partition) in &mut self.partitions {
            let stands = standing.get(number).copied().unwrap_or_default();
            let past = partition.held.partition_point(|held| held.offset < stands);
            partition.held.drain(..past);
            if partition.is_paused && partition.held.len() <= HELD_RECORDS_MAX / 2 {
                resumed.push(*number);
            }
            if 0 < stands && partition.told != Some(stands) {
                let offset = Offset::Offset(stands.cast_signed());
                told.add_partition_offset(&self.topic, i32::from(*number), offset)?;
                partition.told = Some(stands);
            }
        }
        for number in resumed {
            self.consumer.resume(&self.list(number, Offset::Invalid))?;
            self.set_paused(number, false);
        }
        if 0 < told.count() {
            self.consumer.commit(&told, CommitMode::Async)?;
        }
        Ok(())
    }

    fn list(&self, partition: u16, offset: Offset) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&self.topic, i32::from(partition), offset);
        debug_assert!(added.is_ok());
        list
    }

    fn set_paused(&mut self, partition: u16, is_paused: bool) {
        if let Some(known) = self.partitions.get_mut(&partition) {
            known.is_paused = is_paused;
        }
    }

    fn fault(&self, error: KafkaError, standing: &Standing) -> KafkaFault {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                KafkaFault::NoTopic(self.topic.clone())
            }
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                // Which partition it is the library says in words only: the first that is held up and was read.
                let stands = |partition: &u16| standing.get(partition).copied().unwrap_or_default();
                let mut known = self.partitions.iter();
                let behind = known.find(|(at, known)| known.held.is_empty() && 0 < stands(at));
                let partition = behind.map_or(0, |(number, _)| *number);
                KafkaFault::Gone {
                    group: self.group.clone(),
                    partition,
                    offset: stands(&partition),
                }
            }
            Some(_) | None => self.consumer.context().heard.fault(error),
        }
    }
}

fn read(message: &BorrowedMessage<'_>) -> (u16, Held) {
    let held = Held {
        offset: message.offset().cast_unsigned(),
        key: message.key().unwrap_or_default().to_owned(),
        payload: message.payload().unwrap_or_default().to_owned(),
        headers: message.headers().map(named).unwrap_or_default(),
    };
    let partition = u16::try_from(message.partition()).unwrap_or(PARTITIONS);
    (partition, held)
}

/// Headers by name, those without a value left out.
///
/// The library panics on a name that is not UTF-8. Whoever may write to the topic may write one, and the
/// record would stop every reader again and again: such a header is left out, too. None of ours has one.
fn named(all: &impl Headers) -> BTreeMap<String, Vec<u8>> {
    let header = |n| {
        let read = panic::catch_unwind(AssertUnwindSafe(|| all.try_get(n)));
        let Header { key, value } = read.ok().flatten()?;
        Some((key.to_owned(), value?.to_owned()))
    };
    (0..all.count()).filter_map(header).collect()
}

/// What the group gives to this member, and where it is to begin.
struct Given {
    group: String,
    heard: Heard,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    standing: Standing,
    /// What is ours, and where it began.
    partitions: Standing,
    /// Rises with every giving and taking.
    giving: u64,
}

impl Given {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &mut TopicPartitionList,
    ) -> KafkaResult<()> {
        let mut state = self.state();
        state.giving += 1;
        state.partitions.clear();
        let mut begins = TopicPartitionList::new();
        for element in list.elements() {
            let Ok(number) = u16::try_from(element.partition()) else {
                continue;
            };
            // Who has read nothing yet begins at the first event that is there.
            let stands = state.standing.get(&number).copied().unwrap_or_default();
            let begin = match stands {
                0 => Offset::Beginning,
                _ => Offset::Offset(stands.cast_signed()),
            };
            begins.add_partition_offset(element.topic(), element.partition(), begin)?;
            state.partitions.insert(number, stands);
        }
        let partitions: Vec<&u16> = state.partitions.keys().collect();
        let group = &self.group;
        metrics::group_partitions(group, partitions.len());
        if partitions.is_empty() {
            tracing::info!(group, "idle: other members have all partitions");
        } else {
            tracing::info!(group, ?partitions, "reads partitions");
        }
        consumer.assign(&begins)
    }

    fn take(&self, consumer: &BaseConsumer<Self>) -> KafkaResult<()> {
        let mut state = self.state();
        state.giving += 1;
        state.partitions.clear();
        metrics::group_partitions(&self.group, 0);
        consumer.unassign()
    }
}

impl ClientContext for Given {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.error(error, reason);
    }
}

impl ConsumerContext for Given {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.give(consumer, list)
        } else {
            self.take(consumer)
        };
        if let Err(error) = done {
            tracing::warn!(
                group = self.group,
                "partitions did not change hands: {error}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the library reads headers of which one has a name that is not UTF-8, and one has no value.
    struct Foreign;

    impl Headers for Foreign {
        fn count(&self) -> usize {
            4
        }

        fn try_get(&self, n: usize) -> Option<Header<'_, &[u8]>> {
            let name = [&b"ce_id"[..], b"\xff", b"empty", b"ce_type"][n];
            let value = (n != 2).then_some(&b"value"[..]);
            let key = str::from_utf8(name).unwrap();
            Some(Header { key, value })
        }
    }

    #[test]
    fn a_header_that_the_library_cannot_read_is_left_out() {
        let names: Vec<String> = named(&Foreign).into_keys().collect();
        assert_eq!(names, ["ce_id", "ce_type"]);
    }
}
