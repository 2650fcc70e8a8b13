//! Why a mail was not taken, in codes and in our own words. What a provider says in words is never
//! repeated, for it repeats whom a mail was to.

use lettre::transport::smtp::Error;

/// A provider that ends the connection, whatever it was asked.
pub const CLOSING: u16 = 421;

/// What was being asked when a provider said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Greeting, TLS, log-in.
    Session,
    /// May this sender send?
    Sender,
    /// May this person be sent to?
    Recipient,
    /// Is this text taken?
    Text,
}

impl Stage {
    const fn word(self) -> &'static str {
        match self {
            Self::Session => "the connection",
            Self::Sender => "the sender",
            Self::Recipient => "the recipient",
            Self::Text => "the text",
        }
    }
}

/// A provider's no: the code of RFC 5321, and that of RFC 3463 where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 400 to 599.
    pub code: u16,
    /// `5.1.1`.
    pub status: Option<String>,
}

/// Why a mail was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SmtpFault {
    /// The provider said no.
    #[error(
        "the provider refused {}: {}{}",
        .at.word(),
        .reply.code,
        .reply.status.iter().map(|status| format!(" {status}")).collect::<String>()
    )]
    Refused {
        /// What was asked.
        at: Stage,
        /// What it said.
        reply: Reply,
    },
    /// No reply in time.
    #[error("the provider did not answer in time, asked about {}", .0.word())]
    Slow(Stage),
    /// The connection ended, or what came over it was no SMTP.
    #[error("the connection to the provider broke, asked about {}", .0.word())]
    Broken(Stage),
    /// There was none.
    #[error("no connection to the provider: {0}")]
    Unreachable(String),
    /// TLS or the log-in is not to be had there.
    #[error("the provider does not offer {0}")]
    NotOffered(&'static str),
}

impl SmtpFault {
    /// What the library says of it.
    pub(super) fn of(at: Stage, error: &Error) -> Self {
        let words = std::error::Error::source(error).map(ToString::to_string);
        if let Some(code) = error.status() {
            let status = words.as_deref().and_then(status);
            let code = code.into();
            let reply = Reply { code, status };
            return SmtpFault::Refused { at, reply };
        }
        match (at, words) {
            // Words of the system or of TLS. Of what was no reply, the words are not ours to repeat.
            (Stage::Session, Some(words)) if !error.is_response() => SmtpFault::Unreachable(words),
            _ => SmtpFault::Broken(at),
        }
    }

    /// Whether a session is over after it. What is said of one recipient or one text is not: the next
    /// mail may be taken. A refused sender may be one who has sent too much over this connection.
    pub fn ends_session(&self) -> bool {
        match self {
            Self::Refused { at, reply } => {
                !matches!(at, Stage::Recipient | Stage::Text) || reply.code == CLOSING
            }
            Self::Slow(_) | Self::Broken(_) | Self::Unreachable(_) | Self::NotOffered(_) => true,
        }
    }

    /// Whether it came before anything was said of the person whom a mail is to: on a session that was
    /// kept it may only say that the provider had not kept it.
    pub fn is_of_sender(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                at: Stage::Sender,
                ..
            } | Self::Slow(Stage::Sender)
                | Self::Broken(Stage::Sender)
        )
    }
}

/// The code at the beginning of a reply's words: `5.1.1`.
fn status(words: &str) -> Option<String> {
    let first = words.split([' ', '\n']).next()?;
    let numbers: Vec<&str> = first.split('.').collect();
    let is_number = |text: &&str| {
        (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    (numbers.len() == 3 && numbers.iter().all(is_number)).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_provider_says_only_codes_are_repeated() {
        for (words, code) in [
            ("5.1.1 <ana@example.com> unknown", Some("5.1.1")),
            ("4.7.28\nlines", Some("4.7.28")),
            ("<ana@example.com> unknown", None),
            ("5.1", None),
            ("1.2.3.4 is blocked", None),
            ("a.b.c", None),
            ("", None),
        ] {
            assert_eq!(status(words).as_deref(), code, "{words}");
        }
        let fault = SmtpFault::Refused {
            at: Stage::Recipient,
            reply: Reply {
                code: 550,
                status: Some("5.1.1".to_owned()),
            },
        };
        let says = "the provider refused the recipient: 550 5.1.1";
        assert_eq!(fault.to_string(), says);
    }
}
