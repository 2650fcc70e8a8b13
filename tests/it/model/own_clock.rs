//! What time it is for scripts: set by hand, or read from what they kept of the server's own clock.

use std::time::Duration;

use catraca::base::ids::ShowId;
use catraca::base::time::Timestamp;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::keys::Key;
use catraca::room::model::command::Settings;

use crate::model::world::at;

/// On the server's own clock time passes for real; everything is so many times as short.
const SHARE: u64 = 100;
/// The longest that anybody waits for real.
const WAIT_MAX: Duration = Duration::from_millis(60);

/// Makes everything short that lasts, where time passes for real.
pub(crate) fn shorten(clock: ScriptClock, settings: &mut Settings) {
    if clock == ScriptClock::Server {
        for lasting in [
            &mut settings.window_ms,
            &mut settings.claim_ms,
            &mut settings.ticket_ttl_ms,
            &mut settings.ticket_ttl_max_ms,
        ] {
            *lasting = (*lasting / SHARE).max(1);
        }
    }
}

/// Lets time pass, by hand or for real; what time it is then, as far as anybody has been told.
pub(crate) fn wait(clock: ScriptClock, now: Timestamp, ms: u64) -> Timestamp {
    if clock != ScriptClock::Server {
        return now.plus_ms(ms);
    }
    // Short waits are for what was made short.
    let wait = Duration::from_millis(if ms <= SHARE { ms } else { ms / SHARE });
    std::thread::sleep(wait.min(WAIT_MAX));
    now
}

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
