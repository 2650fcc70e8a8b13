//! Where HTTP/2 runs its streams: among the server's own tasks, each for as long as it moves.
//!
//! A client may leave a stream's window at zero and answer every ping. Nothing on the connection is
//! late then, and what the stream holds (an upstream's answer, half sent) would be held for ever. A
//! stream in which nothing has moved for too long is dropped, which resets it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::telemetry::metrics;

/// Runs streams.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    /// The tasks of the server.
    pub(crate) tasks: TaskTracker,
    /// Ends them all.
    pub(crate) cut: CancellationToken,
    /// How long nothing may move in a stream.
    pub(crate) still_max: Duration,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (cut, still_max) = (self.cut.clone(), self.still_max);
        self.tasks.spawn(async move {
            let moving = while_it_moves(stream, still_max);
            cut.run_until_cancelled(moving).await;
        });
    }
}

/// Runs a future until it is done or has not been woken for `still_max`.
async fn while_it_moves(stream: impl Future<Output = ()>, still_max: Duration) {
    let (mut stream, mut still) = (pin!(stream), pin!(sleep(still_max)));
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if still.is_elapsed() {
            metrics::refused_bytes("still");
            return Poll::Ready(());
        }
        still.as_mut().reset(Instant::now() + still_max);
        still.as_mut().poll(cx)
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_move_ends() {
        let max = Duration::from_secs(60);
        let from = Instant::now();
        while_it_moves(std::future::pending(), max).await;
        assert_eq!(from.elapsed().as_secs(), 60);
        let from = Instant::now();
        let moving = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(50)).await;
            }
        };
        while_it_moves(moving, max).await;
        assert_eq!(from.elapsed().as_secs(), 500);
    }
}
