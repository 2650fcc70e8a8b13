//! After the call: seats, an order, a payment, and the same ticket whenever asked.

use crate::crowd::clock::Moment;
use crate::crowd::fan::{End, Fan, FanNo, Hold, Stage, Step};
use crate::crowd::life::{Next, baffled};
use crate::crowd::plan::{Card, mix};
use crate::crowd::wire::Standing;
use crate::crowd::world::{Bought, Heard, World};
use crate::history::Facts;
use crate::judge::told::Way;
use crate::judge::turn::Prolonged;
use crate::judge::{Fault, sales, turn};

/// Holds that a fan asks for before they leave without seats.
const TRIES_MAX: u8 = 6;
/// Reads of an order, one or two a second, before it counts as stuck.
const READS_MAX: u16 = 60;

/// A fan with a ticket asked how they stand: it must be as before.
pub(super) fn rechecked(
    world: &mut World,
    fan_no: FanNo,
    fan: &mut Fan,
    heard: &Heard<'_>,
) -> Next {
    let standing = if fan.is_plain() {
        Standing::from_page(heard.answer)
    } else {
        Standing::from_json(heard.answer)
    };
    let Some(turn) = fan.turn.as_deref_mut() else {
        return Next::new();
    };
    let admission = standing.ticket.as_ref().map(|(_, admission)| admission);
    let facts = Facts {
        number: standing.number,
        state: Some(&standing.state),
        ticket_id: admission.map(|admission| &*admission.ticket_id),
        expires_at: admission.map(|admission| admission.expires_ms),
        ..Facts::default()
    };
    let expires_ms = turn.admission.expires_ms;
    let mut found = Vec::new();
    match (&*standing.state, &standing.ticket) {
        ("admitted", Some((ticket, admission))) => {
            world.counts.rechecks += 1;
            let prolonged = if turn.asked_hold {
                Prolonged::Maybe
            } else {
                Prolonged::No
            };
            found = turn::told_again(&turn.admission, admission, prolonged);
            turn.ticket = ticket.clone();
            turn.admission = admission.clone();
        }
        _ if is_past(heard.sent, expires_ms) => {}
        // The order was confirmed, and its answer got lost.
        _ if 0 < turn.asked_orders && standing.reason.as_deref() == Some("used") => {}
        _ => found.push((
            Fault::TicketLost,
            format!("is told {}", heard.answer.excerpt()),
        )),
    }
    if let Some(number) = standing.number {
        found.extend(crate::judge::line::number(fan.number, number));
    }
    world.write(fan_no, fan, heard, facts);
    world.faults_of(fan_no, fan, found);
    Next::new()
}

fn is_past(moment: Moment, expires_ms: i64) -> bool {
    // A second of grace: `exp` of a ticket has whole seconds.
    Moment::from_unix_ms(expires_ms) <= moment.plus_ms(1_000)
}

/// The answer to a hold.
pub(super) fn held(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let said = heard.answer.said();
    let facts = Facts {
        hold_id: said.hold_id.as_deref(),
        seats: said.seats.as_deref(),
        ..Facts::default()
    };
    match (heard.answer.status, &said.hold_id, &said.seats) {
        (200 | 201, Some(hold_id), Some(seats)) => {
            world.write(fan_no, fan, heard, facts);
            world.counts.holds += 1;
            let Some(turn) = fan.turn.as_deref_mut() else {
                return Next::new();
            };
            if seats.len() != usize::from(turn.seats) {
                world.unexpected(fan_no, fan, heard);
            }
            if let Some(turn) = fan.turn.as_deref_mut() {
                turn.hold = Some(Hold {
                    hold_id: hold_id.as_str().into(),
                    ends: heard.done.plus_ms(said.expires_in_ms.unwrap_or(0)),
                    seats: seats.clone(),
                });
            }
            fan.stage = Stage::Holding;
            let think_ms = u64::from(fan.plan.think_ms);
            vec![
                (heard.done.plus_ms(think_ms / 2), Step::Recheck),
                (heard.done.plus_ms(think_ms), Step::Order),
            ]
        }
        (401, ..) => shut_out(world, fan_no, fan, heard),
        (409, ..) if is_under_way(heard) => vec![(in_a_moment(world, fan_no, heard), Step::Hold)],
        (409, ..) => no_seats(world, fan_no, fan, heard),
        _ => baffled(world, fan_no, fan, heard),
    }
}

