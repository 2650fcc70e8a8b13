//! Whose account a token names, with the keys that the shop publishes.
//!
//! Keys are kept and read anew when they are old, or when a token names one that is not among them:
//! the shop may have changed them. One request reads them, the others wait for it or go by those
//! that are there; and nobody reads them more often than every few seconds, whatever tokens name.
//! Keys that cannot be read anew count for a while. Then nobody has an account, and joins with one are
//! told to come again: never is a token believed that was not verified.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::Mutex;
use tokio::time::Instant;

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
    source: Arc<dyn Source>,
    settings: Settings,
    kept: RwLock<Option<Kept>>,
    /// When and how the keys were last asked for. Whoever has it is the one who asks.
    asked: Mutex<Option<(Instant, Result<(), String>)>>,
}

#[derive(Debug, Clone)]
struct Kept {
    keys: Arc<SellerKeys>,
    read_at: Instant,
}

impl Accounts {
    /// Accounts by the keys of this source. Nobody is asked yet.
    pub fn new(source: Arc<dyn Source>, settings: Settings) -> Self {
        Self {
            source,
            settings,
            kept: RwLock::default(),
            asked: Mutex::default(),
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
        let fresh = Duration::from_millis(self.settings.refresh_ms);
        let mut kept = self.kept();
        if kept
            .as_ref()
            .is_none_or(|kept| fresh <= kept.read_at.elapsed())
        {
            self.read_anew(kept.as_ref()).await;
            kept = self.kept();
        }
        let keys = self.usable(kept).await?;
        match keys.account(token, &expected, now) {
            Ok(account) => Ok(account),
            Err(AccountError::Refused) => Err(NoAccount::Refused),
            Err(AccountError::UnknownKey) => {
                self.read_anew(self.kept().as_ref()).await;
                self.last_failure().await?;
                let keys = self.usable(self.kept()).await?;
                keys.account(token, &expected, now)
                    .map_err(|_| NoAccount::Refused)
            }
        }
    }

    fn kept(&self) -> Option<Kept> {
        // Nothing panics under this lock; if it did, what is kept would still be whole.
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }

    /// Keys that count.
    async fn usable(&self, kept: Option<Kept>) -> Result<Arc<SellerKeys>, NoAccount> {
        let max_age = Duration::from_millis(self.settings.keys_max_age_ms);
        match kept.filter(|kept| kept.read_at.elapsed() < max_age) {
            Some(kept) => Ok(kept.keys),
            None => {
                self.last_failure().await?;
                Err(NoAccount::Away(anyhow!("they are too old")))
            }
        }
    }

    async fn last_failure(&self) -> Result<(), NoAccount> {
        match &*self.asked.lock().await {
            Some((_, Err(why))) => Err(NoAccount::Away(anyhow!("{why}"))),
            Some((_, Ok(()))) | None => Ok(()),
        }
    }

    /// Reads the keys, unless somebody has done so since `seen`, or a moment ago.
    async fn read_anew(&self, seen: Option<&Kept>) {
        let mut asked = self.asked.lock().await;
        let is_newer = |kept: Kept| seen.is_none_or(|seen| seen.read_at < kept.read_at);
        let pause = Duration::from_millis(SELLER_PAUSE_MS);
        let was_just_asked = asked.as_ref().is_some_and(|(at, _)| at.elapsed() < pause);
        if was_just_asked || self.kept().is_some_and(is_newer) {
            return;
        }
        let read_at = Instant::now();
        let read = match self.source.read().await {
            Ok(text) => SellerKeys::read(&text).map_err(|what| format!("the JWKS: {what}")),
            Err(error) => Err(format!("{error:#}")),
        };
        let outcome = match read {
            Ok(keys) => {
                let keys = Arc::new(keys);
                let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
                *kept = Some(Kept { keys, read_at });
                Ok(())
            }
            Err(why) => {
                tracing::warn!("the keys of the shop cannot be read: {why}");
                Err(why)
            }
        };
        metrics::seller_keys(if outcome.is_ok() { "read" } else { "unread" });
        *asked = Some((read_at, outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex as StdMutex;

    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};

    #[derive(Debug, Default)]
    struct Shop {
        says: StdMutex<Option<String>>,
        asked: StdMutex<u32>,
    }

    #[async_trait::async_trait]
    impl Source for Shop {
        async fn read(&self) -> anyhow::Result<Vec<u8>> {
            *self.asked.lock().unwrap() += 1;
            let says = self.says.lock().unwrap().clone();
            says.map(String::into_bytes)
                .ok_or_else(|| anyhow!("nobody is there"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_tokens_name_the_shop_is_asked_seldom() {
        let shop = Arc::new(Shop::default());
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
        let shop = Arc::new(Shop::default());
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
}
