//! Which script carries out which command, and the keys it is given, in its own order.

use crate::driver::redis::Script;
use crate::room::keys::Key::{
    self, Admissions, Claimed, Ledger, Queue, Quota, Returned, Room, Seen, Seq, Standby,
};

/// A script's text: the parts that it shares with others, and what is its own.
macro_rules! script {
    ($name:literal $(, $part:literal)*) => {
        concat!(
            $(include_str!(concat!("../../../lua/part/", $part, ".lua")),)*
            include_str!(concat!("../../../lua/room/", $name, ".lua"))
        )
    };
}

/// One script of `lua/room/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Join,
    Tick,
    Claim,
    Check,
    Extend,
    Consume,
    Leave,
    Revoke,
    Restore,
    Touch,
    Freeze,
    OpenDraw,
    Configure,
    Stock,
    RaiseCeiling,
    MendBegin,
    MendCopy,
    MendFold,
    MendFinish,
    Board,
    Ledger,
    Trim,
}

/// The line with which every script asks the server for the time.
const SERVERS_CLOCK: &str = "local told = time[1] * 1000 + math.floor(time[2] / 1000)\n";
/// What stands there on a test clock: the value of the show's `clock` key.
const TEST_CLOCK: &str =
    "local told = tonumber(redis.call('GET', (string.gsub(KEYS[1], 'room$', 'clock'))))\n";

/// What stands there on a clock that a test steps: the server's, and as much more as the key says.
const STEPPED_CLOCK: &str = "local told = time[1] * 1000 + math.floor(time[2] / 1000) + \
(tonumber(redis.call('GET', (string.gsub(KEYS[1], 'room$', 'clock')))) or 0)\n";

/// Whose time the scripts go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptClock {
    /// The server's own.
    Server,
    /// What the key `catraca:{show}:clock` says, in milliseconds. For tests.
    Key,
    /// The server's own and, added to it, what that key says. For tests that set a clock.
    Stepped,
}

impl Name {
    /// Every script.
    pub const ALL: [Self; 22] = [
        Self::Join,
        Self::Tick,
        Self::Claim,
        Self::Check,
        Self::Extend,
        Self::Consume,
        Self::Leave,
        Self::Revoke,
        Self::Restore,
        Self::Touch,
        Self::Freeze,
        Self::OpenDraw,
        Self::Configure,
        Self::Stock,
        Self::RaiseCeiling,
        Self::MendBegin,
        Self::MendCopy,
        Self::MendFold,
        Self::MendFinish,
        Self::Board,
        Self::Ledger,
        Self::Trim,
    ];

    /// The script's text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Join => script!("join", "whole", "fans", "memory", "may"),
            Self::Tick => script!(
                "tick", "whole", "gaps", "enter", "hours", "quota", "next", "may", "ledger"
            ),
            Self::Claim => script!("claim", "whole", "fans", "may", "ledger", "claim"),
            Self::Check => script!("check", "whole", "fans"),
            Self::Extend => script!("extend", "whole", "fans", "may", "ledger"),
            Self::Consume => script!("consume", "whole", "fans", "may", "ledger"),
            Self::Leave => script!("leave", "whole", "fans", "may", "ledger"),
            Self::Revoke => script!("revoke", "whole", "fans", "may", "ledger"),
            Self::Restore => script!(
                "restore", "whole", "fans", "gaps", "memory", "may", "ledger", "claim"
            ),
            Self::Touch => script!("touch", "whole"),
            Self::Freeze => script!("freeze", "whole", "gaps"),
            Self::OpenDraw => script!("open_draw", "whole", "enter"),
            Self::Configure => script!("configure", "whole", "enter"),
            Self::Stock => script!("stock", "whole", "enter"),
            Self::RaiseCeiling => script!("raise_ceiling", "whole"),
            Self::MendBegin => script!("mend_begin", "whole", "gaps"),
            Self::MendCopy => script!("mend_copy", "whole", "trim"),
            Self::MendFold => script!("mend_fold", "whole"),
            Self::MendFinish => script!("mend_finish", "whole", "gaps", "enter"),
            Self::Board => script!("board", "whole"),
            Self::Ledger => script!("ledger", "whole"),
            Self::Trim => script!("trim", "whole", "trim"),
        }
    }

    /// The keys it works on, in its own order.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Join => &[Room, Seq, Queue, Returned, Standby, Admissions],
            Self::Tick => &[
                Room, Seq, Queue, Returned, Standby, Admissions, Quota, Ledger, Seen,
            ],
            Self::Claim | Self::Consume | Self::Leave | Self::Revoke => {
                &[Room, Queue, Returned, Standby, Admissions, Claimed, Ledger]
            }
            Self::Check => &[Room, Standby, Admissions],
            Self::Extend => &[Room, Standby, Admissions, Ledger],
            Self::Restore => &[
                Room, Queue, Returned, Standby, Admissions, Claimed, Ledger, Seq,
            ],
            Self::Touch => &[Room, Queue, Seen],
            Self::Freeze => &[Room, Seq],
            Self::Configure => &[Room, Quota],
            Self::Stock | Self::RaiseCeiling | Self::OpenDraw => &[Room],
            Self::MendBegin => &[
                Room, Seq, Queue, Returned, Standby, Admissions, Claimed, Quota, Ledger, Seen,
            ],
            Self::MendCopy => &[Room, Seq, Ledger],
            Self::MendFold => &[Room, Queue, Returned, Standby, Admissions, Claimed],
            Self::MendFinish => &[Room, Seq, Queue, Returned, Quota, Ledger],
            Self::Board => &[Room, Seq, Queue, Returned, Standby, Admissions, Ledger],
            Self::Ledger | Self::Trim => &[Room, Ledger],
        }
    }

    /// The script, ready to be run.
    pub fn script(self, clock: ScriptClock) -> Script {
        let told = match clock {
            ScriptClock::Server => SERVERS_CLOCK,
            ScriptClock::Key => TEST_CLOCK,
            ScriptClock::Stepped => STEPPED_CLOCK,
        };
        Script::new(&self.text().replace(SERVERS_CLOCK, told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_names_the_keys_it_is_given() {
        for name in Name::ALL {
            let mut words = name
                .keys()
                .iter()
                .zip(1..)
                .map(|(key, n)| format!("{n} {}", key.word()));
            let head = words.by_ref().collect::<Vec<_>>().join(", ");
            assert!(
                name.text().contains(&format!("-- KEYS: {head}\n")),
                "{name:?}: KEYS: {head}"
            );
        }
    }

    #[test]
    fn every_script_has_the_parts_it_names_in_front_of_it() {
        for name in Name::ALL {
            let heads = |begin: &'static str| {
                let lines = name.text().lines();
                lines.filter_map(move |line| line.strip_prefix(begin))
            };
            let named: Vec<&str> = heads("-- PARTS: ")
                .flat_map(|parts| parts.split(", "))
                .collect();
            let put: Vec<&str> = heads("-- part/")
                .filter_map(|head| Some(head.split_once(':')?.0))
                .collect();
            assert_eq!(named, put, "{name:?}");
        }
    }

    #[test]
    fn every_script_asks_for_the_time_once_and_in_one_way() {
        for name in Name::ALL {
            assert_eq!(name.text().matches(SERVERS_CLOCK).count(), 1, "{name:?}");
            assert_eq!(name.text().matches("'TIME'").count(), 1, "{name:?}");
            assert!(!name.text().contains("clock'"), "{name:?}");
        }
    }
}
