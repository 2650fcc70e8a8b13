//! Redis behind TLS, with the very users of `deploy/redis/users.acl`.

use std::collections::BTreeSet;
use std::sync::Arc;

use catraca::driver::redis::Settings;
use catraca::limit::joins_in_redis;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::{Name, ScriptClock};
use catraca::room::model::command::{
    AfterRevoke, Checked, Claimed, Configure, Extended, Joined, Left, Mended, Origin, Restored,
    Restoring, Revoked, RoomState, Ticked,
};
use catraca::room::{Rooms, StoreError};
use http::StatusCode;

use crate::chaos::deployed::{Deployed, deployed};
use crate::chaos::site::{Site, up};
use crate::contract::room::{joining, show};
use crate::model::world::{fan, new_room, settings, tick};
use crate::support::client::Client;
use crate::support::free_port;
use crate::support::need::{REDIS, VALKEY};
use crate::support::redis::Server;

fn start(deployed: &Deployed, more: &[&str]) -> Option<Server> {
    let settings = deployed.settings();
    let mut settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    settings.extend(more);
    Server::start_with(&REDIS, &settings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_room_goes_through_tls_and_no_other_authority_is_believed() {
    let deployed = Deployed::new();
    let [ca, certificate, key] = deployed.certificate("server");
    let [other, ..] = deployed.certificate("other");
    let port = free_port().to_string();
    let tls = ["--tls-port", &port, "--tls-auth-clients", "no"];
    let files = [
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
    ];
    let Some(_server) = start(&deployed, &[&tls[..], &files[..]].concat()) else {
        return;
    };
    let login = deployed.login("catraca");
    let url = format!("rediss://{login}@localhost:{port}");
    let site = Site::open(&url, &[("CATRACA__ROOM__CA_FILE", &ca)]).await;
    assert_eq!(site.hold().await.status, 201);
    assert_eq!(site.ready().await, (StatusCode::OK, "ok".to_owned()));
    site.terminate().await;
    let settings = Settings {
        url: format!("rediss://{login}@127.0.0.1:{port}"),
        ca: Some(std::fs::read(&ca).unwrap()),
        ..Settings::default()
    };
    let rooms = InRedis::open(&settings, ScriptClock::Server).unwrap();
    rooms.look().await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let url = format!("rediss://{login}@127.0.0.1:{port}");
    let program = up(folder.path(), &url, &[("CATRACA__ROOM__CA_FILE", &other)]).await;
    let admin = Client::of(format!("http://{}", program.admin));
    let (status, ready) = admin.ask("GET /readyz", &[], &().into()).await;
    assert_eq!((status.as_u16(), &ready["room"]), (503, &"away".into()));
}

/// A primary that has lost its replicas keeps its history, and so its rooms, for as long as it takes.
#[test]
fn a_primary_that_is_left_alone_keeps_its_history() {
    let deployed = Deployed::new();
    let settings = deployed.replicated();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    for need in [&REDIS, &VALKEY] {
        let Some(server) = Server::start_with(need, &settings) else {
            return;
        };
        let url = format!(
            "redis://{}@127.0.0.1:{}",
            deployed.login("catraca"),
            server.port()
        );
        let mut hand = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut ask = redis::cmd("CONFIG");
        let kept: Vec<String> = ask
            .arg("GET")
            .arg("repl-backlog-ttl")
            .query(&mut hand)
            .unwrap();
        assert_eq!(kept, ["repl-backlog-ttl", "0"], "{}", need.what);
    }
}

/// Rooms as this user has them.
async fn rooms_of(deployed: &Deployed, server: &Server, user: &str) -> Rooms {
    let url = format!(
        "redis://{}@127.0.0.1:{}",
        deployed.login(user),
        server.port()
    );
    Rooms::new(Arc::new(InRedis::connect(&url).await.unwrap()))
}

fn is_forbidden<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    match answer {
        Err(StoreError::Unavailable(away)) => assert_eq!(away.outage.word(), "forbidden"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn everybody_may_do_their_own_and_nothing_else() {
    let deployed = Deployed::new();
    let Some(server) = start(&deployed, &[]) else {
        return;
    };
    let admitter = rooms_of(&deployed, &server, "catraca-admitter").await;
    let gateway = rooms_of(&deployed, &server, "catraca-gateway").await;
    let admin = rooms_of(&deployed, &server, "catraca-admin").await;
    for step in new_room(settings(), RoomState::Open) {
        assert_eq!(admitter.mend(&show(), step).await.unwrap(), Mended::Done);
    }
    for n in 1..=5 {
        let joined = gateway.join(&show(), joining(n, Origin::Known)).await;
        assert!(matches!(joined, Ok(Joined::New { .. })), "{joined:?}");
    }
    let ticked = admitter.tick(&show(), tick(3)).await.unwrap();
    assert!(matches!(ticked, Ticked::Leader(step) if step.count == 3));
    let claimed = gateway.claim(&show(), fan(1)).await.unwrap();
    let Claimed::Admitted { until, .. } = claimed else {
        panic!("{claimed:?}");
    };
    let checked = gateway.check(&show(), fan(1)).await.unwrap();
    assert!(matches!(checked, Checked::Live { .. }), "{checked:?}");
    let later = until.plus_ms(1_000);
    let extended = gateway.extend(&show(), fan(1), later).await.unwrap();
    assert_eq!(extended, Extended::Until(later));
    gateway.consume(&show(), fan(1)).await.unwrap();
    assert_eq!(gateway.leave(&show(), fan(4)).await.unwrap(), Left::Now);
    let board = gateway.board(&show()).await.unwrap();
    let pass = Restoring {
        fan: fan(9),
        number: catraca::base::ids::Number(9),
        edition: board.edition,
        generation: board.generation,
        place: None,
    };
    let restored = gateway.restore(&show(), pass).await.unwrap();
    assert!(!matches!(restored, Restored::Void), "{restored:?}");
    let revoked = admin.revoke(&show(), vec![fan(2)], AfterRevoke::Out).await;
    assert_eq!(revoked.unwrap(), [Revoked::Now]);
    admin.ready().await.unwrap();
    let configure = Configure {
        version: 2,
        settings: board.settings,
        verb: None,
    };
    admitter.configure(&show(), configure).await.unwrap();
    let entries = admitter.ledger(&show(), 100).await.unwrap();
    admitter
        .trim(&show(), entries.last().unwrap().seq)
        .await
        .unwrap();

    is_forbidden(gateway.tick(&show(), tick(1)).await);
    is_forbidden(admin.join(&show(), joining(7, Origin::Known)).await);
    is_forbidden(admin.trim(&show(), 1).await);
    for user in [
        "catraca",
        "catraca-gateway",
        "catraca-admitter",
        "catraca-admin",
    ] {
        nothing_else(&deployed, &server, user);
    }
}

/// What an application has no business with.
fn nothing_else(deployed: &Deployed, server: &Server, user: &str) {
    let url = format!(
        "redis://{}@127.0.0.1:{}",
        deployed.login(user),
        server.port()
    );
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    for command in [
        "FLUSHALL",
        "KEYS *",
        "CONFIG SET maxmemory 1",
        "SHUTDOWN NOSAVE",
        "ACL LIST",
        "REPLICAOF NO ONE",
        "EVAL redis.call('SET','session:1','x') 0",
        "TYPE session:1",
        "SCRIPT FLUSH",
    ] {
        let mut words = command.split(' ');
        let mut asked = redis::cmd(words.next().unwrap());
        asked.arg(words.collect::<Vec<_>>());
        let refused = asked.query::<redis::Value>(&mut connection).unwrap_err();
        let says = refused.to_string();
        let refusals = [
            "NoPerm",
            "NOPERM",
            "no permissions",
            "can't run",
            "can't access",
        ];
        let is_refused = refusals.iter().any(|words| says.contains(words));
        assert!(is_refused, "{user}: {command}: {says}");
    }
}

/// What only gateways ask. What they ask together with others is the others', too.
const GATEWAYS: [&str; 9] = [
    "Join", "Claim", "Check", "Restore", "Leave", "Extend", "Consume", "Stock", "Touch",
];

/// Who runs a script: its users, but for `catraca`, who runs all.
fn users_of(name: Name) -> &'static [&'static str] {
    match format!("{name:?}").as_str() {
        "Board" => &["catraca-gateway", "catraca-admitter", "catraca-admin"],
        "Revoke" => &["catraca-admin"],
        word if GATEWAYS.contains(&word) => &["catraca-gateway"],
        _ => &["catraca-admitter"],
    }
}

#[test]
fn who_counts_joins_has_the_commands_and_keys_for_it() {
    let users = std::fs::read_to_string(deployed("users.acl")).unwrap();
    for user in ["catraca", "catraca-gateway"] {
        let begins = format!("user {user} ");
        let line = users.lines().find(|line| line.starts_with(&begins));
        let may: BTreeSet<&str> = line.unwrap().split(' ').collect();
        for part in joins_in_redis::TEXT.split("call('").skip(1) {
            let command = part.split('\'').next().unwrap().to_lowercase();
            assert!(
                may.contains(format!("+{command}").as_str()),
                "{user} lacks {command}"
            );
        }
        let is_open = may.contains("~catraca:{*}:*") || may.contains("~catraca:{*}:limit:*");
        assert!(is_open, "{user} lacks the counts");
    }
}

#[test]
fn every_user_has_the_commands_and_keys_of_their_scripts() {
    let users = std::fs::read_to_string(deployed("users.acl")).unwrap();
    for name in Name::ALL {
        let parts = name.text().split("call('").skip(1);
        let commands = parts.map(|part| part.split('\'').next().unwrap().to_lowercase());
        let commands: BTreeSet<String> = commands.map(|command| format!("+{command}")).collect();
        for user in [&["catraca"], users_of(name)].concat() {
            let begins = format!("user {user} ");
            let line = users.lines().find(|line| line.starts_with(&begins));
            let may: BTreeSet<&str> = line.unwrap().split(' ').collect();
            for command in &commands {
                assert!(
                    may.contains(command.as_str()),
                    "{user} lacks {command}: {name:?}"
                );
            }
            for key in name.keys() {
                let one = format!("~catraca:{{*}}:{}", key.word());
                let is_open = may.contains("~catraca:{*}:*") || may.contains(one.as_str());
                assert!(is_open, "{user} lacks {one}: {name:?}");
            }
        }
    }
}
