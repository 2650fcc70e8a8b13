//! Ledger entries, as they stand in the stream.

use anyhow::{anyhow, bail};
use redis::Value;

use crate::base::ids::{FanId, FencingToken, Generation, Number, Place};
use crate::room::in_redis::answer::why;
use crate::room::in_redis::reply::Reply;
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

fn called(reply: &mut Reply) -> anyhow::Result<Called> {
    let fans = reply.field("fans")?.bytes()?;
    let numbers = reply.field("numbers")?.text()?;
    let numbers: Vec<u64> = numbers
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| anyhow!("{numbers} are no numbers"))?;
    if fans.len() != 16 * numbers.len() {
        bail!("{} bytes are not {} fans", fans.len(), numbers.len());
    }
    let fans = fans.chunks_exact(16).zip(numbers).map(|(bytes, number)| {
        let bytes = bytes.try_into().expect("chunks of sixteen");
        (FanId(bytes), Number(number))
    });
    Ok(Called {
        fans: fans.collect(),
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
