//! Two rooms that are told the same, the definition's and the scripts'; and what SQL would know of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use catraca::base::ids::{FanId, Number, Place, ShowId};
use catraca::base::limits::{LEASE_TTL_MS, PRESENT_MS};
use catraca::base::time::Timestamp;
use catraca::room::Store;
use catraca::room::draw::{self, Draw, DrawSecret, Seed, Table};
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::model::command::{
    Command, Configure, Drawn, Joined, Joining, Origin, Outcome, RoomState, Settings, Tick,
};
use catraca::room::model::{Facts, Standing, State, apply};

use crate::model::happenings::{Happening, Lasting, Wrong};
use crate::model::histories::Event;
use crate::model::world::{announced, at, fan, settings, tick};
use crate::model::{keyspace, own_clock};
use crate::support::chain;
use crate::support::redis::Server;

/// Both rooms, and what SQL would know of them.
pub(crate) struct Twins<'a> {
    pub(super) clock: ScriptClock,
    pub(super) runtime: &'a Runtime,
    pub(super) scripts: &'a InRedis,
    pub(super) redis: redis::Connection,
    pub(super) show: ShowId,
    pub(super) room: State,
    pub(super) now: Timestamp,
    pub(crate) settings: Settings,
    pub(super) version: u64,
    pub(super) edition: u64,
    pub(crate) generation: u64,
    /// The passes of this edition: the last number of each fan.
    pub(super) numbers: BTreeMap<FanId, Number>,
    /// The first number of each fan, where a loss let them join again.
    pub(super) firsts: BTreeMap<FanId, Number>,
    pub(super) minted: u64,
    /// The draw of this edition as SQL has it, and its table once it is open.
    pub(super) draw: Option<Draw>,
    pub(super) table: Option<Table>,
}

impl<'a> Twins<'a> {
    pub(crate) fn new(
        clock: ScriptClock,
        runtime: &'a Runtime,
        scripts: &'a InRedis,
        server: &Server,
    ) -> Self {
        let mut redis = server.connection();
        redis::cmd("FLUSHALL").exec(&mut redis).unwrap();
        let mut settings = settings();
        (settings.claim_ms, settings.ticket_ttl_ms) = (2_000, 5_000);
        (settings.capacity, settings.waiting_max) = (12, 30);
        settings.ticket_ttl_max_ms = 9_000;
        own_clock::shorten(clock, &mut settings);
        Self {
            clock,
            runtime,
            scripts,
            redis,
            show: "twins".parse().unwrap(),
            room: State::default(),
            now: at(10_000),
            settings,
            version: 1,
            edition: 1,
            generation: 0,
            numbers: BTreeMap::new(),
            firsts: BTreeMap::new(),
            minted: 100,
            draw: None,
            table: None,
        }
    }

    /// Tells both, and says how their answers differ.
    pub(super) fn say(&mut self, command: &Command) -> Result<(), TestCaseError> {
        if self.clock == ScriptClock::Key {
            own_clock::set(&mut self.redis, &self.show, self.now);
        }
        let told = self
            .runtime
            .block_on(self.scripts.apply(&self.show, command));
        let told =
            told.map_err(|error| TestCaseError::fail(format!("{command:?}: {}", chain(&error))))?;
        if self.clock == ScriptClock::Server {
            self.now = own_clock::told(&mut self.redis, &self.show).unwrap_or(self.now);
        }
        let meant = apply(&mut self.room, self.now, command);
        prop_assert_eq!(&told, &meant, "{:?} at {}", command, self.now);
        if let (Command::Join { joining }, Outcome::Joined(answers)) = (command, &meant) {
            for (joining, answer) in joining.iter().zip(answers) {
                if let Joined::New { number } = answer {
                    self.numbers.insert(joining.fan, *number);
                    self.firsts.entry(joining.fan).or_insert(*number);
                }
            }
        }
        // SQL keeps size and seed when the room has answered; nobody else may open another draw.
        if let (Command::Freeze | Command::OpenDraw { .. }, true) = (command, self.room.is_whole())
        {
            self.draw = self.room.facts().draw.or(self.draw);
        }
        if let Some((size, seed)) = self.draw.and_then(|draw| Some((draw.size, draw.seed?))) {
            self.table = Some(Table::new(&seed, size));
        }
        Ok(())
    }

    /// What the draw gave the fan's number, if the fan took part.
    pub(super) fn drawn_place(&self, fan: FanId) -> Option<Place> {
        self.place_of(*self.numbers.get(&fan)?)
    }

    /// What the draw gave this number, if it took part.
    pub(super) fn place_of(&self, number: Number) -> Option<Place> {
        let table = self.table.as_ref()?;
        (number.0 <= table.size()).then(|| table.place(number))
    }

