//! A message as mail: the same bytes whoever carries it, and the same Message-ID however often.
//!
//! Nothing of a message can end a line of the mail's head: what has a line end where none can be is
//! refused here, before any library has an opinion of it.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, ensure};
use lettre::Address;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox, Message, SinglePart};

use crate::base::email::recipient;
use crate::log::patience::Failure;
use crate::notify::Notice;

/// How the text of a mail is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// As it is, so that it can be read where it lies. What no mail server would take (a line that is
    /// too long) is encoded all the same.
    Readable,
    /// In ASCII alone, which every server passes on as it came.
    Ascii,
}

/// A mail to one person.
#[derive(Debug)]
pub struct Mail {
    /// The Message-ID, with its brackets.
    pub id: String,
    /// Whom it is to.
    pub to: Address,
    /// Head and text.
    pub bytes: Vec<u8>,
}

/// Whom mail comes from: an address, with a name or without.
///
/// # Errors
/// It is none.
pub fn sender(from: &str) -> anyhow::Result<Mailbox> {
    let wrong = || format!("{from:?} is not an address that mail can come from");
    ensure!(!from.contains(char::is_control), wrong());
    let mailbox: Mailbox = from.parse().with_context(wrong)?;
    recipient(mailbox.email.as_ref()).with_context(wrong)?;
    Ok(mailbox)
}

/// The mail that a notice is.
///
/// # Errors
/// [`Failure::Permanent`] where none can be made of it.
pub fn mail(notice: &Notice, from: &Mailbox, writing: Writing) -> Result<Mail, Failure> {
    let refused = |why: &str| Failure::Permanent(why.to_owned());
    let message = &notice.message;
    let to = recipient(&message.to)
        .ok_or_else(|| refused("the address is not one that mail can go to"))?;
    if message.subject.contains(char::is_control) {
        return Err(refused("the subject is more than one line"));
    }
    let text = message.body.clone();
    let body = match writing {
        Writing::Ascii => Body::new(text),
        Writing::Readable => Body::new_with_encoding(text, ContentTransferEncoding::EightBit)
            .unwrap_or_else(Body::new),
    };
    let part = SinglePart::builder()
        .header(ContentType::TEXT_PLAIN)
        .body(body);
    let id = format!("<{}@{}>", notice.event_id, from.email.domain());
    let mail = Message::builder()
        .message_id(Some(id.clone()))
        .date(UNIX_EPOCH + Duration::from_millis(notice.at.unix_ms()))
        .from(from.clone())
        .to(Mailbox::new(None, to.clone()))
        .subject(message.subject.clone())
        .singlepart(part)
        .map_err(|_| refused("no mail can be made of it"))?;
    Ok(Mail {
        id,
        to,
        bytes: mail.formatted(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::IdSource;
    use crate::base::limits::EMAIL_BYTES_MAX;
    use crate::base::time::Timestamp;
    use crate::notify::compose::{Kind, Message as Composed};
    use crate::notify::language::Language;

    fn notice(to: &str, subject: &str) -> Notice {
        let at = Timestamp::from_unix_ms(1_800_000_000_000);
        let ids = IdSource::seeded(1);
        Notice {
            event_id: ids.event(at),
            order_id: ids.order(at),
            at,
            message: Composed {
                kind: Kind::Confirmed,
                language: Language::PtBr,
                to: to.to_owned(),
                subject: subject.to_owned(),
                body: "Seu pedido está confirmado.\n.\n".to_owned(),
            },
        }
    }

    fn made(to: &str, subject: &str, writing: Writing) -> Result<Mail, Failure> {
        let from = sender("Catraca <tickets@catraca.example>").unwrap();
        mail(&notice(to, subject), &from, writing)
    }

    #[test]
    fn a_line_end_where_none_can_be_is_refused() {
        for to in [
            "ana@example.com\r\nBcc: all@example.com",
            "ana@example.com\nDATA",
            "\"ana\r\nRCPT TO:<all\"@example.com",
            "\"a> NOTIFY=NEVER RCPT TO:<b\"@example.com",
            "ana@example.com\0",
            "ana@example.com, bea@example.com",
            "ana@example.com bea@example.com",
            "<ana@example.com>",
            "ana",
            "",
        ] {
            let refused = made(to, "Pedido", Writing::Ascii).unwrap_err();
            let Failure::Permanent(why) = refused else {
                panic!("{to:?}: {refused:?}");
            };
            assert!(!why.contains("example.com"), "{why}");
        }
        let long = format!("{}@example.com", "a".repeat(EMAIL_BYTES_MAX));
        assert!(made(&long, "Pedido", Writing::Ascii).is_err());
        for subject in ["Pedido\r\nBcc: all@example.com", "Pedido\nX: y", "a\0b"] {
            let refused = made("ana@example.com", subject, Writing::Ascii);
            assert!(matches!(refused, Err(Failure::Permanent(_))), "{subject:?}");
        }
        for from in [
            "Catraca\r\nBcc: all@example.com <tickets@catraca.example>",
            "tickets@catraca.example\r\nX: y",
            "tickets",
            "",
        ] {
            assert!(sender(from).is_err(), "{from:?}");
        }
    }

    #[test]
    fn what_goes_over_the_wire_is_ascii_and_what_lies_in_a_folder_can_be_read() {
        let wire = made("ana@example.com", "Coração", Writing::Ascii).unwrap();
        assert!(wire.bytes.is_ascii());
        let folder = made("ana@example.com", "Coração", Writing::Readable).unwrap();
        let text = String::from_utf8(folder.bytes).unwrap();
        assert!(text.contains("está confirmado"), "{text}");
        assert_eq!(wire.id, folder.id);
        assert!(wire.id.ends_with("@catraca.example>"), "{}", wire.id);
    }
}
