//! Without scripts one waits before joining, and what the shop said of one is kept meanwhile.

use std::path::Path;
use std::time::Duration;

use catraca::base::time::{Clock, SystemClock};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::e2e::gateway::accounts::{Key, claims_until};
use crate::e2e::gateway::door::{Answer, Door};
use crate::e2e::gateway::limits::{challenged, join, proof, strict};
use crate::e2e::openapi;
use crate::support::client::Client;
use crate::support::process::Server;
use crate::support::sale::settings;
use crate::support::until;

/// How long the program makes readers without scripts wait.
const WAIT: Duration = Duration::from_millis(1_500);

/// Presses the button of the page without scripts, with this wait.
async fn press(door: &Door, token: &str) -> Answer {
    let headers = [
        ("x-forwarded-for", "1.2.3.4"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let body = format!("wait={token}");
    door.ask("POST", "/w/gala/join?lang=en", &headers, &body)
        .await
}

/// The wait that a page asks for.
fn token_of(page: &Answer) -> String {
    assert_eq!(page.status, 429, "{page:?}");
    let form = ("post", "/w/{show}/join");
    openapi::is_told(form, page.status, page.header("content-type"));
    let field = page.text.split("name=\"wait\" value=\"").nth(1);
    let token = field.unwrap_or_default().split('"').next().unwrap();
    assert!(!page.text.contains("http-equiv=\"refresh\""));
    token.to_owned()
}

async fn pass_on(door: &Door, ms: u64) {
    door.clock.advance_ms(ms);
    door.gateway.boards().step().await.unwrap();
}

#[tokio::test]
async fn without_scripts_one_waits_and_joins_then() {
    let door = strict().await;
    challenged(&door, "1.2.3.4").await;
    let press = async |token: &str| press(&door, token).await;
    let asked = press("").await;
    assert_eq!(asked.header("retry-after"), "20");
    assert!(asked.text.contains("20 seconds"), "{}", asked.text);
    let token = token_of(&asked);
    let pass_on = async |ms| pass_on(&door, ms).await;
    pass_on(12_000).await;
    let early = press(&token).await;
    assert_eq!(token_of(&early), token, "the wait goes on");
    assert!(
        ["8 seconds", "9 seconds"]
            .iter()
            .any(|s| early.text.contains(s)),
        "{}",
        early.text
    );
    pass_on(9_000).await;
    // Nobody else's wait, nor a changed one.
    assert_ne!(token_of(&press(&format!("{token}x")).await), token);
    let joined = press(&token).await;
    assert_eq!(
        (joined.status, joined.header("location")),
        (303, "/w/gala/place?lang=en")
    );
    assert!(
        joined
            .header("set-cookie")
            .starts_with("catraca-pass-gala=")
    );
    assert_ne!(token_of(&press(&token).await), token, "it counts once");
}

#[tokio::test]
async fn many_waits_at_once_buy_little() {
    let door = strict().await;
    challenged(&door, "1.2.3.4").await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(token_of(&press(&door, "").await));
    }
    pass_on(&door, 21_000).await;
    let (mut passed, mut late) = (0, None);
    for wait in &waits {
        let page = press(&door, wait).await;
        if page.status == 303 {
            passed += 1;
        } else {
            assert_eq!(token_of(&page), *wait, "nobody waits twice");
            late = Some(page.header("retry-after").to_owned());
        }
    }
    // As many as for free, and what a second or two bring.
    assert!((2..10).contains(&passed), "{passed}");
    assert_eq!(late.as_deref(), Some("1"));
    // Who does the sum passes meanwhile.
    let proof = proof(&door, 1).await;
    assert_eq!(join(&door, "1.2.3.4", Some(&proof)).await.status, 201);
    // And who has waited passes in time.
    let last = waits.last().unwrap();
    let mut page = press(&door, last).await;
    for _ in 0..20 {
        if page.status == 303 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        page = press(&door, last).await;
    }
    panic!("{page:?}");
}

/// A form's answer from a started program: its status, its headers and its page.
async fn submit(server: &Server, fields: &[(&str, &str)]) -> Answer {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
    let request = http::Request::post(format!("http://{}/w/gala/join?lang=en", server.gateway))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Full::new(Bytes::from(form.finish())));
    let (head, body) = client.request(request.unwrap()).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// What a page's form sends in this field, if it has it.
fn field(page: &Answer, name: &str) -> Option<String> {
    let after = page
        .text
        .split(&format!("name=\"{name}\" value=\""))
        .nth(1)?;
    Some(after.split('"').next().unwrap().to_owned())
}

#[tokio::test]
async fn an_account_outlives_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::new(jsonwebtoken::Algorithm::ES256);
    let jwks = folder.path().join("jwks.json");
    std::fs::write(&jwks, json!({ "keys": [key.public] }).to_string()).unwrap();
    let wait_ms = WAIT.as_millis().to_string();
    let env = [
        ("CATRACA__GATEWAY__SELLER__JWKS", jwks.to_str().unwrap()),
        ("CATRACA__GATEWAY__SELLER__REQUIRED", "true"),
        ("CATRACA__GATEWAY__CHALLENGE__ALWAYS", "true"),
        ("CATRACA__GATEWAY__CHALLENGE__WAIT_MS", &wait_ms),
    ];
    let server = Server::up(folder.path(), &env).await;
    open_show(&server, folder.path()).await;
    let now = SystemClock.now().as_millis() / 1_000;
    let token = key.token(&claims_until("ana", now + 600));

    let asked = until("the show takes fans", || async {
        let page = submit(&server, &[("account", &token)]).await;
        (page.status == 429).then_some(page)
    })
    .await;
    // It goes back into the form and nowhere else, and nothing reloads it away.
    assert_eq!(field(&asked, "account"), Some(token.clone()));
    assert_eq!(asked.text.matches(&token).count(), 1);
    assert!(!asked.text.contains("http-equiv=\"refresh\""));
    let wait = field(&asked, "wait").unwrap();
    let fields = [("wait", wait.as_str()), ("account", &token)];
    let early = submit(&server, &fields).await;
    assert_eq!(early.status, 429);
    assert_eq!(field(&early, "wait").as_deref(), Some(wait.as_str()));
    assert_eq!(field(&early, "account"), Some(token.clone()));
    tokio::time::sleep(WAIT + Duration::from_millis(500)).await;
    let joined = submit(&server, &fields).await;
    assert_eq!(joined.status, 303, "{joined:?}");
    // A token that does not count is not handed back, and no page runs what it is sent.
    let refused = submit(&server, &[("account", "\"><script>")]).await;
    assert_eq!((refused.status, field(&refused, "account")), (401, None));
    assert!(!refused.text.contains("<script>"));
}

/// The operator puts the show on sale.
pub(super) async fn open_show(server: &Server, folder: &Path) {
    let token = std::fs::read_to_string(folder.join("admin-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let operator = [("authorization", bearer.as_str())];
    let admin = Client::of(format!("http://{}", server.admin));
    let settings = settings(&json!({}));
    let line = "PUT /admin/v1/shows/gala";
    let (status, body) = admin.ask(line, &operator, &settings).await;
    assert_eq!(status, 201, "{body}");
    let line = "POST /admin/v1/shows/gala/open";
    let (status, body) = admin.ask(line, &operator, &Value::Null).await;
    assert_eq!(status, 200, "{body}");
}
