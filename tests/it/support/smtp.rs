//! A mail provider that is not ours: aiosmtpd, which takes mail over a real socket and tells what came.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::need::PYTHON;
use crate::support::until;

/// Says one JSON object a line: its port, each connection, each mail as Python's own parser reads it.
/// `replies` are answers to give instead, by what is asked (`MAIL`, `RCPT address`, `DATA`): how many times,
/// what, and after how many questions that are answered well; `closes` ends the connection after each mail; `silent_ms` is how long the first mail is taken
/// without a word.
const SINK: &str = r#"
import asyncio, email, email.policy, json, logging, ssl, sys
from aiosmtpd.smtp import SMTP, AuthResult

logging.disable() # what a client broke off is what the test meant
told = json.loads(sys.argv[1])
replies = {what: list(reply) for what, reply in told.get("replies", {}).items()}
silent_ms = told.get("silent_ms", 0)

def say(**what):
    print(json.dumps(what), flush=True)

def instead(what):
    reply = replies.get(what)
    if not reply or reply[0] == 0:
        return None
    if 2 < len(reply) and 0 < reply[2]:
        reply[2] -= 1
        return None
    reply[0] -= 1
    return reply[1]

class Sink:
    async def handle_MAIL(self, server, session, envelope, address, options):
        reply = instead("MAIL")
        if reply is None:
            envelope.mail_from = address
        elif reply.startswith("421"):
            asyncio.get_running_loop().call_later(0.05, server.transport.close)
        return reply or "250 2.1.0 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        reply = instead("RCPT " + address)
        if reply is None:
            envelope.rcpt_tos.append(address)
        return reply or "250 2.1.5 OK"

    async def handle_DATA(self, server, session, envelope):
        global silent_ms
        reply = instead("DATA")
        if reply:
            return reply
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        say(mail=mail["Message-ID"], to=envelope.rcpt_tos, sender=envelope.mail_from,
            names=mail.keys(), subject=mail["Subject"], head_to=mail["To"], head_from=mail["From"],
            text=mail.get_content(), tls=session.ssl is not None, login=session.authenticated,
            ascii=envelope.content.isascii())
        if silent_ms:
            waits, silent_ms = silent_ms, 0
            await asyncio.sleep(waits / 1000)
        if told.get("closes"):
            asyncio.get_running_loop().call_later(0.05, server.transport.close)
        return "250 2.0.0 OK: queued"

class Counting(SMTP):
    def connection_made(self, transport):
        if self.session is None:
            say(connection=True)
        super().connection_made(transport)

def login(server, session, envelope, mechanism, data):
    right = [told.get("user", "").encode(), told.get("password", "").encode()]
    return AuthResult(success=[data.login, data.password] == right, handled=False)

async def main():
    context = None
    if "cert" in told:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(told["cert"], told["key"])
    wrapped = told.get("wrapped", False)
    more = {"tls_context": context, "require_starttls": True} if context and not wrapped else {}
    if "user" in told:
        more |= {"authenticator": login, "auth_required": True}
    def serve():
        return Counting(Sink(), hostname="sink.example", enable_SMTPUTF8=True, **more)
    server = await asyncio.get_running_loop().create_server(
        serve, "127.0.0.1", told.get("port", 0), ssl=context if wrapped else None)
    say(port=server.sockets[0].getsockname()[1])
    await server.serve_forever()

asyncio.run(main())
"#;

/// A sink that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Sink {
    child: Child,
    pub(crate) port: u16,
    said: Arc<Mutex<Vec<Value>>>,
}

impl Sink {
    /// Starts one; `None` where this machine may do without.
    pub(crate) async fn start(told: Value) -> Option<Self> {
        let (program, packages) = PYTHON.find_with_packages()?;
        let mut child = Command::new(program)
            .args(["-c", SINK, &told.to_string()])
            .env("PYTHONPATH", packages)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let line = serde_json::from_str::<Value>(&line).unwrap();
                heard.lock().unwrap().push(line);
            }
        });
        let port = until("the sink listens", || async {
            let said = said.lock().unwrap();
            said.first()?["port"].as_u64()
        })
        .await;
        Some(Self {
            child,
            port: u16::try_from(port).unwrap(),
            said,
        })
    }

    /// One that takes everything.
    pub(crate) async fn well() -> Option<Self> {
        Self::start(json!({})).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Where it is, without TLS.
    pub(crate) fn url(&self) -> String {
        format!("smtp+plain://127.0.0.1:{}", self.port)
    }

    fn with(&self, member: &str) -> Vec<Value> {
        let said = self.said.lock().unwrap();
        let with = said.iter().filter(|line| !line[member].is_null());
        with.cloned().collect()
    }

    /// The mails it has taken so far, in order.
    pub(crate) fn mails(&self) -> Vec<Value> {
        self.with("mail")
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.with("connection").len()
    }

    /// Its mails once there are so many: no two have one Message-ID.
    pub(crate) async fn distinct(&self, count: usize) -> Vec<Value> {
        let mails = until("the mails are there", || async {
            let mails = self.mails();
            (count <= mails.len()).then_some(mails)
        })
        .await;
        assert_eq!(mails.len(), count, "{mails:#?}");
        let ids: std::collections::BTreeSet<&str> = mails
            .iter()
            .map(|mail| mail["mail"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), count, "{mails:#?}");
        mails
    }
}

/// Makes a certificate for `localhost` in `cert.pem` and `key.pem`, its own authority; another, for
/// nobody in particular, is `other.pem`.
pub(crate) fn certify(folder: &Path) {
    let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (ours, other) = (made(), made());
    for (file, text) in [
        ("cert.pem", ours.cert.pem()),
        ("key.pem", ours.signing_key.serialize_pem()),
        ("other.pem", other.cert.pem()),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
}