/// Fewer seats, another section, and in the end none.
fn no_seats(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let problem = heard.answer.problem();
    world.counts.holds_refused += 1;
    let facts = Facts {
        note: Some(&problem),
        ..Facts::default()
    };
    world.write(fan_no, fan, heard, facts);
    let known = matches!(&*problem, "sold-out" | "seats-taken");
    if !known && heard.untroubled {
        world.unexpected(fan_no, fan, heard);
    }
    let sections = world.settings.sections.len();
    let pause_ms = u64::from(fan.plan.think_ms / 8).clamp(200, 3_000);
    let Some(turn) = fan.turn.as_deref_mut() else {
        return Next::new();
    };
    turn.tries += 1;
    let everywhere = sections <= usize::from(turn.tries);
    if TRIES_MAX <= turn.tries || (problem == "sold-out" && everywhere) {
        fan.told = Some((heard.done, Way::Hold));
        return vec![(heard.done.plus_ms(pause_ms), Step::Leave)];
    }
    turn.seats = (turn.seats - 1).max(1);
    vec![(heard.done.plus_ms(pause_ms), Step::Hold)]
}

/// A ticket that was refused: its time was over, or the gate is wrong.
fn shut_out(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    world.write(fan_no, fan, heard, Facts::default());
    let (expires_ms, orders) = fan.turn.as_ref().map_or((0, 0), |turn| {
        (turn.admission.expires_ms, turn.asked_orders)
    });
    // An order whose answer got lost may have used the ticket before it was sent again.
    let may_be_used = heard.step == Step::Order && 1 < orders;
    if !may_be_used && !is_past(heard.sent, expires_ms) {
        let text = format!(
            "{:?} with a live ticket was answered {}",
            heard.step,
            heard.answer.excerpt()
        );
        world.fault(fan_no, fan, Fault::TicketLost, &text);
    }
    fan.stage = Stage::Ended(End::RanOut);
    Next::new()
}

/// The answer to an order, and to the same order again.
pub(super) fn ordered(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let again = heard.step == Step::OrderAgain;
    match heard.answer.status {
        200 | 201 => {}
        // Once the order is confirmed the ticket is used: a late repeat finds the gate shut.
        401 if again => return Next::new(),
        401 => return shut_out(world, fan_no, fan, heard),
        409 if is_under_way(heard) => {
            return vec![(in_a_moment(world, fan_no, heard), heard.step)];
        }
        404 | 409 if hold_is_over(fan, heard) => {
            world.write(fan_no, fan, heard, Facts::default());
            fan.stage = Stage::Ended(End::RanOut);
            return Next::new();
        }
        _ => return baffled(world, fan_no, fan, heard),
    }
    let Some(facts) = heard.answer.said().facts() else {
        return baffled(world, fan_no, fan, heard);
    };
    let line = Facts {
        hold_id: Some(&facts.hold_id),
        order_id: Some(&facts.order_id),
        seats: Some(&facts.seats),
        ..Facts::default()
    };
    world.write(fan_no, fan, heard, line);
    let Some(turn) = fan.turn.as_deref_mut() else {
        return Next::new();
    };
    if let Some(before) = &turn.order {
        world.counts.orders_again += 1;
        let found = sales::repeated(before, &facts);
        world.faults_of(fan_no, fan, found);
        return Next::new();
    }
    let held = turn
        .hold
        .as_ref()
        .map(|hold| hold.seats.clone())
        .unwrap_or_default();
    let same = same_seats(&held, &facts.seats);
    world.counts.orders += 1;
    turn.charges = 1;
    turn.order = Some(facts);
    fan.stage = Stage::Paying;
    if !same {
        let text = format!("held {held:?}, ordered {}", heard.answer.excerpt());
        world.fault(fan_no, fan, Fault::OrderChanged, &text);
    }
    let mut next = vec![(heard.done.plus_ms(300), Step::Read)];
    if fan.plan.orders_again {
        next.push((heard.done.plus_ms(20), Step::OrderAgain));
    }
    next
}

/// The same request is being answered elsewhere: its first sending may have been lost.
fn is_under_way(heard: &Heard<'_>) -> bool {
    heard.answer.problem() == "in-progress"
}

/// When the fan is told to ask again, and up to half a second more by chance: whoever asks at the same moment of
/// each second may meet the same trouble each time.
fn in_a_moment(world: &World, fan_no: FanNo, heard: &Heard<'_>) -> Moment {
    let told = heard.answer.retry_after_ms.unwrap_or(500);
    let chance = mix(world.salt, fan_no, heard.done.us()) % 500;
    heard.done.plus_ms(told + chance)
}

