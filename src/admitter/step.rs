//! One visit to one show: bring the room up to SQL's word, and tick.

use std::time::Duration;

use tokio::time::Instant;

use crate::admitter::ask::rhythm;
use crate::admitter::draw::{Turn, is_unsealed};
use crate::admitter::mend::{Attempt, Begun, is_whole, mend};
use crate::admitter::pace::{Pace, Seen};
use crate::admitter::patience::{Elsewhere, Unfinished};
use crate::admitter::settings::configure;
use crate::admitter::{Admitter, VisitError};
use crate::base::limits::{LEASE_TTL_MS, TICK_EVERY_MS};
use crate::room::StoreError as RoomError;
use crate::room::model::command::{Board, RoomState, Step, Tick, Ticked, Why};
use crate::show::Show;
use crate::telemetry::metrics;

const TICK_EVERY: Duration = Duration::from_millis(TICK_EVERY_MS);
/// After a tick that could not look far enough.
const AT_ONCE: Duration = Duration::from_millis(1);
/// How often a board is read, and a follower asks for the lead; the longest rest after failures.
const SECOND: Duration = Duration::from_secs(1);

/// What an admitter remembers of one show between two visits.
#[derive(Debug)]
pub struct Led {
    tick_at: Instant,
    board_at: Instant,
    board: Option<Board>,
    pace: Option<Pace>,
    /// When the last answered tick was sent.
    ticked_at: Option<Instant>,
    /// Visits that failed, one after another.
    failures: u32,
    pub(super) turn: Turn,
    /// A mend that somebody has begun and not finished.
    unfinished: Option<Unfinished>,
    /// A later life of the room than the one that answered.
    elsewhere: Option<Elsewhere>,
    /// A mend of our own that may be tried again.
    begun: Option<Begun>,
}

impl Led {
    /// A show that has not been visited yet, due now.
    pub fn new(now: Instant) -> Self {
        Self {
            tick_at: now,
            board_at: now,
            board: None,
            pace: None,
            ticked_at: None,
            failures: 0,
            turn: Turn::default(),
            unfinished: None,
            elsewhere: None,
            begun: None,
        }
    }

    /// Whether this admitter leads the show, as far as it knows.
    pub fn leads(&self) -> bool {
        self.pace.is_some()
    }

    /// When the show is due again.
    pub fn due_at(&self) -> Instant {
        self.tick_at
    }

    /// Whether the show is due: by the clock, or because an operator has changed it.
    pub fn is_due(&self, now: Instant, show: &Show) -> bool {
        self.due_at() <= now || self.is_behind(show)
    }

    /// Whether the room has yet to be told what SQL says.
    fn is_behind(&self, show: &Show) -> bool {
        self.board
            .as_ref()
            .is_some_and(|board| board.version < show.version)
    }

    /// The next attempt after a failure: soon after the first, for a reply that is lost must not cost
    /// the line a second; later and later while the room is away.
    fn fail(&mut self) {
        let doubled = TICK_EVERY * 2_u32.pow(self.failures.min(4));
        self.failures = self.failures.saturating_add(1);
        self.tick_at = Instant::now() + doubled.min(SECOND);
        self.board = None;
    }
}

