//! Whose account a token names, with the keys that the shop publishes.
//!
//! Keys are kept and read anew when they are old, or when a token names one that is not among them:
//! the shop may have changed them. One task reads them, and lives on when whoever began it has hung
//! up; nobody reads them more often than every few seconds, whatever tokens name. Meanwhile everybody
//! goes by the keys that are there, and waits only where none are, or not the one that is named. Keys
//! that cannot be read anew count for a while. Then nobody has an account, and joins with one are
//! told to come again: never is a token believed that was not verified.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::base::ids::ShowId;
use crate::base::limits::SELLER_PAUSE_MS;
use crate::base::time::Timestamp;
use crate::seller::{Settings, Source};
use crate::telemetry::metrics;
use crate::token::account::{Account, AccountError, Expected, SellerKeys};

/// Why there is no account.
#[derive(Debug, thiserror::Error)]
pub enum NoAccount {
    /// The token is not one of the shop's for here and now.
    #[error("not a token of the shop")]
    Refused,
    /// The shop's keys cannot be had just now.
    #[error("the keys of the shop cannot be read")]
    Away(#[source] anyhow::Error),
}

/// The accounts of a shop.
#[derive(Debug)]
pub struct Accounts {
    settings: Settings,
    shop: Arc<Shop>,
}

/// What is known of a shop.
#[derive(Debug)]
struct Shop {
    source: Arc<dyn Source>,
    /// Held for a moment, never while anything is waited for.
    known: Mutex<Known>,
    /// Whether its keys are being read.
    is_read: watch::Sender<bool>,
    /// Who reads them.
    reader: TaskTracker,
}

#[derive(Debug, Default)]
struct Known {
    kept: Option<Kept>,
    asked_at: Option<Instant>,
    /// Why the keys could not be read last; none where they could.
    failure: Option<String>,
}

#[derive(Debug, Clone)]
struct Kept {
    keys: Arc<SellerKeys>,
    read_at: Instant,
}

impl Accounts {
    /// Accounts by the keys of this source. Nobody is asked yet.
    pub fn new(source: Arc<dyn Source>, settings: Settings) -> Self {
        let (is_read, _) = watch::channel(false);
        Self {
            settings,
            shop: Arc::new(Shop {
                source,
                known: Mutex::default(),
                is_read,
                reader: TaskTracker::new(),
            }),
        }
    }

    /// Whether nobody joins without one.
    pub fn are_required(&self) -> bool {
        self.settings.required
    }

    /// Turns that an account may have in an edition.
    pub fn turns_max(&self) -> u32 {
        self.settings.turns_max
    }

    /// Whose account this token names for this show.
    ///
    /// # Errors
    /// [`NoAccount`].
    pub async fn account(
        &self,
        token: &str,
        show: &ShowId,
        now: Timestamp,
    ) -> Result<Account, NoAccount> {
        let own = [show.as_str()];
        let named: Vec<&str> = self.settings.audiences.iter().map(String::as_str).collect();
        let expected = Expected {
            audiences: if named.is_empty() { &own } else { &named },
            issuer: Some(self.settings.issuer.as_str()).filter(|issuer| !issuer.is_empty()),
        };
        if self.are_old() {
            self.shop.read_anew();
        }
        let keys = match self.usable() {
            Some(keys) => keys,
            None => self.wait_for_keys().await?,
        };
        match keys.account(token, &expected, now) {
            Ok(account) => Ok(account),
            Err(AccountError::Refused) => Err(NoAccount::Refused),
            Err(AccountError::UnknownKey) => {
                self.shop.read_anew();
                let keys = self.wait_for_keys().await?;
                keys.account(token, &expected, now)
                    .map_err(|_| NoAccount::Refused)
            }
        }
    }

    /// Whether it is time to read the keys anew.
    fn are_old(&self) -> bool {
        let fresh = Duration::from_millis(self.settings.refresh_ms);
        let known = self.shop.known();
        known
            .kept
            .as_ref()
            .is_none_or(|kept| fresh <= kept.read_at.elapsed())
    }

