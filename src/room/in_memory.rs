//! The embedded room: the definition behind a lock, with a journal in SQLite.
//!
//! The journal is the commands that changed something, each with the room time at which it was
//! applied. An answer waits for its row: what was answered can be replayed. Commands that change
//! nothing that must last leave no row, so polls, checks and idle ticks cost no disk.
//!
//! ```text
//! lock ── finish what is in doubt ── apply ── row committed ── answer
//! ```
//!
//! Whoever is dropped between `apply` and the commit leaves the row behind, and the next command
//! writes it first. Where a commit has failed, nobody knows what the file holds: the next command
//! reads the room again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use futures_util::TryStreamExt;

use crate::base::ids::ShowId;
use crate::base::time::{Clock, Timestamp};
use crate::driver::sql::{Migration, SqlError};
use crate::driver::sqlite::Sqlite;
use crate::room::model::command::{Command, Mend, Outcome};
use crate::room::model::{self, State};
use crate::room::{Store, StoreError};

/// A row is one command that changed a room.
const SCHEMA: &[Migration] = &[Migration {
    name: "0001_room_journal",
    sql: "create table room_journal (
        show text not null,
        -- 1, 2, 3… for one show.
        seq integer not null,
        -- Room time at which the command was applied.
        at_ms integer not null,
        -- The command, JSON.
        command text not null,
        primary key (show, seq)
    ) strict",
}];

/// Rooms in this process, and the file that outlives it.
#[derive(Debug)]
pub struct InMemory {
    clock: Arc<dyn Clock>,
    file: Sqlite,
    rooms: Mutex<BTreeMap<ShowId, Arc<tokio::sync::Mutex<Room>>>>,
}

#[derive(Debug, Default)]
struct Room {
    state: State,
    /// Rows that made it.
    rows: u64,
    doubt: Doubt,
}

/// What has to happen before the room may be used.
#[derive(Debug, Default)]
enum Doubt {
    #[default]
    Clear,
    /// The state has this change, the file may not have its row.
    Row(Row),
    /// The state is not what the file says.
    State,
}

#[derive(Debug)]
struct Row {
    seq: u64,
    at: Timestamp,
    command: String,
}

impl InMemory {
    /// Opens the journal, creates it where it is missing, and replays it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the file cannot be opened or written,
    /// [`StoreError::Corrupt`] where it is damaged or not a journal of ours.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let naming = || format!("the room's journal {}", path.display());
        let file = Sqlite::open(path, SCHEMA).await.map_err(|error| {
            let is_foreign = match &error {
                SqlError::Schema(_) => true,
                SqlError::Database(error) => is_damage(error),
                SqlError::Unfit(_)
                | SqlError::Away(_)
                | SqlError::Silent
                | SqlError::Moved
                | SqlError::Unfinished(_) => false,
            };
            let error = anyhow::Error::new(error).context(naming());
            if is_foreign {
                StoreError::Corrupt(error)
            } else {
                StoreError::Unavailable(error.into())
            }
        })?;
        // SQLite opens a file that it may not write without a word. Better now than at the first join.
        sqlx::raw_sql("begin immediate; rollback")
            .execute(&file.write)
            .await
            .with_context(|| format!("{} cannot be written", naming()))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        let shows: Vec<String> = sqlx::query_scalar("select distinct show from room_journal")
            .fetch_all(&file.write)
            .await
            .map_err(failed)?;
        let mut rooms = BTreeMap::new();
        for show in shows {
            let show: ShowId = show
                .parse()
                .map_err(|error| StoreError::Corrupt(anyhow!("{show}: {error}")))?;
            let room = replay(&file, &show).await?;
            rooms.insert(show, Arc::new(tokio::sync::Mutex::new(room)));
        }
        Ok(Self {
            clock,
            file,
            rooms: Mutex::new(rooms),
        })
    }

    /// Waits for the commit under way and closes the file.
    pub async fn close(&self) {
        self.file.close().await;
    }

    /// A copy of a show's room as it stands: what a test or a simulation compares. None if there is
    /// no such room.
    pub async fn snapshot(&self, show: &ShowId) -> Option<State> {
        let room = self.rooms().get(show).cloned()?;
        let room = room.lock().await;
        Some(room.state.clone())
    }

    fn rooms(&self) -> MutexGuard<'_, BTreeMap<ShowId, Arc<tokio::sync::Mutex<Room>>>> {
        // Nothing panics under this lock; if it did, the map would still be whole.
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The show's room. Only a mend makes one: a name that somebody tries out takes no memory.
    fn room(&self, show: &ShowId, command: &Command) -> Option<Arc<tokio::sync::Mutex<Room>>> {
        let mut rooms = self.rooms();
        if let Some(room) = rooms.get(show) {
            return Some(Arc::clone(room));
        }
        let is_beginning = matches!(command, Command::Mend(Mend::Begin { .. }));
        is_beginning.then(|| Arc::clone(rooms.entry(show.clone()).or_default()))
    }

    /// Makes file and state agree.
    async fn settle(&self, show: &ShowId, room: &mut Room) -> Result<(), StoreError> {
        match &room.doubt {
            Doubt::Clear => {}
            Doubt::Row(row) => match commit(&self.file, show, row).await {
                Ok(()) => room.rows = row.seq,
                Err(error) => {
                    room.doubt = Doubt::State;
                    return Err(failed(error));
                }
            },
            Doubt::State => *room = replay(&self.file, show).await?,
        }
        room.doubt = Doubt::Clear;
        Ok(())
    }
}

