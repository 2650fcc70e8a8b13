//! An authority whose certificates nobody trusts but who is told to, made now.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// It signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, for those who are to trust it.
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Debug)]
pub(crate) struct Certified {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        Self { issuer, pem }
    }

    /// A certificate for these names and addresses.
    pub(crate) fn certify(&self, names: &[&str]) -> Certified {
        self.sign(&naming(names))
    }

    /// One that was good once.
    pub(crate) fn certify_once(&self, name: &str) -> Certified {
        let mut params = naming(&[name]);
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        Certified {
            cert: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

fn naming(names: &[&str]) -> CertificateParams {
    let names = names.iter().map(|&name| name.to_owned());
    CertificateParams::new(names.collect::<Vec<_>>()).unwrap()
}

impl Certified {
    /// What shakes hands with it, by whichever version of HTTP the other end prefers.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}
