//! Questions to web servers of others, by https: whose certificates count.

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
    let mut roots = RootCertStore::empty();
    // What of the machine's cannot be read is not trusted; that shows where it is needed.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(ca) = ca {
        let known = roots.len();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            let certificate = certificate.context("a certificate is no PEM")?;
            roots.add(certificate).context("a certificate is none")?;
        }
        ensure!(known < roots.len(), "there is no certificate in it");
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .context("choosing versions of TLS")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    Ok(builder.https_or_http().enable_http1().build())
}
