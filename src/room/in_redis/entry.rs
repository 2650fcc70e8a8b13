//! Ledger entries, as they stand in the stream.

use anyhow::{Context, bail};
use redis::Value;

use crate::base::ids::{FanId, FencingToken, Generation, Place};
use crate::room::in_redis::answer::why;
use crate::room::in_redis::reply::{Reply, whole};
use crate::room::model::command::{Called, Change, Ended, LedgerEntry};

/// One entry: its fields and values, in the order in which scripts write them.
pub(super) fn entry(value: Value) -> anyhow::Result<LedgerEntry> {
    let mut reply = Reply::of(value)?;
    let entry = LedgerEntry {
        seq: reply.field("seq")?.number()?,
        at: reply.field("at")?.time()?,
        generation: Generation(reply.field("generation")?.number()?),
        token: FencingToken(reply.field("token")?.number()?),
        serving: Place(reply.field("serving")?.number()?),
        change: change(&mut reply)?,
    };
    reply.end()?;
    Ok(entry)
}

fn change(reply: &mut Reply) -> anyhow::Result<Change> {
    let change = reply.field("change")?.text()?;
    if change == "called" {
        return Ok(Change::Called(called(reply)?));
    }
    if change == "absent" {
        return Ok(Change::Absent { fans: fans(reply)? });
    }
    let fan = reply.field("fan")?.fan()?;
    match change.as_str() {
        "claimed" => Ok(Change::Claimed {
            fan,
            until: reply.field("until")?.time()?,
        }),
        "extended" => Ok(Change::Extended {
            fan,
            until: reply.field("until")?.time()?,
        }),
        "returned" => Ok(Change::Returned {
            fan,
            place: Place(reply.field("place")?.number()?),
        }),
        "ended" => Ok(Change::Ended {
            fan,
            why: ended(&reply.field("why")?.text()?)?,
        }),
        other => bail!("{other} is no change of the ledger"),
    }
}

fn fans(reply: &mut Reply) -> anyhow::Result<Vec<(FanId, Place)>> {
    let fans = reply.field("fans")?.bytes()?;
    let places = reply.field("places")?.text()?;
    let places: Vec<u64> = places
        .split(' ')
        .map(whole)
        .collect::<Option<_>>()
        .with_context(|| format!("{places} are no places"))?;
    if fans.len() != 16 * places.len() {
        bail!("{} bytes are not {} fans", fans.len(), places.len());
    }
    let fans = fans.chunks_exact(16).zip(places).map(|(bytes, place)| {
        let bytes = bytes.try_into().expect("chunks of sixteen");
        (FanId(bytes), Place(place))
    });
    Ok(fans.collect())
}

fn called(reply: &mut Reply) -> anyhow::Result<Called> {
    Ok(Called {
        fans: fans(reply)?,
        until: reply.field("until")?.time()?,
        rate: reply.field("rate")?.number()?,
        window_ms: reply.field("window_ms")?.number()?,
        capacity: reply.field("capacity")?.number()?,
        live: reply.field("live")?.number()?,
        waiting: reply.field("waiting")?.number()?,
        why: why(reply.field("why")?)?,
    })
}

fn ended(word: &str) -> anyhow::Result<Ended> {
    match word {
        "used" => Ok(Ended::Used),
        "left" => Ok(Ended::Left),
        "revoked" => Ok(Ended::Revoked),
        other => bail!("{other} ends no turn"),
    }
}
