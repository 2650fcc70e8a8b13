//! The way of an order from its payment to its end, walked once for each place where our process may
//! die: it always ends alike, and the provider's own record is the witness that money moved once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::settle::{Settle, Step};
use catraca::orders::payment::via_sandbox::ViaSandbox;
use catraca::orders::payment::{Charge, PaymentError, Payments};
use catraca::orders::rules::payment::Verdict;
use catraca::orders::rules::{Order, PaymentId, Reason, Status};
use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::{Home, on_every_database};
use crate::support::until;

on_every_database!(
    every_way_ends_alike_wherever_we_die,
    what_is_slow_keeps_nobody_else_waiting,
);

/// How long the sandbox thinks about a slow payment, and how long we listen.
const SLOW: Duration = Duration::from_millis(150);
const LISTEN: Duration = Duration::from_millis(30);

/// The way to the provider, on which our process dies: at one call, before or after it has had its
/// effect.
#[derive(Debug)]
struct Deadly {
    sandbox: Arc<ViaSandbox>,
    /// Halves of calls until then; a call has one half before its effect and one after.
    left: AtomicUsize,
    died: Notify,
}

impl Deadly {
    fn new(sandbox: &Arc<ViaSandbox>, left: usize) -> Arc<Self> {
        Arc::new(Self {
            sandbox: Arc::clone(sandbox),
            left: AtomicUsize::new(left),
            died: Notify::new(),
        })
    }

