//! What time it is for scripts: set by hand, or read from what they kept of the server's own clock.

use catraca::base::ids::ShowId;
use catraca::base::time::Timestamp;
use catraca::room::keys::Key;

use crate::model::world::at;

/// Sets the clock of scripts that go by the show's key.
pub(crate) fn set(redis: &mut redis::Connection, show: &ShowId, now: Timestamp) {
    let clock = format!("catraca:{{{show}}}:clock");
    let set = redis::cmd("SET")
        .arg(clock)
        .arg(now.as_millis())
        .exec(redis);
    set.unwrap();
}

/// What the last script that kept the time was told by the server; none kept any yet.
pub(crate) fn told(redis: &mut redis::Connection, show: &ShowId) -> Option<Timestamp> {
    let fields = ["last_ms", "offset_ms"];
    let (last, offset): (Option<i64>, Option<i64>) = redis::cmd("HMGET")
        .arg(Key::Room.of(show))
        .arg(&fields)
        .query(redis)
        .unwrap();
    Some(at(last? - offset?))
}
