//! What a route grants a request, with everything filled in that the operator left to the gateway.

use std::time::Duration;

use crate::base::bound::{within, within_or};
use crate::base::limits::{
    AT_ONCE_MAX, CHECK_DEADLINE_MS, FORWARD_BODY_BYTES_MAX, LIMIT_MAX, UPSTREAM_WAIT_MS,
    WAIT_MS_MAX,
};
use crate::gateway::settings::Settings;
use crate::gateway::upstreams::Route;
use crate::http::patience::Patience;

/// Bounds of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Longest request body.
    pub(crate) body_bytes_max: u64,
    /// How long the client may take to send it.
    pub(crate) request_max: Duration,
    /// How long the upstream may take to begin its answer, once it has the request.
    pub(crate) answer_max: Duration,
    /// How long either side may be silent inside a body.
    pub(crate) silence_max: Duration,
    /// Requests at once, where the route has a bound of its own.
    pub(crate) in_flight_max: Option<usize>,
    /// Requests a second and at once, where it has one.
    pub(crate) rate: Option<(u32, u32)>,
}

impl Terms {
    /// The terms of a route.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn of(route: &Route, settings: &Settings) -> Result<Self, String> {
        check(route)?;
        let ms = |own: Option<u64>, all: u64| Duration::from_millis(own.unwrap_or(all));
        Ok(Self {
            body_bytes_max: route
                .body_bytes_max
                .unwrap_or(settings.forward_body_bytes_max),
            request_max: ms(route.request_ms, settings.request_ms),
            answer_max: ms(route.answer_ms, settings.upstream_ms),
            silence_max: ms(route.silence_ms, settings.silence_ms),
            in_flight_max: route.in_flight_max,
            rate: route
                .per_s
                .map(|per_s| (per_s, route.burst.unwrap_or(per_s))),
        })
    }

    /// Tells whoever waits for a request how long it may take: the client and the upstream what they are
    /// granted, a place at the upstream, and the room what it may take to be asked at the gate and told what
    /// the upstream said.
    pub(crate) fn grant(&self, patience: &Patience) {
        let room = Duration::from_millis(2 * CHECK_DEADLINE_MS + UPSTREAM_WAIT_MS);
        let (request, answer) = (self.request_max, self.answer_max);
        let silence_max = request.max(answer).max(self.silence_max);
        patience.grant(request + answer + room, silence_max + room);
    }

    /// What is left of them for a repeat, when this long has passed.
    pub(crate) fn after(&self, passed: Duration) -> Self {
        Self {
            answer_max: self.answer_max.saturating_sub(passed),
            ..*self
        }
    }
}

/// Whether the route's own bounds can be meant.
fn check(route: &Route) -> Result<(), String> {
    let nothing = "nothing would pass";
    for (key, ms) in [
        ("request_ms", route.request_ms),
        ("answer_ms", route.answer_ms),
        ("silence_ms", route.silence_ms),
    ] {
        within_or(key, ms.unwrap_or(1), &(1..=WAIT_MS_MAX), nothing)?;
    }
    let max = route.in_flight_max.unwrap_or(1);
    within_or("in_flight_max", max, &(1..=AT_ONCE_MAX), nothing)?;
    for (key, often) in [("per_s", route.per_s), ("burst", route.burst)] {
        within_or(key, often.unwrap_or(1), &(1..=LIMIT_MAX), nothing)?;
    }
    let bytes = route.body_bytes_max.unwrap_or(0);
    within("body_bytes_max", bytes, &(0..=FORWARD_BODY_BYTES_MAX))?;
    if route.burst.is_some() && route.per_s.is_none() {
        return Err("has a burst, but no per_s".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_its_own_terms_or_the_gateways() {
        let settings = Settings::default();
        let plain = Route::new("/x", &["GET"], "shop");
        let terms = Terms::of(&plain, &settings).unwrap();
        assert_eq!(
            terms.answer_max,
            Duration::from_millis(settings.upstream_ms)
        );
        assert_eq!((terms.in_flight_max, terms.rate), (None, None));
        let own = Route {
            answer_ms: Some(7),
            body_bytes_max: Some(0),
            per_s: Some(5),
            ..plain.clone()
        };
        let terms = Terms::of(&own, &settings).unwrap();
        assert_eq!(terms.answer_max, Duration::from_millis(7));
        assert_eq!((terms.body_bytes_max, terms.rate), (0, Some((5, 5))));
    }

    #[test]
    fn terms_that_let_nothing_pass_are_refused() {
        let plain = || Route::new("/x", &["GET"], "shop");
        let none = Some(0);
        for (route, says) in [
            (
                Route {
                    answer_ms: none,
                    ..plain()
                },
                "answer_ms (0) must be between 1 and 86400000, or nothing",
            ),
            (
                Route {
                    silence_ms: none,
                    ..plain()
                },
                "silence_ms (0) must be between 1 and 86400000, or nothing",
            ),
            (
                Route {
                    in_flight_max: Some(0),
                    ..plain()
                },
                "in_flight_max (0) must be between 1 and 100000000, or nothing",
            ),
            (
                Route {
                    per_s: Some(0),
                    ..plain()
                },
                "per_s (0) must be between 1 and 1000000, or nothing",
            ),
            (
                Route {
                    body_bytes_max: Some(u64::MAX),
                    ..plain()
                },
                "body_bytes_max (18446744073709551615) must be between 0 and 1099511627776",
            ),
            (
                Route {
                    burst: Some(5),
                    ..plain()
                },
                "no per_s",
            ),
        ] {
            let error = Terms::of(&route, &Settings::default()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
