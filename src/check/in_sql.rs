//! Facts in the database: shows and their ledgers, what was sold, events and who has read them.

use serde::Deserialize;

use crate::base::ids::{Edition, FencingToken, Generation, Number, Place, Seed, ShowId};
use crate::check::draw::Draw;
use crate::check::facts::{
    DeadLetter, Facts, Hold, Mark, Mend, Notice, Order, Outgoing, Payment, Progress, Purchase,
    Seat, Show, Stock,
};
use crate::check::ledger::Entry;
use crate::check::load::CheckError;
use crate::check::snapshot::{Cells, Snapshot};
use crate::event::codec;

/// Reads everything, in one state of the database.
pub(super) async fn read_shop(mut db: Snapshot<'_>, facts: &mut Facts) -> Result<(), CheckError> {
    let shows = db.all("select * from shows", show).await?;
    facts.shows = shows.into_iter().collect();
    read_ledger(&mut db, facts).await?;
    read_sales(&mut db, facts).await?;
    read_outbox(&mut db, facts).await?;
    read_consumers(&mut db, facts).await
}

/// The draws that have been held.
const DRAWS: &str = "select show, edition, size, seed from draws where seed is not null";

fn draw(row: &Cells<'_>) -> Result<(ShowId, Edition, Draw), CheckError> {
    let seed: Seed = row.parse("seed")?;
    let drawn = Draw::of(&seed, row.count("size")?);
    Ok((row.parse("show")?, Edition(row.count("edition")?), drawn))
}

async fn read_ledger(db: &mut Snapshot<'_>, facts: &mut Facts) -> Result<(), CheckError> {
    let entries = db
        .all(
            "select * from room_ledger order by show, edition, generation, seq",
            entry,
        )
        .await?;
    for (id, edition, draw) in db.all(DRAWS, draw).await? {
        if let Some(show) = facts.shows.get_mut(&id)
            && show.edition == edition
        {
            show.draw = draw;
        }
    }
    for (show, mut entry) in entries {
        if let Some(show) = facts.shows.get_mut(&show) {
            if entry.edition == show.edition {
                entry.change.by_number(&show.draw);
            }
            show.ledger.push(entry);
        }
    }
    let mends = "select * from room_mends order by show, edition, generation";
    for (show, mend) in db.all(mends, mend).await? {
        if let Some(show) = facts.shows.get_mut(&show) {
            show.mends.push(mend);
        }
    }
    let acts = db
        .all(
            "select show, at_ms from audit where show is not null order by at_ms",
            |row| Ok((row.parse::<ShowId>("show")?, row.at("at_ms")?)),
        )
        .await?;
    for (show, at) in acts {
        if let Some(show) = facts.shows.get_mut(&show) {
            show.acts.push(at);
        }
    }
    Ok(())
}

async fn read_sales(db: &mut Snapshot<'_>, facts: &mut Facts) -> Result<(), CheckError> {
    let shop = &mut facts.shop;
    shop.seats = db.all("select * from seats", seat).await?;
    let holds = db.all("select *, created_at_ms as made_at_ms from holds", |row| {
        let hold = Hold {
            what: purchase(row)?,
            state: row.parse("state")?,
        };
        Ok((row.parse("hold_id")?, hold))
    });
    shop.holds = holds.await?.into_iter().collect();
    let orders = db.all("select *, placed_at_ms as made_at_ms from orders", |row| {
        let order = Order {
            what: purchase(row)?,
            hold: row.parse("hold_id")?,
            status: row.parse("status")?,
        };
        Ok((row.parse("order_id")?, order))
    });
    shop.orders = orders.await?.into_iter().collect();
    shop.payments = db
        .all(
            "select order_id, attempt, state from payments order by order_id, attempt",
            |row| {
                Ok(Payment {
                    order: row.parse("order_id")?,
                    attempt: row.count("attempt")?,
                    state: row.parse("state")?,
                })
            },
        )
        .await?;
    shop.stock = db
        .all("select show, free, held, sold from show_stock", |row| {
            Ok(Stock {
                show: row.parse("show")?,
                free: row.count("free")?,
                held: row.count("held")?,
                sold: row.count("sold")?,
            })
        })
        .await?;
    Ok(())
}

async fn read_outbox(db: &mut Snapshot<'_>, facts: &mut Facts) -> Result<(), CheckError> {
    let events = &mut facts.events;
    events.outbox = db
        .all("select * from outbox", outgoing)
        .await?
        .into_iter()
        .collect();
    events.log = db
        .all(
            "select * from outbox_log order by partition, \"offset\"",
            |row| {
                Ok(Mark {
                    partition: row.count("partition")?,
                    offset: row.count("offset")?,
                    seq: row.count("seq")?,
                    at: row.at("logged_at_ms")?,
                })
            },
        )
        .await?;
    let logs = db.all("select name from event_log", |row| row.text("name"));
    events.is_in_kafka = logs.await?.iter().any(|name| name != "sql:");
    let cleaned = db.all(
        "select partition from outbox_partitions where 0 < cleaned",
        |row| row.count("partition"),
    );
    events.cleaned = cleaned.await?.into_iter().collect();
    let floors = db.all(
        "select partition, floor_seq from outbox_partitions",
        |row| Ok((row.count("partition")?, row.count("floor_seq")?)),
    );
    events.floors = floors.await?.into_iter().collect();
    let quarantine = db.all("select seq, reason from outbox_quarantine", |row| {
        Ok((row.count("seq")?, row.text("reason")?))
    });
    events.quarantine = quarantine.await?.into_iter().collect();
    Ok(())
}

