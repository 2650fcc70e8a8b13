//! The loop: a heap of intended moments, a pool of connections, and the fans between them.
//!
//! Whatever is due first goes first, as soon as a connection is free. So the queue in front of the
//! pool is the heap itself: ordered by due time, and bounded by what fans plan to do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::crowd::ask;
use crate::crowd::clock::Moment;
use crate::crowd::fan::{Fan, FanNo, Stage, Step};
use crate::crowd::life::{self, line};
use crate::crowd::plan::{Door, Planner, Quirk};
use crate::crowd::pool::{Job, Manner, Pool, Reply};
use crate::crowd::progress::{Progress, Tally};
use crate::crowd::signals::Signals;
use crate::crowd::world::{Heard, World};
use crate::history::Facts;

/// How often the crowd reads the board for everybody.
const BOARD_EVERY_MS: u64 = 1_000;
/// A sleeper comes back so long after the slot has lapsed: the board they saw may be that old.
const OVERSLEEP_MS: u64 = 2_000;

/// What comes back with a reply.
#[derive(Debug, Clone, Copy)]
pub struct Tag {
    fan_no: FanNo,
    step: Step,
    due: Moment,
}

impl Tag {
    /// A reading of the board for everybody.
    pub const fn of_the_crowd(due: Moment) -> Self {
        Self {
            fan_no: FanNo::MAX,
            step: Step::Board,
            due,
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Nothing more was going to happen to any fan.
    Everybody,
    /// `--for-s` was over.
    Time,
    /// Somebody asked to stop.
    Asked,
}

/// Seconds after the end of a show in which whoever is in line must have been told, twice over.
const IN_VAIN_S: f64 = 120.0;

/// Everything that runs.
#[derive(Debug)]
pub struct Conductor {
    pub world: World,
    pub fans: Vec<Fan>,
    pub tally: Tally,
    pool: Pool<Tag>,
    due: BinaryHeap<Reverse<(Moment, FanNo, Step)>>,
    over_seen: bool,
}

impl Conductor {
    /// Makes the crowd: every fan with a plan and an intended moment of arrival.
    pub fn new(world: World, pool: Pool<Tag>) -> Self {
        let settings = &world.settings;
        let planner = Planner {
            seed: settings.seed,
            arrive_ms: settings.arrive_ms,
            think_ms: settings.think_ms,
            shares: &settings.shares,
        };
        let fans: Vec<Fan> = (0..settings.fans)
            .map(|no| Fan::new(planner.plan(no)))
            .collect();
        let start = world.clock.now();
        let mut due = BinaryHeap::with_capacity(fans.len() + 1);
        for (fan, fan_no) in fans.iter().zip(0..) {
            let at = start.plus_us(fan.plan.arrives_us);
            let first = if fan.plan.door == Door::Plain {
                Step::Page
            } else {
                Step::Join
            };
            due.push(Reverse((at, fan_no, first)));
            if fan.plan.quirk == Quirk::JoinsTwice {
                due.push(Reverse((at, fan_no, Step::Twin)));
            }
        }
        due.push(Reverse((start, FanNo::MAX, Step::Board)));
        let tally = Tally::of(&fans);
        Self {
            world,
            fans,
            tally,
            pool,
            due,
            over_seen: false,
        }
    }

    /// Runs until nothing more is going to happen, time is up, or somebody asks to stop.
    pub async fn run(&mut self, signals: &mut Signals, progress: &mut Progress) -> Ended {
        let deadline = self
            .world
            .clock
            .now()
            .plus_ms(self.world.settings.for_s * 1_000);
        let deadline = self.world.clock.instant(deadline);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        while 0 < self.tally.open() && !self.waits_in_vain() {
            self.dispatch();
            let next = self.next_due();
            tokio::select! {
                biased; // the end first, then what is there, then what is due
                () = signals.asked() => return Ended::Asked,
                () = sleep_until(deadline) => return Ended::Time,
                _ = second.tick() => progress.show(&mut self.world, &self.tally),
                reply = self.pool.reply() => self.hear(&reply),
                () = sleep_until(next.unwrap_or(deadline)), if next.is_some() => {}
            }
        }
        Ended::Everybody
    }

    /// Whether the show ended long ago and those still in line are not told: the report says so.
    fn waits_in_vain(&self) -> bool {
        let now = self.world.clock.now();
        let only_waiting = self.tally.open() == self.tally.waiting;
        let over = self.world.board.over.map(|over| now.seconds_since(over));
        only_waiting && over.is_some_and(|seconds| IN_VAIN_S < seconds)
    }

    /// When something is next to be sent; none while no connection is free to send it.
    fn next_due(&self) -> Option<Instant> {
        let Reverse((moment, _, _)) = self.due.peek().filter(|_| self.pool.has_idle())?;
        Some(self.world.clock.instant(*moment))
    }

    /// Sends what is due, as far as connections are free.
    fn dispatch(&mut self) {
        let now = self.world.clock.now();
        while self.pool.has_idle()
            && let Some(Reverse((due, fan_no, step))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            if step == Step::Board {
                let request = ask::board(&self.world);
                let tag = Tag::of_the_crowd(due);
                self.pool.send(Job {
                    tag,
                    request,
                    manner: Manner::Read,
                });
                continue;
            }
            if self.fans[fan_no as usize].wants(step) {
                self.start(Tag { fan_no, step, due }, now);
            }
        }
    }

    /// Starts a step of a fan.
    fn start(&mut self, tag: Tag, now: Moment) {
        let fan = &mut self.fans[tag.fan_no as usize];
        match tag.step {
            Step::ReadBoard => {
                let before = fan.stage;
                line::reads_board(&self.world, fan, now);
                self.tally.moved(before, fan.stage);
                return;
            }
            Step::Join | Step::Twin | Step::Form => {
                fan.join_sent = fan.join_sent.or(Some(now));
            }
            Step::Leave => fan.leaving = true,
            Step::Hold => {
                if let Some(turn) = fan.turn.as_deref_mut() {
                    turn.asked_hold = true;
                }
            }
            Step::Order => {
                if let Some(turn) = fan.turn.as_deref_mut() {
                    turn.asked_orders = turn.asked_orders.saturating_add(1);
                }
            }
            _ => {}
        }
        let request = ask::request(&self.world, tag.fan_no, fan, tag.step);
        let loses =
            tag.step == Step::Join && fan.plan.quirk == Quirk::LosesAnswer && fan.troubles == 0;
        let manner = match (loses, fan.plan.seats % 2) {
            (false, _) => Manner::Read,
            (true, 0) => Manner::CutAtOnce,
            (true, _) => Manner::CutWhenAnswered,
        };
        self.pool.send(Job {
            tag,
            request,
            manner,
        });
    }

    /// Hands a reply to its fan, or to everybody where it is the board.
    fn hear(&mut self, reply: &Reply<Tag>) {
        let Tag { fan_no, step, due } = reply.tag;
        if let Ok(answer) = &reply.result {
            self.world.latency.record(step, due, reply.sent, reply.done);
            if step == Step::Board {
                return self.read_board(reply.done, answer.status, &answer.body);
            }
        } else if step == Step::Board {
            self.world.counts.lost += 1;
            let again = reply.done.plus_ms(BOARD_EVERY_MS);
            self.due.push(Reverse((again, FanNo::MAX, Step::Board)));
            return;
        }
        let fan = &mut self.fans[fan_no as usize];
        let before = fan.stage;
        let next = match &reply.result {
            Ok(answer) => {
                let untroubled = fan.troubles == 0;
                let heard = Heard {
                    step,
                    sent: reply.sent,
                    done: reply.done,
                    answer,
                    untroubled,
                };
                life::answered(&mut self.world, fan_no, fan, &heard)
            }
            Err(trouble) => {
                let moments = (reply.sent, reply.done);
                life::troubled(&mut self.world, (fan_no, fan), step, moments, trouble)
            }
        };
        self.tally.moved(before, fan.stage);
        if fan.has_ended() && !fan.plan.orders_again {
            // Only a repeat of the order still compares with what the fan was told.
            (fan.turn, fan.pass) = (None, None);
        }
        for (at, step) in next {
            self.due.push(Reverse((at, fan_no, step)));
        }
    }

    fn read_board(&mut self, done: Moment, status: u16, body: &[u8]) {
        self.due.push(Reverse((
            done.plus_ms(BOARD_EVERY_MS),
            FanNo::MAX,
            Step::Board,
        )));
        if status != 200 {
            self.world.counts.unavailable += 1;
            return;
        }
        let sold_max = match self.world.board.seats {
            Some(_) => 0, // of interest only until the board has told what is left
            None => self.sold_max(),
        };
        if let Some((fault, text)) = self.world.board.read(done, body, sold_max) {
            self.world.faults.add(fault, &text);
        }
        self.wake_sleepers(done);
        if self.world.board.over.is_some() && !self.over_seen {
            self.over_seen = true;
            for (fan, fan_no) in self.fans.iter().zip(0..) {
                if let Some((at, step)) = line::after_the_end(&self.world, fan_no, fan, done) {
                    self.due.push(Reverse((at, fan_no, step)));
                }
            }
        }
    }

    /// Seats that the crowd has bought by now, at most: the shop knows sooner than the buyer does.
    fn sold_max(&self) -> u64 {
        let ordered = self.fans.iter().map(Fan::seats_ordered);
        self.world.sales.seats + ordered.sum::<u64>()
    }

    /// Sleepers whose place was reached come back after their slot has lapsed.
    fn wake_sleepers(&mut self, now: Moment) {
        let late = now.plus_ms(self.world.settings.claim_ms + OVERSLEEP_MS);
        while let Some(sleeper) = self.world.sleepers.first().copied()
            && sleeper.place <= self.world.board.serving()
        {
            self.world.sleepers.pop_first();
            self.due.push(Reverse((late, sleeper.fan_no, Step::Status)));
        }
    }

    /// Writes what was still open when the run ended, so that a checker knows.
    pub fn close_history(&mut self) {
        for (fan, fan_no) in self.fans.iter().zip(0..) {
            if !fan.has_ended() && fan.stage != Stage::Coming {
                let now = self.world.clock.now().us();
                self.world.history.write(&crate::history::Line {
                    show: &self.world.settings.show,
                    op: "open",
                    fan_no,
                    sent_us: now,
                    done_us: now,
                    outcome: crate::history::Outcome::Ok,
                    js: fan.plan.door == Door::Script,
                    facts: Facts {
                        number: fan.number,
                        ..Facts::default()
                    },
                });
            }
        }
    }
}
