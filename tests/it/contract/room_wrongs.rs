//! What others may have put in the place of one value of a room.

use catraca::room::keys::Key;

use crate::contract::room::show;
use crate::model::world::fan;
use crate::support::foreign::of_every_kind;

/// What no field of a room says. The first is what a server may say itself.
const WRONG_FIELDS: [&str; 5] = [
    "NOPERM max number of clients, unknown command, Script killed by user",
    "1.5",
    "-5",
    "nan",
    "9007199254740992",
];
/// Scores of these fans that are none of ours. They leave the order as it is, so far as it counts: nobody
/// looks at all of a set.
const WRONG_SCORES: [(Key, u64, &str); 16] = [
    (Key::Queue, 9, "9.5"),
    (Key::Queue, 9, "-7"),
    (Key::Returned, 5, "2.5"),
    (Key::Returned, 5, "-7"),
    (Key::Returned, 5, "1e300"),
    (Key::Standby, 6, "6.5"),
    (Key::Standby, 6, "-7"),
    (Key::Standby, 6, "inf"),
    (Key::Admissions, 1, "9007199254740992"),
    (Key::Admissions, 1, "1e300"),
    (Key::Admissions, 1, "inf"),
    (Key::Claimed, 1, "0.5"),
    (Key::Claimed, 1, "-7"),
    (Key::Claimed, 1, "1e300"),
    (Key::Seen, 9, "0.5"),
    (Key::Seen, 9, "-7"),
];
/// The greatest id of an entry: after it a stream takes none.
const LAST_ID: &str = "18446744073709551615-18446744073709551615";

/// Every way in which one value may be wrong in a room whose hash has these fields: the key, and what makes it
/// so.
pub(crate) fn wrongs(fields: &[String]) -> Vec<(Key, Vec<Vec<u8>>)> {
    let named = |key: Key| key.of(&show());
    let room = named(Key::Room);
    let mut wrongs = Vec::new();
    let mut wrong = |key: Key, words: &[&str]| {
        wrongs.push((
            key,
            words.iter().map(|word| word.as_bytes().into()).collect(),
        ));
    };
    for field in fields.iter().filter(|field| *field != "replid") {
        wrong(Key::Room, &["HDEL", &room, field]);
        for value in WRONG_FIELDS.iter().filter(|_| field != "holder") {
            wrong(Key::Room, &["HSET", &room, field, value]);
        }
    }
    for key in Key::ALL {
        for (kind, words) in of_every_kind(&named(key)) {
            if kind != key.kind() {
                wrong(key, &words);
            }
        }
    }
    for (key, words) in [
        (Key::Room, &["HSET", &room, "gaps", "1 2"][..]),
        (Key::Room, &["HSET", &room, "gaps", "1 2 0,3 4 x"]),
        (Key::Ledger, &["XSETID", &named(Key::Ledger), LAST_ID]),
        (Key::Seq, &["SET", &named(Key::Seq), "1.5"]),
        (Key::Seq, &["DEL", &named(Key::Seq)]),
        (Key::Seq, &["SET", &named(Key::Seq), "many"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "soon", "3"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "199999", "some"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "199999", "-1000"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "199999", "1.5"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "199999.5", "1"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "1e300", "1"]),
        (Key::Quota, &["HSET", &named(Key::Quota), "900000", "1"]),
    ] {
        wrong(key, words);
    }
    for (key, n, score) in WRONG_SCORES {
        let add = ["ZADD", &named(key), "XX", score].map(|word| word.as_bytes().to_vec());
        let words = [&add[..], &[fan(n).0.to_vec()]].concat();
        wrongs.push((key, words));
    }
    wrongs
}
