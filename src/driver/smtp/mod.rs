//! SMTP as we use it: one dialogue at a time, every deadline explicit, TLS unless the address says that
//! there is none, and each refusal with what was being asked: the same code means one thing of a
//! recipient and another of a password.
//!
//! `fault.rs` is why a mail was not taken.

pub mod fault;

use std::future::Future;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, Tls, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;
use url::{Host, Url};

use crate::base::limits::{SMTP_CONNECT_MS, SMTP_IDLE_MS, SMTP_REPLY_MS, SMTP_TAKEN_MS};
use crate::base::secret::Secret;
use crate::driver::smtp::fault::{Reply, SmtpFault, Stage};
use crate::telemetry::metrics;

/// A connection that becomes secret before anything is said of mail (STARTTLS).
const SMTP: &str = "smtp";
/// One that is secret from its first byte.
const SMTPS: &str = "smtps";
/// One that never is.
const SMTP_PLAIN: &str = "smtp+plain";

/// How long each part of a dialogue may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// To be reached and greeted.
    pub connect: Duration,
    /// For a reply.
    pub reply: Duration,
    /// For the reply that a mail was taken.
    pub taken: Duration,
    /// How long a connection is kept for the next mail.
    pub idle: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(SMTP_CONNECT_MS),
            reply: Duration::from_millis(SMTP_REPLY_MS),
            taken: Duration::from_millis(SMTP_TAKEN_MS),
            idle: Duration::from_millis(SMTP_IDLE_MS),
        }
    }
}

/// An address that leads to no provider. It never has the address in it: that may have a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SmtpAddressError(String);

/// A provider that takes mail.
#[derive(Debug, Clone)]
pub struct Smtp {
    host: String,
    port: u16,
    tls: Tls,
    login: Option<Credentials>,
    /// What we say our name is.
    name: ClientId,
    deadlines: Deadlines,
}

impl Smtp {
    /// The provider at `smtp://[user:password@]host[:port]`, `smtps://` or `smtp+plain://`. `ca` is the
    /// certificates to trust, PEM; none: those that the machine trusts. `name` is the domain that we
    /// greet with.
    ///
    /// # Errors
    /// [`SmtpAddressError`] where it is no such address, or the certificates are none.
    pub fn new(url: &Secret, ca: Option<&[u8]>, name: &str) -> Result<Self, SmtpAddressError> {
        let wrong = |what: &str| SmtpAddressError(what.to_owned());
        let form = "must be smtp://, smtps:// or smtp+plain:// with [user:password@]host[:port]";
        let url = Url::parse(url.expose()).map_err(|_| wrong(form))?;
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => ip.to_string(),
            Some(Host::Domain(_)) | None => return Err(wrong(form)),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(form));
        }
        let (tls, port) = match url.scheme() {
            SMTP => (Tls::Required(trusted(&host, ca)?), 587),
            SMTPS => (Tls::Wrapper(trusted(&host, ca)?), 465),
            SMTP_PLAIN if ca.is_some() => return Err(wrong("smtp+plain:// has no certificates")),
            SMTP_PLAIN => (Tls::None, 25),
            _ => return Err(wrong(form)),
        };
        let login = login(&url).ok_or_else(|| wrong("user and password go together"))?;
        if login.is_some() && matches!(tls, Tls::None) {
            return Err(wrong(
                "a password does not go over smtp+plain://, where all can read it",
            ));
        }
        Ok(Self {
            host,
            port: url.port().unwrap_or(port),
            tls,
            login,
            name: ClientId::Domain(name.to_owned()),
            deadlines: Deadlines::default(),
        })
    }

    /// The same with other deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// [`SmtpFault`]; nothing was said of any mail.
    pub async fn open(&self) -> Result<Session, SmtpFault> {
        let opened = self.connect().await;
        metrics::smtp_connection(match opened {
            Ok(_) => "opened",
            Err(_) => "failed",
        });
        Ok(Session {
            connection: opened?,
            deadlines: self.deadlines,
            used_at: Instant::now(),
        })
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpFault> {
        let (at, deadlines) = (Stage::Session, &self.deadlines);
        let from_the_first = match &self.tls {
            Tls::Wrapper(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let server = (self.host.as_str(), self.port);
        // A host may have an address that nobody answers at, and another.
        let each = Some(deadlines.connect / 2);
        let connecting =
            AsyncSmtpConnection::connect_tokio1(server, each, &self.name, from_the_first, None);
        let mut connection = within(deadlines.connect, at, connecting).await?;
        if let Tls::Required(parameters) = &self.tls {
            if !connection.can_starttls() {
                return Err(SmtpFault::NotOffered("STARTTLS"));
            }
            let securing = connection.starttls(parameters.clone(), &self.name);
            within(deadlines.connect, at, securing).await?;
        }
        if let Some(login) = &self.login {
            let offered = connection.server_info();
            if offered.get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
                return Err(SmtpFault::NotOffered("a log-in with a password"));
            }
            let logging_in = connection.auth(DEFAULT_MECHANISMS, login);
            within(deadlines.reply, at, logging_in).await?;
        }
        Ok(connection)
    }
}

/// User and password of an address; `None`: one without the other.
fn login(url: &Url) -> Option<Option<Credentials>> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match (url.username(), url.password()) {
        ("", None) => Some(None),
        ("", Some(_)) | (_, None) => None,
        (user, Some(password)) => Some(Some(Credentials::new(decoded(user), decoded(password)))),
    }
}

