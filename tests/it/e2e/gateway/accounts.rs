//! The shop says whose account joins: one place each, and nobody is believed unverified.

use std::path::Path;
use std::sync::{Arc, Mutex};

use catraca::seller::in_file::InFile;
use catraca::seller::via_http::ViaHttp;
use catraca::seller::{Accounts, Settings, Source};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::e2e::gateway::door::{Answer, Door, Plan};
use crate::e2e::openapi;

/// When the room's time begins, in seconds.
const NOW: i64 = 1_800_000_000;

/// A shop: its keys, and what it publishes of them.
#[derive(Debug, Default)]
struct Shop {
    says: Mutex<Option<String>>,
}

#[async_trait::async_trait]
impl Source for Shop {
    async fn read(&self) -> anyhow::Result<Vec<u8>> {
        let says = self.says.lock().unwrap().clone();
        says.map(String::into_bytes)
            .ok_or_else(|| anyhow::anyhow!("the shop is away"))
    }
}

pub(super) struct Key {
    algorithm: Algorithm,
    sign: EncodingKey,
    pub(super) public: Value,
}

impl Key {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        let kind = match algorithm {
            Algorithm::ES256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Algorithm::RS256 => &rcgen::PKCS_RSA_SHA256,
            other => panic!("{other:?}"),
        };
        let pem = rcgen::KeyPair::generate_for(kind).unwrap().serialize_pem();
        let sign = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
            _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
        };
        let sign = sign.unwrap();
        let mut public = Jwk::from_encoding_key(&sign, algorithm).unwrap();
        public.common.key_id = Some(format!("{algorithm:?}"));
        Self {
            algorithm,
            public: serde_json::to_value(public).unwrap(),
            sign,
        }
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        let header = Header {
            kid: Some(format!("{:?}", self.algorithm)),
            ..Header::new(self.algorithm)
        };
        encode(&header, claims, &self.sign).unwrap()
    }
}

fn claims(of: &str) -> Value {
    claims_until(of, NOW + 600)
}

/// What the shop says of an account, until this second.
pub(super) fn claims_until(of: &str, exp: i64) -> Value {
    json!({"sub": of, "aud": "gala", "exp": exp})
}

async fn open(source: Arc<dyn Source>, settings: Settings) -> Door {
    let accounts = Some(Accounts::new(source, settings));
    Door::planned(Plan {
        accounts,
        ..Plan::default()
    })
    .await
}

fn publishes(keys: &[&Key]) -> Arc<Shop> {
    let keys: Vec<&Value> = keys.iter().map(|key| &key.public).collect();
    let says = Mutex::new(Some(json!({ "keys": keys }).to_string()));
    Arc::new(Shop { says })
}

async fn join(door: &Door, address: &str, token: &str) -> Answer {
    let headers = [("x-forwarded-for", address), ("x-catraca-account", token)];
    door.join(&headers).await
}

#[tokio::test]
async fn an_account_has_one_place_from_wherever_it_joins_and_a_new_one_after_its_turn() {
    let keys = [Key::new(Algorithm::ES256), Key::new(Algorithm::RS256)];
    let shop = publishes(&[&keys[0], &keys[1]]);
    let door = open(shop, Settings::default()).await;
    let number = |answer: &Answer| answer.json()["number"].as_u64().unwrap();
    let (at_home, away) = (keys[0].token(&claims("ana")), keys[1].token(&claims("ana")));
    let first = join(&door, "1.2.3.4", &at_home).await;
    let second = join(&door, "5.6.7.8", &away).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(number(&first), number(&second));
    let other = join(&door, "1.2.3.4", &keys[0].token(&claims("bia"))).await;
    assert_ne!(number(&other), number(&first));
    // Both browsers have the place, and one of them gives it up.
    let pass = second.json()["pass"].as_str().unwrap().to_owned();
    let left = door
        .ask(
            "DELETE",
            "/v1/shows/gala/place",
            &[("x-catraca-pass", &pass)],
            "",
        )
        .await;
    assert_eq!(left.status, 204);
    let (again, too) = tokio::join!(
        join(&door, "1.2.3.4", &at_home),
        join(&door, "5.6.7.8", &away)
    );
    assert_eq!(number(&again), number(&too));
    assert!(number(&other) < number(&again));
    // Who has a place keeps it, whatever else they show.
    let pass = other.json()["pass"].as_str().unwrap().to_owned();
    let headers = [
        ("x-catraca-pass", pass.as_str()),
        ("x-catraca-account", "no token"),
    ];
    let kept = door.join(&headers).await;
    assert_eq!((kept.status, number(&kept)), (200, number(&other)));
    // Who joins without an account joins as ever.
    assert_eq!(door.join(&[]).await.status, 201);
}

