//! What one process at a time may do, among all that use a PostgreSQL database.
//!
//! Whoever does it works on the connection that holds the lock of its name. Where that connection is
//! cut, the work fails and the lock is free: nobody has to agree on a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::PgConnection;

use crate::driver::postgres::Postgres;
use crate::driver::sql::SqlError;

/// Connections of this process, each with the lock of a name.
#[derive(Debug, Clone, Default)]
pub struct Sole(Arc<Mutex<BTreeMap<String, PgConnection>>>);

impl Sole {
    /// Takes the connection that holds the lock of this name, to work with; `None` where somebody
    /// else has it. Unless it is given back with [`Sole::keep`], connection and lock are gone.
    ///
    /// # Errors
    /// [`SqlError`] where the database could not be asked.
    pub async fn take(&self, db: &Postgres, name: &str) -> Result<Option<PgConnection>, SqlError> {
        let known = self.known().remove(name);
        if known.is_some() {
            return Ok(known);
        }
        let mut connection = db.connection().await?;
        let free: bool = sqlx::query_scalar("select pg_try_advisory_lock(hashtextextended($1, 0))")
            .bind(name)
            .fetch_one(&mut *connection)
            .await?;
        Ok(free.then(|| connection.detach()))
    }

    /// Gives a connection back that has done its work.
    pub fn keep(&self, name: &str, connection: PgConnection) {
        self.known().insert(name.to_owned(), connection);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, PgConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
