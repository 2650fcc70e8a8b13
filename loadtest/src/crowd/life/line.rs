//! In line: joining, waiting as told, being called, being told that it is over.

use crate::crowd::clock::Moment;
use crate::crowd::fan::{End, Fan, FanNo, Probe, Stage, Step, Turn};
use crate::crowd::life::{Next, baffled, enter};
use crate::crowd::plan::{Quirk, mix};
use crate::crowd::wire::Standing;
use crate::crowd::world::{Heard, Sleeper, World};
use crate::history::Facts;
use crate::judge::told::Way;
use crate::judge::{Fault, line as judge};

/// Where the server names no time to ask again.
const POLL_MS: u64 = 5_000;
/// Longest time between two polls that a fan accepts.
const POLL_MS_MAX: u64 = 600_000;
/// How often a page reads the board.
const BOARD_EVERY_MS: u64 = 5_000;

/// The answer to a join of any kind.
pub(super) fn joined(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    match heard.answer.status {
        200 | 201 => {}
        409 => return refused(world, fan_no, fan, heard),
        _ => return baffled(world, fan_no, fan, heard),
    }
    let standing = Standing::from_json(heard.answer);
    fan.keep_pass(
        heard.answer.said().pass.as_deref(),
        heard.answer.pass.as_ref(),
    );
    let first = fan.join_done.is_none();
    fan.id = fan.id.take().or(standing.fan.as_deref().map(Into::into));
    write(world, fan_no, fan, heard, &standing);
    if standing.number.is_none() && standing.state != "admitted" {
        return baffled(world, fan_no, fan, heard);
    }
    notice(world, fan_no, fan, heard, &standing);
    if !first {
        world.counts.joined_again += 1;
        if heard.answer.status == 201 && matches!(heard.step, Step::Retry | Step::Refresh) {
            world.unexpected(fan_no, fan, heard);
        }
        return Next::new();
    }
    if heard.answer.status == 200 {
        world.counts.joined_again += 1;
    }
    in_line(world, fan, heard.done);
    fan.eta = standing.eta;
    let mut next = first_steps(fan, heard.done);
    next.extend(wait(world, fan_no, fan, heard, &standing));
    next
}

/// A fan is in line from now on.
pub(super) fn in_line(world: &mut World, fan: &mut Fan, now: Moment) {
    world.counts.joined += 1;
    fan.join_done = Some(now);
    fan.stage = Stage::Waiting;
}

/// What a fan does beside waiting.
pub(super) fn first_steps(fan: &Fan, now: Moment) -> Next {
    let whim = now.plus_ms(u64::from(fan.plan.whim_ms));
    match fan.plan.quirk {
        Quirk::Leaves => vec![(whim, Step::Leave)],
        Quirk::Refreshes => vec![(whim, Step::Refresh), (whim.plus_ms(1_500), Step::Refresh)],
        Quirk::Retries => vec![(whim, Step::Retry)],
        Quirk::NoTicket => {
            let probes = Probe::ALL.iter().zip(0..);
            probes
                .map(|(probe, i)| (whim.plus_ms(i * 700), Step::Probe(*probe)))
                .collect()
        }
        Quirk::None | Quirk::JoinsTwice | Quirk::LosesAnswer | Quirk::Sleeps => Next::new(),
    }
}

fn refused(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    world.write(fan_no, fan, heard, Facts::default());
    match &*heard.answer.problem() {
        "sold-out" | "closed" => {
            tell(fan, heard.done, Way::Join);
            Next::new()
        }
        // A repeat that crossed the fan's own way in.
        "turn-over" if fan.join_done.is_some() => Next::new(),
        "scheduled" => {
            let opens_in = heard.answer.said().opens_in_ms.unwrap_or(POLL_MS);
            let pause = opens_in.clamp(200, 10_000) + mix(world.salt, fan_no, 1) % 1_000;
            vec![(heard.done.plus_ms(pause), heard.step)]
        }
        _ => baffled(world, fan_no, fan, heard),
    }
}

/// The answer to a status.
pub(super) fn status(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    match heard.answer.status {
        200 => {}
        401 | 404 if fan.number.is_some() => {
            return lost(world, fan_no, fan, heard);
        }
        _ => return baffled(world, fan_no, fan, heard),
    }
    let standing = Standing::from_json(heard.answer);
    stands(world, fan_no, fan, heard, &standing)
}

/// How a fan in line stands, from JSON or a page.
pub(super) fn stands(
    world: &mut World,
    fan_no: FanNo,
    fan: &mut Fan,
    heard: &Heard<'_>,
    standing: &Standing,
) -> Next {
    notice(world, fan_no, fan, heard, standing);
    match &*standing.state {
        "waiting" | "early" | "paused" | "restoring" => wait(world, fan_no, fan, heard, standing),
        "standby" | "returned" => {
            write(world, fan_no, fan, heard, standing);
            if fan.is_sleeper() {
                fan.stood_by = true;
                fan.stage = Stage::Waiting;
                world.counts.stood_by += 1;
            } else if !fan.stood_by {
                fan.stood_by = true;
                world.counts.missed += 1;
            }
            wait(world, fan_no, fan, heard, standing)
        }
        "admitted" => admitted(world, fan_no, fan, heard, standing),
        "gone" => {
            write(world, fan_no, fan, heard, standing);
            // After a lost answer the admission may have come and gone unseen.
            if heard.untroubled {
                let text = format!("is told gone: {:?}", standing.reason);
                world.fault(fan_no, fan, Fault::PlaceLost, &text);
            }
            fan.stage = Stage::Ended(End::RanOut);
            Next::new()
        }
        "none" | "scheduled" => lost(world, fan_no, fan, heard),
        "sold_out" | "closed" => {
            write(world, fan_no, fan, heard, standing);
            tell(fan, heard.done, Way::Status);
            Next::new()
        }
        _ => baffled(world, fan_no, fan, heard),
    }
}

