//! The operator's verbs: shows, journeys, dead letters.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::base::ids::{FanId, OrderId, ShowId};
use crate::cli::admin_api::{AdminArgs, Ask, Away};
use crate::cli::show_settings::{Member, create, set};
use crate::cli::{FAILED, OK, UNAVAILABLE, cancel, complain, print};

/// `catraca show …`
#[derive(Debug, Subcommand)]
pub enum ShowVerb {
    /// Create a show from its settings.
    #[command(
        after_help = "Example:\n  catraca show create stadium-show settings.json\n\nSettings \
are one JSON object: name, rate and sections at least; docs/shows.md lists every member."
    )]
    Create {
        /// The show's id.
        show: ShowId,
        /// The settings, JSON; - reads standard input.
        file: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// List the shows.
    List {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Print a show with its settings and its room, as JSON.
    Get {
        /// The show's id.
        show: ShowId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Print what is left of a show by section, as it is listed, as JSON.
    Availability(OneShow),
    /// Print what was sold of a show, by minute, as JSON.
    Sales(OneShow),
    /// Print how many joined a show, by network in five minutes, as JSON.
    Joins(OneShow),
    /// Change settings, live.
    #[command(after_help = "Example:\n  catraca show set stadium-show rate=500 capacity=9000")]
    Set {
        /// The show's id.
        show: ShowId,
        /// Members to change, as name=value; the value is JSON or a plain text.
        #[arg(required = true, value_name = "NAME=VALUE")]
        members: Vec<Member>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Call fans, whatever the schedule says; also leads out of sold out.
    Open(OneShow),
    /// Stop calling; everybody keeps their place.
    Pause(OneShow),
    /// Call fans again.
    Resume(OneShow),
    /// End the sale: no joins, no calls. Tickets stay good until they run out.
    Close(OneShow),
    /// Take the gate away: nobody is asked for a ticket.
    Off(OneShow),
    /// End a fan's turn: their ticket, or their place in line, counts no more.
    #[command(
        after_help = "Example:\n  catraca show revoke stadium-show 00112233445566778899aabbccddeeff\n\nA fan's \
id is in the answer to their join, in the shop's x-catraca-fan header and in receipts. Every gateway refuses \
the ticket within a second."
    )]
    Revoke {
        /// The show's id.
        show: ShowId,
        /// The fan's id, 32 hexadecimal digits.
        fan: FanId,
        /// Put who was inside back in line, as the next.
        #[arg(long)]
        returned: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Call the whole show off: nothing more is sold, and what was sold is taken and paid back.
    #[command(
        after_help = "Example:\n  catraca show cancel stadium-show --repeat stadium-show\n\nThis cannot be \
undone. It goes on by itself when this command is interrupted; asking again shows how far it has come."
    )]
    Cancel {
        #[command(flatten)]
        one: OneShow,
        /// The show's id once more: this cannot be undone.
        #[arg(long, value_name = "SHOW")]
        repeat: ShowId,
    },
    /// Enter the number that the show's beacon has published, so that the draw can be held.
    #[command(
        after_help = "Only once the line is frozen, at the opening: the draw must not be known \
before. The value is kept character by character, as fans can look it up."
    )]
    Beacon {
        /// The show's id.
        show: ShowId,
        /// The published number.
        value: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// A verb about one show.
#[derive(Debug, Args)]
pub struct OneShow {
    /// The show's id.
    pub show: ShowId,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `catraca journey ORDER`
#[derive(Debug, Args)]
pub struct JourneyArgs {
    /// The order's id; or its hold's, while there is no order.
    pub order: OrderId,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `catraca dead-letters …`
#[derive(Debug, Subcommand)]
pub enum DeadLetterVerb {
    /// List what was set aside, with the reasons.
    List {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Hand a dead letter over again. Doing it twice does it once.
    Replay {
        /// The dead letter's number.
        id: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// `catraca quarantine …`
#[derive(Debug, Subcommand)]
pub enum QuarantineVerb {
    /// List what cannot be sent, with the reasons.
    List {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Let the relay try an event again, once its reason is gone, and those of its key behind it.
    Release {
        /// The event's seq.
        seq: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Give an event up: no consumer will ever see it. Those of its key behind it go.
    Skip {
        /// The event's seq.
        seq: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Carries out `catraca show …`.
pub async fn show(verb: ShowVerb) -> u8 {
    let done = match verb {
        ShowVerb::Create { show, file, admin } => create(&admin, &show, &file).await,
        ShowVerb::List { admin } => list(&admin).await,
        ShowVerb::Get { show, admin } => pretty(&admin, Ask::get(path(&show))).await,
        ShowVerb::Availability(one) => pretty(&one.admin, of(&one, "availability")).await,
        ShowVerb::Sales(one) => pretty(&one.admin, of(&one, "sales")).await,
        ShowVerb::Joins(one) => pretty(&one.admin, of(&one, "joins")).await,
        ShowVerb::Set {
            show,
            members,
            admin,
        } => set(&admin, &show, &members).await,
        ShowVerb::Open(one) => act(&one, "open").await,
        ShowVerb::Pause(one) => act(&one, "pause").await,
        ShowVerb::Resume(one) => act(&one, "resume").await,
        ShowVerb::Close(one) => act(&one, "close").await,
        ShowVerb::Off(one) => act(&one, "off").await,
        ShowVerb::Cancel { one, repeat } => cancel::show(&one, &repeat).await,
        ShowVerb::Beacon { show, value, admin } => beacon(&admin, &show, &value).await,
        ShowVerb::Revoke {
            show,
            fan,
            returned,
            admin,
        } => revoke(&admin, &show, fan, returned).await,
    };
    code(done)
}

/// Carries out `catraca journey`.
pub async fn journey(args: JourneyArgs) -> u8 {
    let ask = Ask::get(format!("/admin/v1/orders/{}/journey", args.order));
    let done = async {
        let answer = args.admin.ask(ask).await?;
        match answer["text"].as_str() {
            Some(text) if !args.json => print(text),
            Some(_) | None => print(&serde_json::to_string_pretty(&answer)?),
        }
        Ok(())
    };
    code(done.await)
}

/// Carries out `catraca dead-letters …`.
pub async fn dead_letters(verb: DeadLetterVerb) -> u8 {
    let done = match verb {
        DeadLetterVerb::List { admin } => list_dead_letters(&admin).await,
        DeadLetterVerb::Replay { id, admin } => {
            let ask = Ask::post(format!("/admin/v1/dead-letters/{id}/replay"));
            pretty(&admin, ask).await
        }
    };
    code(done)
}

/// Carries out `catraca quarantine …`.
pub async fn quarantine(verb: QuarantineVerb) -> u8 {
    let done = match verb {
        QuarantineVerb::List { admin } => pretty(&admin, Ask::get("/admin/v1/quarantine")).await,
        QuarantineVerb::Release { seq, admin } => {
            let ask = Ask::post(format!("/admin/v1/quarantine/{seq}/release"));
            pretty(&admin, ask).await
        }
        QuarantineVerb::Skip { seq, admin } => {
            let ask = Ask::post(format!("/admin/v1/quarantine/{seq}/skip"));
            pretty(&admin, ask).await
        }
    };
    code(done)
}

pub(super) fn code(done: anyhow::Result<()>) -> u8 {
    match done {
        Ok(()) => OK,
        Err(error) => {
            complain(&error);
            if error.is::<Away>() {
                UNAVAILABLE
            } else {
                FAILED
            }
        }
    }
}

pub(super) fn path(show: &ShowId) -> String {
    format!("/admin/v1/shows/{show}")
}

fn of(one: &OneShow, what: &str) -> Ask {
    Ask::get(format!("{}/{what}", path(&one.show)))
}

async fn pretty(admin: &AdminArgs, ask: Ask) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(&admin.ask(ask).await?)?);
    Ok(())
}

async fn act(one: &OneShow, verb: &str) -> anyhow::Result<()> {
    let answer = one
        .admin
        .ask(Ask::post(format!("{}/{verb}", path(&one.show))))
        .await?;
    print(&format!(
        "{} {verb}: state {}",
        one.show,
        word(&answer["state"])
    ));
    Ok(())
}

async fn beacon(admin: &AdminArgs, show: &ShowId, value: &str) -> anyhow::Result<()> {
    let ask = Ask {
        body: Some(serde_json::json!({ "value": value }).to_string()),
        ..Ask::post(format!("{}/beacon", path(show)))
    };
    admin.ask(ask).await?;
    print(&format!("{show}: the draw can be held with {value}"));
    Ok(())
}

async fn revoke(
    admin: &AdminArgs,
    show: &ShowId,
    fan: FanId,
    returned: bool,
) -> anyhow::Result<()> {
    let then = if returned { "returned" } else { "out" };
    let ask = Ask {
        body: Some(serde_json::json!({ "fan": fan, "then": then }).to_string()),
        ..Ask::post(format!("{}/revoke", path(show)))
    };
    let answer = admin.ask(ask).await?;
    print(&format!(
        "{show}: {fan} revoked {}",
        word(&answer["revoked"])
    ));
    Ok(())
}

async fn list(admin: &AdminArgs) -> anyhow::Result<()> {
    let answer = admin.ask(Ask::get("/admin/v1/shows")).await?;
    let mut lines = vec![row([
        "SHOW", "STATE", "WAITING", "LIVE", "ISSUED", "LEFT", "NAME",
    ])];
    for show in answer["shows"].as_array().into_iter().flatten() {
        let room = &show["room"];
        let stock = &room["stock"];
        let left = stock["free"]
            .as_u64()
            .map(|free| free + stock["held"].as_u64().unwrap_or(0));
        lines.push(row([
            &word(&show["show"]),
            &word(&room["state"]),
            &word(&room["waiting"]),
            &word(&room["live"]),
            &word(&room["issued"]),
            &left.map_or_else(|| "-".to_owned(), |left| left.to_string()),
            &word(&show["settings"]["name"]),
        ]));
    }
    print(&lines.join("\n"));
    Ok(())
}

fn row(cells: [&str; 7]) -> String {
    let [show, state, waiting, live, issued, left, name] = cells;
    format!("{show:<24} {state:<10} {waiting:>9} {live:>7} {issued:>9} {left:>7}  {name}")
}

async fn list_dead_letters(admin: &AdminArgs) -> anyhow::Result<()> {
    let answer = admin.ask(Ask::get("/admin/v1/dead-letters")).await?;
    let letters = answer["dead_letters"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if letters.is_empty() {
        print("no dead letters");
        return Ok(());
    }
    for letter in letters {
        print(&format!(
            "{:>6}  {:<8} {:<16} {}  {} attempts, {}: {}",
            word(&letter["id"]),
            word(&letter["consumer"]),
            word(&letter["type"]),
            word(&letter["key"]),
            word(&letter["attempts"]),
            word(&letter["at"]),
            word(&letter["reason"]),
        ));
    }
    Ok(())
}

/// A JSON value as a table shows it.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
