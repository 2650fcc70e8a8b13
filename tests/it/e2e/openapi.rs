//! Are the documents of the APIs true? Schemathesis, which is not ours, asks the running program what each
//! document says can be asked, and much that it says cannot.

use std::env;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::client::Client;
use crate::support::need::{PYTHON, STRICT};
use crate::support::process::Server;
use crate::support::until;

/// The variable that asks for more requests to each route.
const EXAMPLES_VARIABLE: &str = "CATRACA_OPENAPI_EXAMPLES";
/// How many there are when nobody asks for more.
const EXAMPLES: &str = "3";
/// Would end the visit that all other requests need.
const ENDS_THE_VISIT: &str = "leave";
/// Limits are on, but one fan asks for thousands here.
pub(super) const LIMITS: [(&str, &str); 6] = [
    ("CATRACA__GATEWAY__LIMITS__ANYTHING__PER_S", "100000"),
    ("CATRACA__GATEWAY__LIMITS__ANYTHING__BURST", "100000"),
    ("CATRACA__GATEWAY__LIMITS__FAN__PER_S", "100000"),
    ("CATRACA__GATEWAY__LIMITS__FAN__BURST", "100000"),
    ("CATRACA__GATEWAY__LIMITS__GATED__PER_S", "100000"),
    ("CATRACA__GATEWAY__LIMITS__GATED__BURST", "100000"),
];

/// Fails unless the document says that what is asked may be answered like this.
pub(super) fn is_told((method, path): (&str, &str), status: u16, content_type: &str) {
    let document = include_str!("../../../docs/openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let told = &document["paths"][path][method]["responses"][status.to_string()]["content"];
    let kind = content_type.split(';').next().unwrap();
    assert!(told[kind].is_object(), "{path}: {status} as {kind}: {told}");
}

/// Pass and ticket of a fan who is inside.
pub(super) async fn visitor(server: &Server, folder: &Path) -> (String, String) {
    let token = std::fs::read_to_string(folder.join("admin-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let operator = [("authorization", bearer.as_str())];
    let admin = Client::of(format!("http://{}", server.admin));
    let price = json!({ "amount": 120, "currency": "BRL" });
    let show = json!({
        "name": "Show", "rate": 100,
        "sections": [{ "name": "floor", "seats": 1_000, "price": price }],
    });
    let (status, body) = admin
        .ask("PUT /admin/v1/shows/stadium-show", &operator, &show)
        .await;
    assert_eq!(status, 201, "{body}");
    let open = "POST /admin/v1/shows/stadium-show/open";
    until("the show opens", || async {
        let (status, _) = admin.ask(open, &operator, &Value::Null).await;
        (status == 200).then_some(())
    })
    .await;
    let fans = Client::of(format!("http://{}", server.gateway));
    let pass = until("a fan joins", || async {
        let line = "POST /v1/shows/stadium-show/join";
        let (_, joined) = fans.ask(line, &[], &Value::Null).await;
        joined["pass"].as_str().map(str::to_owned)
    })
    .await;
    let ticket = until("the fan is called", || async {
        let headers = [("x-catraca-pass", pass.as_str())];
        let line = "GET /v1/shows/stadium-show/status";
        let (_, status) = fans.ask(line, &headers, &Value::Null).await;
        status["ticket"].as_str().map(str::to_owned)
    })
    .await;
    (pass, ticket)
}

/// Schemathesis asks what the document at this address says, with these headers, and leaves out these
/// operations. `None` where it is not on this machine and need not be.
async fn asked(server: &str, folder: &Path, headers: &[String], without: &[&str]) -> Option<()> {
    let (python, packages) = PYTHON.find_with_packages()?;
    let program = packages.join("schemathesis");
    if !program.is_dir() {
        assert!(env::var(STRICT).is_err(), "no {program:?}");
        eprintln!("skipped: no {program:?}; ./dev servers fetches it");
        return None;
    }
    let examples = env::var(EXAMPLES_VARIABLE).unwrap_or_else(|_| EXAMPLES.to_owned());
    let mut command = Command::new(python);
    command
        .args(["-m", "schemathesis.cli"])
        .args(["run", &format!("http://{server}/openapi.json")])
        .args(["--checks", "not_a_server_error,status_code_conformance"])
        .args([
            "--checks",
            "content_type_conformance,response_schema_conformance",
        ])
        .args(["--phases", "examples,coverage,fuzzing", "--workers", "1"])
        .args(["--max-examples", &examples, "--seed", "1", "--no-color"])
        .args(["--generation-database", "none", "--continue-on-failure"])
        .args(["--warnings", "off", "--suppress-health-check", "all"])
        .env("PYTHONPATH", &packages)
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for id in without {
        command.args(["--exclude-operation-id", id]);
    }
    for header in headers {
        command.args(["-H", header]);
    }
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let summary = said.rsplit("SUMMARY").next().unwrap_or_default();
    eprintln!("schemathesis: {}", summary.trim_start_matches([' ', '=']));
    Some(())
}

#[tokio::test]
async fn schemathesis_finds_nothing_wrong_with_what_fans_ask() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::up(folder.path(), &LIMITS).await;
    let (pass, ticket) = visitor(&server, folder.path()).await;
    let headers = [
        format!("X-Catraca-Pass: {pass}"),
        format!("X-Admission-Ticket: {ticket}"),
    ];
    let gateway = server.gateway.to_string();
    let done = asked(&gateway, folder.path(), &headers, &[ENDS_THE_VISIT]).await;
    if done.is_some() {
        assert_eq!(server.terminate().await, Some(0));
    }
}

#[tokio::test]
async fn schemathesis_finds_nothing_wrong_with_what_operators_ask() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::up(folder.path(), &LIMITS).await;
    visitor(&server, folder.path()).await;
    let token = std::fs::read_to_string(folder.path().join("admin-token")).unwrap();
    let headers = [format!("Authorization: Bearer {}", token.trim())];
    let admin = server.admin.to_string();
    let done = asked(&admin, folder.path(), &headers, &[]).await;
    if done.is_some() {
        assert_eq!(server.terminate().await, Some(0));
    }
}
