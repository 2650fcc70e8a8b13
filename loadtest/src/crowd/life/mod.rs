//! What a fan makes of an answer, and does next.
//!
//! Everything here is told the time and makes no request: it moves the fan, tells the judges, and
//! answers which steps come next and when. [`line`] is the waiting, [`page`] the waiting without a
//! script, [`shop`] what comes after the call.

pub mod line;
pub mod page;
pub mod shop;

use crate::crowd::clock::Moment;
use crate::crowd::fan::{End, Fan, FanNo, Stage, Step};
use crate::crowd::latency::op;
use crate::crowd::plan::{Purpose, Quirk, mix};
use crate::crowd::pool::Trouble;
use crate::crowd::world::{Heard, World};
use crate::history::{Facts, Line, Outcome};
use crate::judge::Fault;

/// Steps of a fan, each with its intended moment.
pub type Next = Vec<(Moment, Step)>;

/// Unusable answers in a row after which a fan gives up. Silence is not one: a server may come back.
const PATIENCE: u8 = 8;

/// An answer to a fan.
pub fn answered(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    world.counts.answers += 1;
    learn_cookies(world, heard);
    if let Some(next) = put_off(world, fan_no, fan, heard) {
        return next;
    }
    fan.troubles = 0;
    if fan.leaving && heard.step != Step::Leave {
        // Asked before the fan left and answered around it: it proves nothing.
        return Next::new();
    }
    match heard.step {
        Step::Board | Step::ReadBoard => Next::new(),
        Step::Join | Step::Twin | Step::Retry | Step::Refresh => {
            line::joined(world, fan_no, fan, heard)
        }
        Step::Status if fan.is_plain() => page::placed(world, fan_no, fan, heard),
        Step::Status => line::status(world, fan_no, fan, heard),
        Step::Recheck => shop::rechecked(world, fan_no, fan, heard),
        Step::Page => page::opened(world, fan_no, fan, heard),
        Step::Form => page::formed(world, fan_no, fan, heard),
        Step::Probe(probe) => {
            if heard.answer.status == 401 {
                world.counts.probes_refused += 1;
            } else {
                let text = format!("{} was answered {}", probe.name(), heard.answer.excerpt());
                world.fault(fan_no, fan, Fault::GateOpen, &text);
            }
            let facts = Facts {
                note: Some(probe.name()),
                ..Facts::default()
            };
            world.write(fan_no, fan, heard, facts);
            Next::new()
        }
        Step::Hold => shop::held(world, fan_no, fan, heard),
        Step::Order | Step::OrderAgain => shop::ordered(world, fan_no, fan, heard),
        Step::Read => shop::read(world, fan_no, fan, heard),
        Step::Pay => shop::paid(world, fan_no, fan, heard),
        Step::Leave => left(world, fan_no, fan, heard),
    }
}

/// No answer: the same step with the same key again, later each time.
pub fn troubled(
    world: &mut World,
    (fan_no, fan): (FanNo, &mut Fan),
    step: Step,
    (sent, done): (Moment, Moment),
    trouble: &Trouble,
) -> Next {
    let (outcome, text) = match trouble {
        Trouble::NotSent(text) => {
            world.counts.not_sent += 1;
            (Outcome::Failed, text)
        }
        Trouble::Lost(text) => {
            let on_purpose = fan.plan.quirk == Quirk::LosesAnswer && fan.join_done.is_none();
            let count = if on_purpose {
                &mut world.counts.lost_on_purpose
            } else {
                &mut world.counts.lost
            };
            *count += 1;
            (Outcome::Unknown, text)
        }
    };
    if !repeats_for_free(step) {
        world.history.write(&Line {
            show: &world.settings.show,
            op: op(step),
            fan_no,
            sent_us: sent.us(),
            done_us: done.us(),
            outcome,
            js: !fan.is_plain(),
            facts: Facts {
                note: Some(text),
                ..Facts::default()
            },
        });
    }
    fan.troubles = fan.troubles.saturating_add(1);
    vec![(done.plus_ms(backoff_ms(world, fan_no, fan)), step)]
}

