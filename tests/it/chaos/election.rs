//! Leaders die, sleep past their lease, hear no answers and have wrong clocks; the rate is exact, nobody
//! is called out of turn, and no room is too full.
//!
//! A drill is rounds of three parts. *Deaths*: leaders are killed, one after the other. *Calm*: a reply
//! is lost now and then, and the rate must be used. *Storm*: somebody ticks in the leader's name, rate
//! and window change, cables are cut, the leader sleeps past its lease and wakes, the server's clock is
//! set. In the end the ledger is judged.

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::chaos::crew::{Crew, Program, SIZE};
use crate::chaos::lines::{LINES, Lines};
use crate::chaos::stalls::Watch;
use crate::chaos::verdict::{Death, Outcome, judge};
use crate::support::cut::Fault;
use crate::support::need::{Need, REDIS, VALKEY};

/// How many leaders are killed when nobody asks for more.
const KILLS: usize = 10;
/// The variable that asks for more.
const KILLS_VARIABLE: &str = "CATRACA_DRILL_KILLS";
/// Deaths in one round.
const KILLS_PER_ROUND: usize = 25;
/// Longer than ten windows of a second, with what a start needs.
const CALM: Duration = Duration::from_secs(13);
/// How often the storm does something.
const GUST: Duration = Duration::from_millis(250);
const GUSTS: usize = 20;
/// An hour.
const STEP_MS: i64 = 3_600_000;
/// Longest wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lease and one second more: a successor's first call comes no later. Three times that is asserted,
/// for the machine may be busy.
const GAP_MS_MAX: i64 = 3_000;

/// How far the server's clock is set at a gust: there and back, back and there.
const fn clock_step(gust: usize) -> Option<i64> {
    match gust {
        0 | 12 => Some(STEP_MS),
        4 | 8 => Some(-STEP_MS),
        _ => None,
    }
}

/// A drill under way.
struct Drill {
    lines: Arc<Lines>,
    crew: Crew,
    program: Program,
    watch: Watch,
    deaths: Vec<Death>,
    kills: usize,
}

impl Drill {
    fn watch_all(&self) {
        let mut pids = self.crew.pids();
        pids.push(self.lines.server_pid());
        self.watch.look_at(pids);
    }

