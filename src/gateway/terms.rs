//! What a route grants a request, with everything filled in that the operator left to the gateway.

use std::time::Duration;

use crate::gateway::settings::Settings;
use crate::gateway::upstreams::Route;

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
        let bounds = [
            ("request_ms", route.request_ms),
            ("answer_ms", route.answer_ms),
            ("silence_ms", route.silence_ms),
            ("in_flight_max", route.in_flight_max.map(|max| max as u64)),
            ("per_s", route.per_s.map(u64::from)),
            ("burst", route.burst.map(u64::from)),
        ];
        if let Some((key, _)) = bounds.iter().find(|(_, value)| *value == Some(0)) {
            return Err(format!("has {key} = 0: nothing would pass"));
        }
        if route.burst.is_some() && route.per_s.is_none() {
            return Err("has a burst, but no per_s".to_owned());
        }
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

    /// What is left of them for a repeat, when this long has passed.
    pub(crate) fn after(&self, passed: Duration) -> Self {
        Self {
            answer_max: self.answer_max.saturating_sub(passed),
            ..*self
        }
    }
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
                "answer_ms = 0",
            ),
            (
                Route {
                    silence_ms: none,
                    ..plain()
                },
                "silence_ms = 0",
            ),
            (
                Route {
                    in_flight_max: Some(0),
                    ..plain()
                },
                "in_flight_max = 0",
            ),
            (
                Route {
                    per_s: Some(0),
                    ..plain()
                },
                "per_s = 0",
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
