//! A database at one moment, and its cells as what they mean.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{
    ConnectOptions, Decode, PgConnection, Postgres, Row as _, Sqlite, SqliteConnection, Type,
};

use crate::base::time::Timestamp;
use crate::check::load::CheckError;

/// How long to wait for whoever is writing.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// One state of a database: all statements see what was committed before the first of them. It may be
/// written meanwhile.
pub(super) struct Snapshot<'a> {
    /// How messages call the database.
    name: &'a Path,
    conn: Connection,
}

enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl<'a> Snapshot<'a> {
    /// Of a file.
    pub(super) async fn of_file(path: &'a Path) -> Result<Self, CheckError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_MAX);
        let begin = async {
            let mut conn = options.connect().await?;
            sqlx::query("begin").execute(&mut conn).await?;
            Ok(Connection::Sqlite(conn))
        };
        Self::begun(path, begin.await)
    }

    /// Of a server, by its URL.
    pub(super) async fn of_server(name: &'a Path, url: &str) -> Result<Self, CheckError> {
        let begin = async {
            let mut conn = PgConnectOptions::from_str(url)?.connect().await?;
            let begin = "begin transaction isolation level repeatable read read only";
            sqlx::query(begin).execute(&mut conn).await?;
            Ok(Connection::Postgres(conn))
        };
        Self::begun(name, begin.await)
    }

    fn begun(name: &'a Path, conn: Result<Connection, sqlx::Error>) -> Result<Self, CheckError> {
        match conn {
            Ok(conn) => Ok(Self { name, conn }),
            Err(source) => Err(unreadable(name, source)),
        }
    }

    /// All rows of a statement, each turned into what it means.
    pub(super) async fn all<T>(
        &mut self,
        statement: &'static str,
        read: fn(&Cells<'_>) -> Result<T, CheckError>,
    ) -> Result<Vec<T>, CheckError> {
        let name = self.name;
        let rows = self.rows(statement).await;
        let rows = rows.map_err(|source| unreadable(name, source))?;
        rows.iter()
            .map(|row| {
                read(&Cells {
                    name,
                    statement,
                    row,
                })
            })
            .collect()
    }

    async fn rows(&mut self, statement: &'static str) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match &mut self.conn {
            Connection::Sqlite(conn) => {
                let rows = sqlx::query(statement).fetch_all(conn).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Connection::Postgres(conn) => {
                let rows = sqlx::query(statement).fetch_all(conn).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }
}

fn unreadable(name: &Path, source: sqlx::Error) -> CheckError {
    CheckError::Database {
        path: name.to_owned(),
        source,
    }
}

/// The cells of a row by the names of their columns.
pub(super) struct Cells<'a> {
    name: &'a Path,
    statement: &'static str,
    row: &'a Row,
}

impl Cells<'_> {
    pub(super) fn foreign(&self, column: &str, why: impl Display) -> CheckError {
        CheckError::foreign(
            self.name,
            format!("column {column} of `{}`: {why}", self.statement),
        )
    }

    fn get<T>(&self, column: &str) -> Result<T, CheckError>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite>,
        T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        let cell = match self.row {
            Row::Sqlite(row) => row.try_get(column),
            Row::Postgres(row) => row.try_get(column),
        };
        cell.map_err(|error| self.foreign(column, error))
    }

    pub(super) fn text(&self, column: &str) -> Result<String, CheckError> {
        self.get(column)
    }

    pub(super) fn int(&self, column: &str) -> Result<i64, CheckError> {
        self.get(column)
    }

    pub(super) fn count<T: TryFrom<i64>>(&self, column: &str) -> Result<T, CheckError> {
        let value = self.int(column)?;
        T::try_from(value).map_err(|_| self.foreign(column, format!("{value} is out of range")))
    }

    pub(super) fn at(&self, column: &str) -> Result<Timestamp, CheckError> {
        self.int(column).map(Timestamp::from_unix_ms)
    }

    pub(super) fn parse<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, CheckError> {
        let text = self.text(column)?;
        text.parse()
            .map_err(|error| self.foreign(column, format!("{text:?}: {error}")))
    }

    pub(super) fn maybe<T: FromStr<Err: Display>>(
        &self,
        column: &str,
    ) -> Result<Option<T>, CheckError> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| text.parse().map_err(|error| self.foreign(column, error)))
            .transpose()
    }

    /// Whether there is a number.
    pub(super) fn has(&self, column: &str) -> Result<bool, CheckError> {
        let value: Option<i64> = self.get(column)?;
        Ok(value.is_some())
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, CheckError> {
        serde_json::from_str(&self.text(column)?).map_err(|error| self.foreign(column, error))
    }
}
