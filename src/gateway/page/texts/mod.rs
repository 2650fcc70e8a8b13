//! Every sentence that a fan reads, in every language.
//!
//! One struct, one value of it per language: a text that is missing does not compile. The script
//! gets the same table as a module. Words in braces are filled in by `say::fill`; a test holds the
//! languages to the same ones.

mod en;
mod es;
mod pt_br;

use serde::Serialize;

use crate::gateway::page::language::Language;

/// The sentences of one language.
#[derive(Debug, Serialize)]
pub(super) struct Texts {
    // what the numbers look like
    /// Between groups of three digits.
    pub(super) thousands: &'static str,
    /// Two units of time in one phrase.
    pub(super) duration_of_two: &'static str,
    pub(super) second_one: &'static str,
    pub(super) second_other: &'static str,
    pub(super) minute_one: &'static str,
    pub(super) minute_other: &'static str,
    pub(super) hour_one: &'static str,
    pub(super) hour_other: &'static str,
    pub(super) day_one: &'static str,
    pub(super) day_other: &'static str,
    // the frame
    /// The page's name where the show has none.
    pub(super) room: &'static str,
    pub(super) loading_title: &'static str,
    pub(super) loading_text: &'static str,
    /// Names the list of languages, for screen readers.
    pub(super) languages: &'static str,
    /// The language's own name.
    pub(super) language: &'static str,
    /// Stands above the operator's message.
    pub(super) message: &'static str,
    pub(super) kept: &'static str,
    /// The browser's tab.
    pub(super) title_in_line: &'static str,
    /// The browser's tab, where there is no position.
    pub(super) title_state: &'static str,
    // in line
    pub(super) waiting_title: &'static str,
    /// Where the show calls only those who show that they are there.
    pub(super) presence: &'static str,
    /// Above the big number.
    pub(super) position: &'static str,
    /// Below the big number, when it is 1.
    pub(super) position_next: &'static str,
    /// Below the big number.
    pub(super) position_help: &'static str,
    /// Below it, in a show with a draw.
    pub(super) position_help_draw: &'static str,
    /// Names the bar, for screen readers.
    pub(super) progress: &'static str,
    pub(super) number: &'static str,
    pub(super) eta: &'static str,
    pub(super) eta_soon: &'static str,
    /// Minutes.
    pub(super) eta_up_to: &'static str,
    /// Minutes.
    pub(super) eta_about: &'static str,
    /// Minutes.
    pub(super) eta_range: &'static str,
    /// Durations.
    pub(super) eta_range_long: &'static str,
    /// A duration inside a range.
    pub(super) hours_short: &'static str,
    pub(super) minutes_short: &'static str,
    pub(super) hours_minutes: &'static str,
    pub(super) eta_unknown: &'static str,
    pub(super) reach: &'static str,
    pub(super) reach_likely: &'static str,
    pub(super) reach_close: &'static str,
    pub(super) reach_unlikely: &'static str,
    /// Why the wait may have grown.
    pub(super) cause_paused: &'static str,
    pub(super) cause_slowed: &'static str,
    pub(super) cause_capacity: &'static str,
    pub(super) cause_crowd: &'static str,
    pub(super) cause_stock: &'static str,
    pub(super) cause_in_carts: &'static str,
    pub(super) cause_restoring: &'static str,
    // before the opening
    pub(super) scheduled_title: &'static str,
    pub(super) scheduled_in: &'static str,
    pub(super) scheduled_some_day: &'static str,
    /// With scripts.
    pub(super) scheduled_joins: &'static str,
    pub(super) early_title: &'static str,
    pub(super) early_in: &'static str,
    pub(super) early_soon: &'static str,
    pub(super) early_some_day: &'static str,
    pub(super) join_title: &'static str,
    pub(super) join_text: &'static str,
    pub(super) join_text_draw: &'static str,
    pub(super) join: &'static str,
    // the draw
    /// In line before a draw.
    pub(super) draw_early: &'static str,
    /// Came after the draw was closed, and it is not held yet.
    pub(super) draw_late: &'static str,
    /// The draw is closed and about to be held.
    pub(super) draw_now: &'static str,
    /// The same, where its beacon has not spoken yet.
    pub(super) draw_waits: &'static str,
    /// Names the fact.
    pub(super) draw: &'static str,
    pub(super) draw_place: &'static str,
    pub(super) draw_behind: &'static str,
    /// What the details open with.
    pub(super) draw_title: &'static str,
    pub(super) draw_seal: &'static str,
    pub(super) draw_how: &'static str,
    pub(super) draw_beacon: &'static str,
    pub(super) draw_no_beacon: &'static str,
    /// With scripts.
    pub(super) draw_checked: &'static str,
    /// With scripts.
    pub(super) draw_broken: &'static str,
    // your turn
    pub(super) admitted_title: &'static str,
    pub(super) admitted_text: &'static str,
    /// Where the show names no shop.
    pub(super) admitted_app: &'static str,
    pub(super) admitted_left: &'static str,
    /// Said once, aloud.
    pub(super) admitted_last_minute: &'static str,
    pub(super) enter: &'static str,
    pub(super) standby_title: &'static str,
    pub(super) standby_text: &'static str,
    // after it
    pub(super) gone_used_title: &'static str,
    pub(super) gone_used_text: &'static str,
    pub(super) gone_expired_title: &'static str,
    pub(super) gone_expired_text: &'static str,
    pub(super) gone_left_title: &'static str,
    pub(super) gone_left_text: &'static str,
    pub(super) gone_revoked_title: &'static str,
    pub(super) gone_revoked_text: &'static str,
    pub(super) join_again: &'static str,
    pub(super) sold_out_title: &'static str,
    /// With scripts: the reader's own clock.
    pub(super) sold_out_at: &'static str,
    /// Without.
    pub(super) sold_out_ago: &'static str,
    pub(super) sold_out_far: &'static str,
    pub(super) sold_out_thanks: &'static str,
    pub(super) closed_title: &'static str,
    pub(super) closed_text: &'static str,
    pub(super) off_title: &'static str,
    pub(super) off_text: &'static str,
    // when things stand still
    pub(super) paused_title: &'static str,
    pub(super) paused_text: &'static str,
    pub(super) restoring_title: &'static str,
    pub(super) restoring_text: &'static str,
    pub(super) lost: &'static str,
    pub(super) busy: &'static str,
    pub(super) full: &'static str,
    pub(super) void: &'static str,
    pub(super) missing_title: &'static str,
    pub(super) missing_text: &'static str,
    // where many join from one network
    /// Without scripts.
    pub(super) wait: &'static str,
    /// With scripts.
    pub(super) check: &'static str,
    /// On the widget.
    pub(super) check_label: &'static str,
    pub(super) check_verifying: &'static str,
    pub(super) check_verified: &'static str,
    pub(super) check_error: &'static str,
    /// Where the shop must say whose account it is.
    pub(super) account: &'static str,
    // what a fan can do
    pub(super) leave: &'static str,
    pub(super) leave_question: &'static str,
    pub(super) leave_yes: &'static str,
    pub(super) leave_no: &'static str,
    /// Without scripts.
    pub(super) reloads: &'static str,
    pub(super) reloads_not: &'static str,
    pub(super) reload_stop: &'static str,
    pub(super) reload_start: &'static str,
    /// Leads to the page without scripts.
    pub(super) plain: &'static str,
    pub(super) reload_now: &'static str,
}

impl Language {
    /// The sentences of this language.
    pub(super) const fn texts(self) -> &'static Texts {
        match self {
            Self::PtBr => &pt_br::TEXTS,
            Self::En => &en::TEXTS,
            Self::Es => &es::TEXTS,
        }
    }
}
