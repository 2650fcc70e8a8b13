//! Group commit: nobody is lost, nobody waits for a caller who went away.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use catraca::base::ids::{Number, ShowId};
use catraca::base::limits::{BATCH_MAX, BATCH_QUEUE_MAX};
use catraca::room::model::command::{
    Checked, Claimed, Command, Joined, Joining, Origin, Outcome, RoomState,
};
use catraca::room::{Rooms, Store, StoreError};

use crate::contract::room::{Home, joining, show};
use crate::model::world::{fan, new_room, settings, tick};

/// A store that notes which joins it is told, and answers those of the show only when it is let.
#[derive(Debug)]
struct Gate {
    store: Arc<dyn Store>,
    told: Mutex<Vec<Vec<Joining>>>,
    answers: Semaphore,
    fails: bool,
    /// How many were asked for in each check.
    checked: Mutex<Vec<usize>>,
}

impl Gate {
    async fn before(home: &Home) -> Arc<Self> {
        Arc::new(Self {
            store: home.begin().await,
            told: Mutex::default(),
            answers: Semaphore::new(0),
            fails: false,
            checked: Mutex::default(),
        })
    }

    fn told(&self) -> Vec<Vec<Joining>> {
        self.told.lock().unwrap().clone()
    }
}

#[async_trait]
impl Store for Gate {
    async fn apply(&self, id: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        if let Command::Join { joining } = command
            && *id == show()
        {
            self.told.lock().unwrap().push(joining.clone());
            self.answers.acquire().await.unwrap().forget();
        }
        if let Command::Check { fans } = command {
            self.checked.lock().unwrap().push(fans.len());
        }
        if self.fails {
            return Err(StoreError::Unavailable(
                anyhow::anyhow!("the cable is cut").into(),
            ));
        }
        self.store.apply(id, command).await
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        self.store.shows().await
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<Joined, StoreError>> + Send>>;

/// Begins a join and goes as far as it can: to the store, or into the queue.
async fn asking(rooms: &Rooms, n: u64) -> Asking {
    let rooms = rooms.clone();
    let mut asking: Asking =
        Box::pin(async move { rooms.join(&show(), joining(n, Origin::Minted)).await });
    go(&mut asking).await;
    asking
}

/// Goes as far as it can: whoever drives lets others in first, once. It must not be done yet.
async fn go(asking: &mut Asking) {
    std::future::poll_fn(|context| {
        for _ in ["lets others in", "asks the store"] {
            assert!(asking.as_mut().poll(context).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
}

async fn bounded<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .expect("an answer in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_fans_get_ten_thousand_numbers() {
    let home = Home::new();
    let rooms = Rooms::new(home.begin().await);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..1_000u64 {
        let rooms = rooms.clone();
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            for i in 0..10 {
                let joining = joining(task * 10 + i, Origin::Minted);
                match rooms.join(&show(), joining).await.unwrap() {
                    Joined::New { number } => numbers.push(number),
                    other => panic!("{other:?}"),
                }
            }
            assert!(numbers.is_sorted(), "later joins have larger numbers");
            numbers
        });
    }
    let numbers: BTreeSet<Number> = bounded(tasks.join_all())
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(numbers.len(), 10_000);
    assert_eq!(
        numbers.first().zip(numbers.last()),
        Some((&Number(1), &Number(10_000)))
    );
}

#[tokio::test]
async fn what_arrives_during_a_call_is_the_next_batch() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let all = FuturesUnordered::new();
    let crowd = BATCH_MAX as u64 + 10;
    for n in 0..=crowd {
        all.push(asking(&rooms, n).await);
    }
    gate.answers.add_permits(3);
    let numbers: BTreeSet<_> = bounded(
        all.map(|answer| match answer.unwrap() {
            Joined::New { number } => number,
            other => panic!("{other:?}"),
        })
        .collect(),
    )
    .await;
    assert_eq!(numbers.len() as u64, crowd + 1);
    let sizes: Vec<usize> = gate.told().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, BATCH_MAX, 10]);
}

#[tokio::test]
async fn a_driver_that_goes_away_hands_over() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let first = asking(&rooms, 1).await;
    let mut second = asking(&rooms, 2).await;
    let third = asking(&rooms, 3).await;
    let fourth = asking(&rooms, 4).await;
    drop(first);
    go(&mut second).await; // drives, for the third and fourth too
    drop(second);
    drop(third);
    gate.answers.add_permits(1);
    assert_eq!(
        bounded(fourth).await.unwrap(),
        Joined::New { number: Number(1) }
    );

    let again = Joining {
        origin: Origin::Known,
        ..joining(4, Origin::Minted)
    };
    let minted = |n| joining(n, Origin::Minted);
    let told = [
        vec![minted(1)],
        vec![minted(2), minted(3), minted(4)],
        vec![again],
    ];
    assert_eq!(
        gate.told(),
        told,
        "who may have been asked already is asked as known"
    );
}

