//! The topic: made once, by hand, with as many partitions as keys are spread over; never by writing to it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;
use tokio::time::{Instant, sleep};

use crate::base::limits::PARTITIONS;
use crate::driver::kafka::access::Heard;
use crate::driver::kafka::{Kafka, KafkaFault};

/// How long the cluster may take to tell of a topic, and to make one.
const LOOK_MAX: Duration = Duration::from_secs(5);
const MAKE_MAX: Duration = Duration::from_secs(30);
/// Things that the library may have to say of a look that failed.
const SAID_MAX: usize = 64;
/// How often one looks whether a new topic can be seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A topic of another shape than ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub topic: String,
    /// How many partitions it has.
    pub partitions: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partitions } = self;
        write!(
            f,
            "topic {topic} has {partitions} partitions and must have {PARTITIONS}, or keys would lie \
             elsewhere and lose their order: name another in log.topic"
        )
    }
}

/// What became of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is new.
    Made,
    /// It was there, as it should be.
    Unchanged,
}

impl Kafka {
    /// Makes the topic where it is not there. Once it is, asking again changes nothing.
    ///
    /// # Errors
    /// [`KafkaFault`]; a topic of another shape is left as it is.
    pub async fn apply_topic(&self) -> Result<Applied, KafkaFault> {
        match self.check_topic().await {
            Ok(()) => return Ok(Applied::Unchanged),
            Err(KafkaFault::NoTopic(_)) => {}
            Err(fault) => return Err(fault),
        }
        let admin: AdminClient<Heard> = self.settings().create_with_context(self.heard())?;
        // As many copies as the cluster makes of a topic by its own settings. Events are kept until
        // somebody decides otherwise: a new group reads them from the first. A record's time is the
        // broker's: it refuses one from the future, and an event says itself when it became true.
        let replication = TopicReplication::Fixed(-1);
        let topic = NewTopic::new(&self.topic, i32::from(PARTITIONS), replication)
            .set("cleanup.policy", "delete")
            .set("message.timestamp.type", "LogAppendTime")
            .set("retention.ms", "-1");
        let options = AdminOptions::new()
            .request_timeout(Some(MAKE_MAX))
            .operation_timeout(Some(MAKE_MAX));
        let made = admin.create_topics(&[topic], &options).await?;
        match made.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => {
                self.check_topic().await?;
                Ok(Applied::Unchanged)
            }
            Some(Err((_, code))) => Err(KafkaFault::of_code(code)),
            Some(Ok(_)) | None => {
                self.wait_for_topic().await?;
                Ok(Applied::Made)
            }
        }
    }

    /// A cluster has made a topic a moment before its brokers tell of it.
    async fn wait_for_topic(&self) -> Result<(), KafkaFault> {
        let until = Instant::now() + MAKE_MAX;
        loop {
            match self.check_topic().await {
                Err(KafkaFault::NoTopic(_)) if Instant::now() < until => sleep(LOOK_EVERY).await,
                seen => return seen,
            }
        }
    }

    /// Whether the topic is there and has our shape.
    ///
    /// # Errors
    /// [`KafkaFault`] with what is wrong.
    pub async fn check_topic(&self) -> Result<(), KafkaFault> {
        let kafka = self.clone();
        let asked = tokio::task::spawn_blocking(move || kafka.look_at_topic());
        let looked = asked.await.expect("looking does not panic");
        self.note(looked.as_ref().err());
        looked
    }

    /// How many records each partition of the topic has had by now.
    ///
    /// # Errors
    /// [`KafkaFault`] where that is not to be had.
    pub async fn ends(&self) -> Result<BTreeMap<u16, u64>, KafkaFault> {
        let kafka = self.clone();
        let asked = tokio::task::spawn_blocking(move || -> Result<_, KafkaFault> {
            let looker = kafka.looker()?;
            let end = |partition: u16| -> Result<(u16, u64), KafkaFault> {
                let ends = looker.fetch_watermarks(&kafka.topic, i32::from(partition), LOOK_MAX);
                let (_, end) = ends.map_err(|error| looker.context().fault(error))?;
                Ok((partition, end.cast_unsigned()))
            };
            (0..PARTITIONS).map(end).collect()
        });
        asked.await.expect("looking does not panic")
    }

    fn look_at_topic(&self) -> Result<(), KafkaFault> {
        let looker = self.looker()?;
        let looked = looker.fetch_metadata(Some(&self.topic), LOOK_MAX);
        let metadata = looked.map_err(|error| {
            // What the library has to say by itself comes as records would, one at a time.
            (0..SAID_MAX).for_each(|_| drop(looker.poll(Duration::ZERO)));
            looker.context().fault(error)
        })?;
        let missing = || KafkaFault::NoTopic(self.topic.clone());
        let topic = metadata.topics().first().ok_or_else(missing)?;
        match topic.error() {
            None => {}
            Some(
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
            ) => return Err(missing()),
            Some(other) => return Err(KafkaFault::of_code(other.into())),
        }
        let partitions = topic.partitions().len();
        if partitions == usize::from(PARTITIONS) {
            return Ok(());
        }
        Err(KafkaFault::Shape(Shape {
            topic: self.topic.clone(),
            partitions,
        }))
    }
}
