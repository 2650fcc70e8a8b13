//! What we write to people: from an event to a message, in their language.
//!
//! The facts come from outside. Whatever goes into a line of a message is made one line first, with
//! nothing in it that a mail program could take for something else: no line break can end a header,
//! and no invisible character can turn the direction of the text.

use crate::event::{Envelope, Event, Order};
use crate::notify::language::Language;

/// The consumer group that tells people.
pub const GROUP: &str = "notify";
/// The reason that a cancelled order's events give where its show was cancelled.
const SHOW_CANCELLED: &str = "show-cancelled";
/// Characters of a fact that a message repeats.
const FACT_CHARS_MAX: usize = 200;
/// Characters of all seats together.
const SEATS_CHARS_MAX: usize = 600;

/// What a message tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The order is paid.
    Confirmed,
    /// The payment failed for good.
    Declined,
    /// The order was cancelled.
    Cancelled,
    /// The order was cancelled with its whole show.
    ShowCancelled,
    /// The money went back.
    Refunded,
}

impl Kind {
    /// The word in file names and in `notices`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::ShowCancelled => "show-cancelled",
            Self::Refunded => "refunded",
        }
    }
}

/// A message to one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it tells of.
    pub kind: Kind,
    /// The language it is written in.
    pub language: Language,
    /// The address as the customer gave it. The sender decides whether it is one.
    pub to: String,
    /// One line.
    pub subject: String,
    /// Plain text; every line is short enough for any mail server.
    pub body: String,
}

/// Whether somebody is told about events of this `type`.
pub fn concerns(kind: &str) -> bool {
    matches!(
        kind,
        "OrderConfirmed" | "OrderDeclined" | "OrderCancelled" | "OrderRefunded"
    )
}

/// The message that an event causes, and the order it is about. `None`: nobody is told.
pub fn compose(envelope: &Envelope) -> Option<(&Order, Message)> {
    let (kind, order) = match &envelope.event {
        Event::OrderConfirmed(order) => (Kind::Confirmed, order),
        Event::OrderDeclined(order) => (Kind::Declined, order),
        Event::OrderCancelled(order) if order.reason.as_deref() == Some(SHOW_CANCELLED) => {
            (Kind::ShowCancelled, order)
        }
        Event::OrderCancelled(order) => (Kind::Cancelled, order),
        Event::OrderRefunded(order) => (Kind::Refunded, order),
        Event::HoldPlaced(_)
        | Event::HoldExpired(_)
        | Event::OrderPlaced(_)
        | Event::StockChanged(_)
        | Event::ShowSoldOut(_)
        | Event::JoinsCounted(_) => return None,
    };
    Some((order, write(kind, order)))
}

fn write(kind: Kind, order: &Order) -> Message {
    let language = Language::of(&order.customer.locale);
    let (subject, opening, closing) = words(kind, language);
    let name = one_line(&order.event.name, FACT_CHARS_MAX);
    let starts_at = order.event.starts_at.as_deref();
    let when = starts_at.and_then(|at| language.instant(at));
    let labels = labels(language);
    let mut lines = vec![
        opening.to_owned(),
        String::new(),
        format!("{}: {name}", labels.show),
    ];
    lines.extend(when.map(|when| format!("{}: {when}", labels.when)));
    lines.push(format!(
        "{}: {}",
        labels.seats,
        one_line(&order.seats.join(", "), SEATS_CHARS_MAX)
    ));
    lines.push(format!(
        "{}: {}",
        labels.total,
        language.amount(order.total)
    ));
    lines.push(format!("{}: {}", labels.order, order.order_id));
    lines.push(String::new());
    lines.push(closing.to_owned());
    Message {
        kind,
        language,
        to: order.customer.email.clone(),
        subject: format!("{subject}: {name}"),
        body: lines.join("\n") + "\n",
    }
}

