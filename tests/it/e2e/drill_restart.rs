//! The program is killed again and again in the middle of a sale, and nobody loses anything.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catraca::base::time::{Clock, SystemClock};
use catraca::check::{Promise, Verdict};
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::process::Server;
use crate::support::sale::{create_by_hand, crowd, expect, settings, verdicts};
use crate::support::until;
use crate::support::visitor::Visitor;

/// How often it is killed.
const KILLS: usize = 3;
/// Between two kills.
const LIFE_MS: std::ops::Range<u64> = 500..1_800;

/// Where everybody expects the program, in all of its lives.
pub(crate) struct Ports {
    pub(crate) gateway: SocketAddr,
    env: Vec<(&'static str, String)>,
}

impl Ports {
    /// Those of a server, for lives with these variables.
    pub(crate) fn of(server: &Server, variables: &[(&'static str, &str)]) -> Self {
        let mut env = vec![
            ("CATRACA__GATEWAY__LISTEN", server.gateway.to_string()),
            ("CATRACA__ADMIN__LISTEN", server.admin.to_string()),
            ("CATRACA__ORDERS__LISTEN", server.orders.to_string()),
        ];
        env.extend(variables.iter().map(|(n, v)| (*n, (*v).to_owned())));
        Self {
            gateway: server.gateway,
            env,
        }
    }

    pub(crate) async fn up(&self, folder: &Path) -> Server {
        let env: Vec<(&str, &str)> = self.env.iter().map(|(n, v)| (*n, v.as_str())).collect();
        Server::up(folder, &env).await
    }
}

/// Creates the show with the command line, to open in a moment.
pub(crate) async fn create_show(folder: &Path, server: &Server) {
    let now = SystemClock.now();
    let mut document = settings(&json!({
        "rate": 40,
        "ticket_ttl_ms": 30_000,
        "claim_ms": 5_000,
        "hold_ms": 20_000,
        "capacity": 30,
    }));
    document["sections"][0]["seats"] = json!(34);
    document["sections"][1]["seats"] = json!(20);
    document["early_at"] = json!(now);
    document["opens_at"] = json!(now.plus_ms(1_500));
    let admin = format!("http://{}", server.admin);
    let client = Client::of(format!("http://{}", server.gateway));
    create_by_hand(folder, &admin, &client, &document).await;
}

/// What must be the same in every life of the program.
async fn credentials(visitor: &Visitor) -> (Value, Value) {
    let status = until("the status is answered", || async {
        let (code, status) = visitor.try_status().await.ok()?;
        (code == 200).then_some(status)
    })
    .await;
    assert_eq!(status["state"], "admitted", "{status}");
    assert_eq!(status["place"], visitor.number, "{status}");
    let claims = status["ticket"]
        .as_str()
        .unwrap()
        .split('.')
        .nth(1)
        .unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    (claims["jti"].clone(), status["ticket_expires_at"].clone())
}

fn counted(verdicts: &[Verdict], what: &str) -> usize {
    let lost = |verdict: &&Verdict| verdict.promise == Promise::NothingLost;
    let verdict = verdicts.iter().find(lost).unwrap();
    let line = verdict.looked_at.iter().find(|line| line.ends_with(what));
    let line = line.unwrap_or_else(|| panic!("{what}: {:?}", verdict.looked_at));
    line.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_survives_being_killed_three_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = Server::up(folder, &[]).await;
    let ports = Ports::of(&server, &[]);
    create_show(folder, &server).await;
    let visitor = Visitor::join_by(Client::of(format!("http://{}", ports.gateway))).await;
    let visiting = async {
        let visitor = visitor.inside().await;
        let before = credentials(&visitor).await;
        for kill in 1..=KILLS {
            let life_ms = rand::random_range(LIFE_MS);
            eprintln!("kill {kill} after {life_ms} ms");
            tokio::time::sleep(Duration::from_millis(life_ms)).await;
            server.die().await;
            server = ports.up(folder).await;
            assert_eq!(credentials(&visitor).await, before, "after kill {kill}");
        }
        visitor.leave().await;
        server
    };
    let words = "--fans 100 --no-js 0.3 --claim-ms 5000";
    let (server, report) = tokio::join!(visiting, crowd(ports.gateway, folder, words));
    assert!(report.is_clean(), "{report}");
    expect(folder, &[], &[4]).await.unwrap();
    let verdicts = verdicts(folder).await;
    assert!(1 <= counted(&verdicts, "restarts"));
    assert!(1 <= counted(&verdicts, "answers with JavaScript"));
    assert!(1 <= counted(&verdicts, "answers without"));
    assert_eq!(server.terminate().await, Some(0));
}
