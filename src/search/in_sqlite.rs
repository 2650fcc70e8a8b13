//! The listings in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::ids::ShowId;
use crate::base::time::{Clock, Timestamp};
use crate::driver::sqlite::Sqlite;
use crate::log::inbox::{Rewound, Run};
use crate::log::inbox_in_sqlite::{begin_again, pass, remember};
use crate::log::{Delivery, LogError};
use crate::search::store::{Listing, Said, Store};
use crate::search::{GROUP, in_sql};

/// The listings of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
}

impl InSqlite {
    /// The listings of an open database.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Store for InSqlite {
    async fn list(&self, delivery: &Delivery, said: &Said) -> Result<(), LogError> {
        let (db, now) = (self.db.clone(), self.clock.now());
        let (delivery, said) = (delivery.clone(), said.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            if remember(&mut tx, GROUP, &delivery, now).await? {
                save(&mut tx, &delivery, &said).await?;
            }
            let at = (delivery.partition, delivery.offset);
            pass(&mut tx, GROUP, at, now).await?;
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn listing(&self, show: &ShowId) -> Result<Option<Listing>, LogError> {
        let row = sqlx::query("select * from listings where show = ?")
            .bind(show.as_str())
            .fetch_optional(&self.db.read)
            .await?;
        row.as_ref().map(in_sql::listing).transpose()
    }

    async fn begin_again(&self, run: Run) -> Result<Rewound, LogError> {
        let (db, now) = (self.db.clone(), self.clock.now());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let rewound = empty(&mut tx, now).await?;
            match run {
                Run::Real => tx.commit().await?,
                Run::Dry => tx.rollback().await?,
            }
            Ok(rewound)
        };
        self.db.outlive(work).await
    }
}

/// A later event takes the place of an earlier one, never the other way round. That the last seat went
/// says nothing of sections.
async fn save(
    conn: &mut SqliteConnection,
    delivery: &Delivery,
    said: &Said,
) -> Result<(), sqlx::Error> {
    let (sections, sold_out_at) = in_sql::first(said);
    sqlx::query(
        "insert into listings as l (show, version, sections, as_of_ms, sold_out_at_ms)
         values (?, ?, ?, ?, ?)
         on conflict (show) do update
         set version = excluded.version, as_of_ms = excluded.as_of_ms,
             sections = case when excluded.sold_out_at_ms is null then excluded.sections
                             else l.sections end,
             sold_out_at_ms = coalesce(l.sold_out_at_ms, excluded.sold_out_at_ms)
         where l.version < excluded.version",
    )
    .bind(said.show.as_str())
    .bind(delivery.version.cast_signed())
    .bind(sections)
    .bind(said.at.as_millis())
    .bind(sold_out_at)
    .execute(conn)
    .await?;
    Ok(())
}

async fn empty(conn: &mut SqliteConnection, now: Timestamp) -> Result<Rewound, sqlx::Error> {
    let rewound = begin_again(conn, GROUP, now).await?;
    if let Rewound::From(_) = &rewound {
        sqlx::query("delete from listings").execute(conn).await?;
    }
    Ok(rewound)
}
