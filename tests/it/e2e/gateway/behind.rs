//! A shop that knows nothing of us behind the gate: plain HTML, its own log-in, its own paths, written
//! in another language; and a browser's way through it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use catraca::base::time::Clock;
use catraca::gateway::upstreams::{Gate, HostSent, Route, RouteGate, Upstream};
use catraca::room::model::command::Configure;
use serde_json::json;

use crate::e2e::gateway::door::{Ana, Answer, Door, Plan, show};
use crate::support::need::PYTHON;

const SECRET: &str = "shared with the shop";

/// A running example, gone with the value.
pub(super) struct Shop {
    child: Child,
    address: String,
}

impl Shop {
    /// `None` where there is no Python and may be none.
    pub(super) fn open() -> Option<Self> {
        let program = PYTHON.find()?;
        let mut child = Command::new(program)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plain_shop.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let address = format!("127.0.0.1:{}", line.trim());
        Some(Self { child, address })
    }

    /// A gateway before it: everything needs a ticket but the style sheet.
    pub(super) async fn gated(&self) -> Door {
        let url = format!("http://{}", self.address).parse().unwrap();
        let upstream = Upstream {
            show: Some(show()),
            host: HostSent::Asked,
            secret: Some(catraca::base::secret::Secret::new(SECRET)),
            ..Upstream::new(url, Gate::Room)
        };
        let door = Door::planned(Plan {
            upstreams: Some(BTreeMap::from([("shop".to_owned(), upstream)])),
            routes: Some(vec![
                Route::new("/css/shop.css", &["GET"], "shop").with_gate(RouteGate::Open),
                Route::new("/{*rest}", &["GET", "POST"], "shop"),
            ]),
            ..Plan::default()
        })
        .await;
        let mut settings = door.rooms.board(&show()).await.unwrap().settings;
        settings.shop_url = Some(format!("http://{}/", door.address));
        let (version, verb) = (7, None);
        let configure = Configure {
            version,
            settings,
            verb,
        };
        door.rooms.configure(&show(), configure).await.unwrap();
        door.gateway.boards().step().await.unwrap();
        door
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A browser without scripts: it keeps cookies, and goes where it is sent.
struct Browser<'a> {
    door: &'a Door,
    cookies: BTreeMap<String, String>,
    /// Where it is.
    path: String,
}

impl<'a> Browser<'a> {
    fn new(door: &'a Door) -> Self {
        let (cookies, path) = (BTreeMap::new(), String::new());
        Self {
            door,
            cookies,
            path,
        }
    }