impl Admitter {
    pub(super) async fn visit(&mut self, show: &Show, led: &mut Led) {
        let now = Instant::now();
        let visited = if is_unsealed(show) {
            led.tick_at = now + TICK_EVERY;
            self.seal(show).await
        } else {
            self.try_visit(show, led, now).await
        };
        let outcome = match visited {
            Err(VisitError::Room(RoomError::Unfenced)) => self.mend(show, led).await,
            Err(VisitError::Replaced) => self.mend_unless_elsewhere(show, led).await,
            other => other,
        };
        match outcome {
            Ok(()) => led.failures = 0,
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(show.id = %show.id, "cannot tick: {error:#}");
                led.fail();
            }
        }
        if led.leads() {
            self.leading.begin(&show.id, show.edition);
        } else {
            self.leading.end(&show.id);
        }
    }

    async fn try_visit(
        &mut self,
        show: &Show,
        led: &mut Led,
        now: Instant,
    ) -> Result<(), VisitError> {
        if led.board.is_none() || led.is_behind(show) || led.board_at <= now {
            self.read_board(show, led, now).await?;
        }
        if led.tick_at <= now {
            self.tick(show, led, now).await?;
        }
        Ok(())
    }

    /// Reads the board, and tells the room what SQL decided since.
    async fn read_board(
        &mut self,
        show: &Show,
        led: &mut Led,
        now: Instant,
    ) -> Result<(), VisitError> {
        led.board_at = now + SECOND;
        let mut board = self.rooms.board(&show.id).await?;
        if (board.edition, board.generation) < (show.edition, show.generation) {
            return Err(VisitError::Replaced);
        }
        if board.version < show.version {
            self.rooms.configure(&show.id, configure(show)).await?;
            board = self.rooms.board(&show.id).await?;
        }
        metrics::room(show.id.as_str(), board.waiting, board.live, board.uncopied);
        led.board = Some(board);
        Ok(())
    }

    async fn tick(&mut self, show: &Show, led: &mut Led, now: Instant) -> Result<(), VisitError> {
        let Some(board) = led.board.clone() else {
            return Ok(());
        };
        let seen = seen_of(&board);
        let pace = led.pace.get_or_insert_with(|| Pace::resume(board.measured));
        let since = led.ticked_at.map_or(Duration::ZERO, |at| now - at);
        let (asked, measured) = (pace.ask(seen, since), pace.measured());
        let tick = Tick {
            holder: self.holder.clone(),
            want: asked.want,
            lease_ttl_ms: LEASE_TTL_MS,
            measured,
            drawn: led.drawn(&board, asked.want).await,
        };
        match self.rooms.tick(&show.id, tick).await? {
            Ticked::Follower { holder } => {
                metrics::tick("follower");
                tracing::debug!(show.id = %show.id, lease.holder = holder, "another admitter leads");
                (led.pace, led.ticked_at) = (None, None);
                led.turn = Turn::default();
                led.tick_at = now + SECOND;
            }
            Ticked::Leader(step) => {
                metrics::tick(step.why.word());
                metrics::called(step.count);
                let pace = led.pace.get_or_insert_default();
                pace.after(self.clock.now(), asked, &step, seen);
                led.ticked_at = Some(now);
                led.turn.at = step.draw.map(|draw| (draw, step.serving));
                led.tick_at = now + rest(&step, seen);
                if board.state != step.state {
                    tracing::info!(show.id = %show.id, state = step.state.word(), "room state");
                    led.board_at = now;
                }
                if step.opening {
                    self.draw_lots(show, &step).await?;
                }
            }
        }
        Ok(())
    }

    /// What a leader does before it goes: copies the rest of the ledger, gives up the lease.
    pub(super) async fn resign(&mut self, show: &Show) {
        let resigned = async {
            let board = self.archive.take_checkpoint(&show.id, show.edition).await?;
            let tick = Tick {
                holder: self.holder.clone(),
                want: 0,
                lease_ttl_ms: 0,
                measured: board.measured,
                drawn: None,
            };
            self.rooms.tick(&show.id, tick).await?;
            Ok::<(), VisitError>(())
        };
        if let Err(error) = resigned.await {
            let error = anyhow::Error::from(error);
            tracing::warn!(show.id = %show.id, "cannot copy the rest of the ledger: {error:#}");
        }
    }

    /// Mends a room that is behind, unless the life that SQL knows of goes on at another server.
    async fn mend_unless_elsewhere(
        &mut self,
        show: &Show,
        led: &mut Led,
    ) -> Result<(), VisitError> {
        let Some(current) = self.shows.get(&show.id).await? else {
            return Ok(());
        };
        let now = Instant::now();
        let elsewhere = Elsewhere::seen(led.elsewhere, &current, now);
        if !elsewhere.is_some_and(|life| life.may_go_on()) {
            return self.mend(show, led).await;
        }
        *led = Led::new(now + TICK_EVERY);
        led.elsewhere = elsewhere;
        Ok(())
    }

    /// Mends a room that is lost or behind, unless somebody else is at it.
    async fn mend(&mut self, show: &Show, led: &mut Led) -> Result<(), VisitError> {
        let now = Instant::now();
        let before = std::mem::replace(led, Led::new(now + TICK_EVERY));
        led.failures = before.failures;
        (led.unfinished, led.begun) = (before.unfinished, before.begun);
        led.elsewhere = before.elsewhere;
        // The list may be a second old; a mend goes by what SQL says now.
        let Some(current) = self.shows.get(&show.id).await? else {
            return Ok(());
        };
        let now = Instant::now();
        led.begun = led.begun.filter(|begun| begun.is_latest(&current));
        led.unfinished = Unfinished::seen(led.unfinished, &current, now);
        if led.begun.is_none() && led.unfinished.is_some_and(|mend| mend.may_go_on()) {
            return Ok(());
        }
        if is_whole(&self.rooms, &current).await? {
            self.listed_at = None;
            return Ok(());
        }
        let (shows, split_brain_ms) = (self.shows.as_ref(), self.split_brain_ms);
        match mend(&self.rooms, shows, &current, &mut led.begun, split_brain_ms).await? {
            Attempt::Whole(generation) => {
                metrics::mend("whole");
                tracing::info!(show.id = %show.id, generation = generation.0, "room is whole");
                self.listed_at = None;
            }
            Attempt::Overtaken => metrics::mend("overtaken"),
        }
        Ok(())
    }
}

/// How long to rest after a tick: as the pace has it, or until the quota frees something, or a second
/// where nothing can happen but by an operator's hand.
fn rest(step: &Step, seen: Seen) -> Duration {
    // There is more to look at, or a place to go on from that was not known.
    if matches!(step.why, Why::Looked | Why::Moved) {
        return AT_ONCE;
    }
    match step.state {
        RoomState::Closed | RoomState::SoldOut | RoomState::Off => SECOND,
        RoomState::Scheduled
        | RoomState::Early
        | RoomState::Open
        | RoomState::Paused
        | RoomState::Restoring => {
            let free_in = step.free_in_ms.map(|ms| Duration::from_millis(ms.max(1)));
            let rhythm = rhythm(seen.window_ms);
            free_in.map_or(rhythm, |free_in| free_in.min(rhythm))
        }
    }
}

fn seen_of(board: &Board) -> Seen {
    Seen {
        rate: board.settings.rate,
        window_ms: board.settings.window_ms,
        free: board.stock.map(|stock| stock.free),
        sold: board.stock.map(|stock| stock.sold),
    }
}
