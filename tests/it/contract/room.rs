//! The embedded room: what was answered survives, what was not answered is settled.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use catraca::base::ids::{Number, ShowId};
use catraca::base::time::ManualClock;
use catraca::room::in_memory::InMemory;
use catraca::room::model::command::{Command, Joined, Joining, Origin, Outcome, RoomState, Ticked};
use catraca::room::{Rooms, Store, StoreError};

use crate::model::world::{at, fan, new_room, settings, tick};

pub(crate) fn show() -> ShowId {
    "stadium-show".parse().unwrap()
}

pub(crate) fn joining(n: u64, origin: Origin) -> Joining {
    Joining {
        fan: fan(n),
        origin,
    }
}

/// A folder of its own, a clock that stands still, and an open room.
pub(crate) struct Home {
    folder: TempDir,
    pub(crate) clock: Arc<ManualClock>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            clock: Arc::new(ManualClock::at(at(10_000))),
        }
    }

    pub(crate) async fn open(&self) -> Arc<InMemory> {
        Arc::new(
            InMemory::open(&self.file(), self.clock.clone())
                .await
                .unwrap(),
        )
    }

    pub(crate) async fn begin(&self) -> Arc<InMemory> {
        let store = self.open().await;
        for step in new_room(settings(), RoomState::Open) {
            store.apply(&show(), &Command::Mend(step)).await.unwrap();
        }
        store
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("room.db")
    }

    /// Somebody else at the same file.
    async fn meddle(&self, sql: &'static str) {
        self.pool().await.execute_now(sql).await;
    }

    async fn rows(&self) -> i64 {
        let pool = self.pool().await;
        sqlx::query_scalar("select count(*) from room_journal")
            .fetch_one(&pool)
            .await
            .unwrap()
    }

    async fn pool(&self) -> SqlitePool {
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(self.file()))
            .await
            .unwrap()
    }
}

