//! How many of a process's connections a crowd may have at once: never all of them. So whoever wants seats of
//! another show finds one free, however many rush this one, and whatever they wait for there. Of SQLite's one
//! connection that writes it is places in its line.
//!
//! Of one section it is fewer than of its show: where somebody has locked the seats of one, the others still
//! sell. Who finds their share in use waits in line here, where that costs the database nothing, and no longer
//! than anybody waits for a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::ids::ShowId;
use crate::orders::rules::hold::{PlaceHold, Wish};
use crate::telemetry::metrics;

/// Connections that the buyers of one section, those of one show, and all payments have at most. They are
/// as many as one show needs to sell all that the process can, and a quarter of those that there are.
const OF_SECTION: usize = 3;
const OF_SHOW: usize = 4;
const OF_PAYMENTS: usize = 4;

/// Whose share a unit of work takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// The buyers who want the best seats of a section. They are buyers of its show as well.
    Section(ShowId, String),
    /// The buyers of a show.
    Show(ShowId),
    /// Payments that are settled, of all shows.
    Payments,
}

impl Whose {
    /// Who asks for seats.
    pub(super) fn holding(request: &PlaceHold) -> Self {
        let show = request.buyer.show.clone();
        match &request.wish {
            Wish::Best { section, .. } => Self::Section(show, section.clone()),
            Wish::Named(_) => Self::Show(show),
        }
    }

    const fn connections(&self) -> usize {
        match self {
            Self::Section(..) => OF_SECTION,
            Self::Show(_) => OF_SHOW,
            Self::Payments => OF_PAYMENTS,
        }
    }
}

/// The shares of one process. Only those that somebody uses or waits for are remembered.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<BTreeMap<Whose, Arc<Semaphore>>>);

/// A connection may be used until this value goes.
#[derive(Debug)]
pub(super) struct Share {
    _own: OwnedSemaphorePermit,
    _of_show: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Waits for a share, first come first served.
    pub(super) async fn take(&self, whose: &Whose) -> Share {
        let own = self.one(whose).await;
        let of_show = match whose {
            Whose::Section(show, _) => Some(self.one(&Whose::Show(show.clone())).await),
            Whose::Show(_) | Whose::Payments => None,
        };
        Share {
            _own: own,
            _of_show: of_show,
        }
    }

    async fn one(&self, whose: &Whose) -> OwnedSemaphorePermit {
        let all = self.all(whose);
        if all.available_permits() == 0 {
            metrics::share_waited();
        }
        let one = all.acquire_owned().await;
        one.expect("nobody closes a share")
    }

    fn all(&self, whose: &Whose) -> Arc<Semaphore> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = known.get(whose) {
            return Arc::clone(all);
        }
        // Whoever has some of a share, or waits for it, has a handle of their own.
        known.retain(|_, all| 1 < Arc::strong_count(all));
        let all = Arc::new(Semaphore::new(whose.connections()));
        known.insert(whose.clone(), Arc::clone(&all));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn show(name: &str) -> Whose {
        Whose::Show(name.parse().unwrap())
    }

    fn section(name: &str) -> Whose {
        Whose::Section("show".parse().unwrap(), name.to_owned())
    }

    /// The share, where nobody has to wait for it.
    fn at_once(shares: &Shares, whose: &Whose) -> Option<Share> {
        match pin!(shares.take(whose)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(share) => Some(share),
            Poll::Pending => None,
        }
    }

    fn as_many_as_there_are(shares: &Shares, whose: &Whose) -> Vec<Share> {
        std::iter::from_fn(|| at_once(shares, whose)).collect()
    }

    #[test]
    fn nobody_takes_what_is_anothers() {
        let shares = Shares::default();
        let mut hot = as_many_as_there_are(&shares, &show("hot"));
        assert_eq!(hot.len(), OF_SHOW);
        assert_eq!(as_many_as_there_are(&shares, &show("calm")).len(), OF_SHOW);
        drop(hot.pop());
        assert!(at_once(&shares, &show("hot")).is_some(), "one came back");
        assert_eq!(
            as_many_as_there_are(&shares, &Whose::Payments).len(),
            OF_PAYMENTS
        );
    }

    #[test]
    fn a_section_leaves_some_of_its_show_to_the_others() {
        let shares = Shares::default();
        let hot = as_many_as_there_are(&shares, &section("hot"));
        assert_eq!(hot.len(), OF_SECTION);
        let others = as_many_as_there_are(&shares, &section("calm"));
        assert_eq!(hot.len() + others.len(), OF_SHOW);
        assert!(at_once(&shares, &show("show")).is_none());
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let shares = Shares::default();
        let kept = at_once(&shares, &show("kept"));
        for n in 0..1_000 {
            assert!(at_once(&shares, &show(&format!("show-{n}"))).is_some());
        }
        assert_eq!(shares.0.lock().unwrap().len(), 2);
        drop(kept);
    }
}
