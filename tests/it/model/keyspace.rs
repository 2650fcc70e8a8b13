//! What a room's keys must hold, by `lua/README.md`, and what they do hold.

use std::collections::BTreeMap;

use catraca::base::ids::{FanId, ShowId};
use catraca::base::time::Timestamp;
use catraca::room::keys::Key;
use catraca::room::model::command::{Ended, Settings, Stock};
use catraca::room::model::{Facts, Standing};

/// Keys, and what they hold: member or field and score or value. A counter is its own only field, and
/// so is the length of a stream.
pub(crate) type Keyspace = BTreeMap<&'static str, BTreeMap<String, String>>;

/// What the keys of a room with these facts hold.
pub(crate) fn expected(facts: &Facts, is_whole: bool) -> Keyspace {
    let mut keys = Keyspace::new();
    let mut put = |key: Key, field: String, value: String| {
        keys.entry(key.word()).or_default().insert(field, value);
    };
    for (fan, standing) in &facts.fans {
        let scores: &[(Key, String)] = &match standing {
            Standing::Waiting { number } => vec![(Key::Queue, number.to_string())],
            Standing::Called { until, place } => vec![
                (Key::Admissions, ms(*until)),
                (Key::Standby, place.to_string()),
            ],
            Standing::Returned { place } => vec![(Key::Returned, place.to_string())],
            Standing::Admitted { until, place } => vec![
                (Key::Admissions, ms(*until)),
                (Key::Claimed, place.to_string()),
            ],
            Standing::Ended(why) => vec![(Key::Admissions, over(*why).to_string())],
        };
        for (key, score) in scores {
            put(*key, fan.to_string(), score.clone());
        }
    }
    for (fan, last) in &facts.seen {
        put(Key::Seen, fan.to_string(), ms(*last));
    }
    for (stamp, calls) in &facts.quota {
        let calls = match calls {
            &u64::MAX => "burned".to_owned(),
            calls => calls.to_string(),
        };
        put(Key::Quota, ms(*stamp), calls);
    }
    if !facts.ledger.is_empty() {
        put(Key::Ledger, "length".into(), facts.ledger.len().to_string());
    }
    if 0 < facts.issued.0 || is_whole {
        put(Key::Seq, "value".into(), facts.issued.to_string());
    }
    for (field, value) in room(facts, is_whole) {
        put(Key::Room, field.to_owned(), value);
    }
    keys
}

fn room(facts: &Facts, is_whole: bool) -> Vec<(&'static str, String)> {
    let gaps: Vec<String> = facts
        .gaps
        .iter()
        .map(|gap| format!("{} {} {}", gap.first, gap.last, gap.restored))
        .collect();
    let mut fields = vec![
        ("last_ms", ms(facts.last)),
        ("offset_ms", facts.offset_ms.to_string()),
        ("edition", facts.edition.to_string()),
        ("generation", facts.generation.to_string()),
        ("serving", facts.serving.to_string()),
        ("gaps", gaps.join(",")),
        ("holder", facts.holder.clone()),
        ("lease_until", ms(facts.lease_until)),
        ("token", facts.token.to_string()),
        ("ledger_seq", facts.ledger_seq.to_string()),
    ];
    if let Some((edition, generation)) = facts.mending {
        fields.push(("mending_edition", edition.to_string()));
        fields.push(("mending_generation", generation.to_string()));
    }
    if is_whole {
        fields.extend(whole(facts));
        fields.extend(settings(&facts.settings));
        fields.extend(stock(facts.stock));
    }
    fields
}