#[tokio::test]
async fn turns_of_an_account_are_counted() {
    let key = Key::new(Algorithm::ES256);
    let settings = Settings {
        turns_max: 2,
        ..Settings::default()
    };
    let door = open(publishes(&[&key]), settings).await;
    for status in [201, 201, 409] {
        let joined = join(&door, "1.2.3.4", &key.token(&claims("ana"))).await;
        assert_eq!(joined.status, status, "{joined:?}");
        if let Some(pass) = joined.json()["pass"].as_str() {
            let pass = [("x-catraca-pass", pass)];
            door.ask("DELETE", "/v1/shows/gala/place", &pass, "").await;
        }
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_token_the_refusal_is_the_same() {
    let (key, stranger) = (Key::new(Algorithm::ES256), Key::new(Algorithm::ES256));
    let settings = Settings {
        required: true,
        issuer: "https://shop.example".to_owned(),
        ..Settings::default()
    };
    let door = open(publishes(&[&key]), settings).await;
    let good =
        json!({"sub": "ana", "aud": "gala", "exp": NOW + 600, "iss": "https://shop.example"});
    assert_eq!(join(&door, "1.2.3.4", &key.token(&good)).await.status, 201);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        key.token(&claims)
    };
    // A secret that everybody knows is no key: the token does not choose the algorithm.
    let known = EncodingKey::from_secret(key.public.to_string().as_bytes()).unwrap();
    let confused = |algorithm| Header {
        kid: Some("ES256".to_owned()),
        ..Header::new(algorithm)
    };
    let mut none = key
        .token(&good)
        .split('.')
        .map(str::to_owned)
        .collect::<Vec<_>>();
    none[0] = "eyJhbGciOiJub25lIiwia2lkIjoiRVMyNTYifQ".to_owned();
    none[2].clear();
    let tokens = [
        String::new(),
        "x".repeat(4_000),
        stranger.token(&good),
        encode(&confused(Algorithm::HS256), &good, &known).unwrap(),
        none.join("."),
        with("aud", "ball".into()),
        with("aud", Value::Null),
        with("iss", "https://evil.example".into()),
        with("iss", Value::Null),
        with("sub", "".into()),
        with("sub", 7.into()),
        with("sub", "a".repeat(300).into()),
        with("exp", (NOW - 60).into()),
        with("exp", "never".into()),
        with("exp", Value::Null),
        with("nbf", (NOW + 600).into()),
    ];
    let mut bodies = vec![door.join(&[]).await.text];
    for token in &tokens {
        let refused = join(&door, "1.2.3.4", token).await;
        assert_eq!(refused.status, 401, "{token:.80}: {refused:?}");
        assert_eq!(refused.word(), "account-required");
        bodies.push(refused.text);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let form = door.ask("POST", "/w/gala/join?lang=en", &[], "").await;
    assert_eq!(form.status, 401);
    let told = form.header("content-type");
    openapi::is_told(("post", "/w/{show}/join"), form.status, told);
    assert!(
        form.text.contains("each account of the shop has one place"),
        "{}",
        form.text
    );
}

#[tokio::test]
async fn where_the_keys_cannot_be_had_nobody_is_believed() {
    let key = Key::new(Algorithm::ES256);
    let door = open(Arc::new(Shop::default()), Settings::default()).await;
    let unread = join(&door, "1.2.3.4", &key.token(&claims("ana"))).await;
    assert_eq!(
        (unread.status, unread.word().as_str()),
        (503, "seller-unavailable")
    );
    assert_eq!(unread.header("retry-after"), "5");
}

#[tokio::test]
async fn keys_come_from_a_file_or_an_address() {
    let key = Key::new(Algorithm::ES256);
    let set = json!({"keys": [key.public]}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, &set).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let long = "x".repeat(100_000);
    let shop = axum::Router::new()
        .route("/jwks", axum::routing::get(async move || set))
        .route("/long", axum::routing::get(async move || long))
        .route(
            "/away",
            axum::routing::get(async || axum::response::Redirect::to("/jwks")),
        );
    tokio::spawn(async move { axum::serve(listener, shop).await });
    let at = |path: &str| ViaHttp::open(&format!("http://{address}/{path}"), None).unwrap();
    let sources: [(Arc<dyn Source>, u16); 5] = [
        (Arc::new(InFile(file)), 201),
        (Arc::new(at("jwks")), 201),
        (Arc::new(at("long")), 503),
        (Arc::new(at("away")), 503),
        (Arc::new(InFile(Path::new("/no/such/file").into())), 503),
    ];
    for (source, status) in sources {
        let door = open(source, Settings::default()).await;
        let joined = join(&door, "1.2.3.4", &key.token(&claims("ana"))).await;
        assert_eq!(joined.status, status, "{joined:?}");
    }
}