async fn read_consumers(db: &mut Snapshot<'_>, facts: &mut Facts) -> Result<(), CheckError> {
    let events = &mut facts.events;
    let groups = db.all("select * from log_groups", |row| {
        let progress = Progress {
            next: row.count("offset")?,
            at: row.at("updated_at_ms")?,
        };
        Ok((row.text("consumer")?, row.count("partition")?, progress))
    });
    for (consumer, partition, progress) in groups.await? {
        events
            .groups
            .entry(consumer)
            .or_default()
            .insert(partition, progress);
    }
    let handled = db.all(
        "select consumer, event_id, at_ms from processed_events",
        |row| {
            Ok((
                row.text("consumer")?,
                row.parse("event_id")?,
                row.at("at_ms")?,
            ))
        },
    );
    for (consumer, event, at) in handled.await? {
        events
            .inboxes
            .entry(consumer)
            .or_default()
            .insert(event, at);
    }
    events.dead_letters = db
        .all("select * from dead_letters order by id", dead_letter)
        .await?;
    let notices = db.all("select event_id, order_id from notices", |row| {
        Ok((
            row.parse("event_id")?,
            Notice {
                order: row.parse("order_id")?,
            },
        ))
    });
    events.notices = notices.await?.into_iter().collect();
    Ok(())
}

/// The settings of a show that say how it was to be sold.
#[derive(Deserialize)]
struct Settings {
    #[serde(default = "yes")]
    stock_guard: bool,
    #[serde(default)]
    sections: Vec<Section>,
}

#[derive(Deserialize)]
struct Section {
    name: String,
    seats: usize,
}

fn yes() -> bool {
    true
}

fn show(row: &Cells<'_>) -> Result<(ShowId, Show), CheckError> {
    let settings: Settings = row.json("settings")?;
    let sections = settings
        .sections
        .into_iter()
        .map(|section| (section.name, section.seats));
    let show = Show {
        edition: Edition(row.count("edition")?),
        generation: Generation(row.count("generation")?),
        issued: Number(row.count("issued")?),
        ceiling: Number(row.count("ceiling")?),
        checkpoint_at: row.at("checkpoint_at_ms")?,
        stock_guard: settings.stock_guard,
        is_cancelled: row.has("cancelled_at_ms")?,
        sections: sections.collect(),
        ledger: Vec::new(),
        mends: Vec::new(),
        draw: Draw::default(),
        acts: Vec::new(),
    };
    Ok((row.parse("show")?, show))
}

fn entry(row: &Cells<'_>) -> Result<(ShowId, Entry), CheckError> {
    let entry = Entry {
        edition: Edition(row.count("edition")?),
        generation: Generation(row.count("generation")?),
        seq: row.count("seq")?,
        at: row.at("at_ms")?,
        token: FencingToken(row.count("token")?),
        serving: Place(row.count("serving")?),
        change: row.json("body")?,
    };
    Ok((row.parse("show")?, entry))
}

fn mend(row: &Cells<'_>) -> Result<(ShowId, Mend), CheckError> {
    let mend = Mend {
        edition: Edition(row.count("edition")?),
        generation: Generation(row.count("generation")?),
        copied_at: row.at("copied_at_ms")?,
        found_at: row.at("found_at_ms")?,
    };
    Ok((row.parse("show")?, mend))
}

fn seat(row: &Cells<'_>) -> Result<Seat, CheckError> {
    Ok(Seat {
        show: row.parse("show")?,
        section: row.text("section")?,
        name: row.text("seat")?,
        state: row.parse("state")?,
        hold: row.maybe("hold_id")?,
    })
}

fn purchase(row: &Cells<'_>) -> Result<Purchase, CheckError> {
    Ok(Purchase {
        show: row.parse("show")?,
        fan: row.parse("fan")?,
        ticket: row.parse("ticket_id")?,
        seats: row.json("seats")?,
        total_minor: row.int("total_minor")?,
        at: row.at("made_at_ms")?,
        version: row.count("version")?,
    })
}

fn outgoing(row: &Cells<'_>) -> Result<(u64, Outgoing), CheckError> {
    let version = row.count("aggregate_version")?;
    let payload = codec::from_json(&row.text("payload")?, version, None);
    let outgoing = Outgoing {
        id: row.parse("id")?,
        aggregate: row.text("aggregatetype")?,
        key: row.text("aggregateid")?,
        version,
        kind: row.text("type")?,
        partition: row.count("partition")?,
        at: row.at("occurred_at_ms")?,
        payload: payload.map_err(|error| error.to_string()),
    };
    Ok((row.count("seq")?, outgoing))
}

fn dead_letter(row: &Cells<'_>) -> Result<DeadLetter, CheckError> {
    Ok(DeadLetter {
        consumer: row.text("consumer")?,
        partition: row.count("partition")?,
        offset: row.count("offset")?,
        event: row.parse("event_id")?,
        key: row.text("key")?,
        reason: row.text("reason")?,
        is_replayed: row.has("replayed_at_ms")?,
    })
}
