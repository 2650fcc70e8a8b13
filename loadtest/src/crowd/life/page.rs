//! In line without a script: a page, a form, a page that reloads itself.

use crate::crowd::fan::{Fan, FanNo, Step};
use crate::crowd::life::{Next, baffled, line};
use crate::crowd::wire::Standing;
use crate::crowd::world::{Heard, World};
use crate::history::Facts;

use crate::judge::told::Way;

/// How long somebody looks at the page before they press the button.
const READS_MS: u64 = 400;
/// How long somebody waits at most before they press it again.
const RETRY_MS: u64 = 10_000;

/// The waiting page is there.
pub(super) fn opened(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    if heard.answer.status != 200 {
        return baffled(world, fan_no, fan, heard);
    }
    vec![(heard.done.plus_ms(READS_MS), Step::Form)]
}

/// The form was answered: 303 to the fan's own page, with the pass in a cookie. Without one the page
/// says why.
pub(super) fn formed(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    if heard.answer.status != 303 {
        return baffled(world, fan_no, fan, heard);
    }
    fan.keep_pass(None, heard.answer.pass.as_ref());
    let mut next = vec![(heard.done, Step::Status)];
    if fan.pass.is_none() {
        world.write_refused(fan_no, fan, heard);
    } else {
        world.write(fan_no, fan, heard, Facts::default());
        line::in_line(world, fan, heard.done);
        next.extend(line::first_steps(fan, heard.done));
    }
    next
}

/// The fan's own page.
pub(super) fn placed(world: &mut World, fan_no: FanNo, fan: &mut Fan, heard: &Heard<'_>) -> Next {
    let standing = Standing::from_page(heard.answer);
    if heard.answer.status != 200 {
        return match fan.pass {
            Some(_) => line::lost(world, fan_no, fan, heard),
            None => baffled(world, fan_no, fan, heard),
        };
    }
    if fan.join_done.is_none() {
        return turned_away(world, fan_no, fan, heard, &standing);
    }
    if fan.number.is_none() && standing.number.is_some() {
        let facts = Facts {
            number: standing.number,
            position: standing.position,
            state: Some(&standing.state),
            ..Facts::default()
        };
        world.write(fan_no, fan, heard, facts);
    }
    line::stands(world, fan_no, fan, heard, &standing)
}

/// The form gave no place: it is over, or the room does not take fans just now.
fn turned_away(
    world: &mut World,
    fan_no: FanNo,
    fan: &mut Fan,
    heard: &Heard<'_>,
    standing: &Standing,
) -> Next {
    match &*standing.state {
        "sold_out" | "closed" => {
            line::tell(fan, heard.done, Way::Join);
            Next::new()
        }
        "none" | "scheduled" => {
            let pause_ms = standing.poll_ms.unwrap_or(RETRY_MS).min(RETRY_MS);
            vec![(heard.done.plus_ms(pause_ms), Step::Form)]
        }
        _ => baffled(world, fan_no, fan, heard),
    }
}
