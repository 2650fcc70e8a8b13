//! What SQL lets a mender do, and whom it holds back.

use std::sync::Arc;

use catraca::app::database::Database;
use catraca::base::ids::{
    Edition, FanId, FencingToken, Generation, IdSource, Number, Place, ShowId,
};
use catraca::base::time::{Clock, SystemClock};
use catraca::show::settings::Settings;
use catraca::show::{Change, Checkpoint, Kept, LedgerRow, Loss, Show, Store};

use crate::model::world::at;
use crate::support::database::{self, on_every_database};

on_every_database! {
    World:
    one_mender_at_a_time,
    old_rows_are_refused,
    a_page_is_kept_whole_or_not_at_all,
    a_checkpoint_says_that_a_room_is_whole,
    what_was_lost_is_kept_before_a_room_is_opened,
}

/// Shows in a database.
struct World {
    database: Database,
    shows: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn open(database: Database, folder: tempfile::TempDir) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shows = database.stores(&clock, &Arc::new(IdSource::random())).shows;
        created(&*shows).await;
        Self {
            database,
            shows,
            _folder: folder,
        }
    }
}

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

fn lost(generation: u64, found_at: i64) -> Loss {
    Loss {
        edition: Edition(1),
        generation: Generation(generation),
        found_at: at(found_at),
    }
}

async fn one_mender_at_a_time(world: World) {
    let shows = &*world.shows;
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

async fn old_rows_are_refused(world: World) {
    let shows = &*world.shows;
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

async fn a_checkpoint_says_that_a_room_is_whole(world: World) {
    let shows = &*world.shows;
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

async fn a_page_is_kept_whole_or_not_at_all(world: World) {
    let shows = &*world.shows;
    let seen = seen(shows).await;
    assert!(shows.begin_mend(&seen, Number(100)).await.unwrap());
    shows.end_mend(&show(), Generation(1)).await.unwrap();
    let append = async |rows: &[LedgerRow]| {
        let id = show();
        let appended = shows.append_ledger(&id, Generation(1), rows);
        appended.await.unwrap()
    };
    let page: Vec<LedgerRow> = (1..=1_000).map(|seq| row(1, seq)).collect();
    let mut mixed = page.clone();
    mixed.push(LedgerRow {
        edition: Edition(2),
        ..row(1, 1_001)
    });
    assert!(!append(&mixed).await, "one row is of another edition");
    let kept = async || {
        let after = (Generation(0), 0);
        shows
            .ledger(&show(), Edition(1), after, 9_999)
            .await
            .unwrap()
    };
    assert_eq!(kept().await, []);
    assert!(append(&[]).await);
    assert!(append(&page).await);
    // What is there stays as it is.
    let again = LedgerRow {
        kind: "claimed".to_owned(),
        ..row(1, 1_000)
    };
    assert!(append(&[again, row(1, 1_001)]).await);
    let expected: Vec<LedgerRow> = (1..=1_001).map(|seq| row(1, seq)).collect();
    assert_eq!(kept().await, expected);
}

async fn what_was_lost_is_kept_before_a_room_is_opened(world: World) {
    let shows = &*world.shows;
    let begin = async || {
        let seen = seen(shows).await;
        let ceiling = Number(seen.ceiling.0 + 100);
        assert!(shows.begin_mend(&seen, ceiling).await.unwrap());
    };
    let keep = async |generation, found_at| {
        let loss = lost(generation, found_at);
        shows.keep_loss(&show(), &loss).await.unwrap()
    };
    // Two menders die before they are so far: what comes then is the first life all the same.
    begin().await;
    begin().await;
    assert_eq!(keep(1, 500).await, Kept::Overtaken);
    assert_eq!(keep(3, 500).await, Kept::Overtaken, "nobody has begun it");
    assert_eq!(keep(2, 500).await, Kept::First);
    assert_eq!(keep(2, 600).await, Kept::First, "its answer was lost");
    assert_eq!(seen(shows).await.mended, Generation(0), "not for that");
    // Whether that room was opened nobody has said. The next mender must think so.
    begin().await;
    assert_eq!(keep(3, 1_700).await, Kept::Later);
    shows.end_mend(&show(), Generation(4)).await.unwrap();
    shows.end_mend(&show(), Generation(2)).await.unwrap();
    let mended = seen(shows).await.mended;
    assert_eq!(mended, Generation(0), "neither is the mend under way");
    shows.end_mend(&show(), Generation(3)).await.unwrap();
    assert_eq!(seen(shows).await.mended, Generation(3));
    shows.checkpoint(&show(), &checkpoint(3)).await.unwrap();
    begin().await;
    assert_eq!(keep(4, 2_400).await, Kept::Later);
    assert_eq!(keep(4, 9_999).await, Kept::Later);

    let mends = "select generation, copied_at_ms, found_at_ms from room_mends order by 1";
    let mends: Vec<(i64, i64, i64)> = database::all(&world.database, mends).await;
    // A birth has lost nothing; a later life what was done since its ledger was copied.
    assert_eq!(mends, [(2, 500, 500), (3, 600, 1_700), (4, 2_000, 2_400)]);
}
