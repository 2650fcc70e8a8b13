//! Facts in `room.db`, the embedded room's journal: who joined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::base::ids::{FanId, ShowId};
use crate::check::facts::Journal;
use crate::check::load::CheckError;
use crate::check::snapshot::Snapshot;

/// The commands of a journal by which fans come into a room.
#[derive(Deserialize)]
struct Joins {
    #[serde(rename = "Join", default)]
    join: Option<Join>,
}

#[derive(Deserialize)]
struct Join {
    joining: Vec<Joining>,
}

#[derive(Deserialize)]
struct Joining {
    fan: FanId,
}

/// Reads `room.db`; none where there is no such file.
pub(super) async fn read(path: &Path) -> Result<Option<BTreeMap<ShowId, Journal>>, CheckError> {
    if !path.exists() {
        return Ok(None);
    }
    let mut db = Snapshot::of_file(path).await?;
    let mut journals: BTreeMap<ShowId, Journal> = BTreeMap::new();
    let firsts = db.all(
        "select show, min(seq) as first from room_journal group by show",
        |row| Ok((row.parse("show")?, row.count("first")?)),
    );
    for (show, first) in firsts.await? {
        journals.insert(
            show,
            Journal {
                first,
                joined: BTreeSet::new(),
            },
        );
    }
    // Ticks are most of a journal; only its joins are read.
    let joins = db.all(
        r#"select show, command from room_journal where command like '{"Join"%'"#,
        |row| Ok((row.parse("show")?, row.json("command")?)),
    );
    for (show, command) in joins.await? {
        let (show, command): (ShowId, Joins) = (show, command);
        let joining = command.join.into_iter().flat_map(|join| join.joining);
        let journal = journals.entry(show).or_default();
        journal.joined.extend(joining.map(|joining| joining.fan));
    }
    Ok(Some(journals))
}
