//! Doors of a broker at which one has to know somebody: certificates are made at run time, and passwords.

use std::fs;
use std::path::{Path, PathBuf};

use catraca::base::secret::Secret;
use catraca::driver::kafka::access::{Access, Login, Mechanism, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};

use crate::support::free_port;

/// Who may log in.
pub(crate) const USER: &str = "catraca";

/// Listeners beside the plain one.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    /// Name, port and protocol of each.
    listeners: Vec<(&'static str, u16, &'static str)>,
    /// Further lines of the broker's settings.
    pub(crate) settings: String,
    /// Further words when its storage is made.
    pub(crate) format: Vec<String>,
}

impl Doors {
    fn listed(&self, one: impl Fn(&str, u16, &str) -> String) -> String {
        let of = |(name, port, protocol): &(&str, u16, &str)| one(name, *port, protocol);
        self.listeners.iter().map(of).collect()
    }

    /// What follows the plain listener in `listeners`.
    pub(crate) fn listeners(&self) -> String {
        self.listed(|name, port, _| format!(",{name}://127.0.0.1:{port}"))
    }

    /// What follows it in `advertised.listeners`.
    pub(crate) fn advertised(&self) -> String {
        self.listed(|name, port, _| format!(",{name}://localhost:{port}"))
    }

    /// What follows it in `listener.security.protocol.map`.
    pub(crate) fn protocols(&self) -> String {
        self.listed(|name, _, protocol| format!(",{name}:{protocol}"))
    }
}

/// Two doors: one where a user logs in, and one that asks for a certificate.
#[derive(Debug)]
pub(crate) struct Guarded {
    folder: PathBuf,
    pub(crate) doors: Doors,
    pub(crate) password: String,
    pub(crate) by_login: u16,
    pub(crate) by_certificate: u16,
}

impl Guarded {
    /// Makes certificates for `localhost` in this folder, signed by an authority in `ca.pem`. Another
    /// authority, which has signed nothing, is in `other.pem`; `cert.pem` and `key.pem` are a client's.
    pub(crate) fn new(folder: &Path) -> Self {
        let authority = |file: &str| {
            let key = KeyPair::generate().unwrap();
            let mut authority = named(Vec::new(), file);
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let trusted = authority.self_signed(&key).unwrap().pem();
            fs::write(folder.join(file), trusted).unwrap();
            Issuer::new(authority, key)
        };
        let (issuer, _other) = (authority("ca.pem"), authority("other.pem"));
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let certificate = named(vec![name.to_owned()], name);
            let certificate = certificate.signed_by(&key, &issuer).unwrap().pem();
            (certificate, key.serialize_pem())
        };
        let (certificate, key) = signed("localhost");
        fs::write(folder.join("broker.pem"), format!("{key}{certificate}")).unwrap();
        let (certificate, key) = signed(USER);
        fs::write(folder.join("cert.pem"), certificate).unwrap();
        fs::write(folder.join("key.pem"), key).unwrap();
        let password = format!("{:032x}", rand::random::<u128>());
        let (by_login, by_certificate) = (free_port(), free_port());
        let listeners = vec![
            ("LOGIN", by_login, "SASL_SSL"),
            ("CERTIFIED", by_certificate, "SSL"),
        ];
        let doors = Doors {
            listeners,
            settings: settings(folder, &password),
            format: ["SCRAM-SHA-256", "SCRAM-SHA-512"]
                .iter()
                .flat_map(|how| {
                    [
                        "--add-scram".to_owned(),
                        format!("{how}=[name={USER},password={password}]"),
                    ]
                })
                .collect(),
        };
        Self {
            folder: folder.to_owned(),
            doors,
            password,
            by_login,
            by_certificate,
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Trusts who has signed this.
    pub(crate) fn trusting(&self, ca: &str) -> Access {
        Access {
            tls: Some(Tls {
                ca: Some(self.read(ca)),
                own: None,
            }),
            login: None,
        }
    }

    /// The same, with a user.
    pub(crate) fn login(&self, mechanism: Mechanism, password: &str) -> Access {
        Access {
            login: Some(Login {
                mechanism,
                user: USER.to_owned(),
                password: Secret::new(password),
            }),
            ..self.trusting("ca.pem")
        }
    }

    /// The same, with a certificate.
    pub(crate) fn certified(&self) -> Access {
        let own = (self.read("cert.pem"), Secret::new(self.read("key.pem")));
        Access {
            tls: Some(Tls {
                ca: Some(self.read("ca.pem")),
                own: Some(own),
            }),
            login: None,
        }
    }
}

/// For these hosts, with a name of its own: to OpenSSL who has the issuer's name has signed themselves.
fn named(hosts: Vec<String>, name: &str) -> CertificateParams {
    let mut certificate = CertificateParams::new(hosts).unwrap();
    certificate.distinguished_name = DistinguishedName::new();
    let named = &mut certificate.distinguished_name;
    named.push(DnType::CommonName, name);
    certificate
}

fn settings(folder: &Path, password: &str) -> String {
    let (keys, ca) = (folder.join("broker.pem"), folder.join("ca.pem"));
    let module = "org.apache.kafka.common.security";
    format!(
        "ssl.keystore.type=PEM\n\
         ssl.keystore.location={}\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={}\n\
         listener.name.certified.ssl.client.auth=required\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.login.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_{USER}=\"{password}\";\n\
         listener.name.login.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
         listener.name.login.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
        keys.display(),
        ca.display()
    )
}