    /// Whether the place to die was reached.
    fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    async fn live_on(&self) {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if left.is_err() || left == Ok(1) {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Payments for Deadly {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        self.live_on().await;
        let answer = self.sandbox.charge(charge).await;
        self.live_on().await;
        answer
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        self.live_on().await;
        let answer = self.sandbox.look_up(id).await;
        self.live_on().await;
        answer
    }

    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        self.live_on().await;
        let answer = self.sandbox.void(id).await;
        self.live_on().await;
        answer
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        self.live_on().await;
        let answer = self.sandbox.refund(id).await;
        self.live_on().await;
        answer
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Until the provider has heard of it.
    Ask,
    /// Until there is nothing more to ask.
    Settle,
    /// The sandbox has made up its mind about the first attempt.
    Decided,
    Pay(&'static str),
    /// The hold and all patience with the provider run out.
    Expire,
    /// Somebody else takes the seats.
    Rival,
    Cancel,
}

struct Way {
    name: &'static str,
    token: &'static str,
    acts: &'static [Act],
    ends: (Status, Option<Reason>),
    events: &'static [&'static str],
    /// How often money was taken and given back, over all attempts.
    moved: (usize, usize),
}

const WAYS: &[Way] = &[
    Way {
        name: "approved",
        token: "approve",
        acts: &[Act::Settle],
        ends: (Status::Confirmed, None),
        events: &["OrderPlaced", "OrderConfirmed"],
        moved: (1, 0),
    },
    Way {
        name: "declined, then approved",
        token: "decline",
        acts: &[Act::Settle, Act::Pay("approve"), Act::Settle],
        ends: (Status::Confirmed, None),
        events: &["OrderPlaced", "OrderConfirmed"],
        moved: (1, 0),
    },
    Way {
        name: "declined three times",
        token: "decline",
        acts: &[
            Act::Settle,
            Act::Pay("decline"),
            Act::Settle,
            Act::Pay("decline"),
            Act::Settle,
        ],
        ends: (Status::Declined, Some(Reason::PaymentDeclined)),
        events: &["OrderPlaced", "OrderDeclined"],
        moved: (0, 0),
    },
    Way {
        name: "declined, and the hold ends",
        token: "decline",
        acts: &[Act::Settle, Act::Expire],
        ends: (Status::Declined, Some(Reason::PaymentDeclined)),
        events: &["OrderPlaced", "OrderDeclined"],
        moved: (0, 0),
    },
    Way {
        name: "the answer is lost",
        token: "lost",
        acts: &[Act::Ask, Act::Settle],
        ends: (Status::Confirmed, None),
        events: &["OrderPlaced", "OrderConfirmed"],
        moved: (1, 0),
    },
    Way {
        name: "slow, beyond the patience of a call",
        token: "slow",
        acts: &[Act::Ask, Act::Decided, Act::Settle],
        ends: (Status::Confirmed, None),
        events: &["OrderPlaced", "OrderConfirmed"],
        moved: (1, 0),
    },
    Way {
        name: "approved after the end, and the seats are still there",
        token: "slow",
        acts: &[Act::Ask, Act::Expire, Act::Decided, Act::Settle],
        ends: (Status::Confirmed, None),
        events: &["OrderPlaced", "OrderDeclined", "OrderConfirmed"],
        moved: (1, 0),
    },
    Way {
        name: "approved after the end, and the seats have gone",
        token: "slow",
        acts: &[Act::Ask, Act::Expire, Act::Rival, Act::Decided, Act::Settle],
        ends: (Status::Refunded, Some(Reason::ApprovedTooLate)),
        events: &["OrderPlaced", "OrderDeclined", "OrderRefunded"],
        moved: (1, 1),
    },
    Way {
        name: "over before anybody was asked",
        token: "approve",
        acts: &[Act::Expire, Act::Settle],
        ends: (Status::Declined, Some(Reason::PaymentUnknown)),
        events: &["OrderPlaced", "OrderDeclined"],
        moved: (0, 0),
    },
    Way {
        name: "cancelled before anybody was asked",
        token: "approve",
        acts: &[Act::Cancel, Act::Settle],
        ends: (Status::Cancelled, Some(Reason::CancelledByOperator)),
        events: &["OrderPlaced", "OrderCancelled"],
        moved: (0, 0),
    },
    Way {
        name: "cancelled while the provider thinks",
        token: "slow",
        acts: &[Act::Ask, Act::Cancel, Act::Decided, Act::Settle],
        ends: (Status::Refunded, Some(Reason::CancelledByOperator)),
        events: &["OrderPlaced", "OrderCancelled", "OrderRefunded"],
        moved: (1, 1),
    },
    Way {
        name: "cancelled when it was paid",
        token: "approve",
        acts: &[Act::Settle, Act::Cancel, Act::Settle],
        ends: (Status::Refunded, Some(Reason::CancelledByOperator)),
        events: &[
            "OrderPlaced",
            "OrderConfirmed",
            "OrderCancelled",
            "OrderRefunded",
        ],
        moved: (1, 1),
    },
];

/// One way of an order, and our process, which may die on it once.
struct Walk<'a> {
    shop: &'a Shop,
    fan: u64,
    order: Order,
    sandbox: Arc<ViaSandbox>,
    deadly: Arc<Deadly>,
}

impl Walk<'_> {
    /// A step of the loop that settles payments, by a new process where the last one has died.
    async fn ask(&self) -> Step {
        let payments: Arc<dyn Payments> = if self.deadly.is_dead() {
            self.sandbox.clone()
        } else {
            self.deadly.clone()
        };
        let settle = Settle {
            call_max: LISTEN,
            ..self.shop.settle_with(payments)
        };
        tokio::select! {
            biased;
            () = self.deadly.died.notified() => Step { settled: 1, in_doubt: 0 }, // something happened
            step = settle.step() => step.unwrap(),
        }
    }

