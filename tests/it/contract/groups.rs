//! Groups that read the log: each from its beginning, at its own pace, and again when an operator says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{IdSource, ShowId};
use catraca::base::limits::GROUP_RUNS_MS;
use catraca::event::{Event, SectionStock, ShowSoldOut, StockChanged};
use catraca::log::consume::Consuming;
use catraca::log::inbox::{Inbox, Rewound, Run};
use catraca::log::{ApplyError, Consumer, Delivery};
use catraca::room::in_memory::InMemory;
use catraca::room::{Rooms, Store};
use catraca::search;
use catraca::search::step::Lister;
use catraca::search::store::{Said, What};
use catraca::stock::step::{Counter, Parts};

use crate::contract::desk::{Desk, T0, facts};
use crate::support::database::{self, on_every_log};
use crate::support::until;

on_every_log! {
    Desk:
    a_listing_is_what_the_last_event_said,
    what_cannot_be_listed_is_set_aside_and_stops_nobody,
    listings_are_built_again_the_same,
    a_replay_writes_to_nobody_and_changes_no_stock,
    a_group_that_may_run_does_not_begin_again,
    a_new_group_reads_everything_without_its_producers_knowing,
}

/// How many orders are read again: in the long form, `./dev drill groups`, as many as it says.
pub(crate) fn orders(short: u64) -> u64 {
    std::env::var("CATRACA_DRILL_REPLAY").map_or(short, |text| text.parse().unwrap())
}

fn show(name: &str) -> ShowId {
    name.parse().unwrap()
}

fn section(name: &str, free: u64) -> SectionStock {
    SectionStock {
        name: name.to_owned(),
        free,
        held: 1,
        sold: 10 - free,
    }
}

/// What is left of a show with two sections.
pub(crate) fn left(name: &str, free: u64) -> Event {
    Event::StockChanged(StockChanged {
        show_id: show(name),
        free: 2 * free,
        held: 2,
        sold: 20 - 2 * free,
        sections: vec![section("B", free), section("A", free)],
    })
}

fn sold_out(name: &str) -> Event {
    let show_id = show(name);
    Event::ShowSoldOut(ShowSoldOut { show_id, sold: 20 })
}

fn at_work<C: Consumer>(desk: &Desk, consumer: C) -> Consuming<C> {
    Consuming::new(consumer, desk.log(), desk.inbox(), desk.time())
}

/// Lets a group go on until it is past everything that is in the log.
pub(crate) async fn go_on<C: Consumer>(desk: &Desk, consumer: C, group: &str) {
    let consuming = tokio::sync::Mutex::new(at_work(desk, consumer));
    let step = async || {
        consuming.lock().await.step().await.unwrap();
    };
    catch_up(desk, group, step).await;
}

/// Steps until the group is past everything. Whoever is past nothing more for a while never will be.
async fn catch_up(desk: &Desk, group: &str, step: impl AsyncFn()) {
    let mut left = u64::MAX;
    while 0 < left {
        let before = left;
        left = until("the group gets on", async || {
            step().await;
            let now = behind(desk, group).await;
            (now < before).then_some(now)
        })
        .await;
    }
}

/// How many events the group has not read.
async fn behind(desk: &Desk, group: &str) -> u64 {
    let lag = desk.log().lag(group).await.unwrap();
    lag.iter().map(|lag| lag.records).sum()
}

async fn list_all(desk: &Desk) {
    let lister = Lister::new(desk.stores.search.clone());
    go_on(desk, lister, search::GROUP).await;
}

/// Everything the group has written down, without the time at which it did.
async fn written(desk: &Desk) -> String {
    type Listing = (String, i64, String, i64, Option<i64>);
    let listings: Vec<Listing> =
        database::all(&desk.db, "select * from listings order by show").await;
    let inbox: Vec<(String, String, i64)> = database::all(
        &desk.db,
        "select event_id, key, version from processed_events where consumer = 'search'
         order by event_id",
    )
    .await;
    let stands = desk.inbox().standing(search::GROUP).await.unwrap();
    format!("{listings:?} {inbox:?} {stands:?}")
}

