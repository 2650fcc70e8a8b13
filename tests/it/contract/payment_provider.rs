//! A payment provider that a test tells what to do, and that counts what it did.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use catraca::orders::payment::{Charge, PaymentError, Payments};
use catraca::orders::rules::PaymentId;
use catraca::orders::rules::payment::Verdict;

/// How the provider behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes the money and says so.
    Approves,
    /// Answers nothing, and nothing happens.
    IsAway,
    /// Takes the money, and then never answers.
    HangsAfterTheEffect,
    /// Knows what happened, but only says so when it is asked again.
    LosesAnswers,
}

#[derive(Debug)]
pub(crate) struct Provider {
    manner: Mutex<Manner>,
    /// By attempt: how often money was taken and given back.
    moved: Mutex<BTreeMap<PaymentId, (u32, u32)>>,
}

impl Provider {
    pub(crate) fn new(manner: Manner) -> Self {
        Self {
            manner: Mutex::new(manner),
            moved: Mutex::default(),
        }
    }

    pub(crate) fn turn(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// Takes the money of an attempt behind our back: a charge that was under way all the time.
    pub(crate) fn take(&self, id: PaymentId) {
        self.moved.lock().unwrap().insert(id, (1, 0));
    }

    /// How often the money of an attempt was taken and given back.
    pub(crate) fn moved(&self, id: PaymentId) -> (u32, u32) {
        self.moved
            .lock()
            .unwrap()
            .get(&id)
            .copied()
            .unwrap_or_default()
    }

    fn manner(&self) -> Manner {
        *self.manner.lock().unwrap()
    }
}

fn approved() -> Verdict {
    Verdict::Approved {
        reference: "reference".to_owned(),
    }
}

fn no_answer() -> PaymentError {
    PaymentError::NoAnswer(anyhow::anyhow!("as the test wants it"))
}

#[async_trait]
impl Payments for Provider {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        let manner = self.manner();
        if manner == Manner::IsAway {
            return Err(no_answer());
        }
        if charge.token.as_deref() == Some("decline") {
            return Ok(Verdict::Declined);
        }
        // Not idempotent on purpose: a second charge shows.
        self.moved.lock().unwrap().entry(charge.id).or_default().0 += 1;
        match manner {
            Manner::Approves | Manner::IsAway => Ok(approved()),
            Manner::HangsAfterTheEffect => std::future::pending().await,
            Manner::LosesAnswers => Err(no_answer()),
        }
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        match self.manner() {
            Manner::IsAway => Err(no_answer()),
            Manner::Approves | Manner::HangsAfterTheEffect | Manner::LosesAnswers => {
                Ok((0 < self.moved(id).0).then(approved))
            }
        }
    }

    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        Ok(self.look_up(id).await?.unwrap_or(Verdict::Declined))
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        let manner = self.manner();
        if manner == Manner::IsAway {
            return Err(no_answer());
        }
        self.moved.lock().unwrap().entry(id).or_default().1 = 1;
        match manner {
            Manner::Approves | Manner::IsAway => Ok(()),
            Manner::HangsAfterTheEffect => std::future::pending().await,
            Manner::LosesAnswers => Err(no_answer()),
        }
    }
}
