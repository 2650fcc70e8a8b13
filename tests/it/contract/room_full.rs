//! A server that has no memory left: nobody new gets a number, and everything else goes on.

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::base::time::Timestamp;
use catraca::room::StoreError;
use catraca::room::keys::Key;
use catraca::room::model::command::{
    AfterRevoke, Checked, Claimed, Consumed, Extended, Folded, Joined, Left, Mend, Mended, Origin,
    Restored, Restoring, Revoked, RoomState,
};

use crate::contract::room::{joining, show};
use crate::contract::room_in_redis::Home;
use crate::model::world::{fan, new_room, settings};
use crate::support::need::{Need, REDIS, on_both};

#[tokio::test]
async fn a_full_server_takes_nobody_new_and_serves_those_it_has() {
    let Some(home) = Home::begin(&REDIS).await else {
        return;
    };
    let rooms = &home.rooms;
    for n in 1..=9 {
        home.join(n).await.unwrap();
    }
    home.call(2).await;
    home.meddle(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = home.join(10).await;
    assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    let kept = rooms
        .join(&show(), joining(9, Origin::Known))
        .await
        .unwrap();
    assert_eq!(kept, Joined::Kept { number: Number(9) });

    assert_eq!(home.call(6).await, 6);
    for n in 1..=4 {
        let claimed = rooms.claim(&show(), fan(n)).await.unwrap();
        assert!(
            matches!(claimed, Claimed::Admitted { first: true, .. }),
            "{claimed:?}"
        );
    }
    let checked = rooms.check(&show(), fan(1)).await.unwrap();
    assert!(matches!(checked, Checked::Live { .. }), "{checked:?}");
    let later = rooms.board(&show()).await.unwrap().now.plus_ms(800_000);
    let extended = rooms.extend(&show(), fan(1), later).await.unwrap();
    assert_eq!(extended, Extended::Until(later));
    assert_eq!(rooms.consume(&show(), fan(1)).await.unwrap(), Consumed::Now);
    assert_eq!(rooms.leave(&show(), fan(2)).await.unwrap(), Left::Now);
    let revoked = rooms
        .revoke(&show(), vec![fan(3)], AfterRevoke::Returned)
        .await
        .unwrap();
    assert_eq!(revoked, [Revoked::Now]);
    assert_eq!(rooms.ledger(&show(), 1).await.unwrap()[0].seq, 1);
    rooms.trim(&show(), 2).await.unwrap();

    home.meddle(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(
        home.join(10).await.unwrap(),
        Joined::New { number: Number(10) }
    );
}

/// What begins the second life of the room.
const SECOND: (Edition, Generation) = (Edition(1), Generation(2));

/// A pass of the first life.
fn pass(n: u64) -> Restoring {
    Restoring {
        fan: fan(n),
        number: Number(n),
        edition: Edition(1),
        generation: Generation(1),
        place: None,
    }
}

/// The steps of a mend: the first was called, the second is inside, and serving has passed the fourth.
fn second_life(until: Timestamp) -> [Mend; 4] {
    let (edition, generation) = SECOND;
    let mended = Generation(1);
    let folded = [
        (
            1,
            Folded::Called {
                until,
                place: Place(1),
            },
        ),
        (
            2,
            Folded::Claimed {
                until,
                place: Place(2),
            },
        ),
    ];
    let [_, Mend::Finish(mut finish)] = new_room(settings(), RoomState::Open) else {
        panic!("a room is made by two steps");
    };
    (finish.generation, finish.serving) = (generation, Place(4));
    [
        Mend::Begin {
            edition,
            generation,
            mended,
        },
        Mend::Copy {
            generation,
            through: 0,
            max: 10,
        },
        Mend::Fold {
            generation,
            folded: folded.map(|(n, folded)| (fan(n), folded)).into(),
        },
        Mend::Finish(finish),
    ]
}

/// It starts anew, with all that it had: that is a loss, and the room is mended without more memory.
async fn is_mended(need: &Need) {
    let Some(home) = Home::begin(need).await else {
        return;
    };
    let rooms = &home.rooms;
    for n in 1..=9 {
        home.join(n).await.unwrap();
    }
    home.call(2).await;
    let until = rooms.board(&show()).await.unwrap().now.plus_ms(60_000);
    home.meddle(&["HSET", &Key::Room.of(&show()), "replid", "0123456789abcdef"]);
    home.meddle(&["CONFIG", "SET", "maxmemory", "1"]);
    for step in second_life(until) {
        let done = rooms.mend(&show(), step).await.unwrap();
        let is_done = matches!(
            done,
            Mended::Done
                | Mended::Found {
                    issued: Number(9),
                    ..
                }
        );
        assert!(is_done, "{done:?}");
    }

    let board = rooms.board(&show()).await.unwrap();
    assert_eq!((board.waiting, board.live, board.serving), (7, 2, Place(4)));
    let first = rooms.restore(&show(), pass(1)).await.unwrap();
    let is_inside = matches!(
        first,
        Restored::Known(Claimed::Admitted { first: true, .. })
    );
    assert!(is_inside, "{first:?}");
    let checked = rooms.check(&show(), fan(1)).await.unwrap();
    assert!(matches!(checked, Checked::Live { .. }), "{checked:?}");
    // Nobody comes back who would need memory.
    let forgotten = Restoring {
        fan: fan(77),
        ..pass(5)
    };
    let refused = rooms.restore(&show(), forgotten).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert_eq!(home.call(3).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_mended() {
    on_both(is_mended).await;
}
