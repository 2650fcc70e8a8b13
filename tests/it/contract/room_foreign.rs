//! Foreign and corrupt data under our keys: whatever is asked, it is answered as if nothing were wrong,
//! or it fails, names the key, and has done nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use catraca::base::ids::{Edition, Generation, Number};
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::keys::{Key, SHOWS};
use catraca::room::model::command::{
    AfterRevoke, Command, Configure, Joining, Mend, Mended, Origin, Outcome, Restoring, RoomState,
    Tick,
};
use catraca::room::{Store, StoreError};
use redis::{Connection, ToRedisArgs};

use crate::contract::room::show;
use crate::contract::room_wrongs::wrongs;
use crate::model::own_clock;
use crate::model::world::{at, fan, new_room, seed_of, settings, stock, tick};
use crate::support::need::{Need, on_both};
use crate::support::redis::Server;

/// When everything here happens.
const NOW_MS: i64 = 200_000;

/// A room with somebody in every set, and a copy of it.
pub(crate) struct Room {
    pub(crate) hand: Connection,
    pub(crate) store: Arc<InRedis>,
    kept: BTreeMap<&'static str, Vec<u8>>,
}

/// What a key holds, so that it can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Fields(BTreeMap<String, String>),
    Bytes(Vec<u8>),
}

impl Room {
    pub(crate) async fn furnished(server: &Server) -> Self {
        let store = InRedis::connect_on(&server.url(), ScriptClock::Key).await;
        let mut room = Self {
            hand: server.connection(),
            store: Arc::new(store.unwrap()),
            kept: BTreeMap::new(),
        };
        let mut settings = settings();
        (settings.require_presence, settings.claim_ms) = (true, 10_000);
        room.set_clock(NOW_MS - 100_000);
        for step in new_room(settings, RoomState::Open) {
            assert_eq!(
                room.say(Command::Mend(step)).await,
                Outcome::Mended(Mended::Done)
            );
        }
        room.say(joins(1..=20)).await;
        room.say(Command::Tick(tick(4))).await;
        room.say(Command::Claim {
            fans: vec![fan(1), fan(2)],
        })
        .await;
        room.set_clock(NOW_MS - 80_000); // the slots of the others have lapsed
        room.say(Command::Claim { fans: vec![fan(3)] }).await;
        room.say(Command::Consume { fan: fan(2) }).await;
        room.set_clock(NOW_MS - 2_000);
        room.say(Command::Touch {
            fans: (5..=20).map(fan).collect(),
        })
        .await;
        room.say(Command::Tick(tick(3))).await;
        room.say(Command::Leave { fan: fan(20) }).await;
        room.say(Command::Stock(stock(1, 1_000, 3))).await;
        room.say(Command::Claim { fans: vec![fan(5)] }).await;
        room.say(Command::Revoke {
            fans: vec![fan(5)],
            then: AfterRevoke::Returned,
        })
        .await;
        room.set_clock(NOW_MS);
        for key in Key::ALL {
            let kept = room
                .dump(key)
                .unwrap_or_else(|| panic!("nobody is in {key:?}"));
            room.kept.insert(key.word(), kept);
        }
        room
    }

    async fn say(&self, command: Command) -> Outcome {
        self.store.apply(&show(), &command).await.unwrap()
    }

    fn set_clock(&mut self, ms: i64) {
        own_clock::set(&mut self.hand, &show(), at(ms));
    }

    fn dump(&mut self, key: Key) -> Option<Vec<u8>> {
        let dump = redis::cmd("DUMP")
            .arg(key.of(&show()))
            .query(&mut self.hand);
        dump.unwrap()
    }

    /// As it was furnished.
    pub(crate) fn restore(&mut self) {
        let mut all = redis::pipe();
        for key in Key::ALL {
            let restore = all.cmd("RESTORE").arg(key.of(&show())).arg(0);
            restore.arg(&self.kept[key.word()]).arg("REPLACE").ignore();
        }
        all.exec(&mut self.hand).unwrap();
    }

