//! Kafka behind TLS, passwords and certificates: whoever is right gets in, whoever is wrong is told what
//! is, by the key, and no password stands anywhere. Orders go on meanwhile, for they ask only the database.

use std::fs::File;
use std::process::Stdio;

use catraca::driver::kafka::access::{Access, Mechanism};
use catraca::driver::kafka::{Kafka, KafkaFault};
use catraca::event::Event;
use serde_json::Value;

use crate::contract::desk::{Desk, facts};
use crate::support::client::Client;
use crate::support::kafka::{self, Broker};
use crate::support::kafka_doors::{Guarded, USER};
use crate::support::process::{Server, run_in};
use crate::support::{chain, database, until};

/// A broker with two guarded doors.
struct House {
    guarded: Guarded,
    broker: Broker,
    folder: tempfile::TempDir,
}

impl House {
    async fn open() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let guarded = Guarded::new(folder.path());
        let broker = Broker::start_with(&guarded.doors)?;
        let house = Self {
            guarded,
            broker,
            folder,
        };
        let plain = Kafka::new(&house.broker.url(), kafka::TOPIC).unwrap();
        until("the broker makes topics", async || {
            plain.apply_topic().await.ok()
        })
        .await;
        Some(house)
    }

    /// What comes of a look at the topic.
    async fn look(&self, url: &str, access: Access) -> Result<(), String> {
        let kafka = Kafka::new(url, kafka::TOPIC).unwrap().let_in_by(access);
        let looked = kafka.check_topic().await;
        looked.map_err(|fault| {
            let kind = match fault {
                KafkaFault::Login(_) => "login",
                KafkaFault::Tls(_) => "tls",
                KafkaFault::Scheme(_) => "scheme",
                KafkaFault::WantsTls(_) => "wants tls",
                KafkaFault::WantsLogin(_) => "wants login",
                _ => "other",
            };
            let says = chain(&fault);
            assert!(!says.contains(&self.guarded.password), "{says}");
            eprintln!("{kind}: {says}");
            kind.to_owned()
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_door_is_a_door() {
    let Some(house) = House::open().await else {
        return;
    };
    who_is_right_gets_in_and_who_is_wrong_is_told_what_is(&house).await;
    events_go_through_a_guarded_door(&house).await;
    no_password_stands_in_a_log(&house).await;
}

async fn who_is_right_gets_in_and_who_is_wrong_is_told_what_is(house: &House) {
    let guarded = &house.guarded;
    let by_login = format!("kafka+ssl://localhost:{}", guarded.by_login);
    let by_certificate = format!("kafka+ssl://localhost:{}", guarded.by_certificate);
    for mechanism in [
        Mechanism::Plain,
        Mechanism::ScramSha256,
        Mechanism::ScramSha512,
    ] {
        let right = guarded.login(mechanism, &guarded.password);
        assert_eq!(house.look(&by_login, right).await, Ok(()), "{mechanism:?}");
        let wrong = guarded.login(mechanism, "wrong");
        assert_eq!(
            house.look(&by_login, wrong).await,
            Err("login".to_owned()),
            "{mechanism:?}"
        );
    }
    let right = || guarded.login(Mechanism::ScramSha512, &guarded.password);
    let stranger = Access {
        login: right().login,
        ..guarded.trusting("other.pem")
    };
    let named_otherwise = format!("kafka+ssl://127.0.0.1:{}", guarded.by_login);
    let plain_to = |port: u16| format!("kafka://localhost:{port}");
    let (plain_to_login, plain_to_certificate) =
        (plain_to(guarded.by_login), plain_to(guarded.by_certificate));
    let nobody = || guarded.trusting("ca.pem");
    let to_plain = house.broker.url().replace("kafka://", "kafka+ssl://");
    for (url, access, expected) in [
        (&by_login, stranger, "tls"),
        (&named_otherwise, right(), "tls"),
        (&to_plain, right(), "scheme"),
        (&by_certificate, guarded.trusting("ca.pem"), "tls"),
        (&by_login, nobody(), "wants login"),
        (&plain_to_login, Access::default(), "wants tls"),
        (&plain_to_certificate, Access::default(), "wants tls"),
    ] {
        assert_eq!(
            house.look(url, access).await,
            Err(expected.to_owned()),
            "{url}"
        );
    }
    assert_eq!(
        house.look(&by_certificate, guarded.certified()).await,
        Ok(())
    );
}

/// Relay and consumers read and write through the guarded door; with a wrong password nothing goes, orders
/// are written all the same, and with the right one all of it is sent.
async fn events_go_through_a_guarded_door(house: &House) {
    let guarded = &house.guarded;
    let url = format!("kafka+ssl://localhost:{}", guarded.by_login);
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let kafka = |password: &str| {
        let kafka = Kafka::new(&url, kafka::TOPIC).unwrap();
        kafka.let_in_by(guarded.login(Mechanism::ScramSha512, password))
    };
    let mut desk = Desk::with_kafka(database, folder, kafka("wrong"));
    let order = desk.order();
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    let failed = desk.relay("relay").step().await.unwrap_err();
    let says = "event log unavailable: Kafka does not accept log.user, log.password and log.sasl: ";
    assert!(chain(&failed).starts_with(says), "{}", chain(&failed));
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
    desk.kafka = Some(kafka(&guarded.password));
    desk.restart();
    desk.let_leases_lapse();
    assert_eq!(desk.relay("another").step().await.unwrap().sent, 2);
    let partition = catraca::event::partition::of_key(&order.to_string());
    let read = desk.poll("reader", partition, 2).await;
    let versions: Vec<u64> = read.iter().map(|delivery| delivery.version).collect();
    assert_eq!(versions, [1, 2]);
}

/// The program itself, as it is configured: what is wrong is said by the key, and the password never.
async fn no_password_stands_in_a_log(house: &House) {
    let guarded = &house.guarded;
    let canary = "canary-that-nobody-may-see";
    let url = format!("kafka+ssl://localhost:{}", guarded.by_login);
    let (ca, cert) = (guarded.file("ca.pem"), guarded.file("cert.pem"));
    let file = house.folder.path().join("password");
    std::fs::write(&file, canary).unwrap();
    let env = [
        ("CATRACA__LOG__URL", url.as_str()),
        ("CATRACA__LOG__CA_FILE", ca.to_str().unwrap()),
        ("CATRACA__LOG__SASL", "plain"),
        ("CATRACA__LOG__USER", USER),
        ("CATRACA__LOG__PASSWORD_FILE", file.to_str().unwrap()),
        ("RUST_LOG", "debug"),
    ];
    let folder = house.folder.path();
    let applied = run_in(folder, &["topics", "apply"], &env).await;
    assert_eq!(applied.code, Some(69), "{}", applied.err);
    assert!(applied.err.contains("log.password"), "{}", applied.err);
    let printed = run_in(folder, &["config", "print"], &env).await;
    assert!(
        printed.out.contains("log.password = \"***\""),
        "{}",
        printed.out
    );
    let half = [
        &env[..],
        &[("CATRACA__LOG__CERT_FILE", cert.to_str().unwrap())],
    ]
    .concat();
    let refused = run_in(folder, &["topics", "apply"], &half).await;
    assert_eq!(refused.code, Some(78), "{}", refused.err);
    assert!(
        refused
            .err
            .contains("log.cert_file is given and needs log.key_file"),
        "{}",
        refused.err
    );

    let log = folder.join("log");
    let server = Server::up_by(folder, &[], &env, Stdio::from(File::create(&log).unwrap())).await;
    let said = until("the log says why", async || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.contains("Kafka does not accept log.user")
            .then_some(said)
    })
    .await;
    let [ready, metrics] = says_what_is_wrong(&server).await;
    assert_eq!(server.terminate().await, Some(0));
    for text in [
        ready,
        metrics,
        said,
        applied.out,
        applied.err,
        printed.out,
        printed.err,
        refused.err,
    ] {
        assert!(!text.contains(canary), "{text}");
    }
}

/// Readiness and metrics have a word for it.
async fn says_what_is_wrong(server: &Server) -> [String; 2] {
    let operator = Client::of(format!("http://{}", server.admin));
    let asked = async |line: &str| {
        let answer = operator.exchange(line, &[], &Value::Null).await.unwrap();
        String::from_utf8(answer.1.to_vec()).unwrap()
    };
    let (ready, metrics) = (asked("GET /readyz").await, asked("GET /metrics").await);
    assert!(ready.contains(r#""log":"login-refused""#), "{ready}");
    let counted = r#"catraca_kafka_faults_total{why="login-refused"} "#;
    assert!(metrics.contains(counted), "{metrics}");
    [ready, metrics]
}
