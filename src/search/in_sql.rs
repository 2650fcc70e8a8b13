//! What both databases share of the listings: what rows mean.

use crate::base::time::Timestamp;
use crate::driver::sql::Cells;
use crate::event::SectionStock;
use crate::log::LogError;
use crate::search::store::{Listing, Said, What};

/// What a row says that only this event is in: the sections as JSON, and when the last seat went.
pub(super) fn first(said: &Said) -> (String, Option<i64>) {
    match &said.what {
        What::Left(sections) => (json(sections), None),
        What::SoldOut => (json(&[]), Some(said.at.as_millis())),
    }
}

fn json(sections: &[SectionStock]) -> String {
    serde_json::to_string(sections).expect("plain structs with text keys always serialize")
}

/// A row of `listings`.
pub(super) fn listing(row: &impl Cells) -> Result<Listing, LogError> {
    let sections: String = row.cell("sections")?;
    let sold_out_at: Option<i64> = row.cell("sold_out_at_ms")?;
    Ok(Listing {
        version: row.number("version")?,
        sections: serde_json::from_str(&sections)
            .map_err(|error| LogError::Unavailable(error.into()))?,
        as_of: Timestamp::from_unix_ms(row.cell("as_of_ms")?),
        sold_out_at: sold_out_at.map(Timestamp::from_unix_ms),
    })
}