fn hold_is_over(fan: &Fan, heard: &Heard<'_>) -> bool {
    let hold = fan.turn.as_deref().and_then(|turn| turn.hold.as_ref());
    hold.is_some_and(|hold| hold.ends <= heard.done.plus_ms(1_000))
}

fn same_seats(one: &[Box<str>], other: &[Box<str>]) -> bool {
    let sorted = |seats: &[Box<str>]| {
        let mut seats = seats.to_vec();
        seats.sort_unstable();
        seats
    };
    sorted(one) == sorted(other)
}

/// How the order stands.
pub(super) fn read(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let said = heard.answer.said();
    let status = said.status.as_str().unwrap_or_default();
    match (heard.answer.status, status) {
        (200, "confirmed") => confirmed(world, fan_no, fan, heard),
        (200, "pending") => pending(world, fan_no, fan, heard),
        (200, "declined" | "cancelled" | "refunded") => {
            write_order(world, fan_no, fan, heard, status);
            if fan.plan.card != Card::Declined {
                let text = format!("a good card, and the order is {status}");
                world.fault(fan_no, fan, Fault::OrderStuck, &text);
            }
            fan.stage = Stage::Ended(End::RanOut);
            Next::new()
        }
        (404, _) => {
            write_order(world, fan_no, fan, heard, "lost");
            let text = format!(
                "order {} was answered, now {}",
                order_id(fan),
                heard.answer.excerpt()
            );
            world.fault(fan_no, fan, Fault::OrderLost, &text);
            fan.stage = Stage::Ended(End::GaveUp);
            Next::new()
        }
        _ => baffled(world, fan_no, fan, heard),
    }
}

fn confirmed(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    write_order(world, fan_no, fan, heard, "confirmed");
    world.counts.confirmed += 1;
    fan.stage = Stage::Ended(End::Bought);
    let Some(order) = fan.turn.as_ref().and_then(|turn| turn.order.clone()) else {
        return Next::new();
    };
    let found = world.sales.confirmed(&order.order_id, &order.seats);
    world.faults_of(fan_no, fan, found);
    world.bought.push(Bought {
        fan_no,
        order_id: order.order_id,
        locale: fan.plan.locale,
    });
    Next::new()
}

/// Not decided, or the first card was declined: then another one.
fn pending(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let declined = fan.plan.card == Card::Declined;
    let Some(turn) = fan.turn.as_deref_mut() else {
        return Next::new();
    };
    turn.reads += 1;
    if declined && turn.charges == 1 {
        world.counts.declined_cards += 1;
        return vec![(heard.done.plus_ms(500), Step::Pay)];
    }
    if turn.reads < READS_MAX {
        let pause_ms = if turn.reads < 5 { 300 } else { 1_000 };
        return vec![(heard.done.plus_ms(pause_ms), Step::Read)];
    }
    let text = format!("order {} is pending after {READS_MAX} reads", order_id(fan));
    world.fault(fan_no, fan, Fault::OrderStuck, &text);
    fan.stage = Stage::Ended(End::GaveUp);
    Next::new()
}

/// The answer to another charge.
pub(super) fn paid(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let expires_ms = fan.turn.as_ref().map(|turn| turn.admission.expires_ms);
    match heard.answer.status {
        200..=202 | 204 => {}
        401 if expires_ms.is_some_and(|ms| is_past(heard.sent, ms)) => {
            return shut_out(world, fan_no, fan, heard);
        }
        // The first charge is still under way, or has gone through after all and used the ticket. The order says.
        401 | 409 => {}
        _ => return baffled(world, fan_no, fan, heard),
    }
    write_order(world, fan_no, fan, heard, "charged");
    if let Some(turn) = fan.turn.as_deref_mut()
        && !matches!(heard.answer.status, 401 | 409)
    {
        turn.charges += 1;
    }
    vec![(heard.done.plus_ms(400), Step::Read)]
}

fn order_id(fan: &Fan) -> &str {
    let order = fan.turn.as_deref().and_then(|turn| turn.order.as_ref());
    order.map_or("", |order| &*order.order_id)
}

fn write_order(world: &mut World, fan_no: FanNo, fan: &Fan, heard: &Heard<'_>, status: &str) {
    let facts = Facts {
        order_id: Some(order_id(fan)),
        order_status: Some(status),
        ..Facts::default()
    };
    world.write(fan_no, fan, heard, facts);
}
