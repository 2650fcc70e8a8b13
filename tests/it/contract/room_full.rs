//! A server that has no memory left: nobody new gets a number, and everything else goes on.

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::base::time::Timestamp;
use catraca::room::Store;
use catraca::room::keys::{Key, SHOWS};
use catraca::room::model::command::{
    AfterRevoke, Checked, Claimed, Command, Consumed, Extended, Folded, Joined, Left, Mend, Mended,
    Origin, Outcome, Restored, Restoring, Revoked, RoomState,
};

use crate::contract::room::{joining, show};
use crate::contract::room_in_redis::Home;
use crate::model::world::{fan, new_room, settings};
use crate::support::need::{Need, on_both};

async fn takes_nobody_new(need: &Need) {
    let Some(home) = Home::begin(need).await else {
        return;
    };
    let rooms = &home.rooms;
    for n in 1..=9 {
        home.join(n).await.unwrap();
    }
    home.call(2).await;
    home.meddle(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(home.join(10).await.unwrap(), Joined::OutOfMemory);
    // One who is new harms nobody who asks in the same call.
    let asked = [9, 11, 11, 1].map(|n| joining(n, Origin::Known));
    let command = Command::Join {
        joining: asked.into(),
    };
    let kept = |n| Joined::Kept { number: Number(n) };
    let joined = [kept(9), Joined::OutOfMemory, Joined::OutOfMemory, kept(1)];
    let told = home.store.apply(&show(), &command).await.unwrap();
    assert_eq!(told, Outcome::Joined(joined.into()));

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_nobody_new_and_serves_those_it_has() {
    on_both(takes_nobody_new).await;
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
    home.meddle(&["DEL", SHOWS]);
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
    let refused = rooms.restore(&show(), forgotten).await.unwrap();
    assert_eq!(refused, Restored::OutOfMemory);
    assert_eq!(home.call(3).await, 3);
    // And the others who ask in the same call come back, or in.
    let command = Command::Restore {
        restoring: vec![forgotten, pass(5), pass(9)],
    };
    let told = home.store.apply(&show(), &command).await.unwrap();
    let Outcome::Restored(told) = told else {
        panic!("{told:?}");
    };
    assert_eq!(told[0], Restored::OutOfMemory);
    let is_first = matches!(
        told[1],
        Restored::Known(Claimed::Admitted { first: true, .. })
    );
    assert!(is_first, "{told:?}");
    let waits = Claimed::Waiting { number: Number(9) };
    assert_eq!(told[2], Restored::Known(waits));
    // The list of shows was lost as well. There was no memory for it; now there is.
    assert!(rooms.shows().await.unwrap().is_empty());
    home.meddle(&["CONFIG", "SET", "maxmemory", "0"]);
    rooms.ledger(&show(), 1).await.unwrap();
    assert_eq!(rooms.shows().await.unwrap(), [show()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_mended() {
    on_both(is_mended).await;
}
