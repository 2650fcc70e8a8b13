//! HTTP/2 in floods (row 32): the connection that floods ends, and nobody else notices.

use crate::e2e::hostile::frames::{changed, is_served};
use crate::e2e::hostile::site::Site;
use crate::e2e::hostile::wire::Outcome::{GoAway, Reset, Status};
use crate::e2e::hostile::wire::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RESET, SETTINGS,
    WINDOW_UPDATE, Wire, block, frame, honest, request,
};

/// Frames of a flood, unless the connection ends before.
const TIMES: u32 = 20_000;

const FLOODS: [&str; 12] = [
    "rapid reset",
    "made you reset",
    "priority on itself",
    "settings",
    "pings",
    "priorities",
    "empty data",
    "padding only",
    "continuations",
    "empty continuations",
    "resets of nothing",
    "unknown frames",
];

/// The next frames of a flood.
fn flood(what: &str, n: u32) -> Vec<u8> {
    let id = 2 * n + 1;
    let open = |id| {
        frame(
            HEADERS,
            END_HEADERS,
            id,
            &block(&changed(":method", "POST")),
        )
    };
    let on_itself = [&id.to_be_bytes()[..], &[1]].concat();
    match (what, n) {
        ("rapid reset", _) => [open(id), frame(RESET, 0, id, &[0, 0, 0, 8])].concat(),
        ("made you reset", _) => [open(id), frame(WINDOW_UPDATE, 0, id, &[0; 4])].concat(),
        ("priority on itself", _) => [open(id), frame(PRIORITY, 0, id, &on_itself)].concat(),
        ("settings", _) => frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]),
        ("pings", _) => frame(PING, 0, 0, &[7; 8]),
        ("priorities", _) => frame(PRIORITY, 0, id, &[0, 0, 0, 0, 1]),
        ("empty data" | "padding only", 0) => open(1),
        ("empty data", _) => frame(DATA, 0, 1, &[]),
        ("padding only", _) => frame(DATA, 8, 1, &[250; 251]),
        ("continuations" | "empty continuations", 0) => {
            frame(HEADERS, 0, 1, &block(&honest("/open/x")))
        }
        ("continuations", _) => frame(CONTINUATION, 0, 1, &block(&[("x", "a")])),
        ("empty continuations", _) => frame(CONTINUATION, 0, 1, &[]),
        ("resets of nothing", _) => frame(RESET, 0, id, &[0, 0, 0, 8]),
        _ => frame(0xbb, 0, n, &[0; 16]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_end_their_own_connection() {
    let site = Site::open().await;
    let mut bystander = Wire::open(&site).await;
    let before = resident_bytes(site.server.id());
    for what in FLOODS {
        let mut wire = Wire::open(&site).await;
        let mut sent = 0;
        while sent < TIMES && wire.write(&flood(what, sent)).await {
            sent += 1;
        }
        assert!(wire.ends().await, "{what}: it goes on after {sent}");
        site.shop.reached();
    }
    assert!(is_served(&mut bystander, 1).await, "the others notice");
    let grown = resident_bytes(site.server.id()).saturating_sub(before);
    let (kinds, mib) = (FLOODS.len(), grown >> 20);
    eprintln!("hostile floods: {kinds} kinds of {TIMES} frames or less, {mib} MiB more resident");
    assert!(grown < 200 << 20, "{grown}");
}

/// What a process holds in memory.
pub(crate) fn resident_bytes(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// Row 32: streams, header lists and windows have bounds of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_have_bounds() {
    let site = Site::with(
        "stall_ms = 400\nrequest_ms = 400\nbody_silence_ms = 3000",
        &[],
    )
    .await;
    // More streams than may be open.
    let mut wire = Wire::open(&site).await;
    let post = block(&changed(":method", "POST"));
    for n in 0..101 {
        wire.write(&frame(HEADERS, END_HEADERS, 2 * n + 1, &post))
            .await;
    }
    assert_eq!(wire.outcome(201).await, Reset(7), "refused");
    // A list that unpacks to more than may be.
    let mut wire = Wire::open(&site).await;
    let mut bomb = block(&honest("/open/x"));
    bomb.extend([0x40, 1, b'x', 127, 0x80 | 73, 30]); // a value of 4,000 bytes, indexed
    bomb.extend(vec![b'a'; 127 + 73 + 30 * 128]);
    bomb.extend(vec![0xbe; 2_000]); // again, and again
    wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb))
        .await;
    let outcome = wire.outcome(1).await;
    assert!(
        matches!(outcome, Status(431) | Reset(_) | GoAway(_)),
        "{outcome:?}"
    );
    // A window that stays shut: the answer is given up, although every ping is answered.
    site.shop.says(&[("x", "1")]);
    site.shop.reached();
    let mut wire = Wire::open_with(&site, site.server.gateway, &[0, 4, 0, 0, 0, 0]).await;
    wire.write(&request(1, &honest("/.well-known/jwks.json")))
        .await;
    assert_eq!(wire.outcome(1).await, Status(200));
    let given_up = wire.outcome(1).await;
    assert!(matches!(given_up, Reset(_)), "{given_up:?}");
}
