//! The keys of `[log]` that say which Kafka it is and how it lets us in.

use std::path::Path;

use crate::base::secret::Secret;
use crate::config::{ConfigError, LOG_IN_SQL, Log};
use crate::driver::kafka::access::{self, Access, Login, Mechanism, Tls};
use crate::driver::kafka::{Kafka, SCHEME, TLS_SCHEME};

impl Log {
    /// The topic in Kafka that events go to; none where the outbox is the log.
    ///
    /// # Errors
    /// What cannot be one, or not with these keys; files that cannot be read among them.
    pub fn kafka(&self) -> Result<Option<Kafka>, ConfigError> {
        let Self { url, topic, .. } = self;
        if url == LOG_IN_SQL {
            return Ok(None);
        }
        if ![SCHEME, TLS_SCHEME]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(ConfigError(format!(
                "log.url ({url}) must be {LOG_IN_SQL} or begin with {SCHEME} or {TLS_SCHEME}"
            )));
        }
        let kafka = Kafka::new(url, topic).map_err(|fault| {
            ConfigError(format!("log.url ({url}), log.topic ({topic}): {fault}"))
        })?;
        let access = Access {
            tls: Some(self.tls()?),
            login: self.login()?,
        };
        Ok(Some(kafka.let_in_by(access)))
    }

    fn is_tls(&self) -> bool {
        self.url.starts_with(TLS_SCHEME)
    }

    fn tls(&self) -> Result<Tls, ConfigError> {
        let ca = self.pem("ca_file", &self.ca_file)?;
        let certificate = self.pem("cert_file", &self.cert_file)?;
        let key = self.pem("key_file", &self.key_file)?;
        for (name, path, pem) in [
            ("ca_file", &self.ca_file, &ca),
            ("cert_file", &self.cert_file, &certificate),
        ] {
            if pem
                .as_deref()
                .is_some_and(|pem| !access::are_certificates(pem))
            {
                let shown = path.display();
                return Err(ConfigError(format!(
                    "log.{name}: {shown} holds no certificates (PEM)"
                )));
            }
        }
        if key.as_deref().is_some_and(|pem| !access::is_key(pem)) {
            let shown = self.key_file.display();
            return Err(ConfigError(format!(
                "log.key_file: {shown} holds no key (PEM) that needs no password"
            )));
        }
        let own = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, Secret::new(key))),
            (Some(_), None) => return Err(together("cert_file", "key_file")),
            (None, Some(_)) => return Err(together("key_file", "cert_file")),
        };
        Ok(Tls { ca, own })
    }

    /// What a file holds; none where the key names none.
    fn pem(&self, name: &str, path: &Path) -> Result<Option<String>, ConfigError> {
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        if !self.is_tls() {
            return Err(ConfigError(format!(
                "log.{name} needs log.url ({}) to begin with {TLS_SCHEME}",
                self.url
            )));
        }
        let read = std::fs::read_to_string(path);
        read.map(Some).map_err(|error| {
            let shown = path.display();
            ConfigError(format!("log.{name}: cannot read {shown}: {error}"))
        })
    }

    fn login(&self) -> Result<Option<Login>, ConfigError> {
        let Self { sasl, user, .. } = self;
        let password = self.password.clone();
        let given = [
            ("sasl", sasl.is_empty()),
            ("user", user.is_empty()),
            ("password", password.expose().is_empty()),
        ];
        let missing = given.iter().find(|(_, is_empty)| *is_empty);
        let there = given.iter().find(|(_, is_empty)| !is_empty);
        match (there, missing) {
            (None, _) => return Ok(None),
            (Some((there, _)), Some((missing, _))) => return Err(together(there, missing)),
            (Some(_), None) => {}
        }
        let Some(mechanism) = Mechanism::of_word(sasl) else {
            return Err(ConfigError(format!(
                "log.sasl ({sasl}) must be scram-sha-512, scram-sha-256 or plain"
            )));
        };
        if mechanism == Mechanism::Plain && !self.is_tls() {
            return Err(ConfigError(format!(
                "log.sasl (plain) shows the password and needs log.url ({}) to begin with {TLS_SCHEME}",
                self.url
            )));
        }
        if password.expose().contains('\0') {
            return Err(ConfigError("log.password has a character 0".to_owned()));
        }
        Ok(Some(Login {
            mechanism,
            user: user.clone(),
            password,
        }))
    }
}

fn together(there: &str, missing: &str) -> ConfigError {
    ConfigError(format!("log.{there} is given and needs log.{missing}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Writer;

    fn log() -> Log {
        Log {
            url: "kafka+ssl://kafka.example.com:9093".to_owned(),
            topic: "order-events".to_owned(),
            writer: Writer::Relay,
            thin: false,
            ca_file: "".into(),
            cert_file: "".into(),
            key_file: "".into(),
            sasl: String::new(),
            user: String::new(),
            password: Secret::default(),
        }
    }

    fn logged_in(url: &str, sasl: &str) -> Log {
        Log {
            url: url.to_owned(),
            sasl: sasl.to_owned(),
            user: "catraca".to_owned(),
            password: Secret::new("swordfish"),
            ..log()
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let plain = "kafka://kafka.example.com:9092";
        let refused = |log: Log, says: &str| {
            let error = log.kafka().unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
            assert!(!error.contains("swordfish"), "{error}");
        };
        assert!(log().kafka().is_ok());
        for sasl in ["scram-sha-512", "scram-sha-256"] {
            assert!(logged_in(plain, sasl).kafka().is_ok());
        }
        assert!(logged_in(&log().url, "plain").kafka().is_ok());
        refused(
            logged_in(plain, "plain"),
            "log.sasl (plain) shows the password",
        );
        refused(logged_in(plain, "gssapi"), "log.sasl (gssapi) must be");
        refused(logged_in(plain, ""), "log.user is given and needs log.sasl");
        let nobody = Log {
            user: String::new(),
            ..logged_in(plain, "plain")
        };
        refused(nobody, "log.sasl is given and needs log.user");
        let nul = Log {
            password: Secret::new("sword\0fish"),
            ..logged_in(plain, "scram-sha-256")
        };
        refused(nul, "log.password has");
        refused(
            Log {
                ca_file: empty.clone(),
                url: plain.to_owned(),
                ..log()
            },
            "log.ca_file needs log.url",
        );
        refused(
            Log {
                ca_file: empty.clone(),
                ..log()
            },
            "log.ca_file: ",
        );
        refused(
            Log {
                ca_file: "/no/such".into(),
                ..log()
            },
            "log.ca_file: cannot read /no/such",
        );
        refused(
            Log {
                cert_file: empty.clone(),
                ..log()
            },
            "log.cert_file: ",
        );
        refused(
            Log {
                key_file: empty,
                ..log()
            },
            "log.key_file: ",
        );
    }
}
