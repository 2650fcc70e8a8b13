//! What a trusted upstream says of an admission is done, sooner or later.
//!
//! The first attempt is made before the answer goes out: a fan who has bought is out before they
//! can come again. What fails is repeated here until the room answers or the time is over. Every
//! attempt may run twice, for the room's commands are harmless to repeat; and their order does not
//! matter, for an admission that was used cannot be prolonged.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::base::ids::{FanId, ShowId};
use crate::base::limits::CHECK_DEADLINE_MS;
use crate::base::time::{Clock, Timestamp};
use crate::gateway::Gateway;
use crate::gateway::boards::Seen;
use crate::room::model::command::{Consumed, Extended, Stock};
use crate::room::{Rooms, StoreError};
use crate::telemetry::metrics;

/// Attempts that may wait. The consumer of confirmed orders also says `consumed`, so what does not
/// fit is late, not lost.
const WAITING_MAX: usize = 10_000;
/// How long a used admission is worth saying so: the longest that a ticket can last by default.
const CONSUME_FOR: Duration = Duration::from_secs(900);
/// How often what failed is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// What is to be said to a room.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FollowUp {
    show: ShowId,
    fan: FanId,
    what: What,
    give_up_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Consumed,
    /// In room time.
    Until(Timestamp),
}

/// What is still to be said.
#[derive(Debug)]
pub struct FollowUps {
    rooms: Rooms,
    waiting: Mutex<VecDeque<FollowUp>>,
}

impl FollowUps {
    /// Nothing to say.
    pub(crate) fn new(rooms: Rooms) -> Self {
        Self {
            rooms,
            waiting: Mutex::default(),
        }
    }

    /// Tries once what waits; what fails waits on, unless its time is over. Returns how many wait.
    pub async fn step(&self) -> usize {
        let due = std::mem::take(&mut *self.lock());
        for follow_up in due {
            if Instant::now() < follow_up.give_up_at && self.say(&follow_up).await.is_err() {
                self.later(follow_up);
            }
        }
        self.lock().len()
    }

    /// Repeats until told to stop, and once more then.
    ///
    /// # Errors
    /// None.
    pub async fn run(&self, stop: CancellationToken) -> anyhow::Result<()> {
        while stop
            .run_until_cancelled(tokio::time::sleep(RETRY_EVERY))
            .await
            .is_some()
        {
            self.step().await;
        }
        let unsaid = self.step().await;
        if 0 < unsaid {
            tracing::warn!(
                unsaid,
                "stopped before rooms could be told what upstreams said"
            );
        }
        Ok(())
    }

    async fn say(&self, follow_up: &FollowUp) -> Result<(), StoreError> {
        let (show, fan) = (&follow_up.show, follow_up.fan);
        match follow_up.what {
            What::Consumed => {
                let consumed = self.rooms.consume(show, fan).await?;
                metrics::consume(match consumed {
                    Consumed::Now => "now",
                    Consumed::Before => "before",
                    Consumed::Unknown => "unknown",
                });
            }
            What::Until(until) => {
                let extended = self.rooms.extend(show, fan, until).await?;
                metrics::extend(match extended {
                    Extended::Until(_) => "until",
                    Extended::NotLive => "not_live",
                });
            }
        }
        Ok(())
    }

    fn later(&self, follow_up: FollowUp) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push_back(follow_up);
        } else {
            metrics::follow_up("dropped");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<FollowUp>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what a trusted upstream said in its answer to a fan.
pub(crate) async fn admission(gateway: &Gateway, show: &ShowId, fan: FanId, said: &HeaderValue) {
    let Some(what) = gateway
        .boards
        .find(show)
        .ok()
        .and_then(|seen| parse(said, &seen, &*gateway.clock))
    else {
        metrics::follow_up("malformed");
        return;
    };
    let keep_for = match what {
        What::Consumed => CONSUME_FOR,
        What::Until(until) => until - now_of(gateway, show),
    };
    let follow_up = FollowUp {
        show: show.clone(),
        fan,
        what,
        give_up_at: Instant::now() + keep_for,
    };
    let deadline = Duration::from_millis(CHECK_DEADLINE_MS);
    let said = timeout(deadline, gateway.follow_ups.say(&follow_up)).await;
    if what == What::Consumed {
        gateway.memory.forget(fan);
    }
    if !matches!(said, Ok(Ok(()))) {
        metrics::follow_up("repeated");
        gateway.follow_ups.later(follow_up);
    }
}

fn now_of(gateway: &Gateway, show: &ShowId) -> Timestamp {
    let seen = gateway.boards.find(show);
    seen.map_or_else(|_| gateway.clock.now(), |seen| seen.now())
}

/// `consumed` or `until=<unix ms>`. The upstream speaks of wall time; the room has its own, so the
/// distance counts.
fn parse(said: &HeaderValue, seen: &Seen, wall: &dyn Clock) -> Option<What> {
    let said = said.to_str().ok()?.trim();
    if said == "consumed" {
        return Some(What::Consumed);
    }
    let until = Timestamp::from_unix_ms(said.strip_prefix("until=")?.parse().ok()?);
    Some(What::Until(seen.now() + (until - wall.now())))
}

/// Tells the room what the shop has left. Not repeated: the next answer says it anew.
pub(crate) async fn stock(gateway: &Gateway, show: &ShowId, said: &HeaderValue) {
    let left = said.to_str().ok().and_then(|left| left.trim().parse().ok());
    let Some(free) = left else {
        metrics::follow_up("malformed");
        return;
    };
    let now = now_of(gateway, show);
    let stock = Stock {
        version: now.unix_ms(),
        free,
        held: 0,
        sold: 0,
        as_of: now,
    };
    let deadline = Duration::from_millis(CHECK_DEADLINE_MS);
    if !matches!(
        timeout(deadline, gateway.rooms.stock(show, stock)).await,
        Ok(Ok(()))
    ) {
        metrics::follow_up("dropped");
    }
}
