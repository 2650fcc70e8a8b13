//! A private Kafka: one broker in KRaft mode, run by plain Java, gone with the test run.
//!
//! One broker serves the whole run, as one PostgreSQL does, and ends the same way: it is the child of a
//! shell that waits for the end of its input. Each test gets a topic of its own, and with it groups of
//! its own, whose names begin with the topic's.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use catraca::base::limits::PARTITIONS;
use catraca::driver::kafka::Kafka;
use catraca::driver::kafka::topics::Applied;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::Offset;
use rdkafka::{ClientConfig, TopicPartitionList};

use crate::support::free_port;
use crate::support::kafka_doors::Doors;
use crate::support::kafka_node::{Place, by_java, quiet, settings};
use crate::support::need::{JAVA, KAFKA};

/// How long the broker may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(90);
/// How long it may take to answer a question.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Ports to try: between finding one free and using it, somebody else may take it.
const STARTS_MAX: u32 = 5;
/// Starts the broker and kills it as its input says, and at its end kills it for good and removes its
/// folder. `$1` is the folder; the rest is the broker.
const KEEPER: &str = r#"
folder="$1"; shift
server=""
kill_it() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
  wait
  server=""
}
while read -r word; do
  case "$word" in
    start) "$@" >>"$folder/log" 2>&1 & server=$!; echo "$server" ;;
    kill) kill_it; echo killed ;;
  esac
done
kill_it
rm -rf "$folder"
"#;
/// The topic where a broker is one's own.
pub(crate) const TOPIC: &str = "order-events";
/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Broker {
    java: PathBuf,
    jars: PathBuf,
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pid: String,
    place: Place,
}

/// The broker of this run. `None` where this machine has none and may do without.
pub(crate) fn broker() -> Option<&'static Broker> {
    static SHARED: OnceLock<Option<Broker>> = OnceLock::new();
    SHARED.get_or_init(Broker::start).as_ref()
}

/// A name that no other topic of the broker has.
pub(crate) fn name() -> String {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    format!("events-{}", TOPICS.fetch_add(1, Ordering::Relaxed))
}

/// A new topic on the broker of this run, and that of its dead letters. `None` as above.
pub(crate) async fn topic() -> Option<Kafka> {
    let kafka = Kafka::new(&broker()?.url(), &name()).unwrap();
    for kafka in [&kafka.dead_letters(), &kafka] {
        assert_eq!(kafka.apply_topic().await.unwrap(), Applied::Made);
    }
    Some(kafka)
}

/// How many records each partition of a topic has had in all.
pub(crate) fn ends(kafka: &Kafka) -> Vec<usize> {
    ends_by(&client(), kafka)
}

/// The same, asked of another broker's.
fn ends_by(client: &ClientConfig, kafka: &Kafka) -> Vec<usize> {
    let consumer: BaseConsumer = client.create().unwrap();
    let end = |partition| {
        let ends = consumer.fetch_watermarks(kafka.topic(), partition, ANSWER_MAX);
        usize::try_from(ends.unwrap().1).unwrap()
    };
    (0..i32::from(PARTITIONS)).map(end).collect()
}

/// A record as any client reads it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) partition: u16,
    pub(crate) offset: i64,
    /// When the broker wrote it, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// Those without a value left out.
    pub(crate) headers: BTreeMap<String, Vec<u8>>,
}

/// All records of a topic, by partition and offset.
pub(crate) fn records(kafka: &Kafka) -> Vec<Record> {
    records_by(client(), kafka)
}