    /// What is there, but for the clock, which every script moves.
    pub(crate) fn held(&mut self) -> BTreeMap<&'static str, Held> {
        let mut held = BTreeMap::new();
        for key in Key::ALL {
            let fields = redis::cmd("HGETALL")
                .arg(key.of(&show()))
                .query(&mut self.hand);
            let what = match (key, fields) {
                (Key::Room, Ok(fields)) => {
                    let mut fields: BTreeMap<String, String> = fields;
                    for name in ["last_ms", "offset_ms"] {
                        fields
                            .entry(name.to_owned())
                            .and_modify(|value| value.clear());
                    }
                    Held::Fields(fields)
                }
                _ => Held::Bytes(self.dump(key).unwrap_or_default()),
            };
            held.insert(key.word(), what);
        }
        held
    }

    /// What a key holds makes way where it is of another kind.
    fn meddle<W: ToRedisArgs>(&mut self, words: &[W]) {
        let command = redis::Cmd::new().arg(words).take();
        if command.exec(&mut self.hand).is_err() {
            redis::cmd("DEL")
                .arg(&words[1])
                .exec(&mut self.hand)
                .unwrap();
            command.exec(&mut self.hand).unwrap();
        }
    }
}

fn joins(fans: impl IntoIterator<Item = u64>) -> Command {
    let origin = Origin::Known;
    let joining = fans.into_iter().map(|n| Joining {
        fan: fan(n),
        origin,
    });
    Command::Join {
        joining: joining.collect(),
    }
}

/// Everything that can be asked of a room, each in a way that would change it.
pub(crate) fn commands() -> Vec<Command> {
    let pass = |n: u64| Restoring {
        fan: fan(n),
        number: Number(n),
        edition: Edition(1),
        generation: Generation(1),
        place: None,
    };
    vec![
        joins([3, 4, 90]),
        Command::Tick(Tick {
            holder: "another".into(),
            ..tick(5)
        }),
        Command::Claim {
            fans: vec![fan(6), fan(4), fan(9)],
        },
        Command::Check {
            fans: vec![fan(1), fan(2)],
        },
        Command::Extend {
            fan: fan(1),
            until: at(NOW_MS + 800_000),
        },
        Command::Consume { fan: fan(1) },
        Command::Leave { fan: fan(9) },
        Command::Revoke {
            fans: vec![fan(1)],
            then: AfterRevoke::Returned,
        },
        Command::Restore {
            restoring: vec![pass(6), pass(4), pass(9)],
        },
        Command::Touch { fans: vec![fan(9)] },
        Command::Freeze,
        Command::OpenDraw {
            size: 3,
            seed: seed_of(3),
        },
        Command::Configure(Configure {
            version: 2,
            settings: settings(),
            verb: Some((2, RoomState::Paused)),
        }),
        Command::Stock(stock(2, 900, 3)),
        Command::RaiseCeiling {
            ceiling: Number(2_000_000),
        },
        Command::Board,
        Command::Ledger { max: 100 },
        Command::Trim { through: 1 },
        // Nothing of a room that is whole is for a mender to write.
        Command::Mend(Mend::Copy {
            generation: Generation(1),
            through: 0,
            max: 10,
        }),
        Command::Mend(Mend::Fold {
            generation: Generation(1),
            folded: vec![],
        }),
    ]
}

/// Whether an error names this key and no other of the show's.
fn names(error: &StoreError, key: Key) -> bool {
    let StoreError::Corrupt(source) = error else {
        return false;
    };
    let text = format!("{source:#}");
    let is_named = |other: &Key| text.contains(&other.of(&show()));
    let named: Vec<Key> = Key::ALL.into_iter().filter(is_named).collect();
    named == [key]
}

