//! Where HTTP/2 runs its streams: among the server's own tasks, each for as long as it moves.
//!
//! A client may leave a stream's window at zero and answer every ping. Nothing on the connection is
//! late then, and what the stream holds (an upstream's answer, half sent) would be held for ever. A
//! stream in which nothing has moved for too long is dropped, which resets it. How long that is, its
//! request says; hyper hands a request to its service and runs the stream right after that, so the service
//! leaves the patience with it here.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::patience::Patience;
use crate::telemetry::metrics;

/// Runs the streams of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    /// The tasks of the server.
    tasks: TaskTracker,
    /// Ends them all.
    cut: CancellationToken,
    /// For whatever is run that is no request.
    usual: Patience,
    /// With the request whose stream is run next.
    next: Arc<Mutex<Option<Patience>>>,
}

impl Streams {
    /// Streams among these tasks, until they are cut.
    pub(crate) fn new(tasks: TaskTracker, cut: CancellationToken, usual: Patience) -> Self {
        let next = Arc::default();
        Self {
            tasks,
            cut,
            usual,
            next,
        }
    }

    /// The next stream is that of a request with this patience.
    pub(crate) fn expect(&self, patience: &Patience) {
        *self.lock() = Some(patience.clone());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Patience>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (cut, patience) = (self.cut.clone(), self.lock().take());
        let patience = patience.unwrap_or_else(|| self.usual.clone());
        self.tasks.spawn(async move {
            let moving = while_it_moves(stream, &patience);
            cut.run_until_cancelled(moving).await;
        });
    }
}

/// Runs a future until it is done or has not been woken for longer than the patience with it.
async fn while_it_moves(stream: impl Future<Output = ()>, patience: &Patience) {
    let (mut stream, mut still) = (pin!(stream), pin!(sleep(patience.still_max())));
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if still.is_elapsed() {
            metrics::refused_bytes("still");
            return Poll::Ready(());
        }
        still.as_mut().reset(Instant::now() + patience.still_max());
        still.as_mut().poll(cx)
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_move_ends() {
        let max = Patience::new(Duration::from_secs(50), Duration::from_secs(10));
        let from = Instant::now();
        while_it_moves(std::future::pending(), &max).await;
        assert_eq!(from.elapsed().as_secs(), 60);
        let from = Instant::now();
        let moving = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(50)).await;
            }
        };
        while_it_moves(moving, &max).await;
        assert_eq!(from.elapsed().as_secs(), 500);
        let from = Instant::now();
        let granted = async {
            max.grant(Duration::from_secs(300), Duration::from_secs(200));
            std::future::pending().await
        };
        while_it_moves(granted, &max).await;
        assert_eq!(from.elapsed().as_secs(), 210);
    }
}