#[tokio::test]
async fn a_turn_that_was_given_to_somebody_who_went_goes_on() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let first = asking(&rooms, 1).await;
    let second = asking(&rooms, 2).await;
    let third = asking(&rooms, 3).await;
    drop(first); // the turn is the second's now, who has not noticed
    drop(second);
    gate.answers.add_permits(1);
    assert_eq!(
        bounded(third).await.unwrap(),
        Joined::New { number: Number(1) }
    );
    // And the batch is idle again.
    gate.answers.add_permits(1);
    let joined = bounded(rooms.join(&show(), joining(4, Origin::Minted)))
        .await
        .unwrap();
    assert_eq!(joined, Joined::New { number: Number(2) });
}

/// One call on its way, and the queue behind it full.
async fn as_many_as_may(rooms: &Rooms) -> Vec<Asking> {
    let mut waiting = Vec::new();
    for n in 0..=BATCH_QUEUE_MAX as u64 {
        waiting.push(asking(rooms, n).await);
    }
    waiting
}

async fn nobody_more_may(rooms: &Rooms) {
    let refused = bounded(rooms.join(&show(), joining(9_999, Origin::Minted))).await;
    assert!(
        matches!(refused, Err(StoreError::Overloaded)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let waiting = as_many_as_may(&rooms).await;
    nobody_more_may(&rooms).await;
    gate.answers.add_permits(100);
    for answer in waiting {
        assert!(matches!(bounded(answer).await, Ok(Joined::New { .. })));
    }
}

#[tokio::test]
async fn who_has_gone_takes_nobodys_place_in_a_full_queue() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let mut waiting = as_many_as_may(&rooms).await;
    let gone = waiting.split_off(BATCH_QUEUE_MAX - 1);
    assert_eq!(gone.len(), 2);
    drop(gone);
    let mut instead = Vec::new();
    for n in 0..2 {
        instead.push(asking(&rooms, 8_000 + n).await);
    }
    nobody_more_may(&rooms).await;
    gate.answers.add_permits(100);
    for answer in waiting.into_iter().chain(instead) {
        assert!(matches!(bounded(answer).await, Ok(Joined::New { .. })));
    }
}

#[tokio::test]
async fn a_slow_call_delays_its_own_kind_and_show_and_nothing_else() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let other: ShowId = "other-show".parse().unwrap();
    for step in new_room(settings(), RoomState::Open) {
        let mend = Command::Mend(step);
        gate.store.apply(&other, &mend).await.unwrap();
    }
    let rooms = Rooms::new(gate.clone());
    let mut slow = asking(&rooms, 1).await;
    let mut behind = asking(&rooms, 2).await;
    let elsewhere = bounded(rooms.join(&other, joining(1, Origin::Minted))).await;
    assert_eq!(elsewhere.unwrap(), Joined::New { number: Number(1) });
    let claimed = bounded(rooms.claim(&show(), fan(9))).await;
    assert_eq!(claimed.unwrap(), Claimed::Unknown);
    let checked = bounded(rooms.check(&show(), fan(9))).await;
    assert_eq!(checked.unwrap(), Checked::NotLive);
    bounded(rooms.tick(&show(), tick(1))).await.unwrap();
    go(&mut slow).await;
    go(&mut behind).await;
    gate.answers.add_permits(2);
    bounded(slow).await.unwrap();
    bounded(behind).await.unwrap();
}

/// A gateway that is asked by many at once asks the room once, the first of them not alone.
#[tokio::test]
async fn those_who_are_here_ask_together() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let rooms = Rooms::new(gate.clone());
    let show = show();
    let checks = (0..10).map(|n| rooms.check(&show, fan(n)));
    for checked in bounded(futures_util::future::join_all(checks)).await {
        assert_eq!(checked.unwrap(), Checked::NotLive);
    }
    assert_eq!(*gate.checked.lock().unwrap(), [10]);

    gate.answers.add_permits(1);
    let joins = (1..=10).map(|n| rooms.join(&show, joining(n, Origin::Minted)));
    let joined = bounded(futures_util::future::join_all(joins)).await;
    for (n, joined) in (1..).zip(joined) {
        assert_eq!(joined.unwrap(), Joined::New { number: Number(n) });
    }
    let sizes: Vec<usize> = gate.told().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10]);
}

#[tokio::test]
async fn a_failure_is_everybodys() {
    let home = Home::new();
    let gate = Gate::before(&home).await;
    let gate = Arc::new(Gate {
        fails: true,
        store: gate.store.clone(),
        told: Mutex::default(),
        answers: Semaphore::new(0),
        checked: Mutex::default(),
    });
    let rooms = Rooms::new(gate.clone());
    let mut waiting = Vec::new();
    for n in 0..5 {
        waiting.push(asking(&rooms, n).await);
    }
    gate.answers.add_permits(2);
    for answer in bounded(futures_util::future::join_all(waiting)).await {
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
    }
    assert_eq!(gate.told().len(), 2);
}