#[async_trait]
impl Store for InMemory {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        let Some(room) = self.room(show, command) else {
            return Ok(Outcome::Unfenced);
        };
        let mut room = room.lock().await;
        self.settle(show, &mut room).await?;

        let before = room.state.revision();
        room.doubt = Doubt::State; // should the definition panic half-way
        let outcome = model::apply(&mut room.state, self.clock.now(), command);
        if room.state.revision() == before {
            room.doubt = Doubt::Clear;
            return Ok(outcome);
        }
        room.doubt = Doubt::Row(Row {
            seq: room.rows + 1,
            at: room.state.now(),
            command: serde_json::to_string(command).expect("commands are plain data"),
        });
        self.settle(show, &mut room).await?;
        Ok(outcome)
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        Ok(self.rooms().keys().cloned().collect())
    }
}

/// Writes a row. The same row may be written again: its first writer may have been dropped.
async fn commit(file: &Sqlite, show: &ShowId, row: &Row) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into room_journal (show, seq, at_ms, command) values (?, ?, ?, ?)
         on conflict (show, seq) do nothing",
    )
    .bind(show.as_str())
    .bind(row.seq.cast_signed())
    .bind(row.at.as_millis())
    .bind(&row.command)
    .execute(&file.write)
    .await?;
    Ok(())
}

/// Reads a room from its journal: over the connection that writes, so behind a commit that somebody
/// dropped.
async fn replay(file: &Sqlite, show: &ShowId) -> Result<Room, StoreError> {
    let mut rows = sqlx::query_as::<_, (i64, i64, String)>(
        "select seq, at_ms, command from room_journal where show = ? order by seq",
    )
    .bind(show.as_str())
    .fetch(&file.write);
    let mut room = Room::default();
    while let Some((seq, at_ms, command)) = rows.try_next().await.map_err(failed)? {
        room.rows += 1;
        if room.rows.cast_signed() != seq {
            let missing = room.rows;
            return Err(StoreError::Corrupt(anyhow!(
                "{show}: row {missing} of the journal is missing"
            )));
        }
        let command = serde_json::from_str(&command)
            .with_context(|| format!("{show}: row {seq} of the journal is no command"))
            .map_err(StoreError::Corrupt)?;
        model::apply(&mut room.state, Timestamp::from_unix_ms(at_ms), &command);
    }
    Ok(room)
}

fn failed(error: sqlx::Error) -> StoreError {
    if is_damage(&error) {
        StoreError::Corrupt(error.into())
    } else {
        StoreError::Unavailable(anyhow::Error::from(error).into())
    }
}

/// Whether SQLite says that the file is damaged or no database: `SQLITE_CORRUPT`, `SQLITE_NOTADB`.
fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| matches!(code.as_ref(), "11" | "26"))
}
