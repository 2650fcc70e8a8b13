//! The rows of the matrix: what can happen to the data of a room, and to those who could mend it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use catraca::base::ids::IdSource;
use catraca::room::model::command::{Joined, Joining, Origin};
use futures_util::future::join_all;

use crate::chaos::loss::fate::Fate;
use crate::chaos::loss::place::{Place, show, within};
use crate::chaos::loss::slow_disk;
use crate::support::need::Need;
use crate::support::redis::Server;
use crate::support::signpost::Signpost;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Flush,
    EmptyRestart,
    /// Killed with an append-only file that is flushed so often.
    Killed(&'static str),
    /// The same, while the disk is slow.
    KilledOnASlowDisk,
    /// The replica is cut off, many join, the primary dies, the replica takes over.
    RewindingFailover,
    ThereAndBack,
    /// A replica from before the last mend takes over.
    OldReplica,
    GatewayKilled,
    SqlStopped,
    /// At each step in turn.
    MenderKilled,
    TwoMenders,
}

/// Joins that are answered and then lost.
const LAST_JOINS: usize = 1_000;
/// Steps of a mend here: raise, begin, copy, read twice, fold, say what was lost, finish, say so.
const MEND_STEPS: usize = 9;
/// Where something is left to copy, two of its steps are to append it, and to ask for more.
const COPY_STEPS: std::ops::RangeInclusive<usize> = 3..=4;

impl Fault {
    /// The server that it happens to.
    pub(crate) fn server(self, need: &Need) -> Option<Server> {
        let file = |flushed| ["--appendonly", "yes", "--appendfsync", flushed];
        match self {
            Self::Killed(flushed) => Server::start_with(need, &file(flushed)),
            Self::KilledOnASlowDisk => {
                Server::start_under(need, &file("everysec"), slow_disk::library())
            }
            _ => Server::start(need),
        }
    }

    /// Lets it happen.
    pub(crate) async fn strike(self, place: &mut Place, need: &Need) {
        match self {
            Self::Flush => place.servers[0].tell(&["FLUSHALL"]),
            Self::EmptyRestart => {
                place.servers[0].die();
                place.servers[0].wipe_disk();
                place.servers[0].live_again();
            }
            Self::Killed(_) => {
                place.servers[0].die();
                place.servers[0].live_again();
            }
            Self::KilledOnASlowDisk => on_a_slow_disk(place).await,
            Self::RewindingFailover => rewind(place, need).await,
            Self::ThereAndBack => there_and_back(place, need).await,
            Self::OldReplica => old_replica(place, need).await,
            Self::GatewayKilled => {
                place.servers[0].tell(&["FLUSHALL"]);
                place.kill_gateway();
                place.open_gateway().await;
            }
            Self::SqlStopped => {
                place.sql_is_away.store(true, Ordering::SeqCst);
                place.servers[0].tell(&["FLUSHALL"]);
                tokio::time::sleep(Duration::from_secs(3)).await;
                place.sql_is_away.store(false, Ordering::SeqCst);
            }
            Self::MenderKilled => kill_menders(place).await,
            Self::TwoMenders => two_menders(place).await,
        }
    }
}

/// A second server that copies the first.
async fn replica(place: &mut Place, need: &Need) -> Signpost {
    let (replica, cable) = place.servers[0].copied(need).await;
    place.servers.push(replica);
    cable
}

/// The second server takes over.
fn promote(place: &mut Place) {
    place.servers[1].tell(&["REPLICAOF", "NO", "ONE"]);
    place.way.turn(place.servers[1].address());
    place.servers.swap(0, 1);
}

/// So many join at once, and are answered.
async fn join_at_once(place: &Place, count: usize) {
    let ids = IdSource::random();
    let joins = (0..count).map(|_| {
        let (fan, origin) = (ids.fan(), Origin::Minted);
        let rooms = place.rooms.clone();
        async move { rooms.join(&show(), Joining { fan, origin }).await }
    });
    for joined in join_all(joins).await {
        let joined = joined.unwrap();
        assert!(matches!(joined, Joined::New { .. }), "{joined:?}");
    }
}

