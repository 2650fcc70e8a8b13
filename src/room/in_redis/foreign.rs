//! Which key it is that holds something else than ours, and what: for people, once a command has failed.

use anyhow::Error;
use redis::{FromRedisValue, Value};

use crate::base::ids::ShowId;
use crate::room::StoreError;
use crate::room::in_redis::InRedis;
use crate::room::in_redis::answer::gaps;
use crate::room::in_redis::reply::whole;
use crate::room::in_redis::scripts::Name;
use crate::room::keys::Key;
use crate::room::model::command::{Cause, RoomState, Seed, Settings};

/// Fields of the hash that are numbers in every whole room.
const NUMBERS: [&str; 24] = [
    "last_ms",
    "offset_ms",
    "edition",
    "generation",
    "ceiling",
    "serving",
    "version",
    "verb_version",
    "rate",
    "window_ms",
    "capacity",
    "claim_ms",
    "ticket_ttl_ms",
    "ticket_ttl_max_ms",
    "waiting_max",
    "stock_guard",
    "draws",
    "require_presence",
    "lease_until",
    "token",
    "pace_milli",
    "spread_milli",
    "seats_per_fan_milli",
    "ledger_seq",
];
/// Those that are a number or nothing.
const MAYBE_NUMBERS: [&str; 15] = [
    "early_at",
    "opens_at",
    "closes_at",
    "restoring_until",
    "verb_at",
    "opening",
    "open_since",
    "draw_size",
    "stock_version",
    "stock_free",
    "stock_held",
    "stock_sold",
    "stock_as_of",
    "overruled_stock",
    "sold_out_at",
];
/// Those that are something else.
const WORDS: [&str; 7] = [
    "settings",
    "state",
    "state_after",
    "cause",
    "gaps",
    "holder",
    "draw_seed",
];

impl InRedis {
    /// The error of a command, and the key that it is about; where that cannot be told, all its keys.
    pub(super) async fn found_foreign(
        &self,
        show: &ShowId,
        name: Name,
        source: Error,
    ) -> StoreError {
        let said = format!("{source:#}");
        let keys: Vec<(Key, String)> = name.keys().iter().map(|key| (*key, key.of(show))).collect();
        let is_named = |(_, named): &&(Key, String)| said.contains(&format!("{named}: "));
        let named: Vec<_> = keys.iter().filter(is_named).collect();
        let suspects = if named.is_empty() {
            keys.iter().collect()
        } else {
            named.clone()
        };
        for (key, named) in suspects {
            if let Some(what) = self.what_is_foreign(name, (*key, named), &said).await {
                return StoreError::Corrupt(source.context(format!("{name:?}: {named} {what}")));
            }
        }
        let all = keys.iter().map(|(_, named)| named.as_str());
        let found = match named.is_empty() {
            true => format!("{name:?} on {}", all.collect::<Vec<_>>().join(", ")),
            false => format!("{name:?}"), // the script has said which
        };
        StoreError::Corrupt(source.context(found))
    }

    async fn what_is_foreign(
        &self,
        name: Name,
        (key, named): (Key, &str),
        said: &str,
    ) -> Option<String> {
        let (kind, ours): (String, _) = (self.ask("TYPE", named, &[]).await?, key.kind());
        if kind != ours && kind != "none" {
            return Some(format!("holds a {kind}, not a {ours}"));
        }
        match (key, name) {
            // A room that is being mended has what its mender has put there so far.
            (_, Name::MendBegin | Name::MendFold | Name::MendFinish) => None,
            (Key::Ledger, Name::Ledger | Name::MendCopy | Name::Trim) => {
                Some("holds an entry that is not ours".to_owned())
            }
            (_, Name::MendCopy) => None,
            (Key::Ledger, _) if said.contains("last possible ID") => {
                Some("takes no entry after the greatest id".to_owned())
            }
            (Key::Room, _) => self.foreign_field(named).await,
            (Key::Seq, _) => {
                let number: Option<String> = self.ask("GET", named, &[]).await?;
                (!is_number(number.as_deref())).then(|| says("the last number", number.as_deref()))
            }
            (Key::Quota, Name::Tick) => self.foreign_calls(named).await,
            _ => None,
        }
    }

    /// A stamp of the quota, or its calls, that is no number.
    async fn foreign_calls(&self, named: &str) -> Option<String> {
        let kept: Vec<(String, String)> = self.ask("HGETALL", named, &[]).await?;
        let mut kept = kept.iter();
        let (stamp, calls) = kept.find(|(stamp, calls)| {
            !is_number(Some(stamp)) || calls != "burned" && !is_number(Some(calls))
        })?;
        Some(says(stamp, Some(calls)))
    }

    /// The first field of a room's hash that is not as scripts write it.
    async fn foreign_field(&self, named: &str) -> Option<String> {
        let names = [&NUMBERS[..], &MAYBE_NUMBERS, &WORDS].concat();
        let values: Vec<Option<String>> = self.ask("HMGET", named, &names).await?;
        let mut fields = names.iter().zip(values.iter().map(Option::as_deref));
        let is_foreign = |(name, value): &(&&str, Option<&str>)| {
            let is_empty = *value == Some("");
            !match **name {
                "state" | "state_after" => {
                    value.is_some_and(|word| RoomState::of_word(word).is_some())
                }
                "cause" => is_empty || value.is_some_and(|word| Cause::of_word(word).is_some()),
                "settings" => {
                    value.is_some_and(|text| serde_json::from_str::<Settings>(text).is_ok())
                }
                "gaps" => value.is_some_and(|text| gaps(text).is_ok()),
                "draw_seed" => is_empty || value.is_some_and(|text| text.parse::<Seed>().is_ok()),
                name if NUMBERS.contains(&name) => is_number(*value),
                name if MAYBE_NUMBERS.contains(&name) => is_empty || is_number(*value),
                _ => value.is_some(),
            }
        };
        let (name, value) = fields.find(is_foreign)?;
        Some(says(name, value))
    }

    /// Nothing where the server does not say.
    async fn ask<T: FromRedisValue>(&self, verb: &str, key: &str, args: &[&str]) -> Option<T> {
        let command = redis::cmd(verb).arg(key).arg(args).take();
        let answer: Value = self.redis.command(key, &command).await.ok()?;
        redis::from_redis_value(answer).ok()
    }
}

fn is_number(value: Option<&str>) -> bool {
    value.is_some_and(|text| whole(text).is_some())
}

fn says(what: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("says {value:?} for {what}"),
        None => format!("lacks {what}"),
    }
}