    async fn ask(&mut self, method: &str, path: &str, form: &str) -> Answer {
        let (mut method, mut path, mut form) = (method, path.to_owned(), form);
        for _ in 0..5 {
            let pairs = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let cookies = pairs.collect::<Vec<_>>().join("; ");
            let origin = format!("http://{}", self.door.address);
            let mut headers = vec![("accept", "text/html,*/*;q=0.8")];
            if !cookies.is_empty() {
                headers.push(("cookie", &cookies));
            }
            if method == "POST" {
                headers.push(("origin", &origin));
                headers.push(("content-type", "application/x-www-form-urlencoded"));
            }
            let answer = self.door.ask(method, &path, &headers, form).await;
            for line in answer.headers.get_all("set-cookie") {
                let pair = line.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
            if answer.status != 303 {
                self.path = path;
                return answer;
            }
            let to = answer.header("location");
            path = to.strip_prefix(&origin).unwrap_or(to).to_owned();
            (method, form) = ("GET", "");
        }
        panic!("sent from one place to the next: {path}");
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }
}

/// What a link or a form with this beginning leads to.
fn leads_to(html: &str, begin: &str) -> String {
    let rest = html
        .split(begin)
        .nth(1)
        .unwrap_or_else(|| panic!("no {begin} in {html}"));
    rest.split(['"', '>']).next().unwrap().to_owned()
}

#[tokio::test]
async fn a_browser_finds_its_way_through_the_room_into_a_shop_that_knows_nothing_of_it() {
    let Some(shop) = Shop::open() else { return };
    let door = shop.gated().await;
    let mut ana = Browser::new(&door);

    // Whoever has no ticket sees the waiting page, wherever they wanted to go.
    assert_eq!(door.get("/css/shop.css", &[]).await.status, 200);
    assert_eq!(door.ask("POST", "/buy", &[], "seat=A1").await.status, 401);
    assert_eq!(ana.get("/account").await.status, 200);
    assert_eq!(ana.path, "/w/gala");
    let waiting = ana.ask("POST", "/w/gala/join", "").await;
    assert!(
        waiting.text.contains(r#"data-state="waiting""#),
        "{}",
        waiting.text
    );
    assert_eq!(ana.get("/").await.status, 200);
    assert_eq!(ana.path, "/w/gala", "it is not their turn yet");

    // It is their turn: the page leads back into the shop.
    door.call(1).await;
    let admitted = ana.get("/w/gala/place").await;
    assert!(
        admitted.text.contains(r#"data-state="admitted""#),
        "{}",
        admitted.text
    );
    let enter = admitted
        .text
        .split("<a")
        .find(|link| link.contains(r#"id="enter""#));
    let home = leads_to(enter.unwrap(), r#"href=""#);
    assert_eq!(home, format!("http://{}/", door.address));
    let front = ana.get("/").await;
    assert!(front.text.contains("action=/login"), "{}", front.text);

    // The shop's own log-in, with the shop's own cookie, which is the only one it sees.
    let inside = ana.ask("POST", "/login", "name=Ana").await;
    assert!(inside.text.contains("Hello, Ana"), "{}", inside.text);
    let bought = ana.ask("POST", "/buy", "seat=A1").await;
    assert!(bought.text.contains("Seat A1 is yours"), "{}", bought.text);
    let account = ana.get("/account").await.text;
    assert!(
        account.contains("Cookies: session.") && account.contains("Seats: A1."),
        "{account}"
    );

    // The ticket is still live, because this shop does not say that it was used; it buys no second time.
    let again = ana.ask("POST", "/buy", "seat=A2").await;
    assert_eq!(again.status, 409);
    assert!(
        again.text.contains("This ticket has bought."),
        "{}",
        again.text
    );

    // With the shop's cookie alone nobody gets in.
    ana.cookies.retain(|name, _| name == "session");
    assert_eq!(ana.get("/account").await.status, 200);
    assert_eq!(ana.path, "/w/gala");
}

/// The check of the example, asked about what an upstream was sent.
fn is_ours(headers: &BTreeMap<String, String>, line: (&str, &str), now_ms: i64) -> Option<bool> {
    const ASK: &str = "import json, sys; from verify_assertion import came_through_the_gate as ok; \
        print(json.dumps(ok(**json.load(sys.stdin))))";
    let told = json!({
        "headers": headers, "method": line.0, "path": line.1, "secret": SECRET, "now_ms": now_ms,
    });
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("told.json");
    std::fs::write(&input, told.to_string()).unwrap();
    let output = Command::new(PYTHON.find()?)
        .args(["-B", "-c", ASK])
        .env(
            "PYTHONPATH",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"),
        )
        .stdin(std::fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    match said.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// The check takes what the gate sent, and nothing that differs from it.
fn accepts_only_this(headers: &BTreeMap<String, String>, line: (&str, &str), now_ms: i64) {
    let Some(ours) = is_ours(headers, line, now_ms) else {
        return;
    };
    assert!(ours, "{headers:?}");
    for (why, line, now_ms) in [
        ("too old", line, now_ms + 5_001),
        ("another path", (line.0, "/other"), now_ms),
        ("another method", ("PUT", line.1), now_ms),
    ] {
        assert_eq!(is_ours(headers, line, now_ms), Some(false), "{why}");
    }
    for name in [
        "x-catraca-fan",
        "x-catraca-nonce",
        "x-catraca-ticket-id",
        "x-catraca-assertion",
    ] {
        let mut bent = headers.clone();
        if let Some(value) = bent.get_mut(name) {
            let last = if value.ends_with('0') { "1" } else { "0" };
            match name {
                "x-catraca-assertion" => *value = value.replacen("v1.", "v2.", 1),
                _ => value.replace_range(value.len() - 1.., last),
            }
            assert_eq!(is_ours(&bent, line, now_ms), Some(false), "another {name}");
        }
        bent.remove(name);
        let is_needed = headers.contains_key(name);
        assert_eq!(is_ours(&bent, line, now_ms), Some(!is_needed), "no {name}");
    }
}

#[tokio::test]
async fn a_shop_in_another_language_can_tell_that_it_was_us() {
    let mut plan = Plan::default();
    let (witness, address) = crate::e2e::gateway::shop::Shop::open().await;
    let upstream = |gate| Upstream {
        show: Some(show()),
        secret: Some(catraca::base::secret::Secret::new(SECRET)),
        ..Upstream::new(format!("http://{address}").parse().unwrap(), gate)
    };
    plan.upstreams = Some(BTreeMap::from([(
        "shop".to_owned(),
        upstream(Gate::Ticket),
    )]));
    plan.routes = Some(vec![
        Route::new("/mine", &["GET"], "shop").with_gate(RouteGate::Pass),
        Route::new("/{*rest}", &["GET", "POST"], "shop"),
    ]);
    let door = Door::planned(plan).await;
    let now_ms = door.clock.now().as_millis();
    let (Ana { pass, .. }, ticket) = door.admitted().await;
    let with_ticket = [
        ("x-catraca-pass", pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    for (method, target, headers) in [
        ("POST", "/buy?seat=A%20B", &with_ticket[..]),
        ("GET", "/mine", &with_ticket[..1]),
    ] {
        assert_eq!(door.ask(method, target, headers, "").await.status, 200);
        let reached = witness.reached().remove(0);
        let pairs = reached.headers.iter();
        let headers: BTreeMap<_, _> = pairs
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        accepts_only_this(&headers, (method, target), now_ms);
    }
}
