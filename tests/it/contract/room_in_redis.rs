//! The room in Redis: the same sale as at home, and what a server can do to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catraca::base::ids::{Number, Place, ShowId};
use catraca::base::limits::CHECK_DEADLINE_MS;
use catraca::room::in_redis::InRedis;
use catraca::room::keys::Key;
use catraca::room::model::command::{
    AfterRevoke, Checked, Claimed, Command, Consumed, Extended, Joined, Left, Mended, Origin,
    Outcome, Revoked, RoomState, Ticked,
};
use catraca::room::{Rooms, Store, StoreError};

use crate::contract::room::{joining, show};
use crate::model::world::{at, fan, new_room, settings, tick};
use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::redis::Server;

/// A server of its own and an open room in it.
pub(super) struct Home {
    pub(super) server: Server,
    pub(super) store: Arc<InRedis>,
    pub(super) rooms: Rooms,
}

impl Home {
    pub(super) async fn begin(need: &Need) -> Option<Self> {
        let server = Server::start(need)?;
        let store = Arc::new(InRedis::connect(&server.url()).await.unwrap());
        let rooms = Rooms::new(Arc::clone(&store) as Arc<dyn Store>);
        for step in new_room(settings(), RoomState::Open) {
            assert_eq!(rooms.mend(&show(), step).await.unwrap(), Mended::Done);
        }
        Some(Self {
            server,
            store,
            rooms,
        })
    }

    pub(super) async fn join(&self, n: u64) -> Result<Joined, StoreError> {
        self.rooms.join(&show(), joining(n, Origin::Minted)).await
    }

    pub(super) async fn call(&self, want: u64) -> u64 {
        match self.rooms.tick(&show(), tick(want)).await.unwrap() {
            Ticked::Leader(step) => step.count,
            Ticked::Follower { holder } => panic!("{holder} leads"),
        }
    }

    /// Keeps a copy of a key; whether there is such a key.
    fn copies(&self, key: &str, aside: &str) -> bool {
        let mut copy = redis::cmd("COPY");
        copy.arg(key).arg(aside).arg("REPLACE");
        copy.query(&mut self.server.connection()).unwrap()
    }

    pub(super) fn meddle(&self, command: &[&str]) {
        let mut connection = self.server.connection();
        let (name, args) = command.split_first().unwrap();
        redis::cmd(name).arg(args).exec(&mut connection).unwrap();
    }
}

async fn a_sale(need: &Need) {
    let Some(home) = Home::begin(need).await else {
        return;
    };
    let rooms = &home.rooms;
    for n in 1..=5 {
        let number = Number(n);
        assert_eq!(home.join(n).await.unwrap(), Joined::New { number });
    }
    let again = rooms
        .join(&show(), joining(3, Origin::Known))
        .await
        .unwrap();
    assert_eq!(again, Joined::Kept { number: Number(3) });
    assert_eq!(home.call(3).await, 3);
    let claimed = rooms.claim(&show(), fan(1)).await.unwrap();
    assert!(
        matches!(claimed, Claimed::Admitted { first: true, .. }),
        "{claimed:?}"
    );
    let waiting = rooms.claim(&show(), fan(4)).await.unwrap();
    assert_eq!(waiting, Claimed::Waiting { number: Number(4) });
    let checked = rooms.check(&show(), fan(1)).await.unwrap();
    assert!(matches!(checked, Checked::Live { .. }), "{checked:?}");
    assert_eq!(
        rooms.check(&show(), fan(2)).await.unwrap(),
        Checked::NotLive
    );
    assert_eq!(rooms.consume(&show(), fan(1)).await.unwrap(), Consumed::Now);
    assert_eq!(rooms.leave(&show(), fan(5)).await.unwrap(), Left::Now);
    let revoked = rooms
        .revoke(&show(), vec![fan(2), fan(9)], AfterRevoke::Returned)
        .await
        .unwrap();
    assert_eq!(revoked, [Revoked::Now, Revoked::Unknown]);

    let board = rooms.board(&show()).await.unwrap();
    assert_eq!((board.serving, board.issued), (Place(3), Number(5)));
    assert_eq!((board.waiting, board.standby, board.live), (2, 1, 1));
    assert_eq!(board.settings, settings());
    let entries = rooms.ledger(&show(), 100).await.unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    rooms.trim(&show(), 4).await.unwrap();
    assert_eq!(rooms.ledger(&show(), 1).await.unwrap()[0].seq, 5);
    assert_eq!(rooms.shows().await.unwrap(), [show()]);
}

