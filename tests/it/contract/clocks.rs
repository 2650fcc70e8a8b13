//! A process whose clock is put back by hours, as a machine's is that learns the time late: nobody waits until it is as
//! late again.

use catraca::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS, RELAY_LEASE_TTL_MS};

use crate::contract::desk::{Desk, T0};
use crate::contract::provider::{Mood, Provider, away, confirm, steps, transient};
use crate::support::database::on_every_log;

on_every_log! {
    Desk:
    a_relay_whose_clock_was_put_back_takes_what_nobody_has,
    a_consumer_whose_clock_was_put_back_tries_again_at_once,
}

/// By everybody else's clock its leases run out, and who has them then is gone before its clock is as late again.
async fn a_relay_whose_clock_was_put_back_takes_what_nobody_has(desk: Desk) {
    let (mut relay, mut other) = (desk.relay("put back"), desk.relay("other"));
    confirm(&desk, 3).await;
    assert_eq!(relay.step().await.unwrap().sent, 2);
    desk.let_leases_lapse();
    other.step().await.unwrap();
    other.resign().await.unwrap();
    desk.clock.set(T0.minus_ms(3_600_000));
    confirm(&desk, 3).await;
    let mut sent = 0;
    for _ in 0..2 {
        sent += relay.step().await.unwrap().sent;
        desk.clock.advance_ms(RELAY_LEASE_TTL_MS / 3);
    }
    assert_eq!(sent, 2);
}

async fn a_consumer_whose_clock_was_put_back_tries_again_at_once(desk: Desk) {
    let provider = Provider::of(&desk, Mood::FailsTimes(1, transient()));
    confirm(&desk, 3).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider.clone());
    steps(&mut consuming, |total| total.failed == 1).await;
    desk.clock.set(T0.minus_ms(3_600_000));
    steps(&mut consuming, |total| total.handled == 1).await;

    // The same while the breaker is open.
    provider.becomes(Mood::Fails(away()));
    confirm(&desk, 3).await;
    desk.relay_all().await;
    for _ in 0..BREAKER_FAILURES_MAX {
        desk.clock.advance_ms(BREAKER_OPEN_MS);
        steps(&mut consuming, |total| total.failed == 1).await;
    }
    provider.becomes(Mood::Well);
    desk.clock.set(T0.minus_ms(7_200_000));
    steps(&mut consuming, |total| total.handled == 1).await;
}
