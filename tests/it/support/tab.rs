//! A page of a browser that does what it is told, as a person would do it: by the DevTools protocol, which
//! Chromium speaks over two pipes.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::support::browser::Browser;

/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at the page.
const PAUSE: Duration = Duration::from_millis(100);

/// An open page. Dropping it closes the browser.
#[derive(Debug)]
pub(crate) struct Tab<'a> {
    child: Child,
    told: pipe::Sender,
    says: BufReader<pipe::Receiver>,
    asked: u64,
    /// Of the page; empty while there is none.
    session: String,
    /// What went wrong in the page.
    pub(crate) complaints: Vec<String>,
    _browser: &'a Browser,
}

impl<'a> Tab<'a> {
    /// An empty page in this browser.
    pub(crate) async fn open(browser: &'a Browser) -> Self {
        let pipes = ["told", "says"].map(|name| browser.file(name));
        let made = Command::new("mkfifo").args(&pipes).status().unwrap();
        assert!(made.success());
        // Open for both, so that neither side has to be there first.
        let open = || pipe::OpenOptions::new().read_write(true).clone();
        let told = open().open_sender(&pipes[0]).unwrap();
        let says = open().open_receiver(&pipes[1]).unwrap();
        let plain = browser.command();
        let child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<"$TOLD" 4>"$SAYS""#, "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .args(["--remote-debugging-pipe", "about:blank"])
            .envs([("TOLD", &pipes[0]), ("SAYS", &pipes[1])])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut tab = Self {
            child,
            told,
            says: BufReader::new(says),
            asked: 0,
            session: String::new(),
            complaints: Vec::new(),
            _browser: browser,
        };
        let page = json!({ "url": "about:blank" });
        let page = tab.call("Target.createTarget", page).await;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = tab.call("Target.attachToTarget", attach).await;
        tab.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            tab.call(domain, json!({})).await;
        }
        tab
    }

    /// Types an address.
    pub(crate) async fn go(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
    }

    /// What an expression comes to in the page; nothing where the page goes away meanwhile.
    pub(crate) async fn run(&mut self, expression: &str) -> Value {
        let what = json!({ "expression": expression, "returnByValue": true, "userGesture": true });
        let mut came = self.call("Runtime.evaluate", what).await;
        came["result"]["value"].take()
    }

    /// Looks until this holds.
    pub(crate) async fn until(&mut self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.run(expression).await != json!(true) {
            if deadline < Instant::now() {
                let page = "location.href + document.documentElement.outerHTML";
                panic!("waited in vain until {what}: {}", self.run(page).await);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes into the one field of a form of this action, and sends it.
    pub(crate) async fn submit(&mut self, action: &str, text: &str) {
        let form = format!("document.querySelector('form[action=\"{action}\"]')");
        self.until("there is a form", &format!("{form} !== null"))
            .await;
        self.run(&format!("{form}.querySelector('input').value = '{text}'"))
            .await;
        self.run(&format!("{form}.querySelector('button').click()"))
            .await;
    }

    /// Asks the browser, and reads until it answers.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.told
            .write_all(format!("{message}\0").as_bytes())
            .await
            .unwrap();
        loop {
            let mut said = self.next().await;
            if said["id"] == json!(self.asked) {
                return said["result"].take();
            }
            let trouble = match said["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => &said["params"]["exceptionDetails"],
                "Log.entryAdded" => &said["params"]["entry"],
                _ => continue,
            };
            self.complaints.push(trouble.to_string());
        }
    }

    async fn next(&mut self) -> Value {
        let mut said = Vec::new();
        let reading = self.says.read_until(0, &mut said);
        let read = tokio::time::timeout(PATIENCE, reading).await;
        read.expect("the browser answers").unwrap();
        assert_eq!(said.pop(), Some(0));
        serde_json::from_slice(&said).unwrap()
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