    async fn act(&self, act: Act) {
        let shop = self.shop;
        match act {
            Act::Ask => {
                while self.sandbox.records().is_empty() {
                    self.ask().await;
                }
            }
            Act::Settle => {
                let settling = async { while self.ask().await != Step::default() {} };
                let settled = timeout(Duration::from_secs(20), settling).await;
                settled.expect("there is an end to it");
            }
            Act::Decided => {
                let id = PaymentId {
                    order: self.order.id,
                    attempt: 1,
                };
                while self.sandbox.look_up(id).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Act::Pay(token) => {
                shop.pay(self.fan, self.order.id, Some(token))
                    .await
                    .unwrap();
            }
            Act::Expire => {
                shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
                shop.orders.expire().step().await.unwrap();
            }
            Act::Rival => drop(shop.hold(self.fan + 1, 2).await.unwrap()),
            Act::Cancel => drop(shop.store.cancel(self.order.id).await.unwrap().unwrap()),
        }
    }

    async fn check(&self, way: &Way, name: &str) {
        let ended = self.shop.read(self.fan, self.order.id).await;
        assert_eq!((ended.status, ended.reason), way.ends, "{name}");
        let events = self.shop.events(&self.order.id.to_string()).await;
        assert_eq!(events, way.events, "{name}");
        let records = self.sandbox.records();
        let count =
            |of: fn(&bool) -> bool, values: Vec<bool>| values.iter().filter(|v| of(v)).count();
        let taken = records.values().map(|record| record.is_taken).collect();
        let returned = records.values().map(|record| record.is_returned).collect();
        let moved = (count(|v| *v, taken), count(|v| *v, returned));
        assert_eq!(moved, way.moved, "{name}: {records:?}");
        assert!(records.keys().all(|id| id.order == self.order.id));
    }
}

async fn every_way_ends_alike_wherever_we_die(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    // Each place on the file; every third one on the server, where a walk takes longer.
    let step = match home {
        Home::Sqlite(_) => 1,
        Home::Postgres(_) => 3,
    };
    let mut fan = 0;
    for way in WAYS {
        for place in (1..).step_by(step) {
            fan += 2;
            let sandbox = Arc::new(ViaSandbox::new(SLOW));
            let walk = Walk {
                shop: &shop,
                fan,
                order: shop.bought(fan, 2, Some(way.token)).await,
                deadly: Deadly::new(&sandbox, place),
                sandbox,
            };
            for act in way.acts {
                walk.act(*act).await;
            }
            let name = format!("{}, dying at place {place}", way.name);
            walk.check(way, &name).await;
            shop.audit(2).await;
            // The house is empty again for the next one.
            let _ = shop.store.cancel(walk.order.id).await.unwrap();
            shop.clock.advance_ms(HOLD_MS);
            shop.orders.expire().step().await.unwrap();
            while shop.settle_with(walk.sandbox.clone()).step().await.unwrap() != Step::default() {}
            assert_eq!(shop.stock().await, (2, 0, 0), "{name}");
            if !walk.deadly.is_dead() {
                break; // that was the way without a death
            }
        }
    }
}

async fn what_is_slow_keeps_nobody_else_waiting(home: Home) {
    let shop = Shop::open(&home, &[("B", 80, false)]).await;
    let sandbox = Arc::new(ViaSandbox::new(Duration::from_secs(3_600)));
    let settle = Settle {
        call_max: Duration::from_secs(3_600),
        every: Duration::from_millis(20),
        ..shop.settle_with(sandbox.clone())
    };
    // More than are begun at once, all of them slow.
    for fan in 0..40 {
        shop.bought(fan, 1, Some("slow")).await;
    }
    let stop = CancellationToken::new();
    let mut run = Box::pin(settle.run(stop.clone()));
    let others = async {
        until("the provider thinks about all of them", || async {
            (sandbox.records().len() == 40).then_some(())
        })
        .await;
        let order = shop.bought(50, 1, None).await;
        until("the next one is confirmed", || async {
            let status = shop.read(50, order.id).await.status;
            (status == Status::Confirmed).then_some(())
        })
        .await;
    };
    tokio::select! {
        _ = &mut run => panic!("the loop ended by itself"),
        () = others => {}
    }
    stop.cancel();
    assert!(
        run.as_mut().now_or_never().is_none(),
        "it waits for what is under way"
    );
    shop.audit(80).await;
}