fn whole(facts: &Facts) -> [(&'static str, String); 18] {
    let size = facts.draw.map(|draw| draw.size.to_string());
    let seed = facts.draw.and_then(|draw| draw.seed);
    let cause = facts.measured.cause.map_or("", |cause| cause.word());
    [
        ("ceiling", facts.ceiling.to_string()),
        ("version", facts.version.to_string()),
        ("state", facts.state.word().into()),
        ("state_after", facts.state_after.word().into()),
        ("restoring_until", maybe_ms(facts.restoring_until)),
        ("verb_version", facts.verb_version.to_string()),
        ("verb_at", maybe_ms(facts.verb_at)),
        (
            "overruled_stock",
            facts
                .overruled_stock
                .map_or(String::new(), |v| v.to_string()),
        ),
        ("sold_out_at", maybe_ms(facts.sold_out_at)),
        ("pace_milli", facts.measured.pace_milli.to_string()),
        ("spread_milli", facts.measured.spread_milli.to_string()),
        ("cause", cause.into()),
        (
            "seats_per_fan_milli",
            facts.measured.seats_per_fan_milli.to_string(),
        ),
        ("draw_size", size.unwrap_or_default()),
        ("draw_seed", seed.map_or(String::new(), |s| s.to_string())),
        ("opening", if facts.opening { "1" } else { "" }.into()),
        ("open_since", maybe_ms(facts.open_since)),
        ("replid", "this server's".into()),
    ]
}

fn settings(settings: &Settings) -> [(&'static str, String); 14] {
    let flag = |on: bool| u8::from(on).to_string();
    [
        ("settings", serde_json::to_string(settings).unwrap()),
        ("rate", settings.rate.to_string()),
        ("window_ms", settings.window_ms.to_string()),
        ("capacity", settings.capacity.to_string()),
        ("claim_ms", settings.claim_ms.to_string()),
        ("ticket_ttl_ms", settings.ticket_ttl_ms.to_string()),
        ("ticket_ttl_max_ms", settings.ticket_ttl_max_ms.to_string()),
        ("waiting_max", settings.waiting_max.to_string()),
        ("stock_guard", flag(settings.stock_guard)),
        ("draws", flag(settings.draw.is_some())),
        ("require_presence", flag(settings.require_presence)),
        ("early_at", maybe_ms(settings.early_at)),
        ("opens_at", maybe_ms(settings.opens_at)),
        ("closes_at", maybe_ms(settings.closes_at)),
    ]
}

fn stock(stock: Option<Stock>) -> [(&'static str, String); 5] {
    let number = |of: fn(Stock) -> u64| stock.map_or(String::new(), |stock| of(stock).to_string());
    [
        ("stock_version", number(|stock| stock.version)),
        ("stock_free", number(|stock| stock.free)),
        ("stock_held", number(|stock| stock.held)),
        ("stock_sold", number(|stock| stock.sold)),
        ("stock_as_of", maybe_ms(stock.map(|stock| stock.as_of))),
    ]
}

const fn over(why: Ended) -> i64 {
    match why {
        Ended::Used => -1,
        Ended::Left => -2,
        Ended::Revoked => -3,
    }
}

fn ms(time: Timestamp) -> String {
    time.as_millis().to_string()
}

fn maybe_ms(time: Option<Timestamp>) -> String {
    time.map_or(String::new(), ms)
}

/// What the show's keys hold. Keys that no room has make it fail.
pub(crate) fn dump(redis: &mut redis::Connection, show: &ShowId) -> Keyspace {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let replid: String = redis::cmd("INFO").arg("replication").query(redis).unwrap();
    let mut dumped = Keyspace::new();
    for key in Key::ALL {
        let name = key.of(show);
        if !keys.contains(&name) {
            continue;
        }
        keys.retain(|other| *other != name);
        let held: BTreeMap<String, String> = match key {
            Key::Room | Key::Quota => redis::cmd("HGETALL").arg(&name).query(redis).unwrap(),
            Key::Seq => {
                let value: String = redis::cmd("GET").arg(&name).query(redis).unwrap();
                [("value".into(), value)].into()
            }
            Key::Ledger => match redis::cmd("XLEN").arg(&name).query(redis).unwrap() {
                0u64 => continue,
                length => [("length".into(), length.to_string())].into(),
            },
            Key::Queue
            | Key::Returned
            | Key::Standby
            | Key::Admissions
            | Key::Claimed
            | Key::Seen => {
                let members: Vec<(Vec<u8>, i64)> = redis::cmd("ZRANGE")
                    .arg(&name)
                    .arg(&["0", "-1", "WITHSCORES"])
                    .query(redis)
                    .unwrap();
                let fan = |bytes: Vec<u8>| FanId(bytes.try_into().unwrap()).to_string();
                let members = members.into_iter();
                members
                    .map(|(bytes, score)| (fan(bytes), score.to_string()))
                    .collect()
            }
        };
        dumped.insert(key.word(), held);
    }
    let ours = format!("catraca:{{{show}}}:clock");
    keys.retain(|other| *other != ours && other != catraca::room::keys::SHOWS);
    assert!(keys.is_empty(), "foreign keys: {keys:?}");
    for field in ["replid", "mending_replid"] {
        let room = dumped.get_mut("room").and_then(|room| room.remove(field));
        if let Some(written) = room {
            assert!(replid.contains(&written), "{field} is {written}");
            if field == "replid" {
                let room = dumped.get_mut("room").unwrap();
                room.insert("replid".into(), "this server's".into());
            }
        }
    }
    dumped
}
