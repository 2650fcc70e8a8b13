//! What is sold and taken back: `catraca order cancel` and `catraca show cancel`.

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use crate::base::ids::{OrderId, ShowId};
use crate::cli::admin_api::{AdminArgs, Ask};
use crate::cli::operate::{OneShow, code, path, word};
use crate::cli::print;

/// How often progress is asked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `catraca order …`
#[derive(Debug, Subcommand)]
pub enum OrderVerb {
    /// Take an order back: its seats are free again, and what was paid goes back.
    Cancel {
        /// The order's id.
        order: OrderId,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Carries out `catraca order …`.
pub async fn order(verb: OrderVerb) -> u8 {
    let OrderVerb::Cancel { order, admin } = verb;
    let done = async {
        let ask = Ask::post(format!("/admin/v1/orders/{order}/cancel"));
        let answer = admin.ask(ask).await?;
        print(&format!("order {order}: {}", word(&answer["status"])));
        Ok(())
    };
    code(done.await)
}

/// Cancels a show, and says how far it has come until it is done.
pub(super) async fn show(one: &OneShow, repeat: &ShowId) -> anyhow::Result<()> {
    if one.show != *repeat {
        bail!("--repeat must be {}: a cancelled show stays so", one.show);
    }
    let ask = Ask {
        method: Method::POST,
        path: format!("{}/cancel", path(&one.show)),
        if_match: None,
        body: Some(json!({ "show": one.show }).to_string()),
    };
    one.admin.ask(ask).await?;
    let mut said = String::new();
    loop {
        let ask = Ask::get(format!("{}/cancellation", path(&one.show)));
        let progress = one.admin.ask(ask).await?;
        let line = line(&one.show, &progress);
        if line != said {
            print(&line);
            said = line;
        }
        if progress["done"] == true {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn line(show: &ShowId, progress: &Value) -> String {
    let of = |member: &str| word(&progress[member]);
    format!(
        "{show}: seats to take back {} held, {} sold; orders {} cancelled, {} refunded; {} payments open",
        of("seats_held"),
        of("seats_sold"),
        of("orders_cancelled"),
        of("orders_refunded"),
        of("payments_open"),
    )
}
