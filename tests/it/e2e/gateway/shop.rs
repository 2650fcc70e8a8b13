//! A shop behind the gateway that remembers what reached it and says what it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::net::TcpListener;

/// A request as it reached the shop.
#[derive(Debug, Clone)]
pub(crate) struct Reached {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What the shop is to answer.
#[derive(Debug, Clone)]
pub(crate) struct Says {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) after: Duration,
}

impl Default for Says {
    fn default() -> Self {
        Self {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            after: Duration::ZERO,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shop {
    reached: Arc<Mutex<Vec<Reached>>>,
    says: Arc<Mutex<Says>>,
}

impl Shop {
    /// Opens a shop and returns its address.
    pub(crate) async fn open() -> (Self, String) {
        let shop = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = Router::new().fallback(serve).with_state(shop.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (shop, address)
    }

    /// From now on it says this.
    pub(crate) fn says(&self, headers: &[(&'static str, &str)]) {
        let mut says = Says::default();
        for (name, value) in headers {
            says.headers.append(*name, value.parse().unwrap());
        }
        *self.says.lock().unwrap() = says;
    }

    /// From now on it thinks first.
    pub(crate) fn thinks(&self, after: Duration) {
        self.says.lock().unwrap().after = after;
    }

    /// What reached it since the last time it was asked.
    pub(crate) fn reached(&self) -> Vec<Reached> {
        std::mem::take(&mut self.reached.lock().unwrap())
    }
}

async fn serve(
    State(shop): State<Shop>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let reached = Reached {
        method,
        uri,
        headers,
        body: body.clone(),
    };
    shop.reached.lock().unwrap().push(reached);
    let says = shop.says.lock().unwrap().clone();
    tokio::time::sleep(says.after).await;
    (says.status, says.headers, body).into_response()
}
