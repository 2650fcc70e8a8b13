//! Joins by network: counted without SQL, told once a minute and show, and counted in five minutes by a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use catraca::analytics;
use catraca::analytics::step::Teller;
use catraca::analytics::store::{Came, Joined};
use catraca::analytics::window::{FIVE_MINUTES, LATENESS_MS};
use catraca::base::ids::{IdSource, ShowId};
use catraca::base::limits::{
    GROUP_RUNS_MS, JOINED_NETWORKS_MAX, JOINS_PAGE_MAX, JOINS_SHOWN_MAX, JOINS_TOLD_MAX,
};
use catraca::base::time::{Clock, ManualClock, Timestamp};
use catraca::driver::redis::Settings as Servers;
use catraca::event::{Event, JoinsCounted, NetworkJoins};
use catraca::limit::gcra::{Entry, Ladder};
use catraca::limit::joins_in_memory::JoinsInMemory;
use catraca::limit::joins_in_redis::{CountingClock, JoinsInRedis};
use catraca::limit::prefix::{Network, Prefixes};
use catraca::limit::tally::{Counted, MINUTE_MS, minute_of};
use catraca::limit::{Joiner, Joins, Settings, Showing, Silence};
use catraca::log::inbox::{Rewound, Run};
use catraca::tally::step::Tallier;

use crate::contract::desk::{Desk, T0};
use crate::contract::groups::go_on;
use crate::support::chain;
use crate::support::database::{self, on_every_log};
use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::redis::Server;

on_every_log! {
    Desk:
    a_minute_is_told_once_whoever_dies_in_between,
    every_join_counts_once_in_its_five_minutes_or_as_late,
    joins_are_built_again_the_same,
}

fn show() -> ShowId {
    "gala".parse().unwrap()
}

async fn join(joins: &dyn Joins, address: &str) {
    let joiner = Joiner {
        from: Prefixes::of(address.parse().unwrap()),
        shows: Showing::Nothing,
    };
    let entry = joins.ask(&show(), joiner).await;
    assert!(matches!(entry, Entry::Pass { .. }), "{entry:?}");
}

fn in_memory(clock: Arc<dyn Clock>) -> JoinsInMemory {
    JoinsInMemory::new(Ladder::of(&Settings::default()), 1_000).tallying(clock)
}

fn tallier(desk: &Desk, joins: Arc<dyn Joins>) -> Tallier {
    Tallier {
        shows: desk.stores.shows.clone(),
        joins,
        store: desk.stores.tally.clone(),
        clock: desk.time(),
        ids: Arc::new(IdSource::seeded(9)),
    }
}

/// Who tells and dies before the minute is let go of.
#[derive(Debug)]
struct Mortal(Arc<JoinsInMemory>);

#[async_trait]
impl Joins for Mortal {
    async fn ask(&self, show: &ShowId, joiner: Joiner) -> Entry {
        self.0.ask(show, joiner).await
    }

    async fn closed(&self, show: &ShowId) -> Result<Vec<Counted>, Silence> {
        self.0.closed(show).await
    }

    async fn forget(&self, _: &ShowId, _: &Counted) -> Result<(), Silence> {
        Err(Silence(anyhow::anyhow!("it died")))
    }
}

async fn a_minute_is_told_once_whoever_dies_in_between(desk: Desk) {
    let joins = Arc::new(in_memory(desk.time()));
    for address in ["203.0.113.7", "203.0.113.200", "2001:db8:1:2::1"] {
        join(&*joins, address).await;
    }
    let whole = tallier(&desk, joins.clone());
    assert_eq!(whole.tell(&show()).await.unwrap(), 0, "it is not over");
    desk.clock.advance_ms(MINUTE_MS);
    let mortal = tallier(&desk, Arc::new(Mortal(joins.clone())));
    let died = mortal.tell(&show()).await.unwrap_err();
    assert_eq!(chain(&died), "joins cannot be told: it died");
    assert_eq!(whole.tell(&show()).await.unwrap(), 0, "it was told before");
    assert_eq!(joins.closed(&show()).await.unwrap(), [], "and is let go of");

    join(&*joins, "203.0.113.7").await;
    desk.clock.advance_ms(MINUTE_MS);
    assert_eq!(whole.tell(&show()).await.unwrap(), 1);
    // A store that has gone back to a minute before that.
    let old = Arc::new(ManualClock::at(T0));
    let older = Arc::new(in_memory(old.clone()));
    join(&*older, "203.0.113.7").await;
    old.advance_ms(MINUTE_MS);
    let told = tallier(&desk, older.clone()).tell(&show()).await;
    assert_eq!(told.unwrap(), 0);
    assert_eq!(older.closed(&show()).await.unwrap(), []);

    let rows: Vec<(i64, String, String)> = database::all(
        &desk.db,
        "select aggregate_version, aggregateid, payload from outbox order by aggregate_version",
    )
    .await;
    let told: Vec<(i64, &str, &str)> = rows
        .iter()
        .map(|(version, key, payload)| {
            (
                *version,
                &**key,
                payload.split_once("\"showId\"").unwrap().1,
            )
        })
        .collect();
    let first = r#":"gala","minute":"2027-01-15T08:00:00Z","joins":3,"networks":[{"network":"203.0.113.0/24","joins":2},{"network":"2001:db8:1::/48","joins":1}]}"#;
    let second = r#":"gala","minute":"2027-01-15T08:01:00Z","joins":1,"networks":[{"network":"203.0.113.0/24","joins":1}]}"#;
    assert_eq!(told, [(1, "gala/joins", first), (2, "gala/joins", second)]);
    desk.relay_all().await;
    count_all(&desk).await;
    assert_eq!(windows(&desk).await[0].all, came(4, 0));
}