    /// The place of whoever leads a line, as soon as somebody does who lives and is not `but`.
    async fn leader(&self, line: usize, but: Option<usize>) -> usize {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let holder = self.lines.holder(line);
            let place = holder.and_then(|holder| self.crew.place_of(&holder));
            match place.filter(|place| Some(*place) != but) {
                Some(place) => return place,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("nobody leads {} in {PATIENCE:?}", LINES[line].0);
    }

    async fn everybody_led(&self) {
        for line in 0..LINES.len() {
            self.leader(line, None).await;
        }
    }

    /// Now and then a reply to a leader is lost.
    async fn calm(&self) {
        for line in [3, 1, 2] {
            tokio::time::sleep(CALM / 3).await;
            let leader = self.leader(line, None).await;
            self.crew.cable(leader).once(Fault::AfterRequest);
        }
    }

    /// The operator changes rate and window: through the API, where the admitters have one.
    async fn set(&self, line: usize, rate: u64, window_ms: u64) {
        match self.program {
            Program::Shipped => {
                let show = LINES[line].0;
                let change = json!({ "rate": rate, "window_ms": window_ms, "rate_max": 4_000 });
                let patch = format!("PATCH /admin/v1/shows/{show}");
                self.crew.tell(&patch, &change).await;
            }
            Program::WrongClock => self.lines.set(line, rate, window_ms).await,
        }
    }

    async fn storm(&self) {
        let rogue = async {
            loop {
                for line in 0..LINES.len() {
                    self.lines.tick_as_holder(line).await;
                }
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        };
        let since = self.lines.all_now();
        tokio::select! {
            () = rogue => {}
            () = self.gusts() => {}
        }
        self.lines.excuse_since(&since);
        for line in [2, 3] {
            self.sleep_past_lease(line).await;
        }
        for place in 0..SIZE {
            self.crew.cable(place).heal();
        }
        for (line, (_, rate, window_ms, _)) in LINES.iter().enumerate() {
            self.set(line, *rate, *window_ms).await;
        }
    }

    async fn gusts(&self) {
        let faults = [
            Fault::AfterRequest,
            Fault::BeforeRequest,
            Fault::MidReply(3),
            Fault::Silence,
        ];
        for gust in 0..GUSTS {
            let line = gust % 5;
            let (_, rate, window_ms, _) = LINES[line];
            let rate = [rate / 2, rate * 2, rate, 0][gust / 5 % 4].min(2_000);
            let window_ms = if gust % 3 == 0 {
                window_ms / 2
            } else {
                window_ms
            };
            self.set(line, rate, window_ms).await;
            self.crew
                .cable(gust % SIZE)
                .once(faults[gust % faults.len()]);
            if gust % 4 == 3 {
                self.crew.cable((gust + 1) % SIZE).heal();
            }
            if let (Program::WrongClock, Some(by_ms)) = (self.program, clock_step(gust)) {
                // What was seen so far was seen on the clock as it stood.
                self.lines.excuse(&self.watch.so_far());
                self.lines.step_clock(by_ms);
            }
            tokio::time::sleep(GUST).await;
        }
    }

    /// The leader of a line is stopped until another leads, and wakes in the belief that it still does.
    async fn sleep_past_lease(&self, line: usize) {
        let sleeper = self.leader(line, None).await;
        self.crew.signal(sleeper, "STOP");
        self.leader(line, Some(sleeper)).await;
        tokio::time::sleep(GUST).await;
        self.crew.signal(sleeper, "CONT");
        tokio::time::sleep(GUST).await;
    }

    async fn kill_a_leader(&mut self) {
        self.everybody_led().await;
        let victim = self.leader(self.kills % LINES.len(), None).await;
        let led: Vec<usize> = (0..LINES.len())
            .filter(|line| {
                let holder = self.lines.holder(*line);
                holder.and_then(|holder| self.crew.place_of(&holder)) == Some(victim)
            })
            .collect();
        let deaths = led.iter().map(|line| Death {
            line: *line,
            at: self.lines.now(*line),
        });
        let deaths: Vec<Death> = deaths.collect();
        self.crew.kill(victim);
        self.kills += 1;
        self.deaths.extend(deaths);
        for line in led {
            self.leader(line, Some(victim)).await;
        }
        self.crew.replace(victim);
        self.watch_all();
    }
}

/// One drill from start to verdict. `None` where the server is missing and may be.
async fn drill(need: &Need, program: Program, kills: usize) -> Option<Outcome> {
    let lines = Arc::new(Lines::open(need, program).await?);
    let crew = Crew::start(program, lines.folder.path(), lines.address()).await;
    let coming = Arc::clone(&lines);
    let fans = tokio::spawn(async move { coming.keep_coming().await });
    let mut drill = Drill {
        lines,
        crew,
        program,
        watch: Watch::begin(),
        deaths: Vec::new(),
        kills: 0,
    };
    // Rooms are born once: how several admitters mend one is another drill.
    drill.everybody_led().await;
    for _ in 1..SIZE {
        drill.crew.add(drill.lines.address()).await;
    }
    drill.watch_all();
    while drill.kills < kills {
        for _ in 0..KILLS_PER_ROUND.min(kills - drill.kills) {
            drill.kill_a_leader().await;
        }
        drill.calm().await;
        drill.storm().await;
        drill.lines.excuse(&drill.watch.so_far());
    }
    fans.abort();
    let Drill { lines, crew, .. } = drill;
    let faults = crew.end();
    let name = format!("{} with {program:?}", need.what);
    let outcome = judge(name, &lines, &drill.deaths).await;
    lines.database.close().await;
    Some(Outcome {
        kills: drill.kills,
        faults,
        ..outcome
    })
}

/// Which program with which server. A long drill has all four.
const DRILLS: [(&Need, Program); 4] = [
    (&REDIS, Program::Shipped),
    (&VALKEY, Program::WrongClock),
    (&REDIS, Program::WrongClock),
    (&VALKEY, Program::Shipped),
];

#[tokio::test(flavor = "multi_thread")]
async fn leaders_die_and_every_promise_holds() {
    let kills = env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let drills = &DRILLS[..if KILLS < kills { 4 } else { 2 }];
    let each = kills.div_ceil(drills.len());
    let all = drills
        .iter()
        .map(|(need, program)| drill(need, *program, each));
    let outcomes = join_all(all).await;
    for outcome in outcomes.iter().flatten() {
        eprintln!("{outcome}");
    }
    for outcome in outcomes.iter().flatten() {
        assert!(
            outcome.broken().is_empty(),
            "a promise is broken: {outcome}"
        );
        assert_eq!(outcome.tokens_fell, 0, "somebody led with an old token");
        assert_eq!(outcome.generations, 1, "no room was lost");
        let longest = outcome.gaps_ms.last().copied().unwrap_or_default();
        assert!(longest <= 3 * GAP_MS_MAX, "{longest} ms without a call");
    }
}