async fn nothing_is_guessed_at(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let mut room = Room::furnished(&server).await;
    let commands = commands();
    let mut meant = Vec::new();
    for command in &commands {
        room.restore();
        meant.push(room.store.apply(&show(), command).await.unwrap());
    }
    room.restore();
    let (mut missed, mut found, whole) = (Vec::new(), 0, room.held());
    let fields = redis::cmd("HKEYS").arg(Key::Room.of(&show())).take();
    let fields: Vec<String> = fields.query(&mut room.hand).unwrap();
    for (key, bytes) in wrongs(&fields) {
        room.restore();
        room.meddle(&bytes);
        let before = room.held();
        let words = bytes.iter().map(|word| String::from_utf8_lossy(word));
        let words = words.collect::<Vec<_>>().join(" ");
        assert!(!words.starts_with("ZADD") || before != whole, "{words}");
        for (command, meant) in commands.iter().zip(&meant) {
            room.restore();
            room.meddle(&bytes);
            match room.store.apply(&show(), command).await {
                Ok(answer) if answer == *meant => {}
                Ok(answer) => missed.push(format!("{words}: a guess: {command:?}: {answer:?}")),
                Err(error) => {
                    found += 1;
                    if !names(&error, key) {
                        missed.push(format!("{words}: {command:?}: {error:?}"));
                    }
                    if room.held() != before {
                        missed.push(format!("{words}: {command:?} failed and changed something"));
                    }
                }
            }
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {found}: {missed:#?}",
        missed.len()
    );
    assert!(300 < found, "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_a_command_that_fails_names_it_and_does_nothing() {
    on_both(nothing_is_guessed_at).await;
}

/// Who is no fan is not called: the ledger could not be read any more.
async fn strangers_are_not_called(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let mut room = Room::furnished(&server).await;
    for (key, score, member) in [
        (Key::Queue, "1", "somebody"),
        (Key::Queue, "-3", "sixteen of bytes"),
        (Key::Queue, "1.5", "sixteen of bytes"),
        (Key::Returned, "1", "somebody"),
        (Key::Returned, "0.5", "sixteen of bytes"),
    ] {
        room.restore();
        room.meddle(&["ZADD", &key.of(&show()), score, member]);
        let before = room.held();
        let command = Command::Tick(tick(5));
        let error = room.store.apply(&show(), &command).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(
            text.contains(&key.of(&show())),
            "{key:?} {score} {member}: {text}"
        );
        assert_eq!(room.held(), before, "{key:?} {score} {member}");
    }

    // Nor is the place of whoever comes next taken for how far the line has come.
    room.restore();
    let queue = Key::Queue.of(&show());
    room.meddle(&["ZREMRANGEBYRANK", &queue, "1", "-1"]);
    room.meddle(&["ZADD", &queue, "1e300", "sixteen of bytes"]);
    let before = room.held();
    let error = room.store.apply(&show(), &Command::Tick(tick(3))).await;
    let error = error.unwrap_err();
    assert!(names(&error, Key::Queue), "{error:?}");
    assert_eq!(room.held(), before);

    // Nor is an entry that nobody of ours wrote taken for one: to trim by it would lose another.
    room.restore();
    let ledger = Key::Ledger.of(&show());
    room.meddle(&["XADD", &ledger, "*", "of", "others"]);
    let before = room.held();
    for command in [Command::Ledger { max: 100 }, Command::Trim { through: 1 }] {
        let error = room.store.apply(&show(), &command).await.unwrap_err();
        assert!(names(&error, Key::Ledger), "{error:?}");
        assert_eq!(room.held(), before, "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_fan_is_not_called() {
    on_both(strangers_are_not_called).await;
}

/// The one key that is no show's.
async fn the_list_is_named(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let mut room = Room::furnished(&server).await;
    room.meddle(&["DEL", SHOWS]);
    room.meddle(&["SET", SHOWS, "something else"]);
    let listed = room.store.shows().await.map(drop);
    let [begin, _] = new_room(settings(), RoomState::Open);
    let begun = room
        .store
        .apply(&show(), &Command::Mend(begin))
        .await
        .map(drop);
    for answer in [listed, begun] {
        let Err(StoreError::Corrupt(source)) = &answer else {
            panic!("{answer:?}");
        };
        assert!(format!("{source:#}").contains(SHOWS), "{source:#}");
    }
    room.meddle(&["DEL", SHOWS]);
    room.meddle(&["SADD", SHOWS, "no show's name!"]);
    let listed = room.store.shows().await.unwrap_err();
    assert!(format!("{listed:?}").contains(SHOWS), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_shows_that_is_none_is_named() {
    on_both(the_list_is_named).await;
}
