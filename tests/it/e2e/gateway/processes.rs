//! Gateways that are processes, over one Redis: keys rotate under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::e2e::gateway::fleet::Fleet;
use crate::e2e::gateway::shop::Shop;
use crate::support::client::Client;
use crate::support::process::Alone;
use crate::support::sale::SHOW;
use crate::support::until;
use crate::support::visitor::Visitor;

/// How a ring is rotated: every gateway reads the new key before any signs with it.
const STAGES: [[(&str, &str); 2]; 2] = [
    [
        ("CATRACA__KEYS__ACTIVE", "k1"),
        ("CATRACA__KEYS__ACCEPTED", "k2"),
    ],
    [
        ("CATRACA__KEYS__ACTIVE", "k2"),
        ("CATRACA__KEYS__ACCEPTED", "k1"),
    ],
];
/// Fans who buy at a time.
const LANES: usize = 4;
/// Rounds that they go on after each change.
const ROUNDS: u64 = 3 * LANES as u64;

async fn buys(at: &str, fan: &Visitor) -> u16 {
    let headers = [
        ("x-catraca-pass", fan.pass.as_str()),
        ("x-admission-ticket", fan.ticket.as_str()),
    ];
    let line = format!("POST /v1/shows/{SHOW}/orders");
    let (status, _) = Client::of(at).ask(&line, &headers, &json!({})).await;
    status.as_u16()
}

/// Buys at either gateway, again and again, with a ticket of before and with new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_rotate_in_processes_and_nobody_is_refused() {
    let (_shop, address) = Shop::open().await;
    let changes = json!({ "capacity": 1_000, "claim_ms": 60_000, "ticket_ttl_ms": 300_000 });
    let Some(fleet) = Fleet::open(Some(&address), &changes).await else {
        return;
    };
    let mut pair = [fleet.gateway(&[]).await, fleet.gateway(&[]).await];
    let addresses = |pair: &[(Alone, String); 2]| pair.each_ref().map(|(_, at)| at.clone());
    let (told, at) = tokio::sync::watch::channel(addresses(&pair));
    let (stop, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::<AtomicU64>::default(),
    );
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let old = Visitor::join_by(Client::of(&pair[0].1))
            .await
            .inside()
            .await;
        let (at, stop, rounds) = (at.clone(), Arc::clone(&stop), Arc::clone(&rounds));
        lanes.spawn(async move {
            let mut refused = Vec::<(String, u16)>::new();
            while !stop.load(Ordering::SeqCst) {
                let both = at.borrow().clone();
                let new = Visitor::join_by(Client::of(&both[0])).await.inside().await;
                for at in &both {
                    for (what, fan) in [("new", &new), ("old", &old)] {
                        let status = buys(at, fan).await;
                        if status != 200 {
                            refused.push((format!("{what} at {at}"), status));
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(250)).await; // as often as a fan may
                }
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            refused
        });
    }
    let mut retired = Vec::new();
    for stage in STAGES {
        for half in 0..2 {
            let next = fleet.gateway(&stage).await;
            retired.push(std::mem::replace(&mut pair[half], next)); // its requests end in peace
            told.send_replace(addresses(&pair));
            let before = rounds.load(Ordering::SeqCst);
            until("fans buy meanwhile", || async {
                (before + ROUNDS <= rounds.load(Ordering::SeqCst)).then_some(())
            })
            .await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let refused: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    assert!(refused.is_empty(), "{refused:?}");
    let line = "GET /.well-known/jwks.json";
    let (_, keys) = Client::of(&pair[0].1).ask(line, &[], &Value::Null).await;
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2), "{keys}");
}
