//! Foreign and corrupt data under the keys by which joins are counted.

use catraca::limit::Joins;
use catraca::limit::gcra::Entry;
use catraca::limit::joins_in_redis::CountingClock;
use redis::Connection;

use crate::contract::joins::{counting, from, limits, proven, show};
use crate::support::foreign::of_every_kind;
use crate::support::need::{Need, on_both};
use crate::support::redis::Server;

/// What is not ours is named, left as it is, and neither counted nor taken for nothing.
async fn foreign_counts_are_named(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let joins = counting(&server, &limits(), CountingClock::Server);
    let own = from("2a00:1:2:300::1");
    let joiners = [from("1.2.3.4"), proven("2a00:1:2:300::1", 7), own];
    let mut hand = server.connection();
    joins.count(&show(), &joiners).await.unwrap();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut hand).unwrap();
    keys.sort();
    assert_eq!(keys.len(), 7, "{keys:?}");
    let dump = |hand: &mut Connection| -> Vec<Option<Vec<u8>>> {
        let dumps = keys
            .iter()
            .map(|key| redis::cmd("DUMP").arg(key).query(hand));
        dumps.collect::<Result<_, _>>().unwrap()
    };
    let mut others = (0u8..).map(|n| from(&format!("9.9.9.{n}")));
    for key in &keys {
        let is_tally = key.ends_with(":joined");
        let kinds = of_every_kind(key).map(|(_, words)| words).into_iter();
        let kinds = kinds.filter(|words| !(is_tally && words[0] == "ZADD"));
        let texts = ["", "2", "-1 0 0", "0 0 0 0", "0 0 99999999999999999999"];
        let texts = texts.map(|text| vec!["SET", key, text]);
        for words in kinds.chain(texts) {
            server.tell(&["FLUSHALL"]);
            let (name, args) = words.split_first().unwrap();
            redis::cmd(name).arg(args).exec(&mut hand).unwrap();
            let before = dump(&mut hand);
            let error = joins.count(&show(), &joiners).await.unwrap_err();
            let text = format!("{:#}", anyhow::Error::new(error));
            let named: Vec<&String> = keys.iter().filter(|key| text.contains(*key)).collect();
            assert_eq!(named, [key], "{words:?}: {text}");
            assert_eq!(dump(&mut hand), before, "{words:?}");
            // Whoever joins meanwhile is counted all the same.
            let entry = joins.ask(&show(), others.next().unwrap()).await;
            assert!(matches!(entry, Entry::Pass { .. }), "{entry:?}");
        }
    }
    // A tally is of the right kind; what it holds is looked at by whoever tells it.
    server.tell(&["FLUSHALL"]);
    let tally = keys.iter().find(|key| key.ends_with(":joined")).unwrap();
    server.tell(&["ZADD", tally, "1", "stranger"]);
    let error = joins.closed(&show()).await.unwrap_err();
    let text = format!("{:#}", anyhow::Error::new(error));
    assert!(text.contains(tally) && text.contains("stranger"), "{text}");
}

#[tokio::test]
async fn foreign_data_under_a_count_is_named_and_left_alone() {
    on_both(foreign_counts_are_named).await;
}
