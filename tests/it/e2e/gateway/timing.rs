//! The one 401 takes as long, whatever is wrong with a ticket: who measures learns nothing.

use std::time::Instant;

use catraca::base::limits::LIMIT_MAX;
use catraca::limit::Limit;
use catraca::room::model::command::AfterRevoke;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::e2e::gateway::door::{Door, Plan, show};
use crate::e2e::gateway::script::Wire;

/// Connections that measure at a time.
const LANES: usize = 2;
/// Pairs that each measures in a batch: one ticket with a bad signature, one that was revoked.
const PAIRS: usize = 300;
/// A machine that does other things as well may favour one kind by chance, for a while. So a batch that
/// shows a difference is followed by another, and only a difference that all of them show is one.
const BATCHES: usize = 3;
/// Of all answers, those that are looked at, in per cent: the slower ones waited for something else, and
/// would hide a difference.
const KEPT: usize = 50;
/// Where Welch's t says that two means differ.
const T_MAX: f64 = 4.5;

/// How long an answer to these bytes takes, in microseconds.
async fn takes(wire: &mut Wire, request: &str) -> f64 {
    let from = Instant::now();
    wire.say(request).await;
    let head = wire.head().await.expect("an answer");
    wire.until("}").await.expect("its end");
    let took = from.elapsed();
    assert!(head.starts_with("http/1.1 401"), "{head}");
    took.as_secs_f64() * 1e6
}

/// Both kinds in turns, and each as often first.
async fn lane(door: std::net::SocketAddr, requests: [String; 2]) -> [Vec<f64>; 2] {
    let mut wire = Wire::new(TcpStream::connect(door).await.unwrap());
    let mut took = [Vec::new(), Vec::new()];
    for n in 0..PAIRS {
        for kind in [n % 2, 1 - n % 2] {
            let one = takes(&mut wire, &requests[kind]).await;
            took[kind].push(one);
        }
    }
    took
}

/// Welch's t of what is kept of two samples.
#[expect(clippy::cast_precision_loss, reason = "counts of samples are small")]
fn welch([a, b]: [Vec<f64>; 2]) -> f64 {
    let mut all = [a.as_slice(), b.as_slice()].concat();
    all.sort_by(f64::total_cmp);
    let longest = all[all.len() * KEPT / 100];
    let moments = |sample: Vec<f64>| {
        let kept: Vec<f64> = sample.into_iter().filter(|one| *one <= longest).collect();
        let n = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / n;
        let square = |one: &f64| (one - mean) * (one - mean);
        (mean, kept.iter().map(square).sum::<f64>() / (n - 1.0) / n)
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (moments(a), moments(b));
    (mean_a - mean_b) / (error_a + error_b).sqrt()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_signature_and_a_revoked_ticket_take_as_long() {
    let mut plan = Plan::default();
    let (per_s, burst) = (LIMIT_MAX, LIMIT_MAX);
    plan.settings.limits.anything = Limit { per_s, burst };
    plan.settings.limits.gated = Limit { per_s, burst };
    let door = Door::planned(plan).await;
    let (ana, revoked) = door.admitted().await;
    let fans = vec![ana.fan];
    door.rooms
        .revoke(&show(), fans, AfterRevoke::Out)
        .await
        .unwrap();
    let (signed, signature) = revoked.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{signed}.{first}{}", &signature[1..]);
    let requests = [forged, revoked].map(|ticket| {
        format!(
            "POST /v1/shows/gala/orders HTTP/1.1\r\nhost: a\r\nx-catraca-pass: {}\r\n\
             x-admission-ticket: {ticket}\r\ncontent-length: 0\r\n\r\n",
            ana.pass
        )
    });
    let mut found = Vec::new();
    while found.len() < BATCHES {
        let mut lanes = JoinSet::new();
        for _ in 0..LANES {
            lanes.spawn(lane(door.address, requests.clone()));
        }
        let mut both = [Vec::new(), Vec::new()];
        for [forged, revoked] in lanes.join_all().await {
            both[0].extend(forged);
            both[1].extend(revoked);
        }
        let t = welch(both);
        eprintln!("timing of the 401: t = {t:.2} of {} pairs", LANES * PAIRS);
        if t.abs() < T_MAX {
            return;
        }
        found.push(t);
    }
    panic!("the two differ in every batch: t = {found:?}");
}

#[test]
fn what_differs_is_seen() {
    let sample = |from: u32| {
        (0..1_000)
            .map(|n| f64::from(from + n % 50))
            .collect::<Vec<_>>()
    };
    assert!(welch([sample(1_000), sample(1_000)]).abs() < T_MAX);
    assert!(T_MAX < welch([sample(1_010), sample(1_000)]).abs());
}
