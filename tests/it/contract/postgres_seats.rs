//! How PostgreSQL finds seats for a hold: by the indexes that are meant, and from where they are free.

use std::collections::BTreeSet;

use catraca::orders::rules::Refusal;

use crate::contract::shop::Shop;
use crate::contract::shop_home::Home;
use crate::support::postgres;

/// Two processes sell one section, each by what it saw last, and their buyers take turns: whoever finds
/// seats taken looks again, and everybody sits with who they came with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_sell_the_same_seats_get_out_of_each_others_way() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let one = Shop::open(&home, &[("B", 60, true)]).await;
    let other = Shop::open_again(&home).await;
    let mut taken = BTreeSet::new();
    for fan in 0..15 {
        for (fan, shop) in [(2 * fan, &one), (2 * fan + 1, &other)] {
            let hold = shop.hold(fan, 2).await.unwrap();
            let ordinals = hold
                .seats
                .iter()
                .map(|seat| seat[2..].parse::<u32>().unwrap());
            let ordinals: Vec<u32> = ordinals.collect();
            assert_eq!(ordinals[0] + 1, ordinals[1], "together");
            taken.extend(ordinals);
        }
    }
    assert_eq!(taken, (1..=60).collect());
    let none = other.hold(100, 2).await;
    assert!(matches!(none, Err(Refusal::SeatsTaken(_))), "{none:?}");
    one.audit(60).await;
}

/// What a statement finds each table by, and nothing else.
type Indexes = &'static [(&'static str, &'static [&'static str])];

/// What sells reads and writes.
const STATEMENTS: [(&str, Indexes); 6] = [
    (
        include_str!("../../../src/orders/in_postgres/sql/hold_facts.sql"),
        OF_HOLDS,
    ),
    (
        include_str!("../../../src/orders/in_postgres/sql/named_seats.sql"),
        OF_HOLDS,
    ),
    (
        include_str!("../../../src/orders/in_postgres/sql/held.sql"),
        OF_HOLDS,
    ),
    (
        include_str!("../../../src/orders/in_postgres/sql/order_facts.sql"),
        OF_ORDERS,
    ),
    (
        include_str!("../../../src/orders/in_postgres/sql/placed.sql"),
        OF_ORDERS,
    ),
    (
        include_str!("../../../src/orders/in_postgres/sql/carry_out.sql"),
        OF_ORDERS,
    ),
];
const OF_HOLDS: Indexes = &[
    ("holds", &["holds_by_ticket"]),
    ("orders", &["orders_ticket_id"]),
    ("seats", &["seats_by_state", "seats_pkey"]),
];
const OF_ORDERS: Indexes = &[
    ("holds", &["holds_pkey"]),
    ("orders", &["orders_hold_id", "orders_ticket_id"]),
    ("seats", &["seats_by_hold", "seats_pkey"]),
];
/// By which columns, at least: an index that is looked through from end to end, or for all of a show or a
/// section, finds the rows as well.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("holds_by_ticket", &["ticket_id = "]),
    ("holds_pkey", &["hold_id = "]),
    ("orders_hold_id", &["hold_id = "]),
    ("orders_ticket_id", &["ticket_id = "]),
    ("seats_by_hold", &["hold_id = "]),
    ("seats_by_state", &["section = ", "show = ", "state = "]),
    ("seats_pkey", &["seat = ", "show = "]),
];

/// A sale under way, larger than anybody would read for one hold.
const SALE: &str = "
    alter table holds set (autovacuum_enabled = off);
    alter table orders set (autovacuum_enabled = off);
    alter table seats set (autovacuum_enabled = off);
    insert into sections values ('show', 'B', 0, true, 100, 'BRL'), ('show', 'C', 1, true, 100, 'BRL');
    insert into seats select 'show', 'B', n, 'B-' || n, 'free', null from generate_series(1, 20000) n;
    insert into holds select 'h' || n, 'show', 'f' || n, 't' || n, '[]', 100, 'BRL',
      case when n % 3 = 0 then 'live' else 'ordered' end, 1800000000000 + n, 0, 1, 1
      from generate_series(1, 20000) n;
    insert into orders select 'o' || n, 'h' || n, 'show', 'f' || n, 't' || n, '', '', '[]', 100, 'BRL',
      'confirmed', null, 0, 0, 0, 1 from generate_series(1, 10000) n";
/// What the server knows best: a table that holds one seat.
const ONE_SEAT: &str = "
    insert into seats values ('show', 'A', 1, 'A-1', 'free', null); analyze; delete from seats";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sells_finds_its_rows_by_the_indexes_that_are_meant() {
    let histories = [
        &[
            ("nothing is there", "select"),
            ("never analysed", SALE),
            ("analysed", "analyze"),
        ][..],
        &[(
            "analysed when one seat was there",
            &*[ONE_SEAT, SALE].join(";"),
        )],
    ];
    for history in histories {
        let Some(url) = postgres::database().await else {
            return;
        };
        let mut db = postgres::connect(&url).await;
        postgres::execute(&mut db, "set enable_seqscan = off").await; // as all sessions of ours
        let statements = STATEMENTS.map(|(statement, _)| statement);
        postgres::plans(&mut db, history, &statements, check_plan).await;
    }
}

fn check_plan(when: &str, statement: &str, plan: &str) {
    let of = STATEMENTS.iter().find(|(of, _)| *of == statement);
    for (table, indexes) in of.unwrap().1 {
        let found = indexes_of(plan, table);
        let as_meant = found.iter().all(|index| indexes.contains(index));
        let is_asked = ["from", "join", "update"]
            .iter()
            .any(|word| statement.contains(&format!("{word} {table}")));
        assert!(
            as_meant && found.is_empty() != is_asked,
            "{when}: {table}: {found:?}\n{plan}"
        );
    }
    let lines: Vec<&str> = plan.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let of = |(index, _): &&(&str, &[&str])| {
            line.contains("Scan") && line.contains(&format!(" {index}"))
        };
        let Some((_, columns)) = COLUMNS.iter().find(of) else {
            continue;
        };
        let by = lines.get(at + 1).unwrap_or(&"");
        let is_led = columns.iter().all(|column| by.contains(column));
        assert!(is_led, "{when}: {line}: {by}\n{plan}");
    }
}

/// The indexes by which a plan reads a table; the table's own name where it reads all of it.
fn indexes_of<'a>(plan: &'a str, table: &'a str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for line in plan.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(4) {
            match pair {
                ["Seq", "Scan", "on", name] if *name == table => found.push(table),
                [_, "using", index, "on"] if index.starts_with(table) => found.push(index),
                ["Index", "Scan", "on", index] if index.starts_with(table) => found.push(index),
                _ => {}
            }
        }
    }
    found
}
