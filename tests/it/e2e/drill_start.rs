//! A start that cannot be is one clear line and the right exit code, and leaves nothing behind.

use std::net::TcpListener;
use std::path::Path;

use catraca::app::data_dir::DataDir;
use serde_json::Value;

use crate::support::client::Client;
use crate::support::process::{Ended, Env, Server, run_in};

const UNAVAILABLE: i32 = 69;
const CONFIG: i32 = 78;
const USAGE: i32 = 2;

/// Free ports, so that only what a test does on purpose is in the way.
const ANY_PORTS: [(&str, &str); 3] = [
    ("CATRACA__GATEWAY__LISTEN", "127.0.0.1:0"),
    ("CATRACA__ADMIN__LISTEN", "127.0.0.1:0"),
    ("CATRACA__ORDERS__LISTEN", "127.0.0.1:0"),
];

async fn up(folder: &Path, words: &[&str], env: &Env<'_>) -> Ended {
    let mut all: Vec<&str> = vec!["up"];
    all.extend(words);
    let env: Vec<(&str, &str)> = ANY_PORTS.iter().chain(env).copied().collect();
    run_in(folder, &all, &env).await
}

/// One line for a person, the words that matter in it, nothing on standard output, and the code.
fn expect(name: &str, ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code, Some(code), "{name}: {ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{name}: {ended:?}");
    assert!(ended.err.starts_with("catraca: "), "{name}: {ended:?}");
    assert!(ended.err.contains(says), "{name}, {says:?}: {ended:?}");
    assert_eq!(ended.out, "", "{name}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for key in ["gateway", "admin", "orders"] {
        let folder = tempfile::tempdir().unwrap();
        let variable = format!("CATRACA__{}__LISTEN", key.to_uppercase());
        let ended = up(folder.path(), &[], &[(&variable, &address)]).await;
        let says = format!("{key}.listen: cannot listen on {address}");
        expect(key, &ended, UNAVAILABLE, &says);
        // The folder is free again for the next attempt.
        DataDir::take(&folder.path().join("catraca-data")).unwrap();
    }
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_used_is_named() {
    for (name, in_the_way, says) in [
        ("folder", "data", "cannot use the data folder"),
        ("lock", "data/lock/x", "cannot use the data folder"),
        ("database", "data/catraca.db/x", "catraca.db"),
        ("journal", "data/room.db/x", "room.db"),
        ("mailbox", "data/mailbox", "mailbox"),
        ("secret", "data/secret/x", "secret"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(in_the_way);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "in the way").unwrap();
        let ended = up(folder.path(), &["--data-dir", "data"], &[]).await;
        expect(name, &ended, UNAVAILABLE, says);
    }
    for (name, file, says) in [
        ("foreign database", "catraca.db", "catraca.db"),
        ("foreign journal", "room.db", "room.db"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), "no database at all".repeat(99)).unwrap();
        let ended = up(folder.path(), &["--data-dir", "."], &[]).await;
        expect(name, &ended, UNAVAILABLE, says);
    }
}

