//! What others make of our tickets: two libraries that are not ours verify them from the JWKS, and
//! Debian's nginx lets through whom we let through.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use catraca::base::ids::Edition;
use catraca::base::time::{Clock, SystemClock};
use catraca::room::model::command::AfterRevoke;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::e2e::gateway::door::{Door, Plan, show};
use crate::e2e::gateway::shop::Shop;
use crate::support::client::Client;
use crate::support::need::{NGINX, NODE, PYTHON};
use crate::support::{free_port, until};

/// Reads `{jwks, ticket, show}` on stdin, writes the claims; anything wrong is an exception.
const PYJWT: &str = r#"
import json, sys, jwt
told = json.load(sys.stdin)
kid = jwt.get_unverified_header(told["ticket"])["kid"]
keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(told["jwks"]).keys}
claims = jwt.decode(told["ticket"], keys[kid], algorithms=["EdDSA"], audience=told["show"], issuer="catraca",
    options={"require": ["iss", "aud", "sub", "jti", "iat", "nbf", "exp"]})
print(json.dumps(claims))
"#;

/// The same.
const JOSE: &str = r#"
import { createLocalJWKSet, jwtVerify } from "jose"
import { readFileSync } from "node:fs"
const told = JSON.parse(readFileSync(0, "utf8"))
const { payload } = await jwtVerify(told.ticket, createLocalJWKSet(told.jwks), {
  algorithms: ["EdDSA"], audience: told.show, issuer: "catraca", typ: "admission+jwt",
  requiredClaims: ["iss", "aud", "sub", "jti", "iat", "nbf", "exp"],
})
console.log(JSON.stringify(payload))
"#;

/// A gateway whose room is at today's time, because strangers go by the wall clock.
async fn today() -> Door {
    Door::planned(Plan {
        now: SystemClock.now(),
        ..Plan::default()
    })
    .await
}

/// Runs a script on what it is told: the claims, or nothing where it refuses.
fn read_by(program: &Path, (script, packages): (&str, &Path), told: &Value) -> Option<Value> {
    // Node.js looks for packages in the folders above the script's.
    let folder = tempfile::tempdir_in(packages).unwrap();
    let file = folder.path().join("verify.mjs"); // Python does not mind the name
    std::fs::write(&file, script).unwrap();
    let input = folder.path().join("told.json");
    std::fs::write(&input, told.to_string()).unwrap();
    let output = Command::new(program)
        .arg(&file)
        .env("PYTHONPATH", packages)
        .stdin(std::fs::File::open(&input).unwrap())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).ok()
}

#[tokio::test]
async fn other_libraries_verify_our_tickets() {
    let door = today().await;
    let (ana, ticket) = door.admitted().await;
    let jwks = door.get("/.well-known/jwks.json", &[]).await.json();
    let forged = {
        let (head, signature) = ticket.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { 'B' } else { 'A' };
        format!("{head}.{first}{}", &signature[1..])
    };
    for (need, script) in [(&PYTHON, PYJWT), (&NODE, JOSE)] {
        let Some((program, packages)) = need.find_with_packages() else {
            continue;
        };
        let read = |ticket: &str, show: &str| {
            let told = json!({ "jwks": jwks, "ticket": ticket, "show": show });
            read_by(&program, (script, &packages), &told)
        };
        let claims = read(&ticket, "gala").unwrap_or_else(|| panic!("{} refuses it", need.what));
        assert_eq!(claims["sub"], ana.fan.to_string());
        assert_eq!(claims["aud"], "gala");
        assert_eq!((&claims["ed"], &claims["gen"]), (&json!(1), &json!(1)));
        let (from, to) = (
            claims["iat"].as_i64().unwrap(),
            claims["exp"].as_i64().unwrap(),
        );
        assert_eq!((claims["nbf"].as_i64(), to - from), (Some(from), 300));
        assert_eq!(read(&forged, "gala"), None, "{}: forged", need.what);
        assert_eq!(read(&ticket, "other"), None, "{}: another show", need.what);
    }
}

/// Debian's nginx before a shop: it asks us about each request, and tells the shop who it is.
const NGINX_CONF: &str = r#"
daemon off; master_process off; worker_processes 1; pid FOLDER/pid; error_log FOLDER/log;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path FOLDER; proxy_temp_path FOLDER; fastcgi_temp_path FOLDER;
  uwsgi_temp_path FOLDER; scgi_temp_path FOLDER;
  server {
    listen 127.0.0.1:PORT;
    location / {
      auth_request /catraca;
      auth_request_set $ticket_id $upstream_http_x_catraca_ticket_id;
      proxy_set_header x-ticket-id $ticket_id;
      proxy_pass http://SHOP;
    }
    location = /catraca {
      internal;
      proxy_pass http://GATEWAY/v1/shows/gala/ticket;
      proxy_pass_request_body off;
      proxy_set_header content-length "";
    }
  }
}
"#;

/// A proxy that runs.
struct Nginx {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Nginx {
    fn start(gateway: &str, shop: &str) -> Option<Self> {
        let program = NGINX.find()?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let text = NGINX_CONF
            .replace("FOLDER", folder.path().to_str().unwrap())
            .replace("PORT", &port.to_string())
            .replace("GATEWAY", gateway)
            .replace("SHOP", shop);
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self {
            child,
            port,
            _folder: folder,
        })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn nginx_lets_through_whom_we_let_through() {
    let door = Door::open().await;
    let (shop, address) = Shop::open().await;
    let Some(nginx) = Nginx::start(&door.address.to_string(), &address) else {
        return;
    };
    let client = Client::of(format!("http://127.0.0.1:{}", nginx.port));
    until("nginx listens", || async {
        client.try_ask("GET /", &[], &Value::Null).await.ok()
    })
    .await;
    assert!(shop.reached().is_empty(), "without a ticket");
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    let order = json!({ "seat": "A-1" });
    for (headers, status) in [
        (&headers[..], 200),
        (&headers[..1], 401),
        (&headers[1..], 401),
    ] {
        let (answered, _) = client.ask("POST /buy", headers, &order).await;
        assert_eq!(answered, status);
    }
    let reached = shop.reached();
    assert_eq!(reached.len(), 1);
    let id = door.keys.ticket_id(&show(), Edition(1), ana.fan);
    assert_eq!(reached[0].headers["x-ticket-id"], id.to_string());
    assert_eq!(reached[0].body, order.to_string());

    door.rooms
        .revoke(&show(), vec![ana.fan], AfterRevoke::Out)
        .await
        .unwrap();
    until("the revoked is refused", || async {
        let (status, _) = client.ask("POST /buy", &headers, &order).await;
        (status == 401).then_some(())
    })
    .await;
}