fn trusted(host: &str, ca: Option<&[u8]>) -> Result<TlsParameters, SmtpAddressError> {
    let mut parameters = TlsParameters::builder(host.to_owned());
    if let Some(ca) = ca {
        let unusable = |_| SmtpAddressError("the certificates to trust are no PEM".to_owned());
        let certificates = Certificate::from_pem(ca).map_err(unusable)?;
        parameters = parameters
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificates);
    }
    let unusable = |error: Error| SmtpAddressError(format!("TLS cannot be used: {error}"));
    parameters.build().map_err(unusable)
}

/// A connection to a provider that takes mails, one after the other.
pub struct Session {
    connection: AsyncSmtpConnection,
    deadlines: Deadlines,
    used_at: Instant,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Whether it was used so lately that the provider has likely kept it too.
    pub fn is_fresh(&self) -> bool {
        self.used_at.elapsed() < self.deadlines.idle
    }

    /// Hands a mail over. After a fault that [`SmtpFault::ends_session`] the session is of no more use.
    ///
    /// # Errors
    /// [`SmtpFault`]. What was slow or broke at [`Stage::Text`] may have been taken all the same.
    pub async fn hand_over(
        &mut self,
        from: &Address,
        to: &Address,
        mail: &[u8],
    ) -> Result<(), SmtpFault> {
        let handed = self.dialogue(from, to, mail).await;
        if handed.as_ref().is_err_and(|fault| !fault.ends_session()) {
            let forgetting = self.connection.command(Rset);
            // Should it fail, the next mail finds the session broken.
            drop(within(self.deadlines.reply, Stage::Session, forgetting).await);
        }
        self.used_at = Instant::now();
        handed
    }

    async fn dialogue(
        &mut self,
        from: &Address,
        to: &Address,
        mail: &[u8],
    ) -> Result<(), SmtpFault> {
        let Deadlines { reply, taken, .. } = self.deadlines;
        let connection = &mut self.connection;
        let mut parameters = Vec::new();
        let is_ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
        if !is_ascii(from) || !is_ascii(to) {
            let offered = connection.server_info();
            if !offered.supports_feature(Extension::SmtpUtfEight) {
                return Err(SmtpFault::Refused {
                    at: Stage::Recipient,
                    reply: Reply {
                        code: 550,
                        status: Some("5.6.7".to_owned()), // RFC 6531: such an address is not possible
                    },
                });
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let asking = connection.command(Mail::new(Some(from.clone()), parameters));
        within(reply, Stage::Sender, asking).await?;
        let asking = connection.command(Rcpt::new(to.clone(), Vec::new()));
        within(reply, Stage::Recipient, asking).await?;
        within(reply, Stage::Text, connection.command(Data)).await?;
        within(taken, Stage::Text, connection.message(mail)).await?;
        Ok(())
    }
}

/// What the provider says within this time.
async fn within<T>(
    deadline: Duration,
    at: Stage,
    saying: impl Future<Output = Result<T, Error>>,
) -> Result<T, SmtpFault> {
    match tokio::time::timeout(deadline, saying).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(error)) => Err(SmtpFault::of(at, &error)),
        Err(_) => Err(SmtpFault::Slow(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Smtp, String> {
        let read = Smtp::new(&Secret::new(url), None, "catraca.example");
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_says_where_and_how_secretly() {
        for (url, host, port, is_secret) in [
            ("smtp://mail.example", "mail.example", 587, true),
            ("smtps://mail.example", "mail.example", 465, true),
            ("smtps://u:p@mail.example:2465/", "mail.example", 2465, true),
            ("smtp+plain://localhost", "localhost", 25, false),
            ("smtp+plain://127.0.0.1:2525", "127.0.0.1", 2525, false),
            ("smtp://[::1]:587", "::1", 587, true),
        ] {
            let smtp = at(url).unwrap();
            assert_eq!((smtp.host.as_str(), smtp.port), (host, port), "{url}");
            assert_eq!(!matches!(smtp.tls, Tls::None), is_secret, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for (url, says) in [
            ("", "must be smtp://"),
            ("mail.example:587", "must be smtp://"),
            ("http://u:hidden@mail.example", "must be smtp://"),
            ("smtp://", "must be smtp://"),
            ("smtp://u:hidden@", "must be smtp://"),
            ("smtp://u:hidden@mail.example:99999", "must be smtp://"),
            ("smtp://u:hidden@mail.example/inbox", "must be smtp://"),
            ("smtp://mail.example?tls=none", "must be smtp://"),
            ("smtp://u@mail.example", "go together"),
            ("smtp://:hidden@mail.example", "go together"),
            ("smtp+plain://u:hidden@mail.example", "all can read it"),
        ] {
            let error = at(url).unwrap_err();
            assert!(error.contains(says), "{url}: {error}");
            assert!(!error.contains("hidden"), "{error}");
        }
        let shown = format!("{:?}", at("smtp://u:hidden@mail.example").unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn a_password_may_have_any_character() {
        let read = at("smtp://ana%40shop:p%3A%2F%20%C3%A7@mail.example").unwrap();
        let meant = Credentials::new("ana@shop".to_owned(), "p:/ ç".to_owned());
        assert!(read.login == Some(meant));
    }
}
