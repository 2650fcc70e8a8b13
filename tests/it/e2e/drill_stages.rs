//! Whatever process stands still, another one says where an order stopped, for how long, and why.

use std::collections::BTreeMap;
use std::path::Path;

use catraca::app::alone::Role;
use catraca::base::time::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::e2e::drill_journey::Desk;
use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::process::{Alone, signal};
use crate::support::redis::Server;
use crate::support::sale::{create_by_hand, settings};
use crate::support::smtp::Sink;
use crate::support::visitor::Visitor;
use crate::support::{kafka, postgres, until};

/// A station that is not done, and whose, where it is a group's.
type Open<'a> = (&'a str, Option<&'a str>);

/// Every process that has a part in an order's way, and what is open on it while the process stands:
/// station, and group where it is a group's.
const STOPS: [(Owner, &[Open<'_>]); 8] = [
    (Owner::Role(Role::Gateway), &[("request", None)]),
    (Owner::Role(Role::Orders), &[("order", None)]),
    (Owner::Role(Role::Relay), &[("log", None)]),
    (
        Owner::Role(Role::Notify),
        &[("effect", Some("notify")), ("provider", None)],
    ),
    (
        Owner::Role(Role::Stock),
        &[("effect", Some("admissions")), ("effect", Some("stock"))],
    ),
    (Owner::Role(Role::Search), &[("effect", Some("search"))]),
    (
        Owner::Role(Role::Analytics),
        &[("effect", Some("analytics"))],
    ),
    (
        Owner::Provider,
        &[("effect", Some("notify")), ("provider", None)],
    ),
];

/// Whose process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Role(Role),
    /// What takes mail.
    Provider,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journey_names_the_stage_whoever_stands_still() {
    follow(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journey_names_the_stage_whoever_stands_still_with_events_in_kafka() {
    let Some(topic) = kafka::topic().await else {
        return;
    };
    let url = kafka::broker().unwrap().url();
    let topic = topic.topic().to_owned();
    follow(vec![
        ("CATRACA__LOG__URL", url),
        ("CATRACA__LOG__TOPIC", topic),
    ])
    .await;
}

/// A sale of one process for each role.
struct Sale<'a> {
    roles: BTreeMap<&'static str, Alone>,
    provider: Sink,
    desk: Desk<'a>,
    client: Client,
}

async fn follow(log: Vec<(&'static str, String)>) {
    let (Some(room), Some(database)) = (Server::start(&REDIS), postgres::database().await) else {
        return;
    };
    let Some(provider) = Sink::well().await else {
        return;
    };
    let shared = [
        log,
        vec![
            ("CATRACA__ROOM__URL", room.url()),
            ("CATRACA__DATABASE__URL", database),
            ("CATRACA__NOTIFY__URL", provider.url()),
            // Journeys need no traces of the processes.
            ("RUST_LOG", "off".to_owned()),
        ],
    ]
    .concat();
    let folder = tempfile::tempdir().unwrap();
    let sale = Sale::start(folder.path(), &shared, provider).await;
    for (owner, open) in STOPS {
        sale.stops(owner, open).await;
    }
}

impl<'a> Sale<'a> {
    async fn start(folder: &'a Path, shared: &[(&'static str, String)], provider: Sink) -> Self {
        let mut roles = BTreeMap::new();
        let mut start = async |role: Role, more: &[(&'static str, String)]| {
            let env = [shared, more].concat();
            roles.insert(role.word(), Alone::start(role, folder, &env).await);
        };
        for role in Role::ALL {
            // The first needs to know of the others, and thin events are no stage.
            if role != Role::Gateway && role != Role::Thin {
                start(role, &[]).await;
            }
        }
        let shop = format!("http://{}", roles["orders"].address("orders"));
        let env = [shared, &[("CATRACA__UPSTREAMS__ORDERS__URL", shop)]].concat();
        let gateway = Alone::start(Role::Gateway, folder, &env).await;
        let client = Client::of(format!("http://{}", gateway.address("gateway")));
        roles.insert("gateway", gateway);

        let now = SystemClock.now();
        let mut document = settings(&json!({
            "claim_ms": 60_000, "hold_ms": 120_000, "ticket_ttl_ms": 300_000,
        }));
        document["opens_at"] = json!(now);
        // No stage is the admitter's.
        let admin = format!("http://{}", roles["admitter"].address("admin API"));
        create_by_hand(folder, &admin, &client, &document).await;
        let desk = Desk {
            folder,
            admin,
            env: vec![("CATRACA_TOKEN_FILE", "admin-token")],
        };
        Self {
            roles,
            provider,
            desk,
            client,
        }
    }

    async fn signal(&self, owner: Owner, word: &str) {
        let id = match owner {
            Owner::Role(role) => self.roles[role.word()].id(),
            Owner::Provider => self.provider.id(),
        };
        signal(id, word).await;
    }

    async fn journey(&self, id: &str) -> Value {
        let text = self.desk.done(&format!("journey {id} --json")).await;
        serde_json::from_str(&text).unwrap()
    }

    /// Buys a seat while a process stands: exactly what is its own is open, grows older, and is done when
    /// the process goes on.
    async fn stops(&self, owner: Owner, expected: &[Open<'_>]) {
        let visitor = Visitor::join_by(self.client.clone()).await.inside().await;
        let hold = visitor.hold().await;
        let early = match owner {
            Owner::Role(Role::Orders) => Some(self.declined(&visitor, &hold).await),
            Owner::Role(_) | Owner::Provider => None,
        };
        self.signal(owner, "-STOP").await;
        let (id, placing) = match (owner, early) {
            (_, Some(order)) => (order, None),
            // Its answer comes when the gateway goes on.
            (Owner::Role(Role::Gateway), None) => {
                (hold.clone(), Some(visitor.order(&hold, "approve")))
            }
            (_, None) => {
                let (status, placed) = visitor.order(&hold, "approve").await;
                assert_eq!(status, 201, "{placed}");
                (visitor.confirmed(&placed).await, None)
            }
        };
        let looking = self.is_open(&id, owner, expected);
        match placing {
            None => looking.await,
            Some(placing) => {
                let on = async {
                    looking.await;
                    self.signal(owner, "-CONT").await;
                };
                let ((status, placed), ()) = tokio::join!(placing, on);
                assert_eq!(status, 201, "{placed}");
            }
        }
        self.signal(owner, "-CONT").await;
        if owner == Owner::Role(Role::Orders) {
            let what = format!("POST orders/{id}/payment");
            let paid = visitor.try_ask(&what, &json!({ "token": "approve" })).await;
            assert_eq!(paid.unwrap().0, 202);
        }
        until(&format!("the order goes on after {owner:?}"), || async {
            let journey = self.journey(&id).await;
            (journey["stopped"].is_null() && journey["status"] == "confirmed").then_some(())
        })
        .await;
        assert!(
            self.desk
                .done(&format!("journey {id}"))
                .await
                .ends_with("It has arrived.\n")
        );
    }

    /// An order whose first payment was declined.
    async fn declined(&self, visitor: &Visitor, hold: &str) -> String {
        let (status, placed) = visitor.order(hold, "decline").await;
        assert_eq!(status, 201, "{placed}");
        let order = placed["order_id"].as_str().unwrap().to_owned();
        until("the payment is declined and all else is done", || async {
            let journey = self.journey(&order).await;
            (journey["stopped"]["last_error"].is_string() && open(&journey).len() == 1)
                .then_some(())
        })
        .await;
        order
    }

    async fn is_open(&self, id: &str, owner: Owner, expected: &[Open<'_>]) {
        let what = format!("the journey names the stages of {owner:?}");
        let journey = until(&what, || async {
            let journey = self.journey(id).await;
            let fails = owner != Owner::Provider || journey["stopped"]["state"] == "retrying";
            (fails && open(&journey) == expected).then_some(journey)
        })
        .await;
        let stopped = &journey["stopped"];
        assert_eq!(*stopped, *stages(&journey).find(is_open).unwrap());
        let error = stopped["last_error"].as_str();
        let owned = stopped["owner"].as_str().unwrap();
        match owner {
            Owner::Role(Role::Gateway) => {
                assert_eq!(
                    (&journey["hold"], &journey["order"]),
                    (&json!(id), &Value::Null)
                );
                assert_eq!(error, None);
            }
            Owner::Role(Role::Orders) => {
                assert!(error.unwrap().starts_with("the payment was declined at "));
            }
            Owner::Role(Role::Relay) => {
                assert!(owned.starts_with("relay-") && error.is_none(), "{stopped}");
            }
            Owner::Role(_) => {
                let group = expected[0].1.unwrap();
                let says = format!("a process that runs {group} last said so at ");
                assert!(owned.starts_with(&says) && error.is_none(), "{stopped}");
            }
            Owner::Provider => {
                let error = error.unwrap();
                assert!(
                    stopped["detail"].as_str().unwrap().ends_with(error),
                    "{stopped}"
                );
            }
        }
        let age = stopped["age_ms"].as_u64().unwrap();
        let later = self.journey(id).await;
        assert_eq!(open(&later), expected, "{later}");
        assert!(
            age < later["stopped"]["age_ms"].as_u64().unwrap(),
            "{later}"
        );
        let text = self.desk.done(&format!("journey {id}")).await;
        let (station, group) = expected[0];
        let name = group.map_or(station.to_owned(), |group| format!("{station} {group}"));
        assert!(
            text.contains(&format!("\nIt stopped at {name}, ")),
            "{text}"
        );
        assert!(
            text.contains(&format!("\nIts turn: {}", &owned[..5])),
            "{text}"
        );
        assert_eq!(text.contains("\nLast error: "), error.is_some(), "{text}");
    }
}

fn stages(journey: &Value) -> impl Iterator<Item = &Value> {
    journey["stages"].as_array().unwrap().iter()
}

fn is_open(stage: &&Value) -> bool {
    stage["state"] != "done" && stage["state"] != "not_needed"
}

/// The stations that are not done, and their groups, each once.
fn open(journey: &Value) -> Vec<Open<'_>> {
    let mut open = Vec::new();
    for stage in stages(journey).filter(is_open) {
        let station = (stage["stage"].as_str().unwrap(), stage["group"].as_str());
        if !open.contains(&station) {
            open.push(station);
        }
    }
    open
}