    /// Keys that count.
    fn usable(&self) -> Option<Arc<SellerKeys>> {
        let max_age = Duration::from_millis(self.settings.keys_max_age_ms);
        let known = self.shop.known();
        let kept = known.kept.as_ref();
        let kept = kept.filter(|kept| kept.read_at.elapsed() < max_age)?;
        Some(Arc::clone(&kept.keys))
    }

    /// What the shop says last, once nobody reads it any more.
    async fn wait_for_keys(&self) -> Result<Arc<SellerKeys>, NoAccount> {
        let mut is_read = self.shop.is_read.subscribe();
        // The sender is there as long as we are, so the wait has no other end.
        let _ended = is_read.wait_for(|is_read| !is_read).await.is_ok();
        if let Some(why) = &self.shop.known().failure {
            return Err(NoAccount::Away(anyhow!("{why}")));
        }
        self.usable()
            .ok_or_else(|| NoAccount::Away(anyhow!("they are too old")))
    }
}

impl Shop {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics under this lock; if it did, what is known would still be whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read the keys, unless somebody does so, or has a moment ago.
    fn read_anew(self: &Arc<Self>) {
        let asked_at = Instant::now();
        {
            let mut known = self.known();
            let pause = Duration::from_millis(SELLER_PAUSE_MS);
            let was_just_asked = known.asked_at.is_some_and(|at| at.elapsed() < pause);
            if was_just_asked || self.is_read.send_replace(true) {
                return;
            }
            known.asked_at = Some(asked_at);
        }
        let shop = Arc::clone(self);
        drop(self.reader.spawn(async move {
            let reading = Reading(shop);
            reading.0.read(asked_at).await;
        })); // it goes on without its handle
    }

