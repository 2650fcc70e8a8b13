//! What both databases share: the event that is written, and what errors come to.

use crate::base::time::Timestamp;
use crate::driver::sql::SqlError;
use crate::event::{Envelope, Event};
use crate::tally::store::{Said, StoreError, Told};

/// What was said, with its version.
pub(super) fn envelope(said: Said, version: i64) -> Envelope {
    Envelope {
        id: said.id,
        version: version.cast_unsigned(),
        at: said.at,
        trace: None,
        event: Event::JoinsCounted(said.counted),
    }
}

/// What became of a minute that was not told, where this one was the last that was.
pub(super) fn before(minute: Timestamp, last_ms: i64) -> Told {
    match minute.as_millis() == last_ms {
        true => Told::Before,
        false => Told::Overtaken,
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error.into())
    }
}
