//! Setting seats aside: by what this process remembers, else by a look, else alone.
//!
//! The first two take no lock before the one statement that writes, which checks what the hold was decided
//! by; where that is not so any more it writes nothing, and the buyer looks again. Whoever keeps losing takes
//! the locks first. A refusal is never decided by what is remembered: a look tells of seats that are taken,
//! and what others are about to take counts as free.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::orders::answer;
use crate::orders::in_postgres::seats;
use crate::orders::in_postgres::shelf::Shelves;
use crate::orders::in_postgres::unit::Unit;
use crate::orders::rules::hold::{self, PlaceHold};
use crate::orders::rules::{Hold, Refusal};
use crate::orders::store::{StoreError, Told};

/// Looks of a buyer who keeps losing what was seen, before everybody else has to wait.
const LOOKS_MAX: usize = 2;

/// Sets seats aside, on one connection.
pub(super) async fn place(unit: Unit, request: &PlaceHold, shelves: &Arc<Shelves>) -> Told<Hold> {
    match among_others(unit, request, shelves).await? {
        ControlFlow::Break(told) => Ok(told),
        ControlFlow::Continue(unit) => alone(unit.begin().await?, request).await,
    }
}

/// A hold by a statement of its own, or a refusal; else others were quicker each time, or are about to be.
async fn among_others(
    mut unit: Unit,
    request: &PlaceHold,
    shelves: &Arc<Shelves>,
) -> Result<ControlFlow<Result<Hold, Refusal>, Unit>, StoreError> {
    let (id, now) = (unit.ids().hold(unit.now()), unit.now());
    let wanted = seats::best(request);
    let mut given = wanted.as_ref().and_then(|best| shelves.give(best, now));
    let mut had = 0;
    if let Some(given) = &given
        && let Ok(decision) = hold::decide(&given.facts(), request, id, now)
        && let Some(hold) = unit.attempt(decision, given.ground()).await?
    {
        return Ok(ControlFlow::Break(Ok(hold)));
    }
    for _ in 0..LOOKS_MAX {
        let look = shelves.look();
        let looked = match seats::for_hold(unit.tx(), request, now).await? {
            Ok(looked) => looked,
            Err(refusal) => return refused(unit, refusal).await,
        };
        // Else it was the ticket that had got a hold, and the seats are as good as they were.
        if let Some(lost) = given.take()
            && had == looked.facts.had
        {
            lost.lose(now);
        }
        had = looked.facts.had;
        let mut ground = looked.ground();
        let mut decided = hold::decide(&looked.facts, request, id, now);
        if let (Ok(_), Some(best), Some((offered, free))) = (&decided, &wanted, looked.offered()) {
            shelves.saw(
                &best.0,
                look,
                (offered, free),
                (now, rand::random_range(0..usize::MAX)),
            );
            given = shelves.give(best, now);
            let Some(given) = &given else {
                return Ok(ControlFlow::Continue(unit));
            };
            ground = given.ground();
            decided = hold::decide(&looked.with(given), request, id, now);
        }
        match decided {
            Err(refusal) => return refused(unit, refusal).await,
            Ok(decision) => {
                if let Some(hold) = unit.attempt(decision, ground).await? {
                    return Ok(ControlFlow::Break(Ok(hold)));
                }
            }
        }
    }
    Ok(ControlFlow::Continue(unit))
}

async fn refused(
    unit: Unit,
    refusal: Refusal,
) -> Result<ControlFlow<Result<Hold, Refusal>, Unit>, StoreError> {
    let told = unit.finish(Err(refusal), answer::held).await?;
    Ok(ControlFlow::Break(told))
}

/// A hold while nobody else takes seats of the section.
async fn alone(mut unit: Unit, request: &PlaceHold) -> Told<Hold> {
    let (id, now) = (unit.ids().hold(unit.now()), unit.now());
    seats::lock_for_hold(unit.tx(), request).await?;
    let decided = seats::for_hold(unit.tx(), request, now).await?;
    let decided = decided.and_then(|looked| {
        unit.stand_on(looked.ground());
        hold::decide(&looked.facts, request, id, now)
    });
    unit.finish(decided, answer::held).await
}