async fn count_all(desk: &Desk) {
    let teller = Teller::new(desk.stores.analytics.clone());
    go_on(desk, teller, analytics::GROUP).await;
}

fn came(in_time: u64, late: u64) -> Came {
    Came { in_time, late }
}

async fn windows(desk: &Desk) -> Vec<Joined> {
    let (store, begin) = (&desk.stores.analytics, Timestamp::default());
    store.joins(&show(), begin).await.unwrap()
}

/// So many joins of a minute, and from where they came; the rest from elsewhere.
async fn counted(desk: &Desk, version: u64, minute: Timestamp, joins: u64, named: &[(&str, u64)]) {
    let networks = named.iter().map(|(network, joins)| NetworkJoins {
        network: (*network).to_owned(),
        joins: *joins,
    });
    let counted = JoinsCounted {
        show_id: show(),
        minute,
        joins,
        networks: networks.collect(),
    };
    desk.write(Event::JoinsCounted(counted), version).await;
}

async fn every_join_counts_once_in_its_five_minutes_or_as_late(mut desk: Desk) {
    let minute = |n: u64| T0.plus_ms(n * MINUTE_MS);
    let window = |n: u64| T0.plus_ms(n * FIVE_MINUTES.0);
    let closes = LATENESS_MS / MINUTE_MS + 5;
    for (version, (at, joins, named)) in (1..).zip([
        (0, 10, vec![("203.0.113.0/24", 6), ("2001:db8:1::/48", 1)]),
        (4, 5, vec![("203.0.113.0/24", 5)]),
        (closes - 1, 2, vec![]),
        (1, 3, vec![("198.51.100.0/24", 3)]), // out of order, and not late
        (closes, 1, vec![]),                  // closes the first window
        (2, 7, vec![("203.0.113.0/24", 4)]),  // late
    ]) {
        counted(&desk, version, minute(at), joins, &named).await;
    }
    desk.relay_all().await;
    count_all(&desk).await;
    let network = |name: &str, came| (name.to_owned(), came);
    let expected = [
        Joined {
            window: window(0),
            all: came(18, 7),
            networks: vec![
                network("203.0.113.0/24", came(11, 4)),
                network("198.51.100.0/24", came(3, 0)),
                network("2001:db8:1::/48", came(1, 0)),
            ],
        },
        Joined {
            window: window(1),
            all: came(3, 0),
            networks: vec![],
        },
    ];
    assert_eq!(windows(&desk).await, expected);

    // Handed over again, whatever the group remembers of its place.
    desk.run("update log_groups set \"offset\" = 0 where consumer = 'analytics'")
        .await;
    desk.restart();
    count_all(&desk).await;
    assert_eq!(windows(&desk).await, expected);
    let after = desk.stores.analytics.joins(&show(), window(0)).await;
    assert_eq!(after.unwrap(), expected[1..]);
    let other = "ball".parse().unwrap();
    let none = desk.stores.analytics.joins(&other, Timestamp::default());
    assert_eq!(none.await.unwrap(), []);
}

