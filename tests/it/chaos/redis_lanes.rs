//! Callers who go away, and calls that never come back: nobody else is answered wrongly or late.

use std::sync::Arc;
use std::time::Duration;

use catraca::driver::redis::{Input, Redis, RedisError, Script, Settings};
use futures_util::future::join_all;
use redis::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::need::REDIS;
use crate::support::redis::Server;

/// Connections of the pool for steps.
const POOL: usize = 4;
/// Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

fn nonce(n: usize) -> Input {
    Input {
        keys: vec!["catraca:{show}:nonce".to_owned()],
        args: vec![n.to_string().into_bytes()],
    }
}

fn open(server: &Server) -> Redis {
    let settings = Settings {
        url: server.url(),
        ..Settings::default()
    };
    Redis::open(&settings).unwrap()
}

/// A reply stream that shifted by one would answer everybody with somebody else's, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_go_away_do_not_shift_the_answers() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let redis = Arc::new(open(&server));
    // Replies of several sizes, some of them slow to make.
    let echo = "local s = 0 for i = 1, ARGV[1] % 7 * 3000 do s = s + i end \
                return { ARGV[1], string.rep('x', ARGV[1] % 5 * 400) }";
    let script = Arc::new(Script::new(echo));
    let mut asking = JoinSet::new();
    for n in 0..600 {
        let (redis, script) = (Arc::clone(&redis), Arc::clone(&script));
        let call = async move {
            let answer = redis.run_for_request(&script, &nonce(n), DEADLINE).await;
            (n, answer.unwrap())
        };
        if n % 3 == 0 {
            // Asks, and goes away before, while or after the answer comes.
            let patience = Duration::from_micros(50 * (n as u64 % 40));
            asking.spawn(async move { tokio::time::timeout(patience, call).await.ok() });
        } else {
            asking.spawn(async move { Some(call.await) });
        }
    }
    let answered: Vec<(usize, Value)> = asking.join_all().await.into_iter().flatten().collect();
    assert!(400 <= answered.len(), "{}", answered.len());
    for (n, answer) in answered {
        let Value::Array(parts) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(parts[0], Value::BulkString(n.to_string().into_bytes()));
    }
    for n in 1_000..1_010 {
        let answer = redis.run_for_request(&script, &nonce(n), DEADLINE).await;
        let Value::Array(parts) = answer.unwrap() else {
            panic!("a list");
        };
        assert_eq!(parts[0], Value::BulkString(n.to_string().into_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_not_answered_ends_at_its_deadline_and_the_next_is_served() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let redis = open(&server);
    let script = Script::new("return ARGV[1]");
    redis
        .run_for_request(&script, &nonce(1), DEADLINE)
        .await
        .unwrap();
    server.pause();
    let deadline = Duration::from_millis(50);
    for n in 0..20 {
        let answer = redis.run_for_request(&script, &nonce(n), deadline).await;
        let outage = answer.as_ref().map_err(RedisError::outage);
        assert_eq!(outage.unwrap_err().unwrap().word(), "slow");
    }
    server.resume();
    // What was sent to the old connections is answered to nobody.
    let end = Instant::now() + DEADLINE;
    for n in 100..120 {
        loop {
            match redis.run_for_request(&script, &nonce(n), DEADLINE).await {
                Ok(answer) => {
                    break assert_eq!(answer, Value::BulkString(n.to_string().into_bytes()));
                }
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// When somebody knocks at a door behind which nobody answers, while twenty ask all the time.
async fn knocks(ask: impl AsyncFn(&Redis)) -> Vec<Instant> {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings {
        url: format!("redis://{}", door.local_addr().unwrap()),
        ..Settings::default()
    };
    let redis = Redis::open(&settings).unwrap();
    let mut knocks = Vec::new();
    let answering = async {
        loop {
            drop(door.accept().await.unwrap());
            knocks.push(Instant::now());
        }
    };
    let asking = join_all((0..20).map(async |_| {
        loop {
            ask(&redis).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }));
    let both = async { tokio::join!(answering, asking) };
    drop(tokio::time::timeout(Duration::from_secs(3), both).await);
    knocks
}

/// So many at once, and then nobody for 100 to 200 ms, by chance.
fn are_paced(knocks: &[Instant], at_once: usize) {
    assert!(
        (5..=31 * at_once).contains(&knocks.len()),
        "{}",
        knocks.len()
    );
    let pauses = knocks.windows(2).map(|pair| pair[1] - pair[0]);
    let pauses: Vec<Duration> = pauses
        .filter(|pause| at_once == 1 || Duration::from_millis(50) < *pause)
        .collect();
    let (least, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    assert!(Duration::from_millis(20) <= *longest - *least, "{pauses:?}");
}

/// A thousand gateways that lose their server must not come back all at once, nor again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_let_in_knocks_again_after_a_while_and_by_chance() {
    let script = Script::new("return 1");
    let requests = knocks(async |redis: &Redis| {
        let asked = redis.run_for_request(&script, &nonce(1), DEADLINE).await;
        asked.unwrap_err();
    })
    .await;
    are_paced(&requests, 1);
    let steps = knocks(async |redis: &Redis| {
        redis.run_for_step(&script, &nonce(1)).await.unwrap_err();
    })
    .await;
    are_paced(&steps, POOL);
}
