//! How PostgreSQL finds what relays and groups read: each row by its own index, so that a long log costs no
//! more than a short one.

use catraca::app::database::Database;

use crate::support::database;
use crate::support::postgres::{execute, lines, plans};

/// What relays and groups ask, again and again.
const STATEMENTS: [&str; 3] = [
    include_str!("../../../src/relay/sql/unsent.sql"),
    include_str!("../../../src/log/sql/poll.sql"),
    include_str!("../../../src/log/sql/lag.sql"),
];
/// Tables that grow with a sale.
const TABLES: [&str; 3] = ["outbox", "outbox_log", "outbox_quarantine"];

/// A sale that is long under way: nearly all of it is sent, and nearly all of that is read.
const SALE: &str = "
    alter table outbox set (autovacuum_enabled = off);
    alter table outbox_log set (autovacuum_enabled = off);
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
                        occurred_at_ms)
    select n::text, 'order', (n / 2)::text, 1 + n % 2, 'OrderPlaced', '{}', n / 2 % 6, 0
    from generate_series(2, 30001) n;
    insert into outbox_log (partition, \"offset\", seq, logged_at_ms)
    select partition, row_number() over (partition by partition order by seq) - 1, seq, 0
    from outbox where seq < 29990;
    insert into outbox_partitions (partition, holder, token, until_ms, floor_seq)
    select n, null, 1, 0, 0 from generate_series(0, 5) n;
    insert into log_groups select 'notify', n, 4900, 0 from generate_series(0, 5) n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_log_is_never_read_from_its_beginning() {
    let Some(Database::Postgres(opened)) = database::in_postgres().await else {
        return;
    };
    let mut db = opened.pool.acquire().await.unwrap();
    let history = [
        ("nothing is there", "select"),
        ("never analysed", SALE),
        ("analysed", "analyze"),
    ];
    plans(&mut db, &history, &STATEMENTS, |when, _, plan| {
        for table in TABLES {
            assert!(!reads_all_of(table, plan), "{when}: {table}\n{plan}");
        }
    })
    .await;
}

/// Marks that a group has not read, then events that nobody has sent, and no statistics.
const BACKLOG: &str = "
    alter table outbox set (autovacuum_enabled = off);
    alter table outbox_log set (autovacuum_enabled = off);
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
                        occurred_at_ms)
    select n::text, 'order', (n / 2)::text, 1 + n % 2, 'OrderPlaced', repeat('x', 200), n / 2 % 6, 0
    from generate_series(2, 200001) n;
    insert into outbox_log (partition, \"offset\", seq, logged_at_ms)
    select partition, row_number() over (partition by partition order by seq) - 1, seq, 0
    from outbox where seq < 100000;
    insert into outbox_partitions (partition, holder, token, until_ms, floor_seq)
    select n, null, 1, 0, 0 from generate_series(0, 5) n";

/// Of all that is to come only so much is touched as is asked for, also where nobody has counted the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_not_read_for_its_first_rows() {
    let Some(Database::Postgres(opened)) = database::in_postgres().await else {
        return;
    };
    let mut db = opened.pool.acquire().await.unwrap();
    execute(&mut db, BACKLOG).await;
    let [unsent, poll, _] = STATEMENTS;
    for mode in ["force_custom_plan", "force_generic_plan"] {
        execute(&mut db, &format!("set plan_cache_mode = {mode}")).await;
        for (statement, types, values, most) in [
            (
                unsent,
                "bigint, bigint, bigint, bigint",
                "1, 100000, 106000, 500",
                6_000,
            ),
            (poll, "text, bigint, bigint", "'notify', 1, 500", 500),
        ] {
            execute(&mut db, &format!("prepare meant ({types}) as {statement}")).await;
            let explain = format!(
                "explain (analyze, costs off, timing off, summary off) execute meant ({values})"
            );
            let plan = lines(&mut db, explain).await;
            execute(&mut db, "deallocate meant").await;
            let touched = plan.iter().filter_map(|line| touched(line)).max();
            let plan = plan.join("\n");
            assert!(touched.unwrap() <= most, "{mode}\n{plan}");
            assert!(plan.contains("(actual rows=500 loops=1)"), "{mode}\n{plan}");
        }
    }
}

/// How many rows a step of a plan came to in all.
fn touched(line: &str) -> Option<u64> {
    let number = |word: &str| {
        let rest = line.split_once(word)?.1;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse::<u64>().ok()
    };
    Some(number("(actual rows=")? * number(" loops=")?)
}

/// Whether a plan looks at a table's rows without a condition that an index answers.
fn reads_all_of(table: &str, plan: &str) -> bool {
    let answers = ["Index Cond:", "Recheck Cond:"];
    let lines: Vec<&str> = plan.lines().map(str::trim).chain([""]).collect();
    let reads = |line: &str| {
        line.split_whitespace()
            .skip_while(|word| *word != "on")
            .nth(1)
            == Some(table)
    };
    lines
        .windows(2)
        .any(|pair| reads(pair[0]) && !answers.iter().any(|by| pair[1].starts_with(by)))
}