/// Whether an unanswered step proves nothing: it changes nothing that the next one would not.
const fn repeats_for_free(step: Step) -> bool {
    matches!(step, Step::Status | Step::Recheck | Step::Read | Step::Page)
}

/// 0.2 s doubled for each trouble in a row, at most 5 s, and up to half of it more by chance.
fn backoff_ms(world: &World, fan_no: FanNo, fan: &Fan) -> u64 {
    let ms = (200_u64 << u32::from(fan.troubles.min(6))).min(5_000);
    ms + mix(world.salt, fan_no, 1_000 + u64::from(fan.troubles)) % (ms / 2)
}

/// "Later": limits are obeyed and counted; so are a server's own troubles.
fn put_off(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Option<Next> {
    match heard.answer.status {
        429 => {
            world.counts.limited += 1;
            let text = format!("{:?} was limited: {}", heard.step, heard.answer.excerpt());
            world.fault(fan_no, fan, Fault::HonestFanLimited, &text);
        }
        500 => {
            world.counts.unavailable += 1;
            world.unexpected(fan_no, fan, heard);
        }
        status @ 501..=599 => {
            world.counts.unavailable += 1;
            if status == 503 && heard.answer.retry_after_ms.is_none() {
                let text = format!("{:?} was put off, and not told until when", heard.step);
                world.fault(fan_no, fan, Fault::UnexpectedAnswer, &text);
            }
        }
        _ => return None,
    }
    if !repeats_for_free(heard.step) && !matches!(heard.step, Step::Probe(_)) {
        world.write(fan_no, fan, heard, Facts::default());
    }
    fan.troubles = fan.troubles.saturating_add(1);
    let told = heard.answer.retry_after_ms.unwrap_or(0);
    let pause = told + backoff_ms(world, fan_no, fan);
    Some(vec![(heard.done.plus_ms(pause), heard.step)])
}

/// An answer that makes no sense: a fault, and the step once more, until the fan gives up.
fn baffled(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    world.unexpected(fan_no, fan, heard);
    world.write(fan_no, fan, heard, Facts::default());
    // `answered` has forgotten the troubles before; baffling answers must add up all the same.
    fan.baffled = fan.baffled.saturating_add(1);
    if PATIENCE <= fan.baffled {
        fan.stage = Stage::Ended(End::GaveUp);
        return Next::new();
    }
    vec![(heard.done.plus_ms(2_000), heard.step)]
}

fn left(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    // 303 answers a form. 401 and 404: there is nothing left to give up, as after a lost answer.
    if !matches!(heard.answer.status, 200 | 204 | 303 | 401 | 404) {
        return baffled(world, fan_no, fan, heard);
    }
    world.write(fan_no, fan, heard, Facts::default());
    fan.stage = Stage::Ended(if fan.told.is_some() {
        End::NoSeats
    } else {
        End::Left
    });
    Next::new()
}

/// What a fan does who has just been let in.
fn enter(fan: &mut Fan, now: Moment) -> Next {
    let browse_ms = u64::from(fan.plan.think_ms / 10).max(50);
    match fan.plan.purpose {
        Purpose::Buys => {
            vec![
                (now.plus_ms(browse_ms / 2), Step::Recheck),
                (now.plus_ms(browse_ms), Step::Hold),
            ]
        }
        Purpose::Looks => vec![(now.plus_ms(2 * browse_ms), Step::Leave)],
        Purpose::Vanishes => {
            fan.stage = Stage::Ended(End::Silent);
            Next::new()
        }
    }
}

fn learn_cookies(world: &mut World, heard: &Heard<'_>) {
    if let Some(pass) = &heard.answer.pass
        && pass.name != world.cookies.pass
    {
        world.cookies.pass = pass.name.clone();
    }
    if let Some(ticket) = &heard.answer.ticket
        && ticket.name != world.cookies.ticket
    {
        world.cookies.ticket = ticket.name.clone();
    }
}

#[cfg(test)]
mod tests;
