//! TLS of a listener: a certificate in two files, which may be replaced at any time.
//!
//! The files are looked at every second, and read at once on SIGHUP. What they hold after a change serves the connections that
//! come then; those that are open keep what they have. A certificate and a key that do not fit, as when
//! one of the two has been written and the other has not, change nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::telemetry::metrics;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{0}: cannot be read: {1}")]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// A file does not hold what it should, in PEM.
    #[error("{0}: holds no {1} in PEM")]
    NotPem(PathBuf, &'static str),
    /// They do not belong together, or are of a kind that is not known.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate of a listener.
#[derive(Debug)]
pub struct Tls {
    cert_file: PathBuf,
    key_file: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

/// When both files were changed, and how long they are.
type Seen = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// Reads a chain of certificates and its key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn open(cert_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            config: RwLock::new(Arc::new(read(cert_file, key_file)?)),
            cert_file: cert_file.to_owned(),
            key_file: key_file.to_owned(),
        })
    }

    /// What shakes hands with the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }

    /// Reads the files anew whenever they change, and when the process is told to (SIGHUP). Doing so twice
    /// changes nothing.
    ///
    /// # Errors
    /// SIGHUP cannot be listened for. What cannot be read is logged, and what is known stays.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut told = signal(SignalKind::hangup())?;
        let mut seen = self.look().await;
        loop {
            let is_told = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = told.recv() => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            let now = self.look().await;
            if is_told || now != seen {
                seen = now;
                self.reload();
            }
        }
    }

    async fn look(&self) -> Seen {
        let mut seen = [None, None];
        for (seen, file) in seen.iter_mut().zip([&self.cert_file, &self.key_file]) {
            let about = tokio::fs::metadata(file).await.ok();
            *seen = about.and_then(|about| Some((about.modified().ok()?, about.len())));
        }
        seen
    }

    fn reload(&self) {
        match read(&self.cert_file, &self.key_file) {
            Ok(config) => {
                let mut current = self.config.write().unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(config);
                metrics::certificate("loaded");
                tracing::info!("a new certificate serves from now on");
            }
            Err(error) => {
                metrics::certificate("refused");
                tracing::warn!(error = %error, "the new certificate cannot be used; the old one stays");
            }
        }
    }
}

fn read(cert_file: &Path, key_file: &Path) -> Result<ServerConfig, TlsError> {
    let bytes = |file: &Path| {
        let read = std::fs::read(file);
        read.map_err(|error| TlsError::Unreadable(file.to_owned(), error))
    };
    let (chain, key) = (bytes(cert_file)?, bytes(key_file)?);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::NotPem(cert_file.to_owned(), "certificate"))?;
    if chain.is_empty() {
        return Err(TlsError::NotPem(cert_file.to_owned(), "certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| TlsError::NotPem(key_file.to_owned(), "private key"))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_serve_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let cert = file("cert", &one.cert.pem());
        let key = file("key", &one.signing_key.serialize_pem());
        let strange = file("strange", &other.signing_key.serialize_pem());
        let (empty, absent) = (file("empty", ""), folder.path().join("absent"));
        assert!(Tls::open(&cert, &key).is_ok());
        for (cert, key) in [
            (&cert, &strange),
            (&empty, &key),
            (&cert, &empty),
            (&absent, &key),
            (&cert, &absent),
        ] {
            Tls::open(cert, key).unwrap_err();
        }
    }
}
