//! A database file at one moment, and its cells as what they mean.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Row, SqliteConnection};

use crate::base::time::Timestamp;
use crate::check::load::CheckError;

/// How long to wait for whoever is writing.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// One state of a database file: all statements see what was committed before the first of them.
/// The file may be written meanwhile.
pub(super) struct Snapshot<'a> {
    path: &'a Path,
    conn: SqliteConnection,
}

impl<'a> Snapshot<'a> {
    pub(super) async fn open(path: &'a Path) -> Result<Self, CheckError> {
        Self::begin(path)
            .await
            .map_err(|source| CheckError::Database {
                path: path.to_owned(),
                source,
            })
    }

    async fn begin(path: &'a Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_MAX);
        let mut conn = options.connect().await?;
        sqlx::query("begin").execute(&mut conn).await?;
        Ok(Self { path, conn })
    }

    /// All rows of a statement, each turned into what it means.
    pub(super) async fn all<T>(
        &mut self,
        statement: &'static str,
        read: fn(&Cells<'_>) -> Result<T, CheckError>,
    ) -> Result<Vec<T>, CheckError> {
        let rows = sqlx::query(statement).fetch_all(&mut self.conn).await;
        let rows = rows.map_err(|source| CheckError::Database {
            path: self.path.to_owned(),
            source,
        })?;
        rows.iter()
            .map(|row| {
                read(&Cells {
                    path: self.path,
                    statement,
                    row,
                })
            })
            .collect()
    }
}

/// The cells of a row by the names of their columns.
pub(super) struct Cells<'a> {
    path: &'a Path,
    statement: &'static str,
    row: &'a SqliteRow,
}

impl Cells<'_> {
    pub(super) fn foreign(&self, column: &str, why: impl Display) -> CheckError {
        CheckError::foreign(
            self.path,
            format!("column {column} of `{}`: {why}", self.statement),
        )
    }

    pub(super) fn text(&self, column: &str) -> Result<String, CheckError> {
        self.row
            .try_get(column)
            .map_err(|error| self.foreign(column, error))
    }

    pub(super) fn int(&self, column: &str) -> Result<i64, CheckError> {
        self.row
            .try_get(column)
            .map_err(|error| self.foreign(column, error))
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
        let text: Option<String> = self
            .row
            .try_get(column)
            .map_err(|error| self.foreign(column, error))?;
        text.map(|text| text.parse().map_err(|error| self.foreign(column, error)))
            .transpose()
    }

    /// Whether there is a number.
    pub(super) fn has(&self, column: &str) -> Result<bool, CheckError> {
        let value: Option<i64> = self
            .row
            .try_get(column)
            .map_err(|error| self.foreign(column, error))?;
        Ok(value.is_some())
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, CheckError> {
        serde_json::from_str(&self.text(column)?).map_err(|error| self.foreign(column, error))
    }
}
