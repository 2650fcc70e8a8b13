//! Answers of scripts as outcomes. A word that no script of ours says is foreign.

use anyhow::{Context, bail};
use redis::Value;

use crate::base::ids::{Edition, FencingToken, Generation, Number, Place};
use crate::base::limits::DRAW_SIZE_MAX;
use crate::base::time::Timestamp;
use crate::room::in_redis::entry::entry;
use crate::room::in_redis::reply::{Reply, whole};
use crate::room::in_redis::scripts::Name;
use crate::room::model::command::{
    Board, Cause, Checked, Claimed, Configured, Consumed, Draw, DrawOpened, Extended, Frozen, Gap,
    Gone, Joined, Left, Measured, Mended, Outcome, Restored, Revoked, RoomState, Step, Stock,
    Ticked, Touched, Why,
};

/// What a script has answered.
pub(super) fn answer(name: Name, value: Value) -> anyhow::Result<Outcome> {
    let mut reply = Reply::of(value)?;
    let word = reply.text()?;
    if word == "unfenced" {
        reply.end()?;
        return Ok(Outcome::Unfenced);
    }
    let outcome = match (name, word.as_str()) {
        (Name::Join, "joined") => Outcome::Joined(each(&mut reply, joined)?),
        (Name::Tick, "leader") => Outcome::Ticked(Ticked::Leader(step(&mut reply)?)),
        (Name::Tick, "follower") => Outcome::Ticked(Ticked::Follower {
            holder: reply.text()?,
        }),
        (Name::Claim, "claimed") => Outcome::Claimed(each(&mut reply, claimed)?),
        (Name::Check, "checked") => Outcome::Checked(each(&mut reply, checked)?),
        (Name::Extend, "until") => Outcome::Extended(Extended::Until(reply.time()?)),
        (Name::Extend, "not_live") => Outcome::Extended(Extended::NotLive),
        (Name::Consume, "now") => Outcome::Consumed(Consumed::Now),
        (Name::Consume, "before") => Outcome::Consumed(Consumed::Before),
        (Name::Consume, "unknown") => Outcome::Consumed(Consumed::Unknown),
        (Name::Leave, "now") => Outcome::Left(Left::Now),
        (Name::Leave, "before") => Outcome::Left(Left::Before),
        (Name::Leave, "unknown") => Outcome::Left(Left::Unknown),
        (Name::Revoke, "revoked") => Outcome::Revoked(each(&mut reply, revoked)?),
        (Name::Restore, "restored") => Outcome::Restored(each(&mut reply, restored)?),
        (Name::Touch, "touched") => Outcome::Touched(each(&mut reply, touched)?),
        (Name::Freeze, "frozen") => Outcome::Frozen(Frozen::At {
            size: reply.number()?,
        }),
        (Name::Freeze, "not_due") => Outcome::Frozen(Frozen::NotDue),
        (Name::OpenDraw, "now") => Outcome::DrawOpened(DrawOpened::Now),
        (Name::OpenDraw, "before") => Outcome::DrawOpened(DrawOpened::Before),
        (Name::OpenDraw, "refused") => Outcome::DrawOpened(DrawOpened::Refused),
        (Name::Configure, "now") => Outcome::Configured(Configured::Now),
        (Name::Configure, "before") => Outcome::Configured(Configured::Before),
        (Name::Stock | Name::RaiseCeiling | Name::Trim, "done") => Outcome::Done,
        (Name::MendBegin | Name::MendFold | Name::MendFinish, "done") => {
            Outcome::Mended(Mended::Done)
        }
        (Name::MendBegin | Name::MendCopy | Name::MendFold | Name::MendFinish, "stale") => {
            Outcome::Mended(Mended::Stale)
        }
        (Name::MendCopy, "found") => Outcome::Mended(Mended::Found {
            now: reply.time()?,
            issued: Number(reply.number()?),
            entries: each(&mut reply, |reply| entry(reply.value()?))?,
        }),
        (Name::Board, "board") => Outcome::Board(Box::new(board(&mut reply)?)),
        (Name::Ledger, "ledger") => {
            Outcome::Ledger(each(&mut reply, |reply| entry(reply.value()?))?)
        }
        _ => bail!("{name:?} has no answer {word}"),
    };
    reply.end()?;
    Ok(outcome)
}