async fn a_listing_is_what_the_last_event_said(desk: Desk) {
    let store = desk.stores.search.clone();
    assert_eq!(store.listing(&show("a")).await.unwrap(), None);
    desk.write(left("a", 3), 1).await;
    desk.clock.advance_ms(5);
    desk.write(left("a", 0), 2).await;
    desk.write(sold_out("a"), 3).await;
    desk.write(left("b", 4), 1).await;
    desk.relay_all().await;
    list_all(&desk).await;

    let listing = store.listing(&show("a")).await.unwrap().unwrap();
    assert_eq!(listing.version, 3);
    assert_eq!(listing.sections, [section("B", 0), section("A", 0)]);
    assert_eq!(listing.as_of, T0.plus_ms(5));
    assert_eq!(listing.sold_out_at, Some(T0.plus_ms(5)));
    let other = store.listing(&show("b")).await.unwrap().unwrap();
    assert_eq!((other.version, other.sold_out_at), (1, None));

    // An older one that comes late: a copy with another id, so that no inbox knows it.
    let delivery = |version| Delivery {
        partition: 0,
        offset: 0,
        event_id: format!("late-{version}"),
        key: "a".to_owned(),
        version,
        kind: "StockChanged".to_owned(),
        payload: String::new(),
        trace: None,
        at: T0,
    };
    let said = Said {
        show: show("a"),
        at: T0,
        what: What::Left(vec![section("A", 9)]),
    };
    for version in [1, 3] {
        store.list(&delivery(version), &said).await.unwrap();
        let now = store.listing(&show("a")).await.unwrap().unwrap();
        assert_eq!(now, listing, "version {version}");
    }
    // Seats that come back: the show was sold out once all the same.
    store.list(&delivery(4), &said).await.unwrap();
    let now = store.listing(&show("a")).await.unwrap().unwrap();
    assert_eq!((now.version, now.sections.len()), (4, 1));
    assert_eq!(now.sold_out_at, listing.sold_out_at);
}

async fn what_cannot_be_listed_is_set_aside_and_stops_nobody(desk: Desk) {
    desk.write(left("a", 3), 1).await;
    desk.write(left("a", 2), 2).await;
    desk.bend_outbox(r#"update outbox set payload = '{"type":"Other"}' where seq = 1"#)
        .await;
    desk.relay_all().await;
    list_all(&desk).await;
    let listing = desk.stores.search.listing(&show("a")).await.unwrap();
    assert_eq!(listing.unwrap().version, 2);
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    let letters: Vec<_> = letters
        .iter()
        .map(|l| (&*l.group, l.delivery.version))
        .collect();
    assert_eq!(letters, [("search", 1)]);
}

async fn listings_are_built_again_the_same(mut desk: Desk) {
    for version in 1..=10 {
        for name in ["a", "b", "c", "d"] {
            desk.write(left(name, 10 - version), version).await;
            desk.clock.advance_ms(1);
        }
    }
    desk.write(sold_out("a"), 11).await;
    desk.relay_all().await;
    list_all(&desk).await;
    let before = written(&desk).await;
    let stood = desk.inbox().standing(search::GROUP).await.unwrap();
    assert_eq!(stood.values().sum::<u64>(), 41);
    // What only a build again can set right.
    desk.run("update listings set sections = '[]', version = 99 where show = 'b'")
        .await;
    let wrong = written(&desk).await;
    assert_ne!(wrong, before);

    desk.clock.advance_ms(GROUP_RUNS_MS);
    let told = desk.stores.search.begin_again(Run::Dry).await.unwrap();
    assert_eq!(told, Rewound::From(stood.clone()));
    assert_eq!(written(&desk).await, wrong, "a dry run changes nothing");
    let done = desk.stores.search.begin_again(Run::Real).await.unwrap();
    assert_eq!(done, Rewound::From(stood));
    assert_eq!(desk.count("select count(*) from listings").await, 0);
    let stands = desk.inbox().standing(search::GROUP).await.unwrap();
    assert!(stands.values().all(|offset| *offset == 0), "{stands:?}");

    desk.restart();
    list_all(&desk).await;
    assert_eq!(written(&desk).await, before);
}

async fn a_replay_writes_to_nobody_and_changes_no_stock(mut desk: Desk) {
    desk.run(
        "insert into sections values ('stadium-show', 'B', 0, true, 100, 'BRL');
         insert into seats values ('stadium-show', 'B', 1, 'B-1', 'free', null),
                                  ('stadium-show', 'B', 2, 'B-2', 'sold', 'h');",
    )
    .await;
    let many = orders(20);
    for _ in 0..many {
        let order = facts(desk.order());
        desk.write(Event::OrderPlaced(order.clone()), 1).await;
        desk.write(Event::OrderConfirmed(order), 2).await;
    }
    desk.relay_all().await;
    let all = async |desk: &Desk| {
        let notifier = desk.notifier(desk.mailbox().await);
        go_on(desk, notifier, "notify").await;
        count_all(desk).await;
    };
    all(&desk).await;
    let sent = "select count(*) from notices";
    let said = "select show, version, free, held, sold, event_version from show_stock";
    type Stock = (String, i64, i64, i64, i64, i64);
    let stock: Vec<Stock> = database::all(&desk.db, said).await;
    let (written, told) = (desk.mails().len() as u64, desk.count(sent).await);
    assert_eq!((told.cast_unsigned(), written), (many, many));
    assert_eq!(stock, [("stadium-show".to_owned(), 1, 1, 0, 1, 1)]);
    let events = desk.count("select count(*) from outbox").await;

    desk.clock.advance_ms(GROUP_RUNS_MS);
    for group in ["notify", "stock"] {
        let rewound = desk.inbox().rewind(group, Run::Real).await.unwrap();
        let Rewound::From(stood) = rewound else {
            panic!("{group}: {rewound:?}");
        };
        assert!(
            2 * many <= stood.values().sum::<u64>(),
            "{group}: {stood:?}"
        );
        assert!(0 < behind(&desk, group).await, "{group}");
    }
    std::fs::remove_dir_all(desk.mail_folder()).unwrap(); // what is written now is seen
    desk.restart();
    all(&desk).await;
    assert_eq!((desk.count(sent).await, desk.mails().len()), (told, 0));
    assert_eq!(database::all::<Stock>(&desk.db, said).await, stock);
    assert_eq!(desk.count("select count(*) from outbox").await, events);
}

/// Counts until the group is past everything that is in the log.
async fn count_all(desk: &Desk) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("room.db");
    let rooms = InMemory::open(&path, desk.time()).await;
    let rooms: Arc<dyn Store> = Arc::new(rooms.unwrap());
    let counter = tokio::sync::Mutex::new(Counter::new(Parts {
        store: desk.stores.stock.clone(),
        log: desk.log(),
        inbox: desk.inbox(),
        rooms: Rooms::new(rooms),
        clock: desk.time(),
        ids: Arc::new(IdSource::seeded(9)),
    }));
    let step = async || {
        counter.lock().await.step().await.unwrap();
    };
    catch_up(desk, "stock", step).await;
}

