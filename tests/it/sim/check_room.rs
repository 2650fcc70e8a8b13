//! What the sale leaves when the room has lost one of its rules: `check` names that promise and no
//! other.

use catraca::check::Promise;
use serde_json::json;

use crate::sim::check::expect;
use crate::sim::check_sale::Sale;
use crate::sim::check_trail::{TICK_MS, admitted, at, join, until};

#[tokio::test]
async fn without_one_number_a_fan() {
    let mut sale = Sale::clean().await;
    let mut again = join(33, -2_000);
    again["number"] = json!(37);
    sale.history.push(again);
    expect(sale, Promise::OnePlace, "with number 37").await;
}

#[tokio::test]
async fn with_numbers_leased_in_blocks() {
    let mut sale = Sale::clean().await;
    for (n, number) in [(31, 32), (32, 31)] {
        sale.history.retain(|line| line["fan_no"] != n);
        let mut join = join(n, i64::try_from(n).unwrap() * 10 - 10_000);
        join["number"] = json!(number);
        sale.history.push(join);
    }
    expect(sale, Promise::RealTimeOrder, "was answered number 32").await;
}

#[tokio::test]
async fn with_joins_answered_before_their_commit() {
    let sale = Sale::clean().await;
    sale.run_in_room("delete from room_journal where seq = 35")
        .await;
    expect(sale, Promise::NothingLost, "the journal has no such join").await;
    let mut sale = Sale::clean().await;
    let mut again = join(35, 2_900);
    again["number"] = json!(37);
    sale.history.push(again);
    expect(sale, Promise::NothingLost, "after a restart").await;
}

#[tokio::test]
async fn with_admissions_that_start_anew_after_a_restart() {
    let mut sale = Sale::clean().await;
    sale.history
        .push(admitted(2, 3_500, until(2).plus_ms(7_000)));
    expect(sale, Promise::NothingLost, "that the ticket ends at").await;
    let mut sale = Sale::clean().await;
    let mut other = admitted(2, 3_500, until(2));
    other["ticket_id"] = json!("000000000000000000000000000000aa");
    sale.history.push(other);
    expect(
        sale,
        Promise::NothingLost,
        "and ticket 000000000000000000000000000000aa",
    )
    .await;
}

#[tokio::test]
async fn without_quota() {
    let sale = Sale::clean().await;
    sale.run("update room_ledger set at_ms = at_ms - 51 where json_extract(body, '$.Called.fans[0][1]') = 12")
        .await;
    expect(sale, Promise::ExactRate, "2 fans were called in the 100 ms").await;
}

#[tokio::test]
async fn with_an_admitter_that_naps() {
    let sale = Sale::clean().await;
    sale.run(
        "update room_ledger set body = json_set(body, '$.Called.rate', 2) where kind = 'called'",
    )
    .await;
    expect(
        sale,
        Promise::ExactRate,
        "only 9 fans were called in the 1000 ms",
    )
    .await;
}

/// Two ticks call each other's fans.
async fn swap(sale: &Sale, ticks: [u64; 2]) {
    let [one, two] = ticks.map(|tick| at(tick * TICK_MS).as_millis());
    sale.run(&format!(
        "create temp table two as select seq, json_extract(body, '$.Called.fans') as fans
             from room_ledger where kind = 'called' and at_ms in ({one}, {two});
         update room_ledger set body = json_set(body, '$.Called.fans',
             (select json(fans) from two where two.seq <> room_ledger.seq))
             where seq in (select seq from two);"
    ))
    .await;
}

#[tokio::test]
async fn with_a_line_that_is_not_kept() {
    let sale = Sale::clean().await;
    swap(&sale, [20, 21]).await;
    expect(sale, Promise::InTurn, "was called after number 21").await;
    let sale = Sale::clean().await;
    swap(&sale, [16, 17]).await;
    expect(sale, Promise::InTurn, "who had come back to place 6").await;
}

#[tokio::test]
async fn without_capacity() {
    let sale = Sale::clean().await;
    sale.run(
        "update room_ledger set body = json_set(body, '$.Called.capacity', 9) where kind = 'called'",
    )
    .await;
    expect(sale, Promise::Capacity, "where 9 may be").await;
}
