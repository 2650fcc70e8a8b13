//! Which server is the primary: what sentinels say, asked again whenever there is doubt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::base::outage::Outage;
use crate::driver::redis::address::{Address, at};
use crate::driver::redis::fault::RedisError;
use crate::driver::redis::guard::Guard;
use crate::driver::redis::node::{Node, log_in, pause, settings};

/// How long one sentinel may take. Short: there are others.
const ANSWER_MAX: Duration = Duration::from_millis(300);

/// The way to the primary of a name.
#[derive(Debug)]
pub(super) struct Sentinel {
    address: Address,
    name: String,
    guard: Arc<Guard>,
    found: Mutex<Found>,
    is_doubted: AtomicBool,
}

/// What was last found out.
#[derive(Debug, Default)]
struct Found {
    node: Option<Arc<Node>>,
    /// Nobody asks again before.
    not_before: Option<Instant>,
    /// Whose turn it is. They take turns, so that one which is cut off and has not noticed is not
    /// believed for ever.
    turn: usize,
}

impl Sentinel {
    pub(super) fn new(address: Address, name: String, guard: Arc<Guard>) -> Self {
        Self {
            address,
            name,
            guard,
            found: Mutex::default(),
            is_doubted: AtomicBool::new(false),
        }
    }

    /// The primary may be another one by now.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Relaxed);
    }

    /// The primary.
    ///
    /// # Errors
    /// [`RedisError::Away`] where no sentinel says which it is.
    pub(super) async fn primary(&self) -> Result<Arc<Node>, RedisError> {
        let mut found = self.found.lock().await;
        let now = Instant::now();
        let is_settled = found.not_before.is_some_and(|at| now < at);
        match &found.node {
            Some(node) if is_settled || !self.is_doubted.load(Ordering::Relaxed) => {
                return Ok(Arc::clone(node));
            }
            None if is_settled => return Err(unknown("no sentinel answered a moment ago")),
            Some(_) | None => {}
        }
        let asked = self.ask_around(&mut found).await;
        found.not_before = Some(Instant::now() + pause());
        match (asked, &found.node) {
            (Ok(place), Some(node)) if node.at == place => {
                self.is_doubted.store(false, Ordering::Relaxed);
                Ok(Arc::clone(node))
            }
            (Ok(place), _) => {
                let node = Arc::new(Node::new(&self.address, &place, Arc::clone(&self.guard))?);
                tracing::info!("sentinels say that {} is at {place}", self.name);
                self.is_doubted.store(false, Ordering::Relaxed);
                found.node = Some(Arc::clone(&node));
                Ok(node)
            }
            (Err(_), Some(node)) => Ok(Arc::clone(node)),
            (Err(error), None) => Err(error),
        }
    }

    async fn ask_around(&self, found: &mut Found) -> Result<String, RedisError> {
        let hosts = &self.address.hosts;
        let mut last = unknown("there are no sentinels");
        for _ in hosts {
            let host = &hosts[found.turn % hosts.len()];
            found.turn = found.turn.wrapping_add(1); // also where nobody waits for the answer
            match timeout(ANSWER_MAX, self.ask(host)).await {
                Ok(Ok(place)) => return Ok(place),
                Ok(Err(error)) => last = error,
                Err(_) => last = RedisError::away(Outage::Slow, format!("sentinel {host}")),
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &str) -> Result<String, RedisError> {
        let client = self.address.client(host)?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&settings())
            .await?;
        log_in(&mut connection, &self.address.sentinel_login).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer: Value = command.query_async(&mut connection).await?;
        let place: Option<(String, u16)> = redis::from_redis_value(answer)
            .map_err(|error| unknown(&format!("sentinel {host}: {error}")))?;
        let (host, port) =
            place.ok_or_else(|| unknown("sentinels know no primary of this name"))?;
        Ok(at(&host, port))
    }
}

fn unknown(why: &str) -> RedisError {
    RedisError::away(Outage::Away, why)
}