async fn a_group_that_may_run_does_not_begin_again(desk: Desk) {
    let inbox = desk.inbox();
    let search = desk.stores.search.clone();
    for run in [Run::Dry, Run::Real] {
        assert_eq!(inbox.rewind("nobody", run).await.unwrap(), Rewound::Unknown);
        assert_eq!(search.begin_again(run).await.unwrap(), Rewound::Unknown);
    }
    desk.write(left("a", 3), 1).await;
    desk.relay_all().await;
    list_all(&desk).await;
    let before = written(&desk).await;
    desk.clock.advance_ms(GROUP_RUNS_MS - 1);
    let running = Rewound::Running(GROUP_RUNS_MS - 1);
    for run in [Run::Dry, Run::Real] {
        assert_eq!(search.begin_again(run).await.unwrap(), running);
        assert_eq!(inbox.rewind(search::GROUP, run).await.unwrap(), running);
    }
    // Whoever runs says so again, though there is nothing to do.
    let mut consuming = at_work(&desk, Lister::new(search.clone()));
    consuming.step().await.unwrap();
    desk.clock.advance_ms(5_000);
    consuming.step().await.unwrap();
    desk.clock.advance_ms(10);
    assert_eq!(
        search.begin_again(Run::Real).await.unwrap(),
        Rewound::Running(10)
    );
    assert_eq!(written(&desk).await, before);

    // In SQL what was cleaned up is gone; Kafka keeps its own.
    desk.clock.advance_ms(GROUP_RUNS_MS);
    desk.run("update outbox_partitions set cleaned = 7 where partition = 0")
        .await;
    let again = search.begin_again(Run::Real).await.unwrap();
    match desk.kafka {
        None => assert_eq!(again, Rewound::Trimmed(7)),
        Some(_) => {
            assert!(matches!(again, Rewound::From(_)), "{again:?}");
            // Debezium sends to the same topic.
            desk.run("update event_log set name = 'cdc:' || substr(name, 7)")
                .await;
            let again = search.begin_again(Run::Real).await.unwrap();
            assert!(matches!(again, Rewound::From(_)), "{again:?}");
        }
    }
}

/// A group of nobody's: it keeps what it was handed, and its offset.
#[derive(Debug)]
struct Fifth {
    inbox: Arc<dyn Inbox>,
    seen: Arc<Mutex<Vec<(String, u64)>>>,
}

#[async_trait]
impl Consumer for Fifth {
    fn group(&self) -> &'static str {
        "fifth"
    }

    fn concerns(&self, _: &Delivery) -> bool {
        true
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let at = (delivery.partition, delivery.offset);
        self.inbox.pass("fifth", &[at]).await?;
        let seen = (delivery.key.clone(), delivery.version);
        self.seen.lock().unwrap().push(seen);
        Ok(())
    }
}

async fn a_new_group_reads_everything_without_its_producers_knowing(desk: Desk) {
    for _ in 0..20 {
        let order = facts(desk.order());
        desk.write(Event::OrderPlaced(order.clone()), 1).await;
        desk.write(Event::OrderConfirmed(order), 2).await;
    }
    desk.write(left("a", 3), 1).await;
    desk.relay_all().await;
    list_all(&desk).await;
    let others = written(&desk).await;

    let seen = Arc::new(Mutex::new(Vec::new()));
    let fifth = Fifth {
        inbox: desk.inbox(),
        seen: seen.clone(),
    };
    go_on(&desk, fifth, "fifth").await;
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (key, version) in seen.lock().unwrap().drain(..) {
        versions.entry(key).or_default().push(version);
    }
    assert_eq!(versions.len(), 21);
    for (key, versions) in versions {
        let all = if key == "a" { vec![1] } else { vec![1, 2] };
        assert_eq!(versions, all, "{key}");
    }
    assert_eq!(written(&desk).await, others, "nobody else is touched");
}