/// The list of shows has no hash tag, and may go alone.
async fn a_list_of_shows_that_was_lost_comes_back(need: &Need) {
    let Some(home) = Home::begin(need).await else {
        return;
    };
    home.meddle(&["DEL", "catraca:shows"]);
    home.rooms.ledger(&show(), 1).await.unwrap();
    assert_eq!(home.rooms.shows().await.unwrap(), [show()]);
}

#[tokio::test]
async fn in_redis_a_list_of_shows_that_was_lost_comes_back() {
    a_list_of_shows_that_was_lost_comes_back(&REDIS).await;
}

#[tokio::test]
async fn in_valkey_a_list_of_shows_that_was_lost_comes_back() {
    a_list_of_shows_that_was_lost_comes_back(&VALKEY).await;
}

#[tokio::test]
async fn a_sale_on_redis() {
    a_sale(&REDIS).await;
}

#[tokio::test]
async fn a_sale_on_valkey() {
    a_sale(&VALKEY).await;
}

#[tokio::test]
async fn a_room_that_nobody_made_is_not_there() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    let other: ShowId = "other".parse().unwrap();
    let answer = home.rooms.join(&other, joining(1, Origin::Minted)).await;
    assert!(matches!(answer, Err(StoreError::Unfenced)), "{answer:?}");
}

#[tokio::test]
async fn lost_data_fences_the_room_until_it_is_mended() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    home.join(1).await.unwrap();
    // What a promoted replica or a restart looks like: the same data, another replication id.
    let key = format!("catraca:{{{}}}:room", show());
    home.meddle(&["HSET", &key, "replid", "0123456789abcdef"]);
    assert!(matches!(home.join(2).await, Err(StoreError::Unfenced)));
    let board = home.rooms.board(&show()).await;
    assert!(matches!(board, Err(StoreError::Unfenced)), "{board:?}");
    home.meddle(&["FLUSHALL"]);
    assert!(matches!(home.join(2).await, Err(StoreError::Unfenced)));
    for step in new_room(settings(), RoomState::Open) {
        home.rooms.mend(&show(), step).await.unwrap();
    }
    assert_eq!(
        home.join(2).await.unwrap(),
        Joined::New { number: Number(1) }
    );
}

#[tokio::test]
async fn forgotten_scripts_are_told_again() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    let (rooms, show) = (&home.rooms, show());
    for n in 1..=20 {
        home.meddle(&["SCRIPT", "FLUSH"]);
        // All of these are under way on the one connection before any of them hears of it.
        let (joined, checked, claimed, left, extended) = tokio::join!(
            home.join(n),
            rooms.check(&show, fan(n)),
            rooms.claim(&show, fan(1_000)),
            rooms.leave(&show, fan(1_000)),
            rooms.extend(&show, fan(1_000), at(1)),
        );
        assert_eq!(joined.unwrap(), Joined::New { number: Number(n) });
        assert_eq!(checked.unwrap(), Checked::NotLive);
        assert_eq!(claimed.unwrap(), Claimed::Unknown);
        assert_eq!(left.unwrap(), Left::Unknown);
        assert_eq!(extended.unwrap(), Extended::NotLive);
        home.meddle(&["SCRIPT", "FLUSH"]);
        home.call(1).await;
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::start_with(&REDIS, &policy) else {
        return;
    };
    let error = InRedis::connect(&server.url()).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(source.contains("must be noeviction"), "{source}");
}

/// What is wrong with which key, so that a command on it must fail.
const FOREIGN: &[(Key, &[&str])] = &[
    (Key::Room, &["SET", "?", "something else"]),
    (Key::Room, &["HSET", "?", "cause", "boredom"]),
    (Key::Room, &["HSET", "?", "serving", "far"]),
    (Key::Room, &["HSET", "?", "rate", "fast"]),
    (Key::Room, &["HSET", "?", "generation", "last"]),
    (Key::Room, &["HSET", "?", "state", "ajar"]),
    (Key::Room, &["HDEL", "?", "ceiling"]),
    (Key::Seq, &["SET", "?", "many"]),
    (Key::Seq, &["RPUSH", "?", "1"]),
    (Key::Queue, &["SET", "?", "something else"]),
    (Key::Returned, &["SET", "?", "something else"]),
    (Key::Standby, &["SET", "?", "something else"]),
    (Key::Admissions, &["SET", "?", "something else"]),
    (Key::Quota, &["SET", "?", "something else"]),
    (Key::Ledger, &["SET", "?", "something else"]),
    (Key::Ledger, &["XADD", "?", "*", "of", "others"]),
];