    /// A seed of this edition's; wrong: another.
    fn seed(&self, wrong: Wrong) -> Seed {
        let salt = self.edition + if wrong == Wrong::Seed { 1_000 } else { 0 };
        draw::seed(&self.show, &DrawSecret([7; 32]), "", salt)
    }

    /// So many fans join, and the draw is held; nothing happens where there are none.
    pub(crate) fn hold_draw(&mut self, fans: u64) -> Result<(), TestCaseError> {
        if fans == 0 {
            return Ok(());
        }
        let origin = Origin::Known;
        let joining = (0..fans).map(|n| Joining {
            fan: fan(n),
            origin,
        });
        let joining = joining.collect();
        self.say(&Command::Join { joining })?;
        self.open_draw(3, Wrong::Nothing)
    }

    /// The operator opens; the draw is frozen; it is opened. More steps: the operator thinks better of
    /// it in between.
    fn open_draw(&mut self, steps: usize, wrong: Wrong) -> Result<(), TestCaseError> {
        if 0 < steps {
            self.configure(Some(RoomState::Open))?;
        }
        if 1 < steps {
            self.say(&Command::Freeze)?;
        }
        if steps == 4 {
            self.configure(Some(RoomState::Paused))?;
        }
        if steps == 5 {
            self.settings.draw = None;
            self.configure(None)?;
            self.say(&Command::Tick(tick(1)))?;
        }
        if 2 < steps {
            let size = self.draw.map_or(3, |draw| draw.size);
            self.say(&Command::OpenDraw {
                size: size + u64::from(wrong == Wrong::Number),
                seed: self.seed(wrong),
            })?;
        }
        Ok(())
    }

