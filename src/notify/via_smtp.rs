//! Hands messages to a provider by SMTP.
//!
//! ```text
//! kept connection? ─► sender? ─► recipient? ─► text ─► taken: the connection is kept
//!   └ none, old, or no longer there: a new one
//! ```
//!
//! The event id is the mail's Message-ID. A provider that took a mail and did not say so in time gets it
//! again under the same id; nothing else is ever sent twice.

use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::base::limits::{SMTP_PATIENCE_MS, SMTP_SEND_MS};
use crate::driver::smtp::fault::{CLOSING, Reply, SmtpFault, Stage};
use crate::driver::smtp::{Session, Smtp};
use crate::log::patience::Failure;
use crate::notify::mail::{Mail, Writing, mail};
use crate::notify::{Notice, Sender};
use crate::telemetry::metrics;

/// A provider that takes mail by SMTP. One mail at a time: the consumer sends them one by one.
#[derive(Debug)]
pub struct ViaSmtp {
    provider: Smtp,
    from: Mailbox,
    kept: Mutex<Option<Session>>,
}

impl ViaSmtp {
    /// A sender that connects when there is something to send.
    pub fn new(provider: Smtp, from: Mailbox) -> Self {
        Self {
            provider,
            from,
            kept: Mutex::default(),
        }
    }

    /// A session is taken out while it is used: a caller who goes away in the middle of a dialogue
    /// leaves none behind that is in the middle of one.
    async fn hand_over(&self, mail: &Mail) -> Result<(), SmtpFault> {
        let mut kept = self.kept.lock().await;
        let handed = match kept.take().filter(Session::is_fresh) {
            None => None,
            Some(session) => match self.over(session, mail, &mut kept).await {
                Err(fault) if fault.is_of_sender() => {
                    metrics::smtp_connection("closed");
                    None
                }
                handed => Some(handed),
            },
        };
        match handed {
            Some(handed) => handed,
            None => {
                let session = self.provider.open().await?;
                self.over(session, mail, &mut kept).await
            }
        }
    }

    /// Hands a mail over on a session, and keeps that where it may be used again.
    async fn over(
        &self,
        mut session: Session,
        mail: &Mail,
        kept: &mut Option<Session>,
    ) -> Result<(), SmtpFault> {
        let handed = session
            .hand_over(&self.from.email, &mail.to, &mail.bytes)
            .await;
        if !handed.as_ref().is_err_and(SmtpFault::ends_session) {
            *kept = Some(session);
        }
        handed
    }
}

#[async_trait]
impl Sender for ViaSmtp {
    /// The receipt is the Message-ID, by which the provider's own log knows the mail too.
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        let mail = mail(notice, &self.from, Writing::Ascii)?;
        let whole = Duration::from_millis(SMTP_SEND_MS);
        let handed = match timeout(whole, self.hand_over(&mail)).await {
            Ok(Ok(())) => Ok(mail.id),
            Ok(Err(fault)) => Err(failure(&fault)),
            Err(_) => Err(failure(&SmtpFault::Slow(Stage::Session))),
        };
        metrics::smtp_mail(match &handed {
            Ok(_) => "taken",
            Err(Failure::Permanent(_)) => "permanent",
            Err(Failure::Transient(_)) => "transient",
            Err(Failure::Throttled { .. }) => "throttled",
            Err(Failure::Away(_)) => "away",
        });
        handed
    }
}

/// What a fault means for the message.
///
/// Only what was said of one recipient or one text is that message's own matter. A log-in or a sender
/// that is refused would be refused with every other message too: setting those aside one by one would
/// make a heap of dead letters of one wrong password.
fn failure(fault: &SmtpFault) -> Failure {
    let reason = fault.to_string();
    let SmtpFault::Refused { at, reply } = fault else {
        return Failure::Away(reason);
    };
    let is_permanent = 500 <= reply.code;
    match at {
        _ if reply.code == CLOSING => throttled(reason),
        Stage::Session => Failure::Away(reason),
        _ if is_of_log_in(reply) => Failure::Away(reason),
        Stage::Sender if is_permanent => Failure::Away(reason),
        Stage::Sender => throttled(reason),
        Stage::Recipient | Stage::Text if is_permanent => Failure::Permanent(reason),
        Stage::Recipient | Stage::Text => Failure::Transient(reason),
    }
}

fn throttled(reason: String) -> Failure {
    Failure::Throttled {
        retry_after_ms: SMTP_PATIENCE_MS,
        reason,
    }
}

/// Codes that ask who we are (RFC 4954), or say that we speak out of turn, whatever was asked.
const fn is_of_log_in(reply: &Reply) -> bool {
    matches!(reply.code, 454 | 503 | 530 | 534 | 535 | 538)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_means_what_it_was_said_of() {
        use Stage::{Recipient, Sender, Session, Text};
        for (at, code, means) in [
            (Session, 421, "throttled"),
            (Session, 454, "away"),
            (Session, 535, "away"),
            (Session, 554, "away"),
            (Sender, 421, "throttled"),
            (Sender, 450, "throttled"),
            (Sender, 451, "throttled"),
            (Sender, 452, "throttled"),
            (Sender, 530, "away"),
            (Sender, 550, "away"),
            (Sender, 553, "away"),
            (Recipient, 421, "throttled"),
            (Recipient, 450, "transient"),
            (Recipient, 451, "transient"),
            (Recipient, 452, "transient"),
            (Recipient, 501, "permanent"),
            (Recipient, 503, "away"),
            (Recipient, 530, "away"),
            (Recipient, 550, "permanent"),
            (Recipient, 553, "permanent"),
            (Text, 421, "throttled"),
            (Text, 451, "transient"),
            (Text, 452, "transient"),
            (Text, 535, "away"),
            (Text, 552, "permanent"),
            (Text, 554, "permanent"),
        ] {
            let reply = Reply { code, status: None };
            let word = match failure(&SmtpFault::Refused { at, reply }) {
                Failure::Permanent(_) => "permanent",
                Failure::Transient(_) => "transient",
                Failure::Throttled { .. } => "throttled",
                Failure::Away(_) => "away",
            };
            assert_eq!(word, means, "{code} at {at:?}");
        }
        for fault in [
            SmtpFault::Slow(Recipient),
            SmtpFault::Broken(Text),
            SmtpFault::Unreachable("connection refused".to_owned()),
            SmtpFault::NotOffered("STARTTLS"),
        ] {
            assert!(matches!(failure(&fault), Failure::Away(_)), "{fault}");
        }
    }
}
