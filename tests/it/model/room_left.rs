//! Promise 3: what a lost room still holds is copied before it is emptied, and its time goes on.

use catraca::base::ids::Number;
use catraca::room::model::command::{Claimed, Command, Gone, Mended, Restored};

use crate::model::room_loss::{copy_what_is_left, lost, mend};
use crate::model::world::{Sql, World, at, fan, settings};

#[test]
fn what_was_not_copied_is_copied_before_the_room_is_emptied() {
    for (mended, counts) in [(1, true), (0, false)] {
        let mut world = World::open(settings());
        let mut sql = Sql::of(&mut world);
        world.join_all(&(1..=10).collect::<Vec<_>>());
        world.tick(3);
        sql.copy(&mut world);
        world.claim(1);
        world.say(&Command::Consume { fan: fan(1) });
        world.say(&Command::Leave { fan: fan(7) });
        sql.mended = mended;
        world.room.lose();
        // The first mender dies after a page; the second finds what the first has not copied.
        for dies in [true, false] {
            let begin = sql.begin();
            assert_eq!(world.mend(begin), Mended::Done);
            let Mended::Found {
                issued, entries, ..
            } = world.mend(sql.left_after(0))
            else {
                panic!("stale");
            };
            assert_eq!(
                (issued, entries.len()),
                if counts {
                    (Number(10), 2)
                } else {
                    (Number(0), 0)
                }
            );
            if dies && counts {
                assert_eq!(entries[0].seq, 2, "the call is copied");
            }
        }
        copy_what_is_left(&mut world, &mut sql);
        for step in sql.rest(0) {
            assert_eq!(world.mend(step), Mended::Done);
        }
        let gone = |claimed| Restored::Known(Claimed::Gone(claimed));
        let again = if counts {
            gone(Gone::Used)
        } else {
            // Nobody can know: the call is repeated, under the same ticket id.
            Restored::Known(Claimed::Admitted {
                until: at(310_000),
                first: true,
            })
        };
        assert_eq!(world.restore(1, 1), again);
        let left = if counts {
            gone(Gone::Left)
        } else {
            Restored::Waiting
        };
        assert_eq!(world.restore(7, 7), left, "an end that must be said again");
        assert_eq!(world.board().uncopied, usize::from(!counts));
    }
}

#[test]
fn time_goes_on_where_sql_last_saw_it() {
    let (mut world, mut sql) = lost(|world| {
        world.wait(5_000);
        world.tick(3);
    });
    // The new server's clock is four seconds late.
    world.now = at(11_000);
    mend(&mut world, &mut sql, 0);
    assert_eq!(world.board().now, at(15_000));
    world.wait(10);
    assert_eq!(world.board().now, at(15_010));
}
