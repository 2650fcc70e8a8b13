//! The clock of a database server, so that all processes which share the server agree on when something
//! ends. A process whose own clock is wrong, or is set, ends nothing early and nothing late.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Executor, Row};
use tokio::time::Instant;

use crate::base::time::{Clock, SystemClock, Timestamp};

/// How far two clocks run apart before one is asked again, at most, and what is rounded off.
const APART: Duration = Duration::from_millis(10);

/// Whether a connection is outside a transaction, and the server's clock in milliseconds. The start of a
/// transaction is older than that of the statement only inside one; but a statement that was prepared
/// begins its own transaction before itself, so this one must not be.
const STANDS: &str = "select now() = statement_timestamp(),
  (extract(epoch from clock_timestamp()) * 1000)::bigint";

/// The server's clock as this process last heard it, and goes on counting by a clock that nobody sets. Until
/// it was heard for the first time, the machine's own.
#[derive(Debug, Default)]
pub(in crate::driver) struct ServerClock(RwLock<Option<(Timestamp, Instant)>>);

impl ServerClock {
    /// Asks on a connection, and answers whether somebody may have it next: a cancelled `begin` leaves a
    /// transaction open that sqlx does not know of.
    pub(in crate::driver) async fn ask(
        &self,
        connection: &mut PgConnection,
    ) -> Result<bool, sqlx::Error> {
        let asked = Instant::now();
        let row = connection.fetch_one(sqlx::raw_sql(STANDS)).await?;
        self.showed(Timestamp::from_unix_ms(row.try_get(1)?), asked.elapsed());
        row.try_get(0)
    }

    /// The server's clock showed this, at some moment of the time that it `took` to ask, which ends now. A
    /// clock that may be right is left alone.
    fn showed(&self, told: Timestamp, took: Duration) {
        let (now, latest) = (self.now(), told + took + APART);
        let may_be_right = told <= now + APART && now <= latest;
        let mut heard = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if heard.is_none() || !may_be_right {
            *heard = Some((told, Instant::now()));
        }
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        let heard = *self.0.read().unwrap_or_else(PoisonError::into_inner);
        match heard {
            Some((told, at)) => told + at.elapsed(),
            None => SystemClock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_may_be_right_is_left_alone_and_the_rest_is_followed() {
        let clock = ServerClock::default();
        let t0 = Timestamp::from_unix_ms(1_800_000_000_000);
        let at_once = Duration::ZERO;
        clock.showed(t0, at_once);
        assert_eq!(clock.now(), t0);
        tokio::time::advance(Duration::from_secs(60)).await;
        let minute = t0.plus_ms(60_000);
        assert_eq!(clock.now(), minute, "it runs");
        clock.showed(minute.minus_ms(500), Duration::from_millis(500));
        clock.showed(minute.plus_ms(10), at_once);
        clock.showed(minute.minus_ms(10), at_once);
        assert_eq!(clock.now(), minute, "the answer was late, not the clock");
        for set in [
            minute.plus_ms(3_600_000),
            minute.minus_ms(3_600_000),
            minute.minus_ms(3_600_011),
        ] {
            clock.showed(set, at_once);
            assert_eq!(clock.now(), set);
        }
    }
}