/// The same, read by a client of another broker.
pub(crate) fn records_by(mut client: ClientConfig, kafka: &Kafka) -> Vec<Record> {
    let many: usize = ends_by(&client, kafka).iter().sum();
    client.set("group.id", "none");
    let consumer: BaseConsumer = client.create().unwrap();
    let mut all = TopicPartitionList::new();
    for partition in 0..i32::from(PARTITIONS) {
        all.add_partition_offset(kafka.topic(), partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&all).unwrap();
    let mut records: Vec<Record> = (0..many)
        .map(|_| {
            let message = consumer
                .poll(ANSWER_MAX)
                .expect("a record in time")
                .unwrap();
            let headers = message.headers().expect("it has headers").iter();
            Record {
                partition: u16::try_from(message.partition()).unwrap(),
                offset: message.offset(),
                at_ms: message.timestamp().to_millis().expect("the broker's time"),
                key: message.key().unwrap().to_owned(),
                payload: message.payload().unwrap().to_owned(),
                headers: headers
                    .filter_map(|header| Some((header.key.to_owned(), header.value?.to_owned())))
                    .collect(),
            }
        })
        .collect();
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

/// Sends a record with other values of some headers to a topic.
pub(crate) fn send_again(kafka: &Kafka, record: &Record, changes: &BTreeMap<&str, &str>) {
    let producer: BaseProducer = client().create().unwrap();
    let mut headers = OwnedHeaders::new();
    for (key, value) in &record.headers {
        let value = changes
            .get(&**key)
            .map_or(&**value, |value| value.as_bytes());
        headers = headers.insert(Header {
            key,
            value: Some(value),
        });
    }
    let record = BaseRecord::to(kafka.topic())
        .partition(i32::from(record.partition))
        .key(&record.key)
        .payload(&record.payload)
        .headers(headers);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(ANSWER_MAX).unwrap();
}

/// A plain client of the broker of this run.
pub(crate) fn client() -> ClientConfig {
    broker().expect("there is a topic").client()
}

impl Broker {
    /// Starts one of one's own. `None` as above.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&Doors::default())
    }

    /// The same, with further doors.
    pub(crate) fn start_with(doors: &Doors) -> Option<Self> {
        Self::start_as(doors, None)
    }

    /// Another one, in the cluster of this one.
    pub(crate) fn beside(&self) -> Self {
        Self::start_as(&Doors::default(), Some(self.place.controller)).unwrap()
    }

    /// The first of a cluster, or the second, which is told who leads the cluster.
    fn start_as(doors: &Doors, of: Option<u16>) -> Option<Self> {
        let (java, jars) = (JAVA.find()?, KAFKA.find()?);
        for _ in 0..STARTS_MAX {
            let folder = tempfile::tempdir().unwrap().keep();
            let place = Place {
                is_first: of.is_none(),
                port: free_port(),
                controller: of.unwrap_or_else(free_port),
            };
            settings(&folder, &place, doors);
            let format = [
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                "Y2F0cmFjYS10ZXN0cy0wMQ",
                "--config",
            ];
            let mut command = by_java(&java, &jars, &folder);
            command.args(format).arg(folder.join("server.properties"));
            let formatted = command.args(&doors.format).output().unwrap();
            let said = String::from_utf8_lossy(&formatted.stderr);
            assert!(formatted.status.success(), "{said}");
            let mut server = by_java(&java, &jars, &folder);
            server
                .arg("kafka.Kafka")
                .arg(folder.join("server.properties"));
            let mut keeper = Command::new("sh");
            keeper
                .args(["-c", KEEPER, "keeper"])
                .arg(&folder)
                .arg(server.get_program())
                .args(server.get_args())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut keeper = keeper.spawn().unwrap();
            let mut broker = Self {
                java: java.clone(),
                jars: jars.clone(),
                orders: keeper.stdin.take(),
                answers: BufReader::new(keeper.stdout.take().unwrap()),
                keeper,
                pid: String::new(),
                place,
            };
            if broker.begin() {
                return Some(broker);
            }
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            eprintln!("Kafka did not start: {log}");
        }
        panic!("Kafka does not start");
    }

    /// Starts it, again after [`Broker::die`], with all it had; false where it does not answer.
    pub(crate) fn begin(&mut self) -> bool {
        self.pid = self.order("start");
        self.answers()
    }

    /// Kills it, as with `kill -9`.
    pub(crate) fn die(&mut self) {
        assert_eq!(self.order("kill"), "killed");
    }

    fn order(&mut self, word: &str) -> String {
        let orders = self.orders.as_mut().unwrap();
        writeln!(orders, "{word}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// A plain client.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set(
            "bootstrap.servers",
            format!("127.0.0.1:{}", self.place.port),
        );
        config
    }

    /// Its address, as `log.url`.
    pub(crate) fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.place.port)
    }

    /// Stops it as it stands: connections stay open, nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.pid]).status();
        assert!(sent.unwrap().success(), "kill {signal} {}", self.pid);
    }

    /// What one of Kafka's own tools says of this broker.
    pub(crate) fn tool(&self, class: &str, words: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        quiet(folder.path());
        let mut command = by_java(&self.java, &self.jars, folder.path());
        command
            .arg(class)
            .arg("--bootstrap-server")
            .arg(format!("127.0.0.1:{}", self.place.port))
            .args(words);
        let output = command.output().unwrap();
        let (out, err) = (output.stdout, output.stderr);
        let said = String::from_utf8(out).unwrap();
        let wrong = String::from_utf8_lossy(&err);
        assert!(output.status.success(), "{class}: {said}{wrong}");
        said
    }

    fn answers(&self) -> bool {
        let end = Instant::now() + START_MAX;
        while Instant::now() < end {
            if TcpStream::connect(("127.0.0.1", self.place.port)).is_ok() {
                return true;
            }
            let alive = Command::new("kill")
                .args(["-0", &self.pid])
                .stderr(Stdio::null())
                .status();
            if !alive.unwrap().success() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.orders.take());
        drop(self.keeper.wait());
    }
}
