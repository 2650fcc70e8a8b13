//! What `[gateway]` and `[upstreams]` may not say: the one place where they are checked, before any port is
//! opened. What a route may not say stands with what it says (`terms.rs`, `routes.rs`).

use std::time::Duration;

use crate::base::bound::{within, within_or};
use crate::base::limits::{AT_ONCE_MAX, FORWARD_BODY_BYTES_MAX, WAIT_MS_MAX};
use crate::gateway::cors::Origins;
use crate::gateway::reach::Reach;
use crate::gateway::settings::{Settings, TlsFiles};
use crate::gateway::upstreams::Upstream;

/// Whether an upstream can be reached and asked for anything.
///
/// # Errors
/// The rule that it breaks, as a sentence that begins with the key.
pub(crate) fn upstream(upstream: &Upstream) -> Result<(), String> {
    Reach::new(upstream, Duration::ZERO)?;
    let max = upstream.in_flight_max.unwrap_or(1);
    within_or(
        "in_flight_max",
        max,
        &(1..=AT_ONCE_MAX),
        "nothing would pass",
    )
}

impl Settings {
    /// The first rule that the settings break.
    ///
    /// # Errors
    /// A sentence that names keys and values, without the `gateway.` before them.
    pub fn check(&self) -> Result<(), String> {
        self.check_tls()?;
        for (key, ms, with_none) in self.patience() {
            within_or(key, ms, &(1..=WAIT_MS_MAX), with_none)?;
        }
        for (key, max, with_none) in self.room_for() {
            within_or(key, max, &(1..=AT_ONCE_MAX), with_none)?;
        }
        within("drain_ms", self.drain_ms, &(0..=WAIT_MS_MAX))?;
        let bytes = self.forward_body_bytes_max;
        within(
            "forward_body_bytes_max",
            bytes,
            &(0..=FORWARD_BODY_BYTES_MAX),
        )?;
        Origins::new(&self.cors_origins)?;
        self.challenge.check()?;
        self.seller.check()?;
        self.limits.check()
    }

    fn check_tls(&self) -> Result<(), String> {
        let TlsFiles {
            cert_file,
            key_file,
        } = &self.tls;
        if cert_file.as_os_str().is_empty() != key_file.as_os_str().is_empty() {
            return Err("tls.cert_file and tls.key_file must be given together".to_owned());
        }
        let is_near = self.listen.ip().is_loopback();
        if !is_near && self.trusted_proxies.is_empty() && !self.tls.are_given() {
            return Err(format!(
                "listen ({}) is not a loopback address, gateway.trusted_proxies is empty and \
                 gateway.tls has no certificate: tickets would travel without TLS",
                self.listen
            ));
        }
        Ok(())
    }

    fn patience(&self) -> [(&'static str, u64, &'static str); 8] {
        let late = "every answer would be too late";
        [
            ("head_ms", self.head_ms, "every request would be too slow"),
            (
                "body_silence_ms",
                self.body_silence_ms,
                "every body would be too slow",
            ),
            ("stall_ms", self.stall_ms, "every reader would be too slow"),
            (
                "idle_ms",
                self.idle_ms,
                "connections would end with their first answer",
            ),
            ("request_ms", self.request_ms, late),
            (
                "connect_ms",
                self.connect_ms,
                "no upstream could be reached",
            ),
            ("upstream_ms", self.upstream_ms, late),
            (
                "silence_ms",
                self.silence_ms,
                "every body that is forwarded would be too slow",
            ),
        ]
    }

    fn room_for(&self) -> [(&'static str, usize, &'static str); 4] {
        let (nobody, nothing) = ("nobody could connect", "nothing would be answered");
        [
            ("connections_max", self.connections_max, nobody),
            (
                "connections_per_client_max",
                self.connections_per_client_max,
                nobody,
            ),
            ("in_flight_max", self.in_flight_max, nothing),
            (
                "upstream_in_flight_max",
                self.upstream_in_flight_max,
                "nothing would be forwarded",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstreams::Gate;

    #[test]
    fn an_upstream_that_nothing_could_pass_to_is_refused() {
        let plain = Upstream::new("http://127.0.0.1:1".parse().unwrap(), Gate::Open);
        upstream(&plain).unwrap();
        let max = |max| Upstream {
            in_flight_max: Some(max),
            ..plain.clone()
        };
        for (wrong, says) in [
            (
                max(0),
                "in_flight_max (0) must be between 1 and 100000000, or nothing would pass",
            ),
            (
                max(usize::MAX),
                "in_flight_max (18446744073709551615) must be between",
            ),
        ] {
            let error = upstream(&wrong).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
    }

    fn refuses(line: &str, says: &str) {
        let settings: Settings = toml::from_str(line).unwrap();
        let error = settings.check().unwrap_err();
        assert!(error.starts_with(says), "{line}: {error}");
    }

    #[test]
    fn bounds_of_which_nothing_would_be_left_are_refused() {
        const MS: u64 = 86_400_000;
        const AT_ONCE: u64 = 100_000_000;
        for (key, most, or) in [
            ("head_ms", MS, "every request"),
            ("body_silence_ms", MS, "every body"),
            ("stall_ms", MS, "every reader"),
            ("idle_ms", MS, "connections would end"),
            ("request_ms", MS, "every answer"),
            ("connect_ms", MS, "no upstream"),
            ("upstream_ms", MS, "every answer"),
            ("silence_ms", MS, "every body"),
            ("connections_max", AT_ONCE, "nobody"),
            ("connections_per_client_max", AT_ONCE, "nobody"),
            ("in_flight_max", AT_ONCE, "nothing"),
            ("upstream_in_flight_max", AT_ONCE, "nothing"),
        ] {
            let range = format!("must be between 1 and {most}");
            refuses(
                &format!("{key} = 0"),
                &format!("{key} (0) {range}, or {or}"),
            );
            let more = most + 1;
            refuses(
                &format!("{key} = {more}"),
                &format!("{key} ({more}) {range}"),
            );
        }
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        Settings::default().check().unwrap();
        for (line, says) in [
            (
                "drain_ms = 86400001",
                "drain_ms (86400001) must be between 0 and 86400000",
            ),
            (
                "forward_body_bytes_max = 1099511627777",
                "forward_body_bytes_max (1099511627777) must be between 0 and 1099511627776",
            ),
            (
                "cors_origins = [\"*\"]",
                "cors_origins (*) must be scheme://host",
            ),
            (
                "tls = { cert_file = \"a\" }",
                "tls.cert_file and tls.key_file must",
            ),
            (
                "listen = \"0.0.0.0:80\"",
                "listen (0.0.0.0:80) is not a loopback",
            ),
            (
                "challenge = { level_max = 9 }",
                "challenge.level_max (9) must be between 2 and 7",
            ),
            (
                "seller = { required = true }",
                "seller.required needs seller.jwks",
            ),
            ("limits = { join_far = 1 }", "limits.join_far (1) must be"),
        ] {
            refuses(line, says);
        }
        for fits in ["drain_ms = 0", "forward_body_bytes_max = 0"] {
            let settings: Settings = toml::from_str(fits).unwrap();
            settings.check().unwrap();
        }
    }
}