trait ExecuteNow {
    async fn execute_now(&self, sql: &'static str);
}

impl ExecuteNow for SqlitePool {
    async fn execute_now(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(self).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_answered_outlives_the_process() {
    let home = Home::new();
    let store = home.begin().await;
    let rooms = Rooms::new(store.clone());
    for n in 1..=20 {
        home.clock.advance_ms(7);
        rooms
            .join(&show(), joining(n, Origin::Minted))
            .await
            .unwrap();
    }
    home.clock.set(at(4_000)); // put back: the room's time goes on
    rooms.tick(&show(), tick(8)).await.unwrap();
    rooms.claim(&show(), fan(1)).await.unwrap();
    rooms.claim(&show(), fan(2)).await.unwrap();
    rooms.consume(&show(), fan(1)).await.unwrap();
    home.clock.advance_ms(60_000);
    rooms.claim(&show(), fan(3)).await.unwrap();
    rooms.leave(&show(), fan(15)).await.unwrap();
    rooms.trim(&show(), 1).await.unwrap();
    rooms.tick(&show(), tick(3)).await.unwrap();
    let before = rooms.ledger(&show(), 100).await.unwrap();
    let fans: Vec<_> = store.snapshot(&show()).await.unwrap().fans().collect();
    drop((rooms, store)); // killed: nothing is closed

    let again = home.open().await;
    assert_eq!(again.shows().await.unwrap(), [show()]);
    assert_eq!(
        again
            .snapshot(&show())
            .await
            .unwrap()
            .fans()
            .collect::<Vec<_>>(),
        fans
    );
    let rooms = Rooms::new(again);
    assert_eq!(rooms.ledger(&show(), 100).await.unwrap(), before);
    let kept = Joined::Kept { number: Number(20) };
    assert_eq!(
        rooms
            .join(&show(), joining(20, Origin::Known))
            .await
            .unwrap(),
        kept
    );
    let next = Joined::New { number: Number(21) };
    assert_eq!(
        rooms
            .join(&show(), joining(21, Origin::Known))
            .await
            .unwrap(),
        next
    );
}

#[tokio::test]
async fn a_room_that_was_opened_again_equals_the_one_that_went_on() {
    let home = Home::new();
    let store = home.begin().await;
    for n in 1..=30 {
        home.clock.advance_ms(100);
        let command = Command::Join {
            joining: vec![joining(n, Origin::Minted)],
        };
        store.apply(&show(), &command).await.unwrap();
        store
            .apply(&show(), &Command::Tick(tick(n % 3)))
            .await
            .unwrap();
        store
            .apply(
                &show(),
                &Command::Claim {
                    fans: vec![fan(n / 2)],
                },
            )
            .await
            .unwrap();
    }
    // The lease is not kept; a tick that calls somebody brings it.
    home.clock.advance_ms(2_000);
    let outcome = store.apply(&show(), &Command::Tick(tick(1))).await.unwrap();
    assert!(matches!(outcome, Outcome::Ticked(Ticked::Leader(step)) if step.count == 1));
    let again = home.open().await;
    assert_eq!(again.snapshot(&show()).await, store.snapshot(&show()).await);
}

#[tokio::test]
async fn what_changes_nothing_leaves_no_row() {
    let home = Home::new();
    let store = home.begin().await;
    let rooms = Rooms::new(store);
    rooms
        .join(&show(), joining(1, Origin::Minted))
        .await
        .unwrap();
    rooms.tick(&show(), tick(1)).await.unwrap();
    let rows = home.rows().await;
    assert_eq!(rows, 4, "two steps of a mend, a join and a call");
    for _ in 0..3 {
        home.clock.advance_ms(100);
        rooms
            .join(&show(), joining(1, Origin::Known))
            .await
            .unwrap();
        rooms.tick(&show(), tick(1)).await.unwrap();
        rooms.check(&show(), fan(1)).await.unwrap();
        rooms.board(&show()).await.unwrap();
        rooms.ledger(&show(), 5).await.unwrap();
        rooms.leave(&show(), fan(9)).await.unwrap();
    }
    assert_eq!(home.rows().await, rows);
}

#[tokio::test]
async fn a_commit_that_failed_has_not_happened() {
    let home = Home::new();
    let rooms = Rooms::new(home.begin().await);
    rooms
        .join(&show(), joining(1, Origin::Minted))
        .await
        .unwrap();
    home.meddle("alter table room_journal rename to away").await;
    for n in [2, 3] {
        let error = rooms
            .join(&show(), joining(n, Origin::Minted))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
    home.meddle("alter table away rename to room_journal").await;
    let second = rooms
        .join(&show(), joining(4, Origin::Minted))
        .await
        .unwrap();
    assert_eq!(second, Joined::New { number: Number(2) });
}

#[tokio::test]
async fn a_caller_that_went_during_the_commit_harms_nobody() {
    let home = Home::new();
    let store = home.begin().await;
    for n in 1..=60u64 {
        let command = Command::Join {
            joining: vec![joining(n, Origin::Minted)],
        };
        let show = show();
        let mut applying = pin!(store.apply(&show, &command));
        for _ in 0..n % 6 {
            if applying.as_mut().now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let command = Command::Join {
        joining: vec![joining(100, Origin::Minted)],
    };
    store.apply(&show(), &command).await.unwrap();
    let again = home.open().await;
    assert_eq!(again.snapshot(&show()).await, store.snapshot(&show()).await);
}

#[tokio::test]
async fn rooms_that_nobody_made_are_not_there() {
    let home = Home::new();
    let store = home.begin().await;
    let rooms = Rooms::new(store.clone());
    let other: ShowId = "other".parse().unwrap();
    let answer = rooms.join(&other, joining(1, Origin::Minted)).await;
    assert!(matches!(answer, Err(StoreError::Unfenced)));
    assert!(matches!(
        rooms.board(&other).await,
        Err(StoreError::Unfenced)
    ));
    assert_eq!(rooms.shows().await.unwrap(), [show()]);
}

async fn refusal(path: &Path) -> (StoreError, String) {
    let clock = Arc::new(ManualClock::at(at(0)));
    let error = InMemory::open(path, clock).await.unwrap_err();
    let source = std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default();
    (error, source)
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_refused_by_name() {
    let home = Home::new();
    let garbage = home.folder.path().join("garbage.db");
    std::fs::write(
        &garbage,
        "not a database at all, but long enough to be one".repeat(100),
    )
    .unwrap();
    let (error, source) = refusal(&garbage).await;
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    assert!(source.contains("garbage.db"), "{source}");

    let (error, source) = refusal(home.folder.path()).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(source.contains("the room's journal"), "{source}");
}

#[tokio::test]
async fn a_journal_with_a_hole_or_a_foreign_row_is_refused() {
    for meddling in [
        "delete from room_journal where seq = 2",
        "update room_journal set command = '{\"Dance\":{}}' where seq = 2",
    ] {
        let home = Home::new();
        let store = home.begin().await;
        store.close().await;
        home.meddle("insert into room_journal select show, 3, at_ms, command from room_journal where seq = 1").await;
        home.meddle(meddling).await;
        let (error, source) = refusal(&home.file()).await;
        assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
        assert!(source.contains("row 2"), "{source}");
    }
}
