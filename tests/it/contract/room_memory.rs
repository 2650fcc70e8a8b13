//! What a waiting fan costs a server: 16 bytes in one sorted set, and nothing else anywhere.

use catraca::base::ids::IdSource;
use catraca::base::limits::BATCH_MAX;
use catraca::room::Store;
use catraca::room::in_redis::InRedis;
use catraca::room::keys::Key;
use catraca::room::model::command::{Command, Joining, Origin, Outcome, RoomState};

use crate::contract::room::show;
use crate::model::world::{new_room, settings};
use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::redis::Server;

/// Fans who wait.
const FANS: usize = 20 * BATCH_MAX;
/// The peer: a sorted set with the same ids and numbers.
const BARE: &str = "bare";

fn memory(redis: &mut redis::Connection, key: &str) -> u64 {
    let usage = redis::cmd("MEMORY")
        .arg("USAGE")
        .arg(key)
        .arg("SAMPLES")
        .arg(0)
        .query::<Option<u64>>(redis);
    usage.unwrap().unwrap_or(0)
}

async fn a_fan_is_sixteen_bytes_in_line(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let (show, ids) = (show(), IdSource::random());
    let rooms = InRedis::connect(&server.url()).await.unwrap();
    for step in new_room(settings(), RoomState::Early) {
        rooms.apply(&show, &Command::Mend(step)).await.unwrap();
    }
    let mut redis = server.connection();
    let join = async |fans: usize| {
        let fan = |_| Joining {
            fan: ids.fan(),
            origin: Origin::Known,
        };
        let joining = (0..fans).map(fan).collect();
        let outcome = rooms.apply(&show, &Command::Join { joining }).await;
        assert!(matches!(outcome.unwrap(), Outcome::Joined(_)));
    };
    join(1).await;
    let others: Vec<Key> = Key::ALL
        .into_iter()
        .filter(|key| *key != Key::Queue)
        .collect();
    let mut weigh_others = || -> u64 {
        let weigh = |key: &Key| memory(&mut redis, &key.of(&show));
        others.iter().map(weigh).sum()
    };
    let before = weigh_others();
    for _ in 0..FANS / BATCH_MAX {
        join(BATCH_MAX).await;
    }
    let grown = weigh_others().saturating_sub(before);
    assert!(grown < 64, "{grown} bytes beside the line"); // longer numbers in the hash

    let queue = Key::Queue.of(&show);
    let line: Vec<(Vec<u8>, i64)> = redis::cmd("ZRANGE")
        .arg(&queue)
        .arg(&["0", "-1", "WITHSCORES"])
        .query(&mut redis)
        .unwrap();
    assert_eq!(line.len(), FANS + 1);
    assert!(line.iter().all(|(fan, _)| fan.len() == 16));
    for part in line.chunks(BATCH_MAX) {
        let mut add = redis::cmd("ZADD");
        add.arg(BARE);
        for (fan, number) in part {
            add.arg(number).arg(fan);
        }
        add.exec(&mut redis).unwrap();
    }
    let (own, bare) = (memory(&mut redis, &queue), memory(&mut redis, BARE));
    assert!(
        own * 100 <= bare * 105,
        "{own} bytes, a bare set has {bare}"
    );
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis).unwrap();
    let fewest = ["room", "seq", "queue"].map(|key| format!("catraca:{{{show}}}:{key}"));
    let is_known = |key: &String| fewest.contains(key) || key == BARE || key == "catraca:shows";
    assert!(keys.iter().all(is_known), "{keys:?}");
}

#[tokio::test]
async fn a_fan_is_sixteen_bytes_in_line_on_redis() {
    a_fan_is_sixteen_bytes_in_line(&REDIS).await;
}

#[tokio::test]
async fn a_fan_is_sixteen_bytes_in_line_on_valkey() {
    a_fan_is_sixteen_bytes_in_line(&VALKEY).await;
}