/// A text as one line of at most `max` characters. Controls and line ends become spaces; marks that
/// turn the direction of what follows are left out.
fn one_line(text: &str, max: usize) -> String {
    let plain: String = text
        .chars()
        .filter(|c| !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = plain.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(max).collect()
}

struct Labels {
    show: &'static str,
    when: &'static str,
    seats: &'static str,
    total: &'static str,
    order: &'static str,
}

const fn labels(language: Language) -> Labels {
    match language {
        Language::PtBr => Labels {
            show: "Evento",
            when: "Quando",
            seats: "Lugares",
            total: "Total",
            order: "Pedido",
        },
        Language::En => Labels {
            show: "Event",
            when: "When",
            seats: "Seats",
            total: "Total",
            order: "Order",
        },
        Language::Es => Labels {
            show: "Evento",
            when: "Cuándo",
            seats: "Lugares",
            total: "Total",
            order: "Pedido",
        },
    }
}

/// Subject, opening and closing.
type Words = (&'static str, &'static str, &'static str);

const fn words(kind: Kind, language: Language) -> Words {
    match kind {
        Kind::Confirmed => confirmed(language),
        Kind::Declined => declined(language),
        Kind::Cancelled => cancelled(language),
        Kind::ShowCancelled => show_cancelled(language),
        Kind::Refunded => refunded(language),
    }
}

const fn confirmed(language: Language) -> Words {
    match language {
        Language::PtBr => (
            "Pedido confirmado",
            "Seu pedido está confirmado. Bom espetáculo!",
            "Guarde esta mensagem: o número do pedido é o seu comprovante.",
        ),
        Language::En => (
            "Order confirmed",
            "Your order is confirmed. Enjoy the show!",
            "Keep this message: the order number is your proof of purchase.",
        ),
        Language::Es => (
            "Pedido confirmado",
            "Tu pedido está confirmado. ¡Disfruta del espectáculo!",
            "Guarda este mensaje: el número de pedido es tu comprobante.",
        ),
    }
}

const fn declined(language: Language) -> Words {
    match language {
        Language::PtBr => (
            "Pagamento recusado",
            "O pagamento do seu pedido foi recusado e os lugares foram liberados.",
            "Nada foi cobrado.",
        ),
        Language::En => (
            "Payment declined",
            "The payment for your order was declined and the seats have been released.",
            "You have not been charged.",
        ),
        Language::Es => (
            "Pago rechazado",
            "El pago de tu pedido fue rechazado y los lugares quedaron libres.",
            "No se te ha cobrado nada.",
        ),
    }
}

const fn cancelled(language: Language) -> Words {
    match language {
        Language::PtBr => (
            "Pedido cancelado",
            "Seu pedido foi cancelado e os lugares já não são seus.",
            "Se algo foi cobrado, avisaremos quando o valor for devolvido.",
        ),
        Language::En => (
            "Order cancelled",
            "Your order was cancelled and the seats are no longer yours.",
            "If you were charged, we will write again when the money goes back.",
        ),
        Language::Es => (
            "Pedido cancelado",
            "Tu pedido fue cancelado y los lugares ya no son tuyos.",
            "Si se te cobró algo, te escribiremos cuando se devuelva el dinero.",
        ),
    }
}

const fn show_cancelled(language: Language) -> Words {
    match language {
        Language::PtBr => (
            "Evento cancelado",
            "O evento foi cancelado e, com ele, o seu pedido.",
            "Tudo o que foi cobrado será devolvido: avisaremos quando isso acontecer.",
        ),
        Language::En => (
            "Event cancelled",
            "The event was cancelled, and your order with it.",
            "Whatever you were charged goes back: we will write again when it has.",
        ),
        Language::Es => (
            "Evento cancelado",
            "El evento fue cancelado y, con él, tu pedido.",
            "Todo lo que se te cobró se devolverá: te escribiremos cuando ocurra.",
        ),
    }
}

const fn refunded(language: Language) -> Words {
    match language {
        Language::PtBr => (
            "Valor devolvido",
            "O valor do seu pedido foi devolvido. O pedido não vale mais.",
            "O prazo até aparecer no extrato depende do seu banco.",
        ),
        Language::En => (
            "Order refunded",
            "Your order was refunded and is no longer valid.",
            "How soon it shows on your statement depends on your bank.",
        ),
        Language::Es => (
            "Pedido reembolsado",
            "Te hemos devuelto el importe de tu pedido, que ya no es válido.",
            "El plazo hasta verlo en tu cuenta depende de tu banco.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::codec;

    fn golden(name: &str) -> Envelope {
        let path = format!(
            "{}/tests/golden/event/v1/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let payload = std::fs::read_to_string(path).unwrap();
        codec::from_json(payload.trim_end(), 1, None).unwrap()
    }

    fn confirmed(change: impl FnOnce(&mut Order)) -> Message {
        let mut envelope = golden("order_confirmed");
        let Event::OrderConfirmed(order) = &mut envelope.event else {
            panic!("not a confirmation");
        };
        change(order);
        compose(&envelope).unwrap().1
    }

    #[test]
    fn a_confirmation_has_every_fact_in_the_readers_language() {
        let message = confirmed(|_| {});
        assert_eq!(message.subject, "Pedido confirmado: Stadium Show");
        assert_eq!(message.to, "ana@example.com");
        let body = "\
Seu pedido está confirmado. Bom espetáculo!

Evento: Stadium Show
Quando: 1 de maio de 2027, 21:00 (UTC-03:00)
Lugares: B-12, B-13
Total: R$ 780,00
Pedido: 01958c5e-7a00-7000-8000-000000000002

Guarde esta mensagem: o número do pedido é o seu comprovante.
";
        assert_eq!(message.body, body);
        for (locale, subject, total) in [
            ("en", "Order confirmed: Stadium Show", "Total: R$780.00"),
            ("es", "Pedido confirmado: Stadium Show", "Total: 780,00 R$"),
            ("fr", "Order confirmed: Stadium Show", "Total: R$780.00"),
        ] {
            let message = confirmed(|order| order.customer.locale = locale.to_owned());
            assert_eq!(message.subject, subject);
            assert!(message.body.contains(total), "{}", message.body);
        }
    }

    #[test]
    fn four_kinds_of_event_are_told_and_the_rest_are_not() {
        for (name, kind) in [
            ("order_confirmed", Some(Kind::Confirmed)),
            ("order_declined", Some(Kind::Declined)),
            ("order_cancelled", Some(Kind::Cancelled)),
            ("order_refunded", Some(Kind::Refunded)),
            ("order_placed", None),
            ("hold_placed", None),
            ("hold_expired", None),
            ("stock_changed", None),
            ("show_sold_out", None),
        ] {
            let envelope = golden(name);
            let told = compose(&envelope).map(|(_, message)| message.kind);
            assert_eq!(told, kind, "{name}");
            assert_eq!(concerns(envelope.event.kind()), kind.is_some(), "{name}");
        }
    }

    #[test]
    fn a_cancelled_show_is_told_as_such_in_three_languages() {
        for (locale, reason, subject) in [
            ("pt-BR", SHOW_CANCELLED, "Evento cancelado: Stadium Show"),
            ("en", SHOW_CANCELLED, "Event cancelled: Stadium Show"),
            ("es", SHOW_CANCELLED, "Evento cancelado: Stadium Show"),
            (
                "en",
                "cancelled-by-operator",
                "Order cancelled: Stadium Show",
            ),
        ] {
            let mut envelope = golden("order_cancelled");
            let Event::OrderCancelled(order) = &mut envelope.event else {
                panic!("not a cancellation");
            };
            order.customer.locale = locale.to_owned();
            order.reason = Some(reason.to_owned());
            assert_eq!(compose(&envelope).unwrap().1.subject, subject);
        }
    }

    #[test]
    fn hostile_facts_stay_on_their_line() {
        let message = confirmed(|order| {
            order.event.name = "Show\r\nBcc: all@example.com\u{202e}\u{2028}\0".to_owned();
            order.event.starts_at = Some("now\r\nX: y".to_owned());
            order.seats = vec!["A\n\nB".to_owned(); 400];
        });
        assert_eq!(
            message.subject,
            "Pedido confirmado: Show Bcc: all@example.com"
        );
        assert_eq!(message.body.lines().count(), 8, "{}", message.body);
        assert!(message.body.lines().all(|line| line.len() < 900));
        let long = confirmed(|order| order.event.name = "ã".repeat(5_000));
        assert_eq!(
            long.subject.chars().count(),
            "Pedido confirmado: ".len() + 200
        );
    }
}
