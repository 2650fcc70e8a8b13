//! What both databases have in common: their errors, their migrations, and units of work that outlive
//! whoever asked for them.

use std::error::Error;
use std::future::Future;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row, Sqlite, Type};
use tokio_util::task::TaskTracker;

/// PostgreSQL's codes have as many bytes; SQLite's are shorter.
const SQLSTATE_BYTES: usize = 5;
/// The class of SQLSTATE for values that are out of range or make no sense.
const DATA_EXCEPTION: &str = "22";
/// `SQLITE_TOOBIG`, `SQLITE_MISMATCH` and `SQLITE_CONSTRAINT_DATATYPE`: of a sum past 64 bits SQLite makes a
/// float, which no column of whole numbers takes.
const NEVER_TAKEN_BY_SQLITE: [&str; 3] = ["18", "20", "3091"];

/// Why the database did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The statement or the connection failed.
    #[error("database failed")]
    Database(#[from] sqlx::Error),
    /// A migration was changed after it had been applied, or the file is from a later build.
    #[error("database schema is not ours: migration {0} differs")]
    Schema(String),
    /// The server is too old, or one that only follows another.
    #[error("database server cannot be used: {0}")]
    Unfit(String),
    /// The server has not been reached since the process began; it goes on trying.
    #[error("database server not reached yet: {0}")]
    Away(String),
    /// Nothing was heard of the server for longer than it may take. What was under way may have been done.
    #[error("database server does not answer")]
    Silent,
    /// What the unit of work relied on has changed since it was read.
    #[error("what was read has changed since")]
    Moved,
    /// The unit of work panicked or was stopped with the process.
    #[error("unit of work did not finish")]
    Unfinished(#[from] tokio::task::JoinError),
}

/// What a cell of either database can be read as: whole numbers are `i64`.
pub trait Cell:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

impl<T> Cell for T where
    T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

/// A row of either database, so that what its cells mean is written once.
pub trait Cells {
    /// The cell in the column of this name.
    ///
    /// # Errors
    /// Where there is no such column, or it holds something else.
    fn cell<T: Cell>(&self, column: &str) -> Result<T, sqlx::Error>;

    /// The whole number in the column of this name.
    ///
    /// # Errors
    /// As [`Cells::cell`], and where it does not fit.
    fn number<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: TryFrom<i64, Error: Error + Send + Sync + 'static>,
    {
        let value: i64 = self.cell(column)?;
        T::try_from(value).map_err(|error| sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: error.into(),
        })
    }
}

impl Cells for SqliteRow {
    fn cell<T: Cell>(&self, column: &str) -> Result<T, sqlx::Error> {
        self.try_get(column)
    }
}

impl Cells for PgRow {
    fn cell<T: Cell>(&self, column: &str) -> Result<T, sqlx::Error> {
        self.try_get(column)
    }
}

/// One step of the schema: its name and its statements.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The file's name without its ending, `0001_shows`.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

impl Migration {
    /// The migrations that are still to be applied, where these (name, statements) are.
    ///
    /// # Errors
    /// [`SqlError::Schema`] where what was applied is not what we have.
    pub(in crate::driver) fn pending<'a>(
        ours: &'a [Self],
        applied: &[(String, String)],
    ) -> Result<&'a [Self], SqlError> {
        for (i, (name, sql)) in applied.iter().enumerate() {
            match ours.get(i) {
                Some(ours) if ours.name == name && ours.sql == sql => {}
                Some(_) | None => return Err(SqlError::Schema(name.clone())),
            }
        }
        Ok(&ours[applied.len()..])
    }
}

/// The units of work under way. sqlx can hand a connection back with an open transaction when
/// `begin` is cancelled, so a request that is dropped must not take its transaction with it.
#[derive(Debug, Clone, Default)]
pub(in crate::driver) struct Units(TaskTracker);

impl Units {
    /// Runs a unit of work to its end, also when the caller is dropped meanwhile.
    pub(in crate::driver) async fn outlive<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqlError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        match self.0.spawn(work).await {
            Ok(answer) => answer,
            Err(error) => Err(SqlError::Unfinished(error).into()),
        }
    }

    /// Starts work that nobody waits for.
    pub(in crate::driver) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(work)); // the task goes on without its handle
    }

    /// Waits for those under way.
    pub(in crate::driver) async fn finish(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

/// What the database itself said, wherever in the chain of causes that is.
fn said<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn DatabaseError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return error.as_database_error();
        }
        next = error.source();
    }
    None
}

/// The code of what the database itself said.
pub(in crate::driver) fn database_code(error: &(dyn Error + 'static)) -> Option<String> {
    said(error)?.code().map(|code| code.into_owned())
}

/// What the database said of a value that it can never take, however often it is asked; `None` where it failed
/// otherwise.
pub(crate) fn never_taken<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
    let said = said(error)?;
    let code = said.code()?;
    let is_sqlstate = code.len() == SQLSTATE_BYTES;
    let never = match is_sqlstate {
        true => code.starts_with(DATA_EXCEPTION),
        false => NEVER_TAKEN_BY_SQLITE.contains(&&*code),
    };
    never.then(|| said.message())
}

/// Whether a unit of work found that what it had read has changed, wherever in the chain that is.
pub(crate) fn has_moved(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref(), Some(SqlError::Moved)) {
            return true;
        }
        next = error.source();
    }
    false
}
