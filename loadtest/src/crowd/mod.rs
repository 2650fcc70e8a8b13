//! The crowd: every fan a small state, one heap of intended moments, a bounded set of connections.
//!
//! [`plan`] says what each fan wants, [`conductor`] when a request goes out, [`ask`] what it is,
//! [`pool`] carries it, [`wire`] reads the answer, [`life`] what the fan makes of it. [`world`] is
//! what all fans share.

pub mod ask;
pub mod board;
pub mod clock;
pub mod conductor;
pub mod fan;
pub mod latency;
pub mod life;
pub mod mailbox;
pub mod plan;
pub mod pool;
pub mod progress;
pub mod signals;
pub mod wire;
pub mod world;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::cli::Settings;
use crate::crowd::clock::Clock;
use crate::crowd::conductor::{Conductor, Ended, Tag};
use crate::crowd::pool::{Job, Manner, Pool, Trouble};
use crate::crowd::progress::Progress;
use crate::crowd::signals::Signals;
use crate::crowd::world::World;
use crate::history::History;
use crate::judge::messages::{self, Due, Verdict};
use crate::report::Report;

/// How long a server may take to listen before the crowd gives up.
const FIRST_BOARD_MS: u64 = 30_000;

/// Takes the report's folder for this run. Whoever waits for a crowd waits for this lock.
fn take(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
    file.try_lock()
        .with_context(|| format!("another crowd reports into {}", folder.display()))?;
    Ok(file)
}

/// Sends the crowd, waits until it is over, and writes the report.
///
/// # Errors
/// There is no such show, nobody listens, or a file cannot be written. Faults are no error: they are
/// in the report.
pub async fn run(settings: Settings) -> anyhow::Result<Report> {
    std::fs::create_dir_all(&settings.report)
        .with_context(|| format!("making {}", settings.report.display()))?;
    let _lock = take(&settings.report)?;
    let history = match &settings.history {
        Some(path) => History::in_file(path)?,
        None => History::nowhere(),
    };
    let mut signals = Signals::listen()?;
    let clock = Clock::start();
    let mut pool = Pool::start(
        &settings.authority,
        clock,
        usize::from(settings.connections),
    );
    let mut world = World::new(settings, clock, history);
    first_board(&mut world, &mut pool).await?;
    let mut conductor = Conductor::new(world, pool);
    let mut progress = Progress::new(clock.now());
    let ended = conductor.run(&mut signals, &mut progress).await;
    progress.finish();
    conductor.close_history();
    let mail = match ended {
        Ended::Everybody | Ended::Time => wait_for_mail(&conductor.world, &mut signals).await?,
        Ended::Asked => judge_mail(&conductor.world)?,
    };
    conductor.world.history.close()?;
    let folder = conductor.world.settings.report.clone();
    let report = Report::of(conductor, ended, mail);
    report.write(&folder)?;
    Ok(report)
}

/// Reads the board until somebody listens; a show that is not there is said at once.
async fn first_board(world: &mut World, pool: &mut Pool<Tag>) -> anyhow::Result<()> {
    let deadline = world.clock.now().plus_ms(FIRST_BOARD_MS);
    loop {
        let request = ask::board(world);
        pool.send(Job {
            tag: Tag::of_the_crowd(world.clock.now()),
            request,
            manner: Manner::Read,
        });
        let reply = pool.reply().await;
        let why = match reply.result {
            Ok(answer) if answer.status == 200 => {
                let called = world.counts.called;
                world.board.read(reply.done, &answer.body, called);
                return Ok(());
            }
            Ok(answer) if answer.status == 404 => {
                bail!(
                    "no show `{}` at http://{}",
                    world.settings.show,
                    world.settings.authority
                )
            }
            Ok(answer) => answer.excerpt(),
            Err(Trouble::NotSent(why) | Trouble::Lost(why)) => why,
        };
        if deadline < world.clock.now() {
            bail!("no board from http://{}: {why}", world.settings.authority);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The messages of all confirmed orders, as soon as all are there or the time for it is over.
async fn wait_for_mail(world: &World, signals: &mut Signals) -> anyhow::Result<Option<Verdict>> {
    let deadline = world
        .clock
        .now()
        .plus_ms(world.settings.mail_wait_s * 1_000);
    loop {
        let verdict = judge_mail(world)?;
        let complete = verdict.as_ref().is_none_or(Verdict::is_complete);
        if complete || deadline < world.clock.now() {
            return Ok(verdict);
        }
        tokio::select! {
            () = signals.asked() => return Ok(verdict),
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
}

fn judge_mail(world: &World) -> anyhow::Result<Option<Verdict>> {
    let Some(folder) = &world.settings.mail_dir else {
        return Ok(None);
    };
    let messages = mailbox::read(folder)?;
    let dues: Vec<Due<'_>> = world
        .bought
        .iter()
        .map(|bought| Due {
            order_id: &bought.order_id,
            locale: bought.locale.tag(),
        })
        .collect();
    Ok(Some(messages::judge(&dues, &messages)))
}