#[tokio::test]
async fn one_process_has_a_data_folder_and_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::up(folder.path(), &[]).await;
    let second = up(folder.path(), &["--data-dir", "."], &[]).await;
    expect(
        "second",
        &second,
        UNAVAILABLE,
        "another catraca runs in the data folder",
    );
    let client = Client::of(format!("http://{}", server.admin));
    let (status, _) = client.ask("GET /readyz", &[], &Value::Null).await;
    assert_eq!(status, 200, "the first goes on");
    let addresses = [server.gateway, server.admin, server.orders];
    assert_eq!(server.terminate().await, Some(0));
    for address in addresses {
        TcpListener::bind(address).unwrap();
    }
    DataDir::take(folder.path()).unwrap();
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_is_one_line() {
    let tokens = "[{ name = 'ana', role = 'queen', sha256 = 'x' }]";
    for (name, value, says) in [
        ("GATEWAY__LISEN", "x", "there is no key gateway.lisen"),
        ("GATEWAY__LISTEN", "here", "gateway.listen"),
        (
            "GATEWAY__DRAIN_MS",
            "soon",
            "is no value for gateway.drain_ms",
        ),
        (
            "GATEWAY__LISTEN",
            "0.0.0.0:0",
            "tickets would travel without TLS",
        ),
        ("KEYS__SECRET", "short", "32"),
        (
            "KEYS__SECRET_FILE",
            "/no/such/file",
            "cannot read /no/such/file",
        ),
        ("KEYS__ACTIVE", "no label!", "label"),
        (
            "ROOM__URL",
            "redos://localhost",
            "room.url (redos:) must be memory: or lead to Redis:",
        ),
        ("DATABASE__URL", "mysql://x", "database.url"),
        ("DATABASE__URL", "postgres://", "the URL names no host"),
        (
            "DATABASE__URL",
            "postgres://db/catraca?colour=red",
            "there is no parameter",
        ),
        ("LOG__URL", "kafka://x", "log.url"),
        ("ADMIN__TOKENS", tokens, "role of ana (queen)"),
        ("NOTIFY__FROM", "nobody", "address"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let variable = format!("CATRACA__{name}");
        let env: &Env<'_> = &[(&variable, value)];
        let ended = up(folder.path(), &[], env).await;
        expect(name, &ended, CONFIG, says);
        let checked = run_in(folder.path(), &["config", "check"], env).await;
        assert_eq!(checked.code, Some(CONFIG), "check {name}: {checked:?}");
        assert_eq!(checked.err, ended.err, "check {name}");
    }
}

#[tokio::test]
async fn a_configuration_file_that_cannot_be_used_is_one_line() {
    for (text, says) in [
        (
            "data_dri = 'x'",
            "bad.toml:1: unknown key data_dri; did you mean data_dir?",
        ),
        ("a = [", "bad.toml:1:"),
        (
            "[upstreams.shop]\ngate = 'ticket'",
            "upstreams.shop.url must be given",
        ),
        (
            "[[routes]]\npath = '/{*rest}'\nmethods = ['GET']\nupstream = 'orders'\ngate = 'open'",
            "open",
        ),
        (
            "[[routes]]\npath = '/x'\nmethods = ['GET']\nupstream = 'nowhere'",
            "nowhere",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bad.toml"), text).unwrap();
        let words = ["--config", "bad.toml"];
        expect(text, &up(folder.path(), &words, &[]).await, CONFIG, says);
        let checked = run_in(
            folder.path(),
            &["config", "check", "--config", "bad.toml"],
            &[],
        );
        expect(text, &checked.await, CONFIG, says);
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = up(folder.path(), &["--config", "gone.toml"], &[]).await;
    expect("no file", &missing, CONFIG, "cannot read gone.toml");
}

#[tokio::test]
async fn words_that_make_no_sense_are_usage() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for line in [
        "",
        "sell",
        "up --fast",
        "show pause",
        "show pause Bad_Id",
        "show set small-sale",
        "journey 12",
        "dead-letters replay x",
        "demo --fans many",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ended = run_in(folder, &words, &[]).await;
        assert_eq!(ended.code, Some(USAGE), "{line}: {ended:?}");
        assert!(ended.err.contains("--help"), "{line}: {ended:?}");
    }
    let nothing = run_in(folder, &["check", "--data-dir", "."], &[]).await;
    expect("check", &nothing, USAGE, "cannot read");
}

#[tokio::test]
async fn help_and_version_are_there_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for verb in [
        "",
        "demo",
        "up",
        "show",
        "show create",
        "show list",
        "show get",
        "show set",
        "show open",
        "show pause",
        "show resume",
        "show close",
        "show off",
        "show cancel",
        "show revoke",
        "order",
        "order cancel",
        "journey",
        "dead-letters",
        "dead-letters list",
        "dead-letters replay",
        "check",
        "config",
        "config check",
        "config print",
    ] {
        for flag in ["--help", "--version"] {
            let words: Vec<&str> = verb.split_whitespace().chain([flag]).collect();
            let ended = run_in(folder.path(), &words, &[]).await;
            assert_eq!(ended.code, Some(0), "{verb} {flag}: {ended:?}");
            assert!(
                !ended.out.is_empty() && ended.err.is_empty(),
                "{verb} {flag}"
            );
        }
    }
}

#[tokio::test]
async fn secrets_are_masked_and_every_value_has_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "very-secret-".repeat(4);
    let file = format!("[upstreams.orders]\ngate = 'ticket'\nsecret = '{secret}'\n");
    std::fs::write(folder.path().join("good.toml"), file).unwrap();
    let env: &Env<'_> = &[
        ("CATRACA__KEYS__SECRET", &secret),
        ("CATRACA__GATEWAY__DRAIN_MS", "7"),
    ];
    let words = [
        "config",
        "print",
        "--config",
        "good.toml",
        "--data-dir",
        "x",
    ];
    let printed = run_in(folder.path(), &words, env).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(!printed.out.contains("very-secret"), "{}", printed.out);
    for (key, value, origin) in [
        ("keys.secret", "\"***\"", "CATRACA__KEYS__SECRET"),
        ("upstreams.orders.secret", "\"***\"", "good.toml"),
        ("gateway.drain_ms", "7", "CATRACA__GATEWAY__DRAIN_MS"),
        ("data_dir", "\"x\"", "flag"),
        ("room.url", "\"memory:\"", "default"),
    ] {
        let start = format!("{key} = {value} ");
        let line = printed.out.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{key}: {}", printed.out));
        assert!(line.ends_with(&format!("# {origin}")), "{line}");
    }
    assert!(
        std::fs::read_dir(folder.path()).unwrap().count() == 1,
        "printing makes nothing"
    );
}