/// Number and position, held against what the fan was told before.
fn notice(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>, standing: &Standing) {
    if let Some(number) = standing.number {
        let found = judge::number(fan.number, number);
        world.faults_of(fan_no, fan, found);
        fan.number = fan.number.or(Some(number));
    }
    let Some(now) = standing.position else { return };
    match fan.position {
        // Asked before the other was answered: which is newer cannot be told.
        Some((_, answered)) if heard.sent <= answered => {}
        Some((before, _)) => {
            let found = judge::position(before, now, standing.cause.as_deref());
            world.faults_of(fan_no, fan, found);
            fan.position = Some((now, heard.done));
        }
        None => fan.position = Some((now, heard.done)),
    }
}

/// Asks again as told; a sleeper does so after the call.
fn wait(
    world: &mut World,
    fan_no: FanNo,
    fan: &mut Fan,
    heard: &Heard<'_>,
    standing: &Standing,
) -> Next {
    let number = standing.number.or(fan.number);
    let place = standing.place.or(number.filter(|_| !world.board.draws()));
    if let (true, Some(place), Stage::Waiting) = (fan.is_sleeper(), place, fan.stage) {
        fan.stage = Stage::Asleep;
        world.sleepers.insert(Sleeper { place, fan_no });
        return Next::new();
    }
    let pause = standing.poll_ms.unwrap_or(POLL_MS).clamp(100, POLL_MS_MAX);
    vec![(heard.done.plus_ms(pause), Step::Status)]
}

/// A fan in line is answered as if they had no place.
pub(super) fn lost(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let text = format!("asked for their place: {}", heard.answer.excerpt());
    world.fault(fan_no, fan, Fault::PlaceLost, &text);
    fan.stage = Stage::Ended(End::GaveUp);
    Next::new()
}

fn admitted(
    world: &mut World,
    fan_no: FanNo,
    fan: &mut Fan,
    heard: &Heard<'_>,
    standing: &Standing,
) -> Next {
    let Some((ticket, admission)) = standing.ticket.clone() else {
        return baffled(world, fan_no, fan, heard);
    };
    write(world, fan_no, fan, heard, standing);
    if fan.is_sleeper() && fan.stage == Stage::Asleep && heard.untroubled {
        let text = "slept past the slot and was let in at once (is --claim-ms the show's?)";
        world.fault(fan_no, fan, Fault::SleeperNotStoodBy, text);
    }
    fan.id = fan.id.take().or(standing.fan.as_deref().map(Into::into));
    if fan.stood_by {
        world.counts.called_again += 1;
    }
    world.counts.called += 1;
    world.foreign_ticket = Some(ticket.clone());
    fan.called = Some(heard.done);
    fan.stage = Stage::Inside;
    fan.turn = Some(Box::new(Turn {
        ticket,
        admission,
        asked_hold: false,
        asked_orders: 0,
        seats: fan.plan.seats,
        tries: 0,
        hold: None,
        charges: 0,
        order: None,
        reads: 0,
    }));
    enter(fan, heard.done)
}

/// The fan has read that it is over.
pub(super) fn tell(fan: &mut Fan, now: Moment, way: Way) {
    fan.told = fan.told.or(Some((now, way)));
    fan.stage = Stage::Ended(End::Told);
}

/// A page reads on the board that it is over.
pub fn reads_board(world: &World, fan: &mut Fan, now: Moment) {
    if world.board.over.is_some() {
        tell(fan, now, Way::Board);
    }
}

/// When and how a fan in line learns that the show is over, from the moment its board says so.
pub fn after_the_end(
    world: &World,
    fan_no: FanNo,
    fan: &Fan,
    now: Moment,
) -> Option<(Moment, Step)> {
    let at = now.plus_us(mix(world.salt, fan_no, 2) % (BOARD_EVERY_MS * 1_000));
    match (fan.stage, fan.is_plain()) {
        (Stage::Waiting | Stage::Asleep, false) => Some((at, Step::ReadBoard)),
        (Stage::Asleep, true) => Some((at, Step::Status)),
        _ => None,
    }
}

fn write(world: &mut World, fan_no: FanNo, fan: &Fan, heard: &Heard<'_>, standing: &Standing) {
    let admission = standing.ticket.as_ref().map(|(_, admission)| admission);
    let facts = Facts {
        fan: standing.fan.as_deref(),
        number: standing.number.or(fan.number),
        position: standing.position,
        state: Some(&standing.state),
        ticket_id: admission.map(|admission| &*admission.ticket_id),
        expires_at: admission.map(|admission| admission.expires_ms),
        note: standing.reason.as_deref(),
        ..Facts::default()
    };
    world.write(fan_no, fan, heard, facts);
}
