//! The fake's shop: numbered seats, holds, orders, a card that is declined, a folder of messages.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Flaw;

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) flaw: Flaw,
    pub(crate) mail: PathBuf,
    seats: usize,
    taken: usize,
    pub(crate) sold: usize,
    holds: HashMap<String, Vec<String>>,
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Order {
    facts: Value,
    hold: String,
    locale: String,
    approved: bool,
    confirmed: bool,
}

impl Shop {
    pub(crate) fn new(flaw: Flaw, seats: usize, mail: PathBuf) -> Self {
        Self {
            flaw,
            mail,
            seats,
            taken: 0,
            sold: 0,
            holds: HashMap::new(),
            orders: Vec::new(),
        }
    }

    /// What the board says is left: it hears of the shop only when something has been sold.
    pub(crate) fn left(&self) -> Option<usize> {
        (0 < self.sold).then(|| self.seats - self.sold)
    }

    pub(crate) fn hold(&mut self, quantity: usize) -> (u16, Value) {
        if self.seats < self.taken + quantity {
            let word = if self.taken == self.seats {
                "sold-out"
            } else {
                "seats-taken"
            };
            return (
                409,
                json!({"type": format!("urn:catraca:{word}"), "status": 409}),
            );
        }
        let first = if self.flaw == Flaw::SellsTwice {
            0
        } else {
            self.taken
        };
        let seats: Vec<String> = (first..first + quantity)
            .map(|seat| format!("A-{seat}"))
            .collect();
        self.taken += quantity;
        let hold = format!("hold-{}", self.holds.len());
        self.holds.insert(hold.clone(), seats.clone());
        (
            201,
            json!({"hold_id": hold, "seats": seats, "total": 10.0, "expires_in_ms": 60_000}),
        )
    }

    pub(crate) fn order(&mut self, body: &Value) -> (u16, Value) {
        let hold = body["hold_id"].as_str().unwrap_or_default().to_owned();
        if let Some(order) = self.orders.iter().find(|order| order.hold == hold) {
            return (200, order.facts.clone());
        }
        let Some(seats) = self.holds.get(&hold) else {
            return (404, json!({"type": "urn:catraca:no-hold", "status": 404}));
        };
        let id = format!("01958c5e-7a00-7000-8000-{:012}", self.orders.len());
        let facts = json!({
            "order_id": id, "hold_id": hold, "seats": seats,
            "total": {"amount": 10.0, "currency": "BRL"}, "placed_at": "2027-03-14T10:00:07Z",
        });
        self.orders.push(Order {
            facts: facts.clone(),
            hold,
            locale: body["customer"]["locale"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            approved: body["payment"]["token"] != "decline",
            confirmed: false,
        });
        self.settle(self.orders.len() - 1);
        (201, facts)
    }

    pub(crate) fn pay(&mut self, id: &str) -> (u16, Value) {
        let order = self
            .orders
            .iter()
            .position(|order| order.facts["order_id"] == id);
        let Some(order) = order else {
            return (404, Value::Null);
        };
        self.orders[order].approved = true;
        self.settle(order);
        (200, self.orders[order].facts.clone())
    }

    /// Confirms an order that is paid, before its buyer asks.
    fn settle(&mut self, order: usize) {
        let order = &mut self.orders[order];
        if !order.approved || order.confirmed {
            return;
        }
        order.confirmed = true;
        self.sold += order.facts["seats"].as_array().map_or(0, Vec::len);
        let mails = if self.flaw == Flaw::MailsTwice { 2 } else { 1 };
        let id = order.facts["order_id"].as_str().unwrap();
        for copy in 0..mails {
            let mail = format!("Content-Language: {}\r\n\r\nOrder {id}\r\n", order.locale);
            std::fs::write(self.mail.join(format!("{id}-{copy}.eml")), mail).unwrap();
        }
    }

    pub(crate) fn read(&self, id: &str) -> (u16, Value) {
        let order = self
            .orders
            .iter()
            .find(|order| order.facts["order_id"] == id);
        let Some(order) = order.filter(|_| self.flaw != Flaw::LosesOrders) else {
            return (404, json!({"type": "urn:catraca:no-order", "status": 404}));
        };
        let mut facts = order.facts.clone();
        facts["status"] = json!(if order.confirmed {
            "confirmed"
        } else {
            "pending"
        });
        (200, facts)
    }

    pub(crate) fn is_sold_out(&self) -> bool {
        self.sold == self.seats
    }
}
