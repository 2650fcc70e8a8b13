//! What `[gateway]` and `[upstreams]` may not say: the one place where they are checked, before any port is
//! opened. What a route may not say stands with what it says (`terms.rs`, `routes.rs`).
//!
//! A bound of 0 is never meant as one: it would let nothing pass, and say so only to the fans.

use crate::base::limits::{AT_ONCE_MAX, WAIT_MS_MAX};
use crate::gateway::cors::Origins;
use crate::gateway::settings::{Settings, TlsFiles};
use crate::gateway::upstreams::Upstream;

/// A bound that an operator sets: its key, its value, the most that it may be, and what 0 would mean.
pub(crate) type Bound = (&'static str, u64, u64, &'static str);

/// The first of these bounds that cannot be meant.
///
/// # Errors
/// A sentence that begins with the key.
pub(crate) fn bounded(bounds: &[Bound]) -> Result<(), String> {
    for (key, value, most, why) in bounds {
        if *value == 0 {
            return Err(format!("{key} = 0: {why}"));
        }
        if most < value {
            return Err(format!("{key} = {value}: it must be at most {most}"));
        }
    }
    Ok(())
}

/// Whether an upstream can be reached and asked for anything.
///
/// # Errors
/// The rule that it breaks, as a sentence that begins with the key.
pub(crate) fn upstream(upstream: &Upstream) -> Result<(), String> {
    upstream.authority()?;
    let Some(max) = upstream.in_flight_max else {
        return Ok(());
    };
    let why = "nothing would pass";
    bounded(&[("in_flight_max", max as u64, AT_ONCE_MAX, why)])
}

impl Settings {
    /// The first rule that the settings break.
    ///
    /// # Errors
    /// A sentence that names keys and values, without the `gateway.` before them.
    pub fn check(&self) -> Result<(), String> {
        self.check_tls()?;
        bounded(&self.patience())?;
        bounded(&self.room_for())?;
        if WAIT_MS_MAX < self.drain_ms {
            let ms = self.drain_ms;
            return Err(format!("drain_ms = {ms}: it must be at most {WAIT_MS_MAX}"));
        }
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

    fn patience(&self) -> [Bound; 8] {
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
        .map(|(key, ms, why)| (key, ms, WAIT_MS_MAX, why))
    }

    fn room_for(&self) -> [Bound; 4] {
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
        .map(|(key, max, why)| (key, max as u64, AT_ONCE_MAX, why))
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
            (max(0), "in_flight_max = 0: nothing would pass"),
            (max(usize::MAX), "in_flight_max = "),
        ] {
            let error = upstream(&wrong).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        Settings::default().check().unwrap();
        for (line, says) in [
            ("head_ms = 0", "head_ms = 0: every request"),
            ("body_silence_ms = 0", "body_silence_ms = 0: every body"),
            ("stall_ms = 0", "stall_ms = 0: every reader"),
            ("idle_ms = 0", "idle_ms = 0: connections would end"),
            ("request_ms = 0", "request_ms = 0: every answer"),
            ("connect_ms = 0", "connect_ms = 0: no upstream"),
            ("upstream_ms = 0", "upstream_ms = 0: every answer"),
            ("silence_ms = 0", "silence_ms = 0: every body"),
            (
                "idle_ms = 86400001",
                "idle_ms = 86400001: it must be at most",
            ),
            (
                "drain_ms = 86400001",
                "drain_ms = 86400001: it must be at most",
            ),
            ("connections_max = 0", "connections_max = 0: nobody"),
            (
                "connections_per_client_max = 0",
                "connections_per_client_max = 0: nobody",
            ),
            ("in_flight_max = 0", "in_flight_max = 0: nothing"),
            (
                "in_flight_max = 100000001",
                "in_flight_max = 100000001: it must be at most",
            ),
            (
                "upstream_in_flight_max = 0",
                "upstream_in_flight_max = 0: nothing",
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
                "challenge.level_min (2) must be",
            ),
            (
                "seller = { required = true }",
                "seller.required needs seller.jwks",
            ),
            ("limits = { join_far = 1 }", "limits.join_far (1) must be"),
        ] {
            let settings: Settings = toml::from_str(line).unwrap();
            let error = settings.check().unwrap_err();
            assert!(error.starts_with(says), "{line}: {error}");
        }
        for fits in ["drain_ms = 0", "forward_body_bytes_max = 0"] {
            let settings: Settings = toml::from_str(fits).unwrap();
            settings.check().unwrap();
        }
    }
}
