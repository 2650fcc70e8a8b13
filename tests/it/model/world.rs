//! One room and its clock, in short words.

use std::collections::BTreeMap;

use catraca::base::ids::{Edition, FanId, Generation, Number, Place};
use catraca::base::time::Timestamp;
use catraca::room::draw::{Announced, Commitment};
use catraca::room::fold::Fold;
use catraca::room::model::command::{
    Board, Claimed, Command, Configure, Finish, Folded, Joined, Joining, LedgerEntry, Measured,
    Mend, Mended, Origin, Outcome, Restored, Restoring, RoomState, Settings, Step, Stock, Tick,
    Ticked,
};
use catraca::room::model::{State, apply};

/// The n-th fan of a test.
pub(crate) fn fan(n: u64) -> FanId {
    FanId((u128::from(n) << 64 | 0xFA).to_be_bytes())
}

/// An instant of room time.
pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

/// A small show: ten a second, a minute to claim, five minutes inside.
pub(crate) fn settings() -> Settings {
    Settings {
        name: "Stadium Show".into(),
        rate: 10,
        window_ms: 1_000,
        capacity: 1_000,
        claim_ms: 60_000,
        ticket_ttl_ms: 300_000,
        ticket_ttl_max_ms: 900_000,
        waiting_max: 1_000_000,
        restore_per_s: 1_000,
        stock_guard: true,
        ..Settings::default()
    }
}

/// A draw to come, without a beacon.
pub(crate) fn announced() -> Announced {
    Announced {
        commitment: Commitment([0; 32]),
        beacon: None,
        revealed: None,
    }
}

/// What makes a new room of these settings, in this state.
pub(crate) fn new_room(settings: Settings, state: RoomState) -> [Mend; 2] {
    let (edition, generation) = (Edition(1), Generation(1));
    let begin = Mend::Begin {
        edition,
        generation,
        mended: Generation(0),
    };
    let finish = Finish {
        generation,
        configure: Configure {
            version: 1,
            settings,
            verb: None,
        },
        state,
        serving: Place(0),
        known: Number(0),
        issued: Number(0),
        ceiling: Number(1_000_000),
        not_before: at(0),
        restoring_ms: 0,
        stock: None,
        draw: None,
    };
    [begin, Mend::Finish(Box::new(finish))]
}

/// A tick of the admitter "a".
pub(crate) fn tick(want: u64) -> Tick {
    Tick {
        holder: "a".into(),
        want,
        lease_ttl_ms: 2_000,
        measured: Measured::default(),
        drawn: None,
    }
}

/// What the shop says for the n-th time.
pub(crate) fn stock(version: u64, free: u64, held: u64) -> Stock {
    Stock {
        version,
        free,
        held,
        sold: 100,
        as_of: at(0),
    }
}

/// A room and the time at it.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) room: State,
    pub(crate) now: Timestamp,
    version: u64,
}

impl World {
    /// An open room, ten seconds after the epoch.
    pub(crate) fn open(settings: Settings) -> Self {
        Self::begin(settings, RoomState::Open)
    }

    /// A room that begins in this state.
    pub(crate) fn begin(settings: Settings, state: RoomState) -> Self {
        Self::born(new_room(settings, state))
    }

    /// The room that these steps make.
    pub(crate) fn born(steps: [Mend; 2]) -> Self {
        let mut world = Self {
            room: State::default(),
            now: at(10_000),
            version: 1,
        };
        for step in steps {
            assert_eq!(world.mend(step), Mended::Done);
        }
        world
    }