/// One answer a fan, until nothing is left.
fn each<T>(
    reply: &mut Reply,
    one: impl Fn(&mut Reply) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut answers = Vec::new();
    while !reply.is_over() {
        answers.push(one(reply)?);
    }
    Ok(answers)
}

fn joined(reply: &mut Reply) -> anyhow::Result<Joined> {
    let word = reply.text()?;
    let joined = match word.as_str() {
        "new" => Joined::New {
            number: Number(reply.number()?),
        },
        "kept" => Joined::Kept {
            number: Number(reply.number()?),
        },
        "drawn" => Joined::Drawn {
            place: Place(reply.number()?),
        },
        "admitted" => Joined::Admitted {
            until: reply.time()?,
        },
        "scheduled" => Joined::Scheduled {
            opens_in_ms: reply.number_or_minus_one()?,
        },
        "busy" => nothing(reply, Joined::Busy)?,
        "full" => nothing(reply, Joined::Full)?,
        "out_of_memory" => nothing(reply, Joined::OutOfMemory)?,
        "sold_out" => nothing(reply, Joined::Refused(RoomState::SoldOut))?,
        "closed" => nothing(reply, Joined::Refused(RoomState::Closed))?,
        "off" => nothing(reply, Joined::Refused(RoomState::Off))?,
        other => nothing(reply, Joined::Gone(gone(other)?))?,
    };
    Ok(joined)
}

fn claimed(reply: &mut Reply) -> anyhow::Result<Claimed> {
    let word = reply.text()?;
    claimed_as(&word, reply)
}

fn claimed_as(word: &str, reply: &mut Reply) -> anyhow::Result<Claimed> {
    let claimed = match word {
        "first" => Claimed::Admitted {
            until: reply.time()?,
            first: true,
        },
        "admitted" => Claimed::Admitted {
            until: reply.time()?,
            first: false,
        },
        "waiting" => Claimed::Waiting {
            number: Number(reply.number()?),
        },
        "returned" => Claimed::Returned {
            place: Place(reply.number()?),
        },
        "unknown" => nothing(reply, Claimed::Unknown)?,
        other => nothing(reply, Claimed::Gone(gone(other)?))?,
    };
    Ok(claimed)
}

fn restored(reply: &mut Reply) -> anyhow::Result<Restored> {
    let word = reply.text()?;
    let restored = match word.as_str() {
        "void" => nothing(reply, Restored::Void)?,
        "ahead" => nothing(reply, Restored::Ahead)?,
        "placeless" => nothing(reply, Restored::Placeless)?,
        "again" => nothing(reply, Restored::Waiting)?,
        "passed" => nothing(reply, Restored::Returned)?,
        "out_of_memory" => nothing(reply, Restored::OutOfMemory)?,
        other => Restored::Known(claimed_as(other, reply)?),
    };
    Ok(restored)
}

fn touched(reply: &mut Reply) -> anyhow::Result<Touched> {
    match reply.text()?.as_str() {
        "waiting" => Ok(Touched::Waiting),
        "elsewhere" => Ok(Touched::Elsewhere),
        other => bail!("{other} is no answer to a touch"),
    }
}

fn checked(reply: &mut Reply) -> anyhow::Result<Checked> {
    match reply.text()?.as_str() {
        "live" => Ok(Checked::Live {
            until: reply.time()?,
        }),
        "not_live" => nothing(reply, Checked::NotLive),
        other => bail!("{other} is no answer to a check"),
    }
}

fn revoked(reply: &mut Reply) -> anyhow::Result<Revoked> {
    match reply.text()?.as_str() {
        "now" => Ok(Revoked::Now),
        "before" => Ok(Revoked::Before),
        "unknown" => Ok(Revoked::Unknown),
        other => bail!("{other} is no answer to a revocation"),
    }
}

/// The word says it all; the 0 beside it keeps answers in pairs.
fn nothing<T>(reply: &mut Reply, answer: T) -> anyhow::Result<T> {
    match reply.number()? {
        0 => Ok(answer),
        other => bail!("{other} stands where nothing was expected"),
    }
}

fn gone(word: &str) -> anyhow::Result<Gone> {
    match word {
        "used" => Ok(Gone::Used),
        "expired" => Ok(Gone::Expired),
        "left" => Ok(Gone::Left),
        "revoked" => Ok(Gone::Revoked),
        other => bail!("{other} is no answer to a fan"),
    }
}

