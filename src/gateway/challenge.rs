//! What stands before a new number: the limit on joins, and what is asked of those over it.
//!
//! Behind one carrier's address wait thousands, so over the limit of its prefix a join is challenged
//! and not refused. A client does the sum (`token/challenge.rs`) and asks again with the answer; a
//! reader without scripts waits (`token/wait.rs`) and presses the button again. Both count once, in
//! the very step that counts the join; waits, which cost a program nothing, reach less far. Refused is
//! only who is far above.

use http::{HeaderMap, HeaderName, StatusCode};

use crate::base::ids::{Edition, ShowId};
use crate::base::time::Timestamp;
use crate::gateway::Gateway;
use crate::gateway::boards::Seen;
use crate::gateway::enter::Joiner;
use crate::gateway::limit::told_of_joins;
use crate::gateway::page::WaitView;
use crate::http::extract::single;
use crate::http::problem::Problem;
use crate::limit::gcra::Entry;
use crate::limit::{self, Proof, Showing, seconds_of};
use crate::telemetry::metrics;
use crate::token::challenge::{Challenge, LEVEL_MAX};
use crate::token::wait::Wait;

/// The header that carries an answer.
static PROOF_HEADER: HeaderName = HeaderName::from_static("x-catraca-proof");

/// What a join shows for itself, as it came: whoever has a place keeps it whatever this is, and where
/// the limits refuse it is not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Nothing.
    Nothing,
    /// The answer to a challenge.
    Answer(String),
    /// A form's wait, which is over.
    Wait(Proof),
}

impl Evidence {
    /// What a request's headers show.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match single(headers, &PROOF_HEADER) {
            Ok(None) => Self::Nothing,
            Ok(Some(text)) => Self::Answer(text.to_owned()),
            Err(_) => Self::Answer(String::new()), // two answers are none that counts
        }
    }
}

/// Verifies an answer to a challenge.
///
/// # Errors
/// 403, the same whatever is wrong with it.
fn verified(gateway: &Gateway, seen: &Seen, show: &ShowId, answer: &str) -> Result<Proof, Problem> {
    let (now, of) = (seen.now(), (show, seen.board.edition));
    let answered = Challenge::check(answer, of, now, &gateway.keys).map_err(|_| no_proof())?;
    Ok(Proof {
        id: answered.id,
        ttl_ms: answered.until.ms_since(now),
    })
}

/// 403: what was shown does not count here, or not any more.
fn no_proof() -> Problem {
    metrics::challenge("failed");
    Problem::new(
        StatusCode::FORBIDDEN,
        "bad-proof",
        "That answer does not count. Ask again without it.",
    )
}

/// Counts a join, and says how many more may follow it from there without a proof. An answer is
/// verified only where the limits leave room for it, for that costs a moment of a processor.
///
/// # Errors
/// 429 with a challenge where it has none to show, 429 without where far too many come from there,
/// 503 where the show has too many at once, 403 where what it shows does not count or is used.
pub(crate) async fn admit(
    gateway: &Gateway,
    seen: &Seen,
    show: &ShowId,
    joiner: &Joiner,
) -> Result<u64, Problem> {
    let from = joiner.from;
    let ask = |shows| gateway.joins.ask(show, limit::Joiner { from, shows });
    let entry = match &joiner.evidence {
        Evidence::Nothing => ask(Showing::Nothing).await,
        Evidence::Wait(proof) => ask(Showing::Wait(*proof)).await,
        Evidence::Answer(answer) => match ask(Showing::Claim).await {
            Entry::Prove => ask(Showing::Proof(verified(gateway, seen, show, answer)?)).await,
            refused => refused,
        },
    };
    match entry {
        Entry::Pass { left } => {
            if joiner.evidence != Evidence::Nothing {
                metrics::challenge("passed");
            }
            Ok(left)
        }
        Entry::Challenge {
            wait_us,
            used_milli,
        } => {
            metrics::challenge("asked");
            Err(challenged(gateway, seen, show, (wait_us, used_milli)))
        }
        Entry::TooMany { wait_us } => {
            metrics::limited("join");
            let wait_s = seconds_of(wait_us);
            let refused = Problem::too_many("too-many-requests", wait_s);
            Err(refused.with_headers(told_of_joins(gateway, 0, Some(wait_s))))
        }
        Entry::Busy { .. } => {
            metrics::limited("show");
            Err(Problem::unavailable("busy"))
        }
        Entry::Spent | Entry::Prove => Err(no_proof()),
    }
}

/// 429 with a challenge; whoever knows nothing of challenges waits.
fn challenged(
    gateway: &Gateway,
    seen: &Seen,
    show: &ShowId,
    (wait_us, used_milli): (u64, u64),
) -> Problem {
    let settings = &gateway.settings.challenge;
    let challenge = Challenge {
        show: show.clone(),
        edition: seen.board.edition,
        level: settings.level(used_milli).min(LEVEL_MAX),
        until: seen.now().plus_ms(settings.answer_ms),
    };
    let wait_s = match settings.always {
        false => seconds_of(wait_us),
        true => settings.wait_ms.div_ceil(1_000).max(1), // waiting alone does not help
    };
    let signed = challenge.sign(&gateway.keys, gateway.ids.nonce());
    Problem::too_many("challenge-required", wait_s)
        .with("challenge", signed)
        .with_headers(told_of_joins(gateway, 0, Some(wait_s)))
}

/// What a form shows for itself.
#[derive(Debug)]
pub(crate) enum Waited {
    /// It has waited.
    Long(Proof),
    /// It has to wait on.
    On(WaitView),
    /// It has not begun to wait.
    Not,
}

impl Waited {
    /// What this token says now. One that does not count (any more) says nothing.
    pub(crate) fn read(
        gateway: &Gateway,
        (show, edition): (&ShowId, Edition),
        now: Timestamp,
        token: Option<&str>,
    ) -> Self {
        let wait = token.and_then(|token| Wait::read(token, (show, edition), &gateway.keys));
        match (wait, token) {
            (Some(wait), Some(token)) if now < wait.from => Self::On(WaitView {
                token: token.to_owned(),
                ms: wait.from.ms_since(now),
            }),
            (Some(wait), Some(_)) if now < wait.until => Self::Long(Proof {
                id: wait.id,
                ttl_ms: wait.until.ms_since(now),
            }),
            (Some(_) | None, _) => Self::Not,
        }
    }
}

/// A new wait.
pub(crate) fn new_wait(gateway: &Gateway, seen: &Seen, show: &ShowId) -> WaitView {
    let settings = &gateway.settings.challenge;
    let from = seen.now().plus_ms(settings.wait_ms);
    let wait = Wait {
        id: gateway.ids.fan().0,
        from,
        until: from.plus_ms(settings.answer_ms),
    };
    WaitView {
        token: wait.sign((show, seen.board.edition), &gateway.keys),
        ms: settings.wait_ms,
    }
}
