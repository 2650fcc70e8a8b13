//! What a program does that starts and finds Redis wanting: it waits for what time mends, and says
//! in one line what only a person can.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::chaos::site::{Site, up};
use crate::support::client::Client;
use crate::support::free_port;
use crate::support::need::REDIS;
use crate::support::process::{Env, run_in};
use crate::support::redis::Server;
use crate::support::until;

/// Free ports, so that only what a test does on purpose is in the way.
const ANY_PORTS: [(&str, &str); 3] = [
    ("CATRACA__GATEWAY__LISTEN", "127.0.0.1:0"),
    ("CATRACA__ADMIN__LISTEN", "127.0.0.1:0"),
    ("CATRACA__ORDERS__LISTEN", "127.0.0.1:0"),
];

/// What Catraca says instead of starting, and its exit code.
async fn refusal(url: &str, env: &Env<'_>) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = vec![("CATRACA__ROOM__URL", url), ("RUST_LOG", "error")];
    all.extend(ANY_PORTS);
    all.extend_from_slice(env);
    let ended = run_in(folder.path(), &["up"], &all).await;
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    (ended.code, ended.err)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_it_starts_and_waits() {
    if REDIS.find().is_none() {
        return;
    }
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("redis://127.0.0.1:{port}");
    let program = up(folder.path(), &url, &[]).await;
    let admin = Client::of(format!("http://{}", program.admin));
    let gateway = Client::of(format!("http://{}", program.gateway));
    let (status, ready) = admin.ask("GET /readyz", &[], &Value::Null).await;
    assert_eq!((status.as_u16(), &ready["room"]), (503, &"away".into()));
    let line = "POST /v1/shows/gala/join";
    let (status, refused) = gateway.ask(line, &[], &Value::Null).await;
    assert_eq!(status, 503, "{refused}");
    assert_eq!(refused["type"], "urn:catraca:problem:room-unavailable");
    until("it says why", || async {
        let (_, refused) = gateway.ask(line, &[], &Value::Null).await;
        (refused["reason"] == "away").then_some(())
    })
    .await;

    let settings = ["--maxmemory-policy", "noeviction"];
    let _server = until("the port is free", || async {
        Server::start_on(&REDIS, [port], &settings)
    })
    .await;
    let site = Site::begin(folder, program).await;
    site.terminate().await;
}

#[tokio::test]
async fn what_waiting_does_not_mend_is_one_line() {
    for (url, says) in [
        ("redis+ring://localhost", "room.url"),
        ("redis://localhost/first", "room.url"),
        ("redis+sentinel://localhost", "name of the primary"),
    ] {
        let (code, line) = refusal(url, &[]).await;
        assert_eq!(code, Some(78), "{url}: {line}");
        assert!(line.contains(says), "{url}: {line}");
    }
    let (code, line) = refusal(
        "rediss://localhost",
        &[("CATRACA__ROOM__CA_FILE", "/no/such")],
    )
    .await;
    assert_eq!(code, Some(78), "{line}");
    assert!(
        line.contains("room.ca_file: cannot read /no/such"),
        "{line}"
    );
}

#[tokio::test]
async fn a_server_that_must_not_be_used_is_one_line() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let mut hand = server.connection();
    let mut lock = redis::cmd("CONFIG");
    let lock = lock.arg("SET").arg("requirepass").arg("right");
    lock.exec(&mut hand).unwrap();
    let port = server.port();
    for user in ["", ":wrong@", "nobody:right@"] {
        let url = format!("redis://{user}127.0.0.1:{port}");
        let (code, line) = refusal(&url, &[]).await;
        assert_eq!(code, Some(69), "{user}: {line}");
        assert!(line.contains("(password)"), "{user}: {line}");
        assert!(
            !line.contains("wrong@") && !line.contains("right@"),
            "{line}"
        );
    }
    let evicting = ["--maxmemory-policy", "volatile-ttl"];
    let server = Server::start_with(&REDIS, &evicting).unwrap();
    let (code, line) = refusal(&server.url(), &[]).await;
    assert_eq!(code, Some(69), "{line}");
    assert!(
        line.contains("volatile-ttl, it must be noeviction"),
        "{line}"
    );
}

#[tokio::test]
async fn an_old_server_is_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let old = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1_024];
            while matches!(stream.read(&mut asked).await, Ok(1..)) {
                let info = "redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n";
                let answer = format!("${}\r\n{info}\r\n", info.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let (code, line) = refusal(&url, &[]).await;
    assert_eq!(code, Some(69), "{line}");
    assert!(line.contains("version 6.2.14 is older than 7.0"), "{line}");
    old.abort();
}

/// What the program says on its log until one line has these words.
async fn says(url: &str, words: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_catraca"))
        .args(["up", "--data-dir"])
        .arg(folder.path())
        .env("CATRACA__ROOM__URL", url)
        .env("RUST_LOG", "info")
        .envs(ANY_PORTS)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it runs");
            if line.contains(words) {
                return line;
            }
        }
    });
    let line = line.await;
    program.kill().await.unwrap();
    line.unwrap_or_else(|_| panic!("nobody says {words}"))
}

#[tokio::test]
async fn whether_a_split_brain_has_a_bound_is_said_at_the_start() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let port = server.port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    let _replica = Server::start_with(&REDIS, &follow).unwrap();
    let mut hand = server.connection();
    until("the replica follows", || async {
        let info: String = redis::cmd("INFO").query(&mut server.connection()).unwrap();
        info.contains("state=online").then_some(())
    })
    .await;
    let line = says(&server.url(), "nothing bounds").await;
    assert!(line.contains("min-replicas-to-write 1"), "{line}");
    let mut set = |name: &str, value: &str| {
        let mut command = redis::cmd("CONFIG");
        command
            .arg("SET")
            .arg(name)
            .arg(value)
            .exec(&mut hand)
            .unwrap();
    };
    set("min-replicas-to-write", "1");
    set("min-replicas-max-lag", "10");
    says(&server.url(), "stops writing in time").await;
    set("min-replicas-max-lag", "11");
    says(&server.url(), "is shorter than min-replicas-max-lag").await;
}
