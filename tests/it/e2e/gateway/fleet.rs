//! Processes of one role each over one Redis: gateways that know of each other only what the room says.

use std::path::Path;

use catraca::app::alone::Role;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::process::{Alone, run_in};
use crate::support::redis;
use crate::support::sale::{SHOW, settings};
use crate::support::until;

/// A room in Redis with an open show, and who lets fans in.
#[derive(Debug)]
pub(crate) struct Fleet {
    folder: TempDir,
    room: (&'static str, String),
    shop: (&'static str, String),
    others: Vec<Alone>,
    _redis: redis::Server,
}

async fn start(role: Role, folder: &Path, env: &[(&str, String)]) -> Alone {
    Alone::start(role, folder, env).await
}

impl Fleet {
    /// An open show, sold by the shop at this address, or by our own. `None` without Redis.
    pub(crate) async fn open(shop: Option<&str>, changes: &Value) -> Option<Self> {
        let redis = redis::Server::start(&REDIS)?;
        let room = ("CATRACA__ROOM__URL", redis.url());
        let folder = tempfile::tempdir().unwrap();
        let own = [room.clone()];
        let mut others = vec![start(Role::Admitter, folder.path(), &own).await];
        let shop = match shop {
            Some(shop) => shop.to_owned(),
            None => {
                others.push(start(Role::Orders, folder.path(), &own).await);
                others[1].address("orders")
            }
        };
        let fleet = Self {
            room,
            shop: ("CATRACA__UPSTREAMS__ORDERS__URL", format!("http://{shop}")),
            others,
            folder,
            _redis: redis,
        };
        fleet.put_on_sale(changes).await;
        Some(fleet)
    }

    async fn put_on_sale(&self, changes: &Value) {
        let folder = self.folder.path();
        std::fs::write(folder.join("show.json"), settings(changes).to_string()).unwrap();
        let admin = format!("http://{}", self.others[0].address("admin API"));
        let env = [
            ("CATRACA_ADMIN", admin.as_str()),
            ("CATRACA_TOKEN_FILE", "admin-token"),
        ];
        for words in [
            &["show", "create", SHOW, "show.json"][..],
            &["show", "open", SHOW],
        ] {
            let done = run_in(folder, words, &env).await;
            assert_eq!(done.code, Some(0), "{done:?}");
        }
    }

    /// One more gateway, with these variables.
    pub(crate) async fn gateway(&self, env: &[(&str, &str)]) -> (Alone, String) {
        let mut all = vec![self.room.clone(), self.shop.clone()];
        all.extend(env.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let gateway = start(Role::Gateway, self.folder.path(), &all).await;
        let at = format!("http://{}", gateway.address("gateway"));
        let client = Client::of(&at);
        until("the gateway knows that the show is open", || async {
            let line = format!("GET /v1/shows/{SHOW}/board");
            let (_, board) = client.ask(&line, &[], &Value::Null).await;
            (board["state"] == "open").then_some(())
        })
        .await;
        (gateway, at)
    }
}
