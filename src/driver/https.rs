//! Connections to web servers of others, by https: whose certificates count.

use std::error::Error;
use std::sync::Arc;

use anyhow::{Context, ensure};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

/// Connects by https, or by http where the address says so.
pub type Connector = HttpsConnector<HttpConnector>;

/// What it connects with.
pub type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

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

/// One that connects as `http` does, speaks HTTP/1.1 and trusts the authorities of `ca` (PEM) alone; without
/// it, those of this machine.
///
/// # Errors
/// As [`connector`]; or nobody at all would be trusted.
pub fn connector_over(mut http: HttpConnector, ca: Option<&[u8]>) -> anyhow::Result<Connector> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => trust(&mut roots, ca)?,
        None => roots = of_this_machine(),
    }
    ensure!(!roots.is_empty(), "this machine trusts no authority");
    let mut tls = config(roots)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    http.enforce_http(false);
    let mut connector = Connector::from((http, tls));
    connector.enforce_https();
    Ok(connector)
}

/// One that connects as `http` does, without TLS.
///
/// # Errors
/// None that is known of.
pub fn connector_in_the_clear(http: HttpConnector) -> anyhow::Result<Connector> {
    Ok(Connector::from((http, config(RootCertStore::empty())?)))
}

/// What went wrong with TLS, if that is what went wrong: the other end is not who it should be, or does not
/// speak as we do.
pub fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io.get_ref().and_then(|inner| tls_error(inner));
    }
    let found = error.downcast_ref::<rustls::Error>();
    found.or_else(|| error.source().and_then(tls_error))
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
