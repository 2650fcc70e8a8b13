//! One fan, step by step, where a crowd would be too many.

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::sale::{Running, SHOW};
use crate::support::until;

/// A fan with a pass and, once inside, a ticket.
#[derive(Debug)]
pub(crate) struct Visitor {
    client: Client,
    pub(crate) pass: String,
    pub(crate) number: u64,
    pub(crate) ticket: String,
}

impl Visitor {
    /// Joins.
    pub(crate) async fn join(running: &Running) -> Self {
        Self::join_by(running.client()).await
    }

    /// Joins at this gateway.
    pub(crate) async fn join_by(client: Client) -> Self {
        let line = format!("POST /v1/shows/{SHOW}/join");
        let (status, joined) = client.ask(&line, &[], &Value::Null).await;
        assert_eq!(status, 201, "{joined}");
        Self {
            client,
            pass: joined["pass"].as_str().unwrap().to_owned(),
            number: joined["number"].as_u64().unwrap(),
            ticket: String::new(),
        }
    }

    /// Waits for the call and comes in.
    pub(crate) async fn inside(mut self) -> Self {
        self.ticket = until("the fan is called", || async {
            let status = self.status().await;
            status["ticket"].as_str().map(str::to_owned)
        })
        .await;
        self
    }

    /// Asks until somebody has the time to answer.
    async fn ask(&self, what: &str, body: &Value) -> (StatusCode, Value) {
        until(what, || async {
            let answer = self.try_ask(what, body).await.unwrap();
            (answer.0 != StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
        })
        .await
    }

    /// Asks once, whatever the answer. Where nobody has the time, it says when to come back.
    pub(crate) async fn try_ask(
        &self,
        what: &str,
        body: &Value,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let (method, path) = what.split_once(' ').unwrap();
        let line = format!("{method} /v1/shows/{SHOW}/{path}");
        let mut headers = vec![("x-catraca-pass", self.pass.as_str())];
        if !self.ticket.is_empty() {
            headers.push(("x-admission-ticket", self.ticket.as_str()));
        }
        let (head, text) = self.client.exchange(&line, &headers, body).await?;
        if head.status == StatusCode::SERVICE_UNAVAILABLE {
            let after = head.headers.get(RETRY_AFTER);
            let after = after.and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
            assert!(after.is_some(), "{line}: {head:?}");
        }
        let json = serde_json::from_slice(&text).unwrap_or(Value::Null);
        Ok((head.status, json))
    }

    /// How the fan stands.
    pub(crate) async fn status(&self) -> Value {
        self.ask("GET status", &Value::Null).await.1
    }

    /// How the fan stands, where the gateway may be away.
    pub(crate) async fn try_status(&self) -> anyhow::Result<(StatusCode, Value)> {
        self.try_ask("GET status", &Value::Null).await
    }

    /// Gives up place or admission.
    pub(crate) async fn leave(&self) {
        let (status, answer) = self.ask("DELETE place", &Value::Null).await;
        assert_eq!(status, 204, "{answer}");
    }

    /// Sets one seat aside.
    pub(crate) async fn hold(&self) -> String {
        let wish = json!({ "section": "Floor", "quantity": 1 });
        let (status, hold) = self.ask("POST holds", &wish).await;
        assert_eq!(status, 201, "{hold}");
        hold["hold_id"].as_str().unwrap().to_owned()
    }

    /// Asks for one seat, where that may be refused.
    pub(crate) async fn try_hold(&self) -> (u16, Value) {
        let wish = json!({ "section": "Floor", "quantity": 1 });
        let (status, answer) = self.ask("POST holds", &wish).await;
        (status.as_u16(), answer)
    }

    /// Gives back whatever they hold, as far as anybody has the time to take it.
    pub(crate) async fn release_all(&self) {
        let wish = json!({ "section": "Floor", "quantity": 1 });
        let (_, refused) = self.try_ask("POST holds", &wish).await.unwrap();
        for hold in refused["holds"].as_array().into_iter().flatten() {
            let what = format!("DELETE holds/{}", hold.as_str().unwrap());
            self.try_ask(&what, &Value::Null).await.unwrap();
        }
    }

    /// The same fan at another gateway.
    pub(crate) fn at(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Somebody else at the same gateway, inside.
    pub(crate) async fn another(&self) -> Self {
        Self::join_by(self.client.clone()).await.inside().await
    }

    /// Buys a hold.
    pub(crate) async fn order(&self, hold: &str, card: &str) -> (StatusCode, Value) {
        let order = json!({
            "hold_id": hold,
            "customer": { "email": "ana@example.com", "locale": "pt-BR" },
            "payment": { "token": card },
        });
        self.ask("POST orders", &order).await
    }

    /// Reads an order until it is confirmed.
    pub(crate) async fn confirmed(&self, placed: &Value) -> String {
        let order = placed["order_id"].as_str().unwrap().to_owned();
        let what = format!("GET orders/{order}");
        until("the order is confirmed", || async {
            let (_, read) = self.ask(&what, &Value::Null).await;
            (read["status"] == "confirmed").then_some(())
        })
        .await;
        order
    }
}
