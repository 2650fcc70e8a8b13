//! Where groups stand, by what the inbox said last. One answer serves a whole turn through the partitions:
//! what is handled of one moves no other. It is never ahead of the group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::log::inbox::Stands;

/// By group, the inbox's last answer.
#[derive(Debug, Default)]
pub(super) struct Standings(Mutex<BTreeMap<String, Known>>);

#[derive(Debug)]
struct Known {
    stands: Stands,
    /// The partitions that this answer has served; the second time it is old.
    served: BTreeSet<u16>,
}

impl Standings {
    /// Where the group stands, for a look at this partition.
    pub(super) async fn of<E>(
        &self,
        group: &str,
        partition: u16,
        asked: impl Future<Output = Result<Stands, E>>,
    ) -> Result<Stands, E> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get_mut(group)
            && known.served.insert(partition)
        {
            return Ok(known.stands.clone());
        }
        let stands = asked.await?;
        let answer = Known {
            stands: stands.clone(),
            served: BTreeSet::from([partition]),
        };
        known().insert(group.to_owned(), answer);
        Ok(stands)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn one_answer_serves_one_turn_through_the_partitions() {
        let (standings, times) = (Standings::default(), Mutex::new(0));
        let look = async |group: &str, partition| {
            let asked = async {
                let mut times = times.lock().unwrap();
                *times += 1;
                let next = BTreeMap::from([(partition, *times)]);
                Ok::<_, Infallible>(Stands {
                    next,
                    ..Stands::default()
                })
            };
            standings.of(group, partition, asked).await.unwrap();
        };
        for (turn, first) in [(1, 0), (2, 4), (3, 2)] {
            for step in 0..6 {
                look("notify", (first + step) % 6).await;
            }
            assert_eq!(*times.lock().unwrap(), turn);
        }
        look("stock", 0).await;
        assert_eq!(*times.lock().unwrap(), 4, "each group has its own");
        look("notify", 2).await;
        look("notify", 2).await;
        assert_eq!(
            *times.lock().unwrap(),
            6,
            "the same partition again is a new turn"
        );
    }
}
