//! Three servers under three sentinels: the primary is replaced, with and without its death, and joins
//! and ticks go on at another.

use std::time::{Duration, Instant};

use http::StatusCode;
use tokio_util::sync::CancellationToken;

use crate::chaos::joiners::Joiners;
use crate::chaos::site::Site;
use crate::chaos::watched::{Lone, Watched};
use crate::support::need::{Need, on_both};
use crate::support::until;

/// A failover is over in ten seconds; a busy machine may take three times that.
const FAILOVER_MAX: Duration = Duration::from_secs(30);

/// A failover from here to the next join that is answered.
struct Failover<'a> {
    site: &'a Site,
    joiners: &'a Joiners,
    generation: u64,
    since: Instant,
}

impl<'a> Failover<'a> {
    async fn begin(site: &'a Site, joiners: &'a Joiners) -> Self {
        Self {
            site,
            joiners,
            generation: generation(site).await.unwrap(),
            since: Instant::now(),
        }
    }

    /// Joins are answered by a room of a later life, ticks go on, and the promises are kept.
    async fn ends(self, what: &str) {
        let Self { site, .. } = self;
        until("the room is fenced and mended", || async {
            (self.generation < generation(site).await?).then_some(())
        })
        .await;
        until("joins go on", || async {
            (self.joiners.join(&site.gateway).await.status == 201).then_some(())
        })
        .await;
        let took = self.since.elapsed();
        eprintln!("{what}: joins go on after {took:.1?}");
        assert!(took < FAILOVER_MAX, "{what}: {took:?}");
        until("ticks go on", || async {
            (site.ready().await == (StatusCode::OK, "ok".to_owned())).then_some(())
        })
        .await;
        self.joiners.promises_are_kept(site.folder()).await;
    }
}

async fn generation(site: &Site) -> Option<u64> {
    site.board().await.body["generation"].as_u64()
}

/// Somebody asks for a failover: the old primary lives on as a replica.
async fn is_asked_for(watched: &Watched) {
    until("the sentinel agrees", || async {
        watched.sentinels[0].ask(&["failover", "main"])
    })
    .await;
}

async fn fails_over(need: &Need) {
    let Some(lone) = Lone::start(need, &[]) else {
        return;
    };
    let port = lone.primary.port();
    let mut watched = lone.watched_at(port).await;
    let site = Site::open(&watched.url, &[]).await;
    // Fans are called and pass all the while.
    site.change(r#"{"capacity": 20, "claim_ms": 1000}"#).await;
    let (joiners, stop) = (Joiners::default(), CancellationToken::new());
    let crowd = joiners.clone();
    let joining = tokio::spawn(crowd.keep_joining(site.gateway.clone(), stop.clone()));
    until("a hundred fans are in line", || async {
        (100 <= joiners.joined().len()).then_some(())
    })
    .await;

    let failover = Failover::begin(&site, &joiners).await;
    is_asked_for(&watched).await;
    failover.ends("asked for, of three").await;

    let failover = Failover::begin(&site, &joiners).await;
    let primary = watched.primary();
    drop(watched.servers.remove(primary)); // kill -9
    failover.ends("kill -9, of three").await;

    // Until sentinels have made the old primary follow, nobody does, and the new one may not write.
    let failover = Failover::begin(&site, &joiners).await;
    is_asked_for(&watched).await;
    failover.ends("asked for, of two").await;

    stop.cancel();
    joining.await.unwrap();
    let joined = joiners.joined();
    for (number, pass) in joined.iter().rev().step_by(1 + joined.len() / 50) {
        let status = until("the status is answered", || async {
            let status = site.status(pass).await;
            (status.status == 200).then_some(status.body)
        })
        .await;
        let is_over = matches!(status["state"].as_str(), Some("admitted" | "gone"));
        assert!(is_over || status["place"] == *number, "{number}: {status}");
    }
    joiners.promises_are_kept(site.folder()).await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_replaced_and_everything_goes_on_at_another() {
    on_both(fails_over).await;
}
