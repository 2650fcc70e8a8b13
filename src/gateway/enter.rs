//! How somebody gets a number: the one they have, or a new one past the limit on joins.

use http::StatusCode;

use crate::base::ids::{Number, ShowId};
use crate::gateway::boards::Seen;
use crate::gateway::challenge::Evidence;
use crate::gateway::credentials::Shown;
use crate::gateway::standing::{self, Standing, View};
use crate::gateway::{Gateway, account, challenge, limit};
use crate::http::problem::Problem;
use crate::limit::Asking;
use crate::limit::prefix::Prefixes;
use crate::room::StoreError;
use crate::room::model::command::{Gone, Joined, Joining, Origin, RoomState};
use crate::seller::Accounts;
use crate::telemetry::metrics;
use crate::token::account::Account;
use crate::token::pass::Pass;

/// Who wants to join.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// The pass that the request shows.
    pub(crate) shown: Option<Shown>,
    /// The idempotency key that it carries.
    pub(crate) key: Option<String>,
    /// The shop's token for an account.
    pub(crate) account: Option<String>,
    /// Where it comes from.
    pub(crate) from: Prefixes,
    /// What it shows for itself.
    pub(crate) evidence: Evidence,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    pub(crate) shown: Shown,
    pub(crate) view: View<'a>,
    pub(crate) status: StatusCode,
    /// How many more may join from there without a proof; none where this was no join that counts.
    pub(crate) left: Option<u64>,
}

/// Gives whoever joins their number: the one they have, or a new one. In this order: a good pass, which
/// needs nothing beside it; the account; the limits; and what the join shows for itself.
///
/// # Errors
/// Every refusal of a join, as a problem.
pub(crate) async fn enter<'a>(
    gateway: &Gateway,
    seen: &'a Seen,
    show: &ShowId,
    joiner: Joiner,
) -> Result<Entered<'a>, Problem> {
    if let Some(shown) = &joiner.shown {
        limit::within(&*gateway.limits, Asking::Fan(shown.pass.fan))?;
    }
    if seen.is_off() {
        return Err(refused(RoomState::Off));
    }
    if let Some(shown) = &joiner.shown
        && shown.pass.edition == seen.board.edition
    {
        let (standing, number) = standing::restore(gateway, seen, &shown.pass).await?;
        if !matches!(standing, Standing::Gone(_)) {
            metrics::join("kept");
            let (shown, view) = if number == shown.pass.number {
                (shown.clone(), View::new(seen, &shown.pass, standing))
            } else {
                let (fan, origin) = (shown.pass.fan, Origin::Known);
                hand_over(gateway, seen, show, (Joining { fan, origin }, number))
            };
            return Ok(Entered {
                view,
                shown,
                status: StatusCode::OK,
                left: None,
            });
        }
        // A turn that is over gives way to a new one.
    }
    let account = account::of(gateway, seen, show, joiner.account.as_deref()).await?;
    let left = challenge::admit(gateway, seen, show, &joiner).await?;
    let (joining, joined) = match account {
        Some(account) => join_account(gateway, seen, show, account).await?,
        None => {
            let joining = fan_of(gateway, seen, show, joiner.key.as_deref());
            (joining, join(gateway, seen, show, joining).await?)
        }
    };
    let (number, status) = number_of(joined)?;
    let (shown, view) = hand_over(gateway, seen, show, (joining, number));
    Ok(Entered {
        shown,
        view,
        status,
        left: Some(left),
    })
}

/// Whom a join without an account stands for.
fn fan_of(gateway: &Gateway, seen: &Seen, show: &ShowId, key: Option<&str>) -> Joining {
    match key {
        Some(key) => Joining {
            fan: gateway.keys.fan_of_key(show, seen.board.edition, key),
            origin: Origin::Known,
        },
        None => Joining {
            fan: gateway.ids.fan(),
            origin: Origin::Minted,
        },
    }
}

/// One place per account: its turns follow one another, and each has a fan of its own. Two who join at
/// once with one account find the same turns over, and so the same fan.
async fn join_account(
    gateway: &Gateway,
    seen: &Seen,
    show: &ShowId,
    (accounts, account): (&Accounts, Account),
) -> Result<(Joining, Joined), Problem> {
    let mut turn = 0;
    loop {
        let edition = seen.board.edition;
        let fan = gateway.keys.fan_of_account(show, edition, &account, turn);
        let origin = Origin::Known;
        let joining = Joining { fan, origin };
        let joined = join(gateway, seen, show, joining).await?;
        turn += 1;
        if !matches!(joined, Joined::Gone(_)) || accounts.turns_max() <= turn {
            return Ok((joining, joined));
        }
    }
}