fn step(reply: &mut Reply) -> anyhow::Result<Step> {
    Ok(Step {
        count: reply.number()?,
        serving: Place(reply.number()?),
        token: FencingToken(reply.number()?),
        state: state(reply)?,
        why: why(reply)?,
        free_in_ms: reply.number_or_minus_one()?,
        waiting: reply.number()?,
        live: reply.number()?,
        issued: Number(reply.number()?),
        ceiling: Number(reply.number()?),
        uncopied: usize::try_from(reply.number()?)?,
        opening: reply.number()? == 1,
        draw: draw(reply)?,
    })
}

/// Size and seed, or nothing for either.
fn draw(reply: &mut Reply) -> anyhow::Result<Option<Draw>> {
    let (size, seed) = (reply.maybe_number()?, reply.text()?);
    let seed = match seed.as_str() {
        "" => None,
        seed => Some(seed.parse().with_context(|| format!("{seed} is no seed"))?),
    };
    match size {
        Some(size) if DRAW_SIZE_MAX < size => bail!("{size} is beyond the largest draw"),
        Some(size) => Ok(Some(Draw { size, seed })),
        None if seed.is_some() => bail!("a draw has a seed and no size"),
        None => Ok(None),
    }
}

fn state(reply: &mut Reply) -> anyhow::Result<RoomState> {
    let word = reply.text()?;
    RoomState::of_word(&word).with_context(|| format!("{word} is no state"))
}

pub(super) fn why(reply: &mut Reply) -> anyhow::Result<Why> {
    let word = reply.text()?;
    Why::of_word(&word).with_context(|| format!("{word} is no reason of a tick"))
}

fn board(reply: &mut Reply) -> anyhow::Result<Board> {
    let now = reply.time()?;
    let issued = Number(reply.number()?);
    let (waiting, standby, live) = (reply.number()?, reply.number()?, reply.number()?);
    let uncopied = usize::try_from(reply.number()?)?;
    let empty = reply.number()?;
    Ok(Board {
        version: reply.number()?,
        verb_version: reply.number()?,
        settings: serde_json::from_str(&reply.text()?).context("the settings are not ours")?,
        edition: Edition(reply.number()?),
        generation: Generation(reply.number()?),
        state: state(reply)?,
        serving: Place(reply.number()?),
        issued,
        ceiling: Number(reply.number()?),
        waiting,
        standby,
        live,
        gaps: gaps(&reply.text()?)?,
        measured: measured(reply)?,
        stock: stock(reply)?,
        sold_out_at: reply.maybe_time()?,
        restoring_until: reply.maybe_time()?,
        now,
        uncopied,
        draw: draw(reply)?,
        empty,
        leader: Some(reply.text()?).filter(|holder| !holder.is_empty()),
    })
}

fn measured(reply: &mut Reply) -> anyhow::Result<Measured> {
    let (pace_milli, spread_milli) = (reply.number()?, reply.number()?);
    let cause = match reply.text()?.as_str() {
        "" => None,
        word => Some(Cause::of_word(word).with_context(|| format!("{word} is no cause"))?),
    };
    Ok(Measured {
        pace_milli,
        spread_milli,
        cause,
        seats_per_fan_milli: reply.number()?,
    })
}

fn stock(reply: &mut Reply) -> anyhow::Result<Option<Stock>> {
    let version = reply.maybe_number()?;
    let (free, held, sold) = (
        reply.maybe_number()?,
        reply.maybe_number()?,
        reply.maybe_number()?,
    );
    let as_of: Option<Timestamp> = reply.maybe_time()?;
    let Some(version) = version else {
        return Ok(None);
    };
    Ok(Some(Stock {
        version,
        free: free.context("stock_free is missing")?,
        held: held.context("stock_held is missing")?,
        sold: sold.context("stock_sold is missing")?,
        as_of: as_of.context("stock_as_of is missing")?,
    }))
}

/// `first last restored`, and a comma between gaps.
pub(super) fn gaps(text: &str) -> anyhow::Result<Vec<Gap>> {
    let gaps = text.split(',').filter(|gap| !gap.is_empty());
    gaps.map(|gap| {
        let numbers: Vec<u64> = gap
            .split(' ')
            .map(whole)
            .collect::<Option<_>>()
            .with_context(|| format!("{gap} is no gap"))?;
        let [first, last, restored] = numbers[..] else {
            bail!("{gap} is no gap");
        };
        Ok(Gap {
            first: Number(first),
            last: Number(last),
            restored,
        })
    })
    .collect()
}