    async fn read(&self, read_at: Instant) {
        let read = match self.source.read().await {
            Ok(text) => SellerKeys::read(&text).map_err(|what| format!("the JWKS: {what}")),
            Err(error) => Err(format!("{error:#}")),
        };
        metrics::seller_keys(if read.is_ok() { "read" } else { "unread" });
        let mut known = self.known();
        match read {
            Ok(keys) => {
                let keys = Arc::new(keys);
                known.kept = Some(Kept { keys, read_at });
                known.failure = None;
            }
            Err(why) => {
                tracing::warn!("the keys of the shop cannot be read: {why}");
                known.failure = Some(why);
            }
        }
    }
}

/// The keys are being read. Dropped, also by a panic, they are not any more, and who waits goes on.
struct Reading(Arc<Shop>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.is_read.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
    use tokio::sync::Semaphore;

    /// A shop that says what it is told to, once it is let.
    #[derive(Debug)]
    struct Web {
        says: Mutex<Option<String>>,
        asked: Mutex<u32>,
        answers: Semaphore,
    }

    impl Web {
        fn new(answers: usize) -> Arc<Self> {
            Arc::new(Self {
                says: Mutex::default(),
                asked: Mutex::default(),
                answers: Semaphore::new(answers),
            })
        }
    }

    #[async_trait::async_trait]
    impl Source for Web {
        async fn read(&self) -> anyhow::Result<Vec<u8>> {
            *self.asked.lock().unwrap() += 1;
            self.answers.acquire().await.unwrap().forget();
            let says = self.says.lock().unwrap().clone();
            says.map(String::into_bytes)
                .ok_or_else(|| anyhow!("nobody is there"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_tokens_name_the_shop_is_asked_seldom() {
        let shop = Web::new(100);
        let accounts = Accounts::new(shop.clone(), Settings::default());
        let ask = async || {
            let show = "gala".parse().unwrap();
            let now = Timestamp::from_unix_seconds(1);
            accounts.account("a.b.c", &show, now).await
        };
        for _ in 0..50 {
            assert!(matches!(ask().await, Err(NoAccount::Away(_))));
        }
        assert_eq!(*shop.asked.lock().unwrap(), 1);
        *shop.says.lock().unwrap() = Some(r#"{"keys":[]}"#.to_owned());
        tokio::time::advance(Duration::from_millis(SELLER_PAUSE_MS)).await;
        for _ in 0..50 {
            assert!(matches!(ask().await, Err(NoAccount::Away(_))));
        }
        assert_eq!(*shop.asked.lock().unwrap(), 2);
    }

    /// The shop's key of this name, as a JWKS, and a token that it signs.
    fn signed(id: &str, seed: u8) -> (String, String) {
        let head = [
            0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
        ];
        let key = EncodingKey::from_ed_der(&[&head[..], &[seed; 32]].concat());
        let mut public = Jwk::from_encoding_key(&key, Algorithm::EdDSA).unwrap();
        public.common.key_id = Some(id.to_owned());
        let header = Header {
            kid: Some(id.to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        let claims = serde_json::json!({"sub": "ana", "aud": "gala", "exp": 100});
        let token = encode(&header, &claims, &key).unwrap();
        let set = serde_json::json!({ "keys": [public] });
        (set.to_string(), token)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_rotate_and_count_for_a_while_where_the_shop_is_away() {
        let shop = Web::new(100);
        let accounts = Accounts::new(shop.clone(), Settings::default());
        let ask = async |token: &str| {
            let show = "gala".parse().unwrap();
            let now = Timestamp::from_unix_seconds(1);
            accounts.account(token, &show, now).await
        };
        let advance = async |ms: u64| tokio::time::advance(Duration::from_millis(ms)).await;
        let ((first_set, first), (second_set, second)) = (signed("a", 1), signed("b", 2));
        *shop.says.lock().unwrap() = Some(first_set);
        assert_eq!(ask(&first).await.unwrap().subject, "ana");
        *shop.says.lock().unwrap() = Some(second_set);
        assert!(matches!(ask(&second).await, Err(NoAccount::Refused)));
        advance(SELLER_PAUSE_MS).await;
        assert_eq!(ask(&second).await.unwrap().subject, "ana");
        assert!(matches!(ask(&first).await, Err(NoAccount::Refused)));
        *shop.says.lock().unwrap() = None;
        advance(Settings::default().refresh_ms).await;
        assert_eq!(ask(&second).await.unwrap().subject, "ana");
        advance(Settings::default().keys_max_age_ms).await;
        assert!(matches!(ask(&second).await, Err(NoAccount::Away(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_shop_delays_nobody_whose_key_is_known_and_is_asked_once() {
        let shop = Web::new(1);
        let accounts = Accounts::new(shop.clone(), Settings::default());
        let show: ShowId = "gala".parse().unwrap();
        let now = Timestamp::from_unix_seconds(1);
        let asked = || *shop.asked.lock().unwrap();
        let (set, token) = signed("a", 1);
        *shop.says.lock().unwrap() = Some(set);
        let first = accounts.account(&token, &show, now).await;
        assert_eq!(first.unwrap().subject, "ana");
        // The shop hangs from now on.
        tokio::time::advance(Duration::from_millis(Settings::default().refresh_ms)).await;
        let moment = Duration::from_millis(1);
        for _ in 0..50 {
            let served = tokio::time::timeout(moment, accounts.account(&token, &show, now)).await;
            assert_eq!(served.expect("at once").unwrap().subject, "ana");
        }
        tokio::time::advance(Duration::from_millis(SELLER_PAUSE_MS)).await;
        // Who names a key that nobody knows waits for the same answer, and may hang up.
        let (new_set, new_token) = signed("b", 2);
        for _ in 0..50 {
            let waits = accounts.account(&new_token, &show, now);
            tokio::time::timeout(moment, waits).await.unwrap_err();
        }
        assert_eq!(asked(), 2);
        *shop.says.lock().unwrap() = Some(new_set);
        let waits = accounts.account(&new_token, &show, now);
        let answers = async {
            tokio::time::sleep(moment).await;
            shop.answers.add_permits(1);
        };
        let (named, ()) = tokio::join!(waits, answers);
        assert_eq!(named.unwrap().subject, "ana");
        assert_eq!(asked(), 2);
    }
}