/// Asks the room.
async fn join(
    gateway: &Gateway,
    seen: &Seen,
    show: &ShowId,
    joining: Joining,
) -> Result<Joined, Problem> {
    let joined = match gateway.rooms.join(show, joining).await? {
        // The room has no table: the number is what the draw gave this place.
        Joined::Drawn { place } => seen
            .number(place)
            .map_or(Joined::Busy, |number| Joined::Kept { number }),
        joined => joined,
    };
    metrics::join(outcome(joined));
    Ok(joined)
}

/// The pass for a number.
fn hand_over<'a>(
    gateway: &Gateway,
    seen: &'a Seen,
    show: &ShowId,
    (joining, number): (Joining, Number),
) -> (Shown, View<'a>) {
    let draw = seen.board.settings.draw.as_ref();
    let mut pass = Pass {
        show: show.clone(),
        fan: joining.fan,
        number,
        edition: seen.board.edition,
        generation: seen.board.generation,
        issued_at: seen.now(),
        eta: None,
        commitment: draw.map(|draw| draw.commitment),
    };
    let view = View::new(seen, &pass, Standing::InLine);
    let seconds = |s: u64| u32::try_from(s).unwrap_or(u32::MAX - 1);
    pass.eta = view.eta().map(|eta| (seconds(eta.low), seconds(eta.high)));
    let text = pass.sign(&gateway.keys);
    (Shown { pass, text }, view)
}

fn outcome(joined: Joined) -> &'static str {
    match joined {
        Joined::New { .. } => "new",
        Joined::Kept { .. } | Joined::Drawn { .. } => "kept",
        Joined::Admitted { .. } => "admitted",
        Joined::Gone(_) => "gone",
        Joined::Busy => "busy",
        Joined::Full => "full",
        Joined::OutOfMemory => "out_of_memory",
        Joined::Scheduled { .. } => "scheduled",
        Joined::Refused(_) => "refused",
    }
}

fn number_of(joined: Joined) -> Result<(Number, StatusCode), Problem> {
    let over = |why: &'static str| {
        Problem::conflict(
            "turn-over",
            "The turn of this key is over. Join with another.",
        )
        .with("reason", why)
    };
    match joined {
        Joined::New { number } => Ok((number, StatusCode::CREATED)),
        Joined::Kept { number } => Ok((number, StatusCode::OK)),
        // Whoever is inside came in with the pass; without it, the key alone opens nothing.
        Joined::Admitted { .. } => Err(over("admitted")),
        Joined::Gone(Gone::Used) => Err(over("used")),
        Joined::Gone(Gone::Expired) => Err(over("expired")),
        Joined::Gone(Gone::Left) => Err(over("left")),
        Joined::Gone(Gone::Revoked) => Err(over("revoked")),
        Joined::Drawn { .. } | Joined::Busy => Err(Problem::unavailable("busy")),
        Joined::Full => Err(Problem::unavailable("full").retry_after(30)),
        Joined::OutOfMemory => Err(StoreError::out_of_memory().into()),
        Joined::Scheduled { opens_in_ms } => {
            Err(refused(RoomState::Scheduled).with("opens_in_ms", opens_in_ms))
        }
        Joined::Refused(state) => Err(refused(state)),
    }
}

/// 409: there is nothing to join.
pub(crate) fn refused(state: RoomState) -> Problem {
    match state {
        RoomState::Scheduled => Problem::conflict("scheduled", "Joining has not begun yet."),
        RoomState::SoldOut => Problem::conflict("sold-out", "Everything is sold."),
        RoomState::Closed => Problem::conflict("closed", "The sale is over."),
        RoomState::Off => Problem::conflict("off", "There is no line: go straight to the shop."),
        RoomState::Early | RoomState::Open | RoomState::Paused | RoomState::Restoring => {
            Problem::unavailable("busy") // these take fans; the room has just changed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_a_room_to_a_join_has_its_own() {
        let number = Number(7);
        let opens_in_ms = Some(5);
        let rows: Vec<String> = [
            Joined::New { number },
            Joined::Kept { number },
            Joined::Admitted {
                until: Default::default(),
            },
            Joined::Gone(Gone::Used),
            Joined::Busy,
            Joined::Full,
            Joined::OutOfMemory,
            Joined::Scheduled { opens_in_ms },
            Joined::Refused(RoomState::SoldOut),
            Joined::Refused(RoomState::Closed),
            Joined::Refused(RoomState::Off),
        ]
        .map(|joined| match number_of(joined) {
            Ok((number, status)) => format!("{} {number}", status.as_u16()),
            Err(problem) => {
                let retry = problem.retry_after_s().map(|s| format!(" after {s} s"));
                let (status, word) = (problem.status().as_u16(), problem.word());
                format!("{status} {word}{}", retry.unwrap_or_default())
            }
        })
        .into();
        assert_eq!(
            rows,
            [
                "201 7",
                "200 7",
                "409 turn-over",
                "409 turn-over",
                "503 busy after 1 s",
                "503 full after 30 s",
                "503 room-unavailable after 1 s",
                "409 scheduled",
                "409 sold-out",
                "409 closed",
                "409 off",
            ]
        );
    }
}
