//! Promise 12 as buyers see it: exactly one message for each confirmed order, in the buyer's language. [pure]

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::Fault;

/// A message as it lies in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub file: String,
    /// Name and text of the file, with line folds taken out: searched for the order's id.
    pub text: String,
    /// `Content-Language`, if the message names it.
    pub language: Option<String>,
}

/// A confirmed order and the language it was placed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due<'a> {
    pub order_id: &'a str,
    pub locale: &'a str,
}

/// What the messages come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Orders with exactly one message.
    pub found: u64,
    /// Events that these messages tell of: each names its own as Message-ID.
    pub events: u64,
    pub faults: Vec<(Fault, String)>,
}

/// Every word that looks like the id of an order: 36 hexadecimal digits and hyphens.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-')
        .filter(|word| word.len() == 36)
}

/// The event that a message tells of.
fn event_of(message: &Message) -> Option<&str> {
    message
        .text
        .lines()
        .find_map(|line| line.strip_prefix("Message-ID:"))
        .map(str::trim)
}

/// Holds the folder against the orders.
pub fn judge(dues: &[Due<'_>], messages: &[Message]) -> Verdict {
    let mut by_order: BTreeMap<&str, Vec<&Message>> =
        dues.iter().map(|due| (due.order_id, Vec::new())).collect();
    for message in messages {
        let mut named: Vec<&str> = ids(&message.text).collect();
        named.sort_unstable();
        named.dedup();
        for id in named {
            if let Some(of_order) = by_order.get_mut(id) {
                of_order.push(message);
            }
        }
    }
    let mut verdict = Verdict::default();
    let told = by_order
        .values()
        .flatten()
        .filter_map(|message| event_of(message));
    verdict.events = told.collect::<BTreeSet<_>>().len() as u64;
    for due in dues {
        match by_order.get(due.order_id).map_or(&[][..], Vec::as_slice) {
            [] => verdict.fault(Fault::MessageMissing, format!("order {}", due.order_id)),
            [one] => {
                verdict.found += 1;
                if one.language.as_deref() != Some(due.locale) {
                    let text = format!("{}: {:?} for {}", one.file, one.language, due.locale);
                    verdict.fault(Fault::MessageLanguage, text);
                }
            }
            [one, two, ..] => {
                let text = format!("order {}: {} and {}", due.order_id, one.file, two.file);
                verdict.fault(Fault::MessageTwice, text);
            }
        }
    }
    verdict
}

impl Verdict {
    /// Whether no order waits for its message any more.
    pub fn is_complete(&self) -> bool {
        self.faults
            .iter()
            .all(|(fault, _)| *fault != Fault::MessageMissing)
    }

    fn fault(&mut self, fault: Fault, text: String) {
        self.faults.push((fault, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "01958c5e-7a00-7000-8000-000000000001";
    const B: &str = "01958c5e-7a00-7000-8000-000000000002";

    fn message(order: &str, language: Option<&str>) -> Message {
        Message {
            file: format!("{order}.eml"),
            text: format!(
                "{order}.eml\nMessage-ID: <{order}@shop>\n\nOrder <{order}>, again {order}."
            ),
            language: language.map(str::to_owned),
        }
    }

    #[test]
    fn one_message_an_order_in_its_language() {
        let dues = [
            Due {
                order_id: A,
                locale: "en",
            },
            Due {
                order_id: B,
                locale: "pt-BR",
            },
        ];
        let good = [message(A, Some("en")), message(B, Some("pt-BR"))];
        assert_eq!(
            judge(&dues, &good),
            Verdict {
                found: 2,
                events: 2,
                faults: vec![]
            }
        );
        for (messages, fault) in [
            (vec![message(A, Some("en"))], Fault::MessageMissing),
            (
                vec![good[0].clone(), good[0].clone(), good[1].clone()],
                Fault::MessageTwice,
            ),
            (
                vec![good[0].clone(), message(B, Some("en"))],
                Fault::MessageLanguage,
            ),
            (
                vec![good[0].clone(), message(B, None)],
                Fault::MessageLanguage,
            ),
        ] {
            let verdict = judge(&dues, &messages);
            assert_eq!(
                verdict.faults.iter().map(|f| f.0).collect::<Vec<_>>(),
                [fault]
            );
        }
    }
}