    pub(crate) fn say(&mut self, command: &Command) -> Outcome {
        apply(&mut self.room, self.now, command)
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    pub(crate) fn join(&mut self, n: u64) -> Joined {
        self.join_all(&[n])[0]
    }

    pub(crate) fn join_all(&mut self, fans: &[u64]) -> Vec<Joined> {
        let joining = fans.iter().map(|n| Joining {
            fan: fan(*n),
            origin: Origin::Known,
        });
        match self.say(&Command::Join {
            joining: joining.collect(),
        }) {
            Outcome::Joined(answers) => answers,
            other => panic!("{other:?}"),
        }
    }

    /// Ticks as the leader.
    pub(crate) fn tick(&mut self, want: u64) -> Step {
        match self.say(&Command::Tick(tick(want))) {
            Outcome::Ticked(Ticked::Leader(step)) => step,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn claim(&mut self, n: u64) -> Claimed {
        match self.say(&Command::Claim { fans: vec![fan(n)] }) {
            Outcome::Claimed(answers) => answers[0],
            other => panic!("{other:?}"),
        }
    }

    /// The fan shows the pass they got at join.
    pub(crate) fn restore(&mut self, n: u64, number: u64) -> Restored {
        self.show(Restoring {
            fan: fan(n),
            number: Number(number),
            edition: Edition(1),
            generation: Generation(1),
            place: None,
        })
    }

    pub(crate) fn show(&mut self, pass: Restoring) -> Restored {
        match self.say(&Command::Restore {
            restoring: vec![pass],
        }) {
            Outcome::Restored(answers) => answers[0],
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn board(&mut self) -> Board {
        match self.say(&Command::Board) {
            Outcome::Board(board) => *board,
            other => panic!("{other:?}"),
        }
    }

    /// Changes the settings, and nothing else.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.board().settings;
        change(&mut settings);
        self.configure(settings, None);
    }

    /// The operator says the word.
    pub(crate) fn verb(&mut self, state: RoomState) {
        let settings = self.board().settings;
        self.configure(settings, Some(state));
    }

    fn configure(&mut self, settings: Settings, verb: Option<RoomState>) {
        self.version += 1;
        let version = self.version;
        let verb = verb.map(|state| (version, state));
        self.say(&Command::Configure(Configure {
            version,
            settings,
            verb,
        }));
    }

    /// Reads and trims the whole ledger.
    pub(crate) fn copy_ledger(&mut self) -> Vec<LedgerEntry> {
        let entries = match self.say(&Command::Ledger { max: usize::MAX }) {
            Outcome::Ledger(entries) => entries,
            other => panic!("{other:?}"),
        };
        if let Some(last) = entries.last() {
            self.say(&Command::Trim { through: last.seq });
        }
        entries
    }

    pub(crate) fn mend(&mut self, step: Mend) -> Mended {
        match self.say(&Command::Mend(step)) {
            Outcome::Mended(mended) => mended,
            other => panic!("{other:?}"),
        }
    }
}

/// What SQL knows of a room: enough to put it together again.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    pub(crate) generation: u64,
    pub(crate) mended: u64,
    pub(crate) ceiling: u64,
    pub(crate) known: u64,
    pub(crate) settings: Settings,
    pub(crate) state: RoomState,
    /// By generation and number: what is there stays as it is.
    pub(crate) ledger: BTreeMap<(Generation, u64), LedgerEntry>,
}

impl Sql {
    pub(crate) fn of(world: &mut World) -> Self {
        let board = world.board();
        Self {
            generation: 1,
            mended: 1,
            ceiling: board.ceiling.0,
            known: 0,
            settings: board.settings,
            state: board.state,
            ledger: BTreeMap::new(),
        }
    }

    /// Copies the ledger and takes a checkpoint.
    pub(crate) fn copy(&mut self, world: &mut World) {
        self.keep(world.copy_ledger());
        self.known = world.board().issued.0;
        self.mended = self.generation;
    }

    /// Keeps entries of the ledger.
    pub(crate) fn keep(&mut self, entries: Vec<LedgerEntry>) {
        for entry in entries {
            self.ledger
                .entry((entry.generation, entry.seq))
                .or_insert(entry);
        }
    }

    /// The steps that mend a lost room whose ledger is copied. Raises generation and ceiling first,
    /// as the mender does.
    pub(crate) fn mend(&mut self, restoring_ms: u64) -> Vec<Mend> {
        let begin = self.begin();
        std::iter::once(begin)
            .chain(self.rest(restoring_ms))
            .collect()
    }

    /// Raises generation and ceiling; the first step of a mend.
    pub(crate) fn begin(&mut self) -> Mend {
        self.generation += 1;
        self.ceiling += 1_000;
        Mend::Begin {
            edition: Edition(1),
            generation: Generation(self.generation),
            mended: Generation(self.mended),
        }
    }

    /// The question for what is left, when everything up to this entry is copied.
    pub(crate) const fn left_after(&self, through: u64) -> Mend {
        Mend::Copy {
            generation: Generation(self.generation),
            through,
            max: 2,
        }
    }

    /// The steps after the copy.
    pub(crate) fn rest(&self, restoring_ms: u64) -> Vec<Mend> {
        let generation = Generation(self.generation);
        let mut fold = Fold::default();
        self.ledger.values().for_each(|entry| fold.read(entry));
        let folded: Vec<(FanId, Folded)> = fold.fans.into_iter().collect();
        let finish = Finish {
            generation,
            configure: Configure {
                version: 1_000,
                settings: self.settings.clone(),
                verb: None,
            },
            state: self.state,
            serving: fold.serving,
            known: Number(self.known.max(fold.serving.0)),
            issued: Number(self.ceiling - 1_000),
            ceiling: Number(self.ceiling),
            not_before: fold.at,
            restoring_ms,
            stock: None,
            draw: None,
        };
        let folds = folded.chunks(3).map(|part| Mend::Fold {
            generation,
            folded: part.to_vec(),
        });
        folds.chain([Mend::Finish(Box::new(finish))]).collect()
    }
}