/// Commands that work on everything. The first error counts.
async fn first_error(home: &Home) -> Option<StoreError> {
    let (rooms, id) = (&home.rooms, show());
    if let Err(error) = home.join(2).await {
        return Some(error);
    }
    if let Err(error) = rooms.board(&id).await {
        return Some(error);
    }
    if let Err(error) = rooms.tick(&id, tick(5)).await {
        return Some(error);
    }
    rooms.ledger(&id, 10).await.err()
}

async fn foreign_data_is_named(need: &Need) {
    let Some(home) = Home::begin(need).await else {
        return;
    };
    home.join(1).await.unwrap();
    let mut missed = Vec::new();
    for (key, wrong) in FOREIGN {
        let named = key.of(&show());
        let aside = format!("{named} aside");
        let was_there = home.copies(&named, &aside);
        if !matches!(wrong[0], "HSET" | "HDEL" | "ZADD" | "XADD") {
            home.meddle(&["DEL", &named]);
        }
        let words: Vec<&str> = wrong
            .iter()
            .map(|word| if *word == "?" { named.as_str() } else { word })
            .collect();
        home.meddle(&words);
        match first_error(&home).await {
            Some(StoreError::Corrupt(error)) if format!("{error:?}").contains(&named) => {}
            other => missed.push(format!("{wrong:?} on {named}: {other:?}")),
        }
        home.meddle(&["DEL", &named]);
        if was_there {
            home.meddle(&["RENAME", &aside, &named]);
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(first_error(&home).await.is_none(), "all is well again");
}

#[tokio::test]
async fn foreign_data_in_redis_is_named_and_not_guessed_at() {
    foreign_data_is_named(&REDIS).await;
}

#[tokio::test]
async fn foreign_data_in_valkey_is_named_and_not_guessed_at() {
    foreign_data_is_named(&VALKEY).await;
}

#[tokio::test]
async fn a_server_that_stands_still_is_not_waited_for() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    home.join(1).await.unwrap();
    home.server.pause();
    let begun = Instant::now();
    let answer = home.rooms.check(&show(), fan(1)).await;
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    assert!(Duration::from_millis(CHECK_DEADLINE_MS) <= begun.elapsed());
    home.server.resume();
    let kept = Joined::Kept { number: Number(1) };
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        match home.rooms.join(&show(), joining(1, Origin::Known)).await {
            Ok(answer) => break assert_eq!(answer, kept),
            Err(error) => assert!(Instant::now() < patience, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_said_to_be_away() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    home.join(1).await.unwrap();
    let Home { server, rooms, .. } = home;
    drop(server);
    let answer = rooms.join(&show(), joining(2, Origin::Minted)).await;
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    let answer = rooms.tick(&show(), tick(1)).await;
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
}

#[tokio::test]
async fn an_empty_batch_is_answered_with_nothing() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let store = InRedis::connect(&server.url()).await.unwrap();
    for step in new_room(settings(), RoomState::Open) {
        store.apply(&show(), &Command::Mend(step)).await.unwrap();
    }
    let asked = [
        (Command::Join { joining: vec![] }, Outcome::Joined(vec![])),
        (Command::Claim { fans: vec![] }, Outcome::Claimed(vec![])),
        (Command::Check { fans: vec![] }, Outcome::Checked(vec![])),
        (
            Command::Restore { restoring: vec![] },
            Outcome::Restored(vec![]),
        ),
    ];
    for (command, outcome) in asked {
        assert_eq!(store.apply(&show(), &command).await.unwrap(), outcome);
    }
    let until = at(0);
    let unknown = Command::Extend { fan: fan(1), until };
    let answer = store.apply(&show(), &unknown).await.unwrap();
    assert_eq!(answer, Outcome::Extended(Extended::NotLive));
}
