//! What SQL lets a mender do, and whom it holds back.

use std::sync::Arc;

use catraca::base::ids::{Edition, FanId, FencingToken, Generation, Number, Place, ShowId};
use catraca::base::time::{Clock, SystemClock};
use catraca::driver::schema::CATRACA;
use catraca::driver::sqlite::Sqlite;
use catraca::show::in_sqlite::InSqlite;
use catraca::show::settings::Settings;
use catraca::show::{Change, Checkpoint, LedgerRow, Show, Store};

use crate::model::world::at;

fn show() -> ShowId {
    "show".parse().unwrap()
}

/// A show that was just created.
async fn created(shows: &dyn Store) {
    let settings: Settings = serde_json::from_str(r#"{"name": "Show", "rate": 10}"#).unwrap();
    let change = Change {
        who: "test".to_owned(),
        role: "admin".to_owned(),
        action: "create".to_owned(),
        detail: "{}".to_owned(),
        at: SystemClock.now(),
    };
    shows.put(&show(), &change, &settings, None).await.unwrap();
}

async fn seen(shows: &dyn Store) -> Show {
    shows.get(&show()).await.unwrap().unwrap()
}

fn row(generation: u64, seq: u64) -> LedgerRow {
    LedgerRow {
        edition: Edition(1),
        generation: Generation(generation),
        seq,
        at: at(1_000),
        token: FencingToken(1).0,
        serving: Place(seq),
        kind: "ended".to_owned(),
        body: format!(r#"{{"Ended":{{"fan":"{}","why":"Left"}}}}"#, FanId([1; 16])),
    }
}

fn checkpoint(generation: u64) -> Checkpoint {
    Checkpoint {
        generation: Generation(generation),
        state: "open".to_owned(),
        verb_version: 0,
        issued: Number(7),
        serving: Place(3),
        waiting: 4,
        at: at(2_000),
    }
}

async fn one_mender_at_a_time(shows: &dyn Store) {
    created(shows).await;
    let first = seen(shows).await;
    assert!(shows.begin_mend(&first, Number(100)).await.unwrap());
    assert!(!shows.begin_mend(&first, Number(100)).await.unwrap());
    let second = seen(shows).await;
    assert_eq!(
        (second.generation, second.mended, second.ceiling),
        (Generation(1), Generation(0), Number(100))
    );
    // A leader raises the ceiling between the mender's look and its first step: the numbers up to the
    // new one are the old room's.
    let id = show();
    let raised = shows.raise_ceiling(&id, Generation(1), Number(300));
    assert!(raised.await.unwrap());
    assert!(!shows.begin_mend(&second, Number(200)).await.unwrap());
    let third = seen(shows).await;
    assert!(shows.begin_mend(&third, Number(400)).await.unwrap());
    // From now on they are the new room's.
    let late = shows.raise_ceiling(&id, Generation(1), Number(500));
    assert!(!late.await.unwrap());
    let now = seen(shows).await;
    assert_eq!((now.generation, now.ceiling), (Generation(2), Number(400)));
}

async fn old_rows_are_refused(shows: &dyn Store) {
    created(shows).await;
    let append = async |current, rows: &[LedgerRow]| {
        let id = show();
        let appended = shows.append_ledger(&id, Generation(current), rows);
        appended.await.unwrap()
    };
    assert!(
        shows
            .begin_mend(&seen(shows).await, Number(100))
            .await
            .unwrap()
    );
    shows.end_mend(&show(), Generation(1)).await.unwrap();
    assert!(append(1, &[row(1, 1), row(1, 2)]).await);
    assert!(
        shows
            .begin_mend(&seen(shows).await, Number(200))
            .await
            .unwrap()
    );
    assert!(!append(1, &[row(1, 3)]).await, "the room was given up");
    assert!(
        append(2, &[row(1, 2), row(1, 3)]).await,
        "but for its mender"
    );
    assert!(
        shows
            .begin_mend(&seen(shows).await, Number(300))
            .await
            .unwrap()
    );
    assert!(!append(2, &[row(1, 4)]).await, "who is overtaken");
    assert!(append(3, &[row(1, 4)]).await);
    assert!(!append(3, &[row(2, 1)]).await, "nobody finished that room");
    shows.end_mend(&show(), Generation(3)).await.unwrap();
    assert!(!append(3, &[row(1, 5)]).await, "the mend is over");
    let after = (Generation(0), 0);
    let rows = shows.ledger(&show(), Edition(1), after, 9).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
}

async fn a_checkpoint_says_that_a_room_is_whole(shows: &dyn Store) {
    created(shows).await;
    assert!(
        shows
            .begin_mend(&seen(shows).await, Number(100))
            .await
            .unwrap()
    );
    shows.checkpoint(&show(), &checkpoint(0)).await.unwrap();
    assert_eq!(seen(shows).await.issued, Number(0), "of another life");
    shows.checkpoint(&show(), &checkpoint(1)).await.unwrap();
    let now = seen(shows).await;
    assert_eq!((now.mended, now.checkpoint_at), (Generation(1), at(2_000)));
}

async fn in_sqlite(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let path = folder.path().join("catraca.db");
    Arc::new(InSqlite::new(Sqlite::open(&path, CATRACA).await.unwrap()))
}

#[tokio::test]
async fn one_mender_at_a_time_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    one_mender_at_a_time(&*in_sqlite(&folder).await).await;
}

#[tokio::test]
async fn old_rows_are_refused_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    old_rows_are_refused(&*in_sqlite(&folder).await).await;
}

#[tokio::test]
async fn a_checkpoint_says_that_a_room_is_whole_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    a_checkpoint_says_that_a_room_is_whole(&*in_sqlite(&folder).await).await;
}
