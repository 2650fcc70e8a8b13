//! Three relays, each a process: told where to stand still, killed, frozen and replaced by pid.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use catraca::base::limits::{ACK_DEADLINE_MS, RELAY_LEASE_TTL_MS};
use tokio::sync::mpsc;

use crate::chaos::relay::mortal::{AT, FENCED, ORDERS, Orders, PROGRAM, Place, Word, holder};

/// How many there are.
pub(crate) const SIZE: usize = 3;
/// How long one may take to come to a place, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of them, over one database and one topic.
#[derive(Debug)]
pub(crate) struct Crew {
    orders: Orders,
    relays: Vec<Child>,
    said: mpsc::UnboundedReceiver<(u32, String)>,
    saying: mpsc::UnboundedSender<(u32, String)>,
}

impl Crew {
    /// Starts so many.
    pub(crate) fn start(orders: Orders, size: usize) -> Self {
        let (saying, said) = mpsc::unbounded_channel();
        let mut crew = Self {
            orders,
            relays: Vec::new(),
            said,
            saying,
        };
        (0..size).for_each(|_| crew.add());
        crew
    }

    /// One more.
    pub(crate) fn add(&mut self) {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", PROGRAM, "--nocapture"])
            .env(ORDERS, serde_json::to_string(&self.orders).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (lines, saying, id) = (child.stderr.take(), self.saying.clone(), child.id());
        std::thread::spawn(move || {
            for line in BufReader::new(lines.unwrap()).lines().map_while(Result::ok) {
                drop(saying.send((id, line)));
            }
        });
        self.relays.push(child);
    }

    /// Its name among the holders of leases.
    pub(crate) fn holder(&self, relay: usize) -> String {
        holder(self.relays[relay].id())
    }

    fn tell(&mut self, relay: usize, word: Word) {
        let line = serde_json::to_string(&word).unwrap();
        let input = self.relays[relay].stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    fn tell_all(&mut self, word: Word) {
        (0..self.relays.len()).for_each(|relay| self.tell(relay, word));
    }

    /// The next to say this, and what it says after it.
    async fn says(&mut self, what: &str) -> (usize, String) {
        let hearing = async {
            loop {
                let (id, line) = self.said.recv().await.unwrap();
                if let Some(more) = line.strip_prefix(what)
                    && let Some(relay) = self.relays.iter().position(|relay| relay.id() == id)
                {
                    return (relay, more.to_owned());
                }
                assert!(!line.contains("panicked"), "{line}");
            }
        };
        let heard = tokio::time::timeout(PATIENCE, hearing).await;
        heard.unwrap_or_else(|_| panic!("nobody says {what}"))
    }

    /// One comes to this place: who, and since when it has something under way.
    async fn comes_to(&mut self, place: Place) -> (usize, i64) {
        let (relay, since_ms) = self.says(&format!("{AT}{place:?} ")).await;
        (relay, since_ms.parse().unwrap())
    }

    /// The first that comes to this place stands still there.
    pub(crate) async fn stops_at(&mut self, place: Place) -> (usize, i64) {
        self.tell_all(Word::At(Some(place)));
        self.comes_to(place).await
    }

    /// One that stands still goes on from there to this place.
    pub(crate) async fn goes_on_to(&mut self, relay: usize, place: Place) -> (usize, i64) {
        self.tell(relay, Word::At(Some(place)));
        let there = self.comes_to(place).await;
        assert_eq!(there.0, relay);
        there
    }

    /// Whoever stands still goes on.
    pub(crate) fn go_on(&mut self) {
        self.tell_all(Word::At(None));
    }

    /// Marks of this one are refused.
    pub(crate) async fn is_fenced(&mut self, relay: usize) {
        assert_eq!(self.says(FENCED).await.0, relay);
    }

    /// Kills one, as with `kill -9`.
    pub(crate) fn kill(&mut self, relay: usize) {
        let mut child = self.relays.remove(relay);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, relay: usize, signal: &str) {
        let id = self.relays[relay].id().to_string();
        let signal = format!("-{signal}");
        let status = Command::new("kill").args([&signal, &id]).status();
        assert!(status.unwrap().success(), "kill {signal} {id}");
    }

    /// So much time goes by for everybody that hears it.
    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.orders.ahead_ms += i64::try_from(ms).unwrap();
        self.tell_all(Word::Ahead(self.orders.ahead_ms));
    }

    /// So much that leases of whoever does not hear it have run out.
    pub(crate) fn let_leases_lapse(&mut self) {
        self.advance_ms(RELAY_LEASE_TTL_MS + ACK_DEADLINE_MS);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.relays {
            // It may be dead already; there is nothing to do about either.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
