//! Gathers what a sale left behind: histories first, then the databases, then the mailbox.
//!
//! The order matters while the system runs: what a client was told before the databases are read
//! must be in them, and a notice in the database has its message in the mailbox.

use std::path::{Path, PathBuf};

use crate::base::secret::Secret;
use crate::check::facts::Facts;
use crate::check::snapshot::Snapshot;
use crate::check::{files, in_sql, journal};

/// Where to look.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The data folder: `catraca.db`, `room.db` and `mailbox/`.
    pub data_dir: PathBuf,
    /// The URL of the PostgreSQL database that is read instead of `catraca.db`.
    pub database: Option<Secret>,
    /// What clients wrote down, one JSON object a line.
    pub histories: Vec<PathBuf>,
}

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file is not there or cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A database cannot be read.
    #[error("cannot read {}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// Something is there that no build of ours writes.
    #[error("{} holds foreign data: {what}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Where in it, and what is wrong.
        what: String,
    },
}

impl CheckError {
    pub(super) fn foreign(path: &Path, what: impl Into<String>) -> Self {
        Self::Foreign {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// Reads everything there is. The data may be in use: it is only read, and each database in one
/// consistent state. A missing journal, mailbox or history is no error: what it would prove stays
/// unproved.
///
/// # Errors
/// [`CheckError`] where the database is missing, or something is unreadable or foreign.
pub async fn load(paths: &Paths) -> Result<Facts, CheckError> {
    let mut facts = Facts::default();
    for (file, path) in paths.histories.iter().enumerate() {
        let operations = files::history(path, file).await?;
        facts.history.get_or_insert_default().extend(operations);
    }
    let file = paths.data_dir.join("catraca.db");
    let snapshot = match &paths.database {
        None => Snapshot::of_file(&file).await?,
        Some(url) => Snapshot::of_server(Path::new("the database"), url.expose()).await?,
    };
    in_sql::read_shop(snapshot, &mut facts).await?;
    facts.journals = journal::read(&paths.data_dir.join("room.db")).await?;
    facts.mail = files::mailbox(&paths.data_dir.join("mailbox")).await?;
    place_operations(&mut facts);
    Ok(facts)
}

/// A history need not name its show where there is only one. Operations are put in order of time.
fn place_operations(facts: &mut Facts) {
    let Some(history) = &mut facts.history else {
        return;
    };
    history.sort_by_key(|operation| operation.sent_us);
    let mut shows = facts.shows.keys();
    let (Some(only), None) = (shows.next(), shows.next()) else {
        return;
    };
    for operation in history {
        operation.show.get_or_insert_with(|| only.clone());
    }
}