/// While a flush hangs, the server keeps what it is told in memory, and answers.
async fn on_a_slow_disk(place: &mut Place) {
    slow_disk::slow_down();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    join_at_once(place, LAST_JOINS).await;
    place.servers[0].die();
    slow_disk::speed_up();
    place.servers[0].live_again();
}

async fn rewind(place: &mut Place, need: &Need) {
    let cable = replica(place, need).await;
    cable.cut();
    join_at_once(place, LAST_JOINS).await;
    place.servers[0].die();
    promote(place);
}

async fn there_and_back(place: &mut Place, need: &Need) {
    let _cable = replica(place, need).await;
    promote(place);
    mended(place, 2).await;
    let first = place.servers[0].address();
    let second = place.servers.pop().unwrap();
    let follows = tokio::task::spawn_blocking(move || {
        second.follow(first);
        second
    });
    place.servers.push(follows.await.unwrap());
    promote(place);
}

async fn old_replica(place: &mut Place, need: &Need) {
    let cable = replica(place, need).await;
    cable.cut();
    place.servers[0].tell(&["FLUSHALL"]);
    mended(place, 2).await;
    place.servers[0].die();
    promote(place);
}

/// One admitter after the other dies, each a step later than the last; the next loss comes while
/// fans still have time to come back from the one before.
async fn kill_menders(place: &mut Place) {
    place.kill_admitters().await;
    for steps in 0..MEND_STEPS {
        place.servers[0].tell(&["FLUSHALL"]);
        kill_mender(place, steps).await;
    }
    for steps in COPY_STEPS {
        // Who is there already, leaves: an entry that nobody copies. Then a promotion that lost nothing.
        let ids = IdSource::random();
        let (fan, origin) = (ids.fan(), Origin::Minted);
        let joining = Joining { fan, origin };
        place.rooms.join(&show(), joining).await.unwrap();
        place.rooms.leave(&show(), fan).await.unwrap();
        let room = format!("catraca:{{{}}}:room", show());
        place.servers[0].tell(&["HSET", &room, "replid", "another"]);
        kill_mender(place, steps).await;
    }
    place.admit("admitter-2", None).await;
}

/// A mender dies after so many steps, and another one finishes.
async fn kill_mender(place: &mut Place, steps: usize) {
    let fate = Fate::dies_after(steps);
    place.admit("doomed", Some(fate.clone())).await;
    let came = tokio::time::timeout(Duration::from_secs(20), fate.has_come.notified());
    came.await.expect("the mender reaches its last step");
    place.kill_admitters().await;
    let before = place.sql.get(&show()).await.unwrap().unwrap();
    place.admit("heir", None).await;
    let what = "the heir has finished the mend";
    within(what, Duration::from_secs(30), async || {
        let seen = place.sql.get(&show()).await.unwrap().unwrap();
        let is_done = seen.mended == seen.generation && before.mended < seen.mended;
        (is_done && place.board().await.is_some()).then_some(())
    })
    .await;
    place.kill_admitters().await;
}

/// Both find the room lost. The one that begins falls asleep in the middle, the other takes over, and
/// the sleeper wakes up to go on.
async fn two_menders(place: &mut Place) {
    place.kill_admitters().await;
    place.servers[0].tell(&["FLUSHALL"]);
    let sleeper = Fate::sleeps_after(2, Duration::from_secs(6));
    place.admit("sleeper", Some(sleeper.clone())).await;
    let slept = tokio::time::timeout(Duration::from_secs(20), sleeper.has_come.notified());
    slept.await.expect("it falls asleep");
    place.admit("admitter-2", None).await;
}

/// Waits until the room is whole in this generation, or a later one.
pub(crate) async fn mended(place: &Place, generation: u64) {
    within("the room is mended", Duration::from_secs(45), async || {
        let board = place.board().await?;
        (generation <= board.generation.0).then_some(())
    })
    .await;
}
