//! What a room needs to know of a show, out of what its operator decided.

use crate::base::limits::CAPACITY_MAX;
use crate::room::draw::{Announced, Revealed};
use crate::room::model::command::{Configure, RoomState, Settings};
use crate::show::Show;

/// The command that brings a room up to SQL's word.
pub fn configure(show: &Show) -> Configure {
    let decided = &show.settings;
    Configure {
        version: show.version,
        settings: Settings {
            name: decided.name.clone(),
            rate: decided.rate,
            window_ms: decided.window_ms,
            capacity: decided.capacity.unwrap_or(CAPACITY_MAX),
            claim_ms: decided.claim_ms,
            ticket_ttl_ms: decided.ticket_ttl_ms,
            ticket_ttl_max_ms: decided.ticket_ttl_max_ms,
            waiting_max: decided.waiting_max,
            restore_per_s: decided.restore_per_s,
            early_at: decided.early_at,
            opens_at: decided.opens_at,
            closes_at: decided.closes_at,
            stock_guard: decided.stock_guard,
            draw: announced(show),
            require_presence: decided.require_presence,
            shop_url: decided.shop_url.clone(),
            message: decided.message.clone(),
        },
        verb: show
            .verb
            .as_ref()
            .and_then(|(version, word)| RoomState::of_word(word).map(|state| (*version, state))),
    }
}

/// What everybody may know of a show's draw: once it has been held, what it was made of.
fn announced(show: &Show) -> Option<Announced> {
    let draw = show.draw.as_ref()?;
    let revealed = draw.seed.map(|_| Revealed {
        secret: draw.sealed.secret,
        beacon_value: draw.beacon_value.clone(),
    });
    Some(Announced {
        commitment: draw.sealed.commitment,
        beacon: show.settings.beacon.clone(),
        revealed,
    })
}