    /// Window by window, ticks call by the draw, and the called buy.
    fn go_through_draw(&mut self, windows: usize) -> Result<(), TestCaseError> {
        for _ in 0..windows {
            self.now = own_clock::wait(self.clock, self.now, self.settings.window_ms + 1);
            let command = self.tick_drawn(12, 12, Wrong::Nothing);
            self.say(&command)?;
            for (fan, standing) in self.room.fans().collect::<Vec<_>>() {
                if matches!(standing, Standing::Called { .. }) {
                    let joining = vec![Joining {
                        fan,
                        origin: Origin::Known,
                    }];
                    self.say(&Command::Join { joining })?;
                    self.say(&Command::Consume { fan })?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn tick_drawn(&self, want: u64, names: usize, wrong: Wrong) -> Command {
        let Facts { serving, .. } = self.room.facts();
        let drawn = self.table.as_ref().map(|table| Drawn {
            seed: match wrong {
                Wrong::Seed => self.seed(wrong),
                Wrong::Nothing | Wrong::Number | Wrong::More => table.seed(),
            },
            serving: Place(serving.0 + u64::from(wrong == Wrong::Number)),
            numbers: {
                let late = [1, 2].map(|n| Number(table.size() + n));
                let late = late.into_iter().filter(|_| wrong == Wrong::More);
                table.next(serving, names).into_iter().chain(late).collect()
            },
        });
        Command::Tick(Tick {
            drawn,
            ..tick(want)
        })
    }

    fn say_verbs(&mut self, states: Vec<RoomState>) -> Result<(), TestCaseError> {
        states.into_iter().try_for_each(|state| {
            self.now = self.now.plus_ms(7);
            self.configure(Some(state))
        })
    }

    pub(super) fn configure(&mut self, verb: Option<RoomState>) -> Result<(), TestCaseError> {
        self.version += 1;
        self.say(&Command::Configure(Configure {
            version: self.version,
            settings: self.settings.clone(),
            verb: verb.map(|state| (self.version, state)),
        }))
    }

    /// What was said last is said again with other words.
    fn repeat(&mut self, state: RoomState, news: u64) -> Result<(), TestCaseError> {
        let said = self.version;
        self.version += news;
        let mut settings = self.settings.clone();
        settings.rate += 1;
        if 0 < news {
            self.settings = settings.clone();
        }
        self.say(&Command::Configure(Configure {
            version: self.version,
            settings,
            verb: Some((said, state)),
        }))
    }

    fn mint(&mut self, between: &[Option<u64>]) -> Command {
        let mut joining = Vec::new();
        for known in between {
            joining.extend(known.map(|n| Joining {
                fan: fan(n),
                origin: Origin::Known,
            }));
            self.minted += 1;
            let minted = fan(self.minted);
            joining.push(Joining {
                fan: minted,
                origin: Origin::Minted,
            });
        }
        Command::Join { joining }
    }

    const fn lasting_ms(&self, lasting: Lasting) -> u64 {
        match lasting {
            Lasting::Window => self.settings.window_ms,
            Lasting::Slot => self.settings.claim_ms,
            Lasting::Ticket => self.settings.ticket_ttl_ms,
            Lasting::Lease => LEASE_TTL_MS,
            Lasting::Presence => PRESENT_MS,
        }
    }

    pub(crate) fn happen(&mut self, happening: &Happening) -> Result<(), TestCaseError> {
        match happening.clone() {
            Happening::Daily(event) => self.pass_day(event),
            Happening::Say(command) => self.say(&command),
            Happening::Verbs(states) => self.say_verbs(states),
            Happening::StockAsCapacity(seats) => self.stock_as_capacity(seats),
            Happening::Again(state, news) => self.repeat(state, news),
            Happening::Turn(turn) => self.take_turn(turn),
            Happening::OnTheDot(when, off_ms, turn) => self.wait_until(when, off_ms, turn),
            Happening::Mint(between) => {
                let command = self.mint(&between);
                self.say(&command)
            }
            Happening::Hours(hours) => {
                let [early, opens, closes] = hours.map(|hour| hour.map(at));
                (self.settings.early_at, self.settings.opens_at) = (early, opens);
                self.settings.closes_at = closes;
                self.configure(None)
            }
            Happening::HoursNow => self.hours_come_now(),
            Happening::Guard(waiting_max) => {
                self.settings.waiting_max = waiting_max;
                self.settings.stock_guard = waiting_max % 3 != 0;
                self.configure(None)
            }
            Happening::Announce(draws) => {
                self.settings.draw = draws.then(announced);
                self.configure(None)
            }
            Happening::Sleep(fans, more_ms) => self.sleep(fans, more_ms),
            Happening::Opening(steps, wrong) => self.open_draw(steps, wrong),
            Happening::DrawThrough(windows) => self.go_through_draw(windows),
            Happening::TickDrawn(want, names, wrong) => {
                let command = self.tick_drawn(want, names, wrong);
                self.say(&command)
            }
            Happening::Wait(ms) => {
                self.now = own_clock::wait(self.clock, self.now, ms);
                Ok(())
            }
            Happening::WaitFor(lasting, more_ms) => {
                let ms = self.lasting_ms(lasting) + more_ms;
                self.now = own_clock::wait(self.clock, self.now, ms);
                Ok(())
            }
            Happening::Lose => {
                self.compare()?;
                self.lose();
                Ok(())
            }
            Happening::Begin {
                generations,
                is_found,
                editions,
            } => {
                let mended = u64::from(is_found) * self.room.facts().generation.0;
                self.begin_anew([generations, editions], mended)
            }
            Happening::Copy(through, max, behind) => self.copy(through, max, behind),
            Happening::Fold(folded, behind) => self.say(&self.fold(folded, behind)),
            Happening::Restore(passes) => {
                let shown = passes.into_iter().map(|(n, pass)| (fan(n), pass));
                self.say(&self.restore(shown, 0))
            }
            Happening::LoseAndMend(ordeals) => ordeals
                .into_iter()
                .try_for_each(|ordeal| self.lose_and_mend(ordeal)),
            Happening::Finish(state, numbers, stock) => self.finish(state, numbers, stock),
        }
    }

    fn pass_day(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Clock(ms) => {
                self.now = at((self.now.as_millis() + ms).max(0));
                return Ok(());
            }
            Event::Say(command) => return self.say(&command),
            Event::Verb(state) => return self.configure(Some(state)),
            Event::Rate(rate) => self.settings.rate = rate,
            Event::Window(window_ms) => self.settings.window_ms = window_ms,
            Event::Capacity(capacity) => self.settings.capacity = capacity,
            Event::Presence(is_asked) => self.settings.require_presence = is_asked,
        }
        self.configure(None)
    }

    /// What is left in the end is the same.
    pub(crate) fn compare(&mut self) -> Result<(), TestCaseError> {
        self.say(&Command::Ledger { max: usize::MAX })?;
        let meant = keyspace::expected(&self.room.facts(), self.room.is_whole());
        let mut held = keyspace::dump(&mut self.redis, &self.show);
        if !self.room.is_whole() {
            // A mend that gave no numbers wrote so; a counter at 0 is as good as none.
            held.retain(|key, fields| *key != "seq" || fields["value"] != "0");
        }
        if !self.room.is_whole() && self.room.facts().mending.is_none() {
            // Of a lost room only the fans count: what else is left, the next mend does not read.
            held.remove("room");
            // A mend that gave no numbers wrote so; a counter at 0 is as good as none.
            held.retain(|key, fields| *key != "seq" || fields["value"] != "0");
            let mut meant = meant;
            meant.remove("room");
            prop_assert_eq!(held, meant);
            return Ok(());
        }
        prop_assert_eq!(held, meant);
        Ok(())
    }
}