async fn joins_are_built_again_the_same(mut desk: Desk) {
    let many = JOINS_PAGE_MAX as u64 + 2;
    for n in 0..many {
        // Times that jump back and forth, so that some are late.
        let at = FIVE_MINUTES
            .begin(T0)
            .plus_ms(n * 7 % many * FIVE_MINUTES.0);
        let names: Vec<String> = (0..JOINS_SHOWN_MAX + 2)
            .map(|n| format!("10.0.{n}.0/24"))
            .collect();
        let named: Vec<(&str, u64)> = names.iter().map(|name| (&**name, 1 + n % 3)).collect();
        let named = if n < 2 { &named[..] } else { &named[..1] };
        counted(&desk, n + 1, at, 1_000, named).await;
    }
    desk.relay_all().await;
    count_all(&desk).await;
    let all = "select cast(sum(joins + late_joins) as bigint) from joins_by_network";
    assert_eq!(desk.count(all).await, 1_000 * many.cast_signed());
    let late = "select cast(sum(late_joins) as bigint) from joins_by_network";
    assert!(0 < desk.count(late).await, "none is late");
    let before = windows(&desk).await;
    assert_eq!(before.len(), JOINS_PAGE_MAX);
    assert_eq!(before[0].networks.len(), JOINS_SHOWN_MAX);
    assert!(
        before
            .iter()
            .all(|window| window.all.in_time + window.all.late == 1_000)
    );
    desk.run("update joins_by_network set joins = 1000").await;

    desk.clock.advance_ms(GROUP_RUNS_MS);
    let again = desk.stores.analytics.begin_again(Run::Real).await.unwrap();
    assert!(matches!(again, Rewound::From(_)), "{again:?}");
    assert_eq!(windows(&desk).await, []);
    desk.restart();
    count_all(&desk).await;
    assert_eq!(windows(&desk).await, before);
}

/// What gateways count together in a server, minute by minute of the server's time.
async fn gateways_tally_together(need: &Need) {
    let Some(mut server) = Server::start(need) else {
        return;
    };
    let servers = Servers {
        url: server.url(),
        ..Servers::default()
    };
    let open = |clock| JoinsInRedis::open(&servers, Ladder::of(&Settings::default()), 1_000, clock);
    let gateways = [0, 1].map(|_| open(CountingClock::Key).unwrap());
    let is_at = |now: Timestamp| {
        let us = (1_000 * now.as_millis()).to_string();
        server.tell(&["SET", "catraca:{gala}:limit:all:clock", &us]);
    };
    // The server's counts go by its own clock when they are empty: begin ahead of it.
    let t0 = minute_of(Timestamp::from_unix_ms(4_000_000_000_000));
    is_at(t0);
    join(&gateways[0], "203.0.113.7").await;
    join(&gateways[1], "203.0.113.200").await;
    is_at(t0.plus_ms(MINUTE_MS - 1));
    join(&gateways[1], "2001:db8:1:2::1").await;
    assert_eq!(gateways[0].closed(&show()).await.unwrap(), []);
    is_at(t0.plus_ms(MINUTE_MS));
    join(&gateways[0], "203.0.113.7").await;
    let of = |minute: Timestamp, networks: &[(&str, u64)]| Counted {
        minute,
        networks: networks
            .iter()
            .map(|(name, joins)| (Network((*name).to_owned()), *joins))
            .collect::<BTreeMap<_, _>>(),
    };
    let first = of(t0, &[("203.0.113.0/24", 2), ("2001:db8:1::/48", 1)]);
    assert_eq!(
        gateways[1].closed(&show()).await.unwrap(),
        std::slice::from_ref(&first)
    );

    // As many as there may be: who is known counts on, who is new counts for the rest.
    let fill = format!(
        "for n = 1, {JOINED_NETWORKS_MAX} do redis.call('ZADD', KEYS[1], 1, '0 ' .. n) end"
    );
    server.tell(&["EVAL", &fill, "1", "catraca:{gala}:limit:joined"]);
    join(&gateways[0], "198.51.100.7").await;
    join(&gateways[0], "203.0.113.9").await;
    is_at(t0.plus_ms(2 * MINUTE_MS));
    let closed = gateways[0].closed(&show()).await.unwrap();
    assert_eq!(closed[0].networks.len(), JOINED_NETWORKS_MAX);
    let second = of(t0.plus_ms(MINUTE_MS), &[("203.0.113.0/24", 2), ("", 1)]);
    assert_eq!(closed[1..], [first, second]);
    assert_eq!(closed[0].most(JOINS_TOLD_MAX).len(), JOINS_TOLD_MAX);
    for counted in &closed {
        gateways[1].forget(&show(), counted).await.unwrap();
        gateways[1].forget(&show(), counted).await.unwrap();
    }
    assert_eq!(gateways[0].closed(&show()).await.unwrap(), []);

    // On the server's own clock, and where it is away.
    let own = open(CountingClock::Server).unwrap();
    assert_eq!(own.closed(&show()).await.unwrap(), []);
    server.die();
    own.closed(&show()).await.unwrap_err();
    own.forget(&show(), &closed[1]).await.unwrap_err();
}

#[tokio::test]
async fn in_redis_gateways_tally_together() {
    gateways_tally_together(&REDIS).await;
}

#[tokio::test]
async fn in_valkey_gateways_tally_together() {
    gateways_tally_together(&VALKEY).await;
}
