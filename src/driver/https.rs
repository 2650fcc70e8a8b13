//! Connections to web servers of others, by https: whose certificates count.

use std::sync::Arc;

use anyhow::{Context, ensure};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Connects by https, or by http where the address says so.
pub type Connector = HttpsConnector<HttpConnector>;

/// A connector that trusts the authorities of this machine, and those of `ca` (PEM) beside them.
///
/// # Errors
/// `ca` holds no certificate, or one that is none of an authority.
pub fn connector(ca: Option<&[u8]>) -> anyhow::Result<Connector> {
    let mut roots = of_this_machine();
    if let Some(ca) = ca {
        trust(&mut roots, ca)?;
    }
    let builder = HttpsConnectorBuilder::new().with_tls_config(config(roots)?);
    Ok(builder.https_or_http().enable_http1().build())
}

/// TLS for connections that speak HTTP/1.1 and trust the authorities of `ca` (PEM) alone; without it, those of
/// this machine.
///
/// # Errors
/// As [`connector`]; or nobody at all would be trusted.
pub fn trusting(ca: Option<&[u8]>) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => trust(&mut roots, ca)?,
        None => roots = of_this_machine(),
    }
    ensure!(!roots.is_empty(), "this machine trusts no authority");
    let mut tls = config(roots)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// What of them cannot be read is not trusted; that shows where it is needed.
fn of_this_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn trust(roots: &mut RootCertStore, ca: &[u8]) -> anyhow::Result<()> {
    let known = roots.len();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate = certificate.context("a certificate is no PEM")?;
        roots.add(certificate).context("a certificate is none")?;
    }
    ensure!(known < roots.len(), "there is no certificate in it");
    Ok(())
}

fn config(roots: RootCertStore) -> anyhow::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .context("choosing versions of TLS")?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
