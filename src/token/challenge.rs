//! The challenge: a sum that a machine has to do before its join counts, as ALTCHA has it (version 2).
//!
//! It is stateless. What it asks for and what it is for (show, edition, action, until when) are
//! signed together, so that nothing of it can be changed or moved elsewhere; whoever accepts an
//! answer remembers it until the challenge has run out. Time is room time, like that of every token:
//! ALTCHA's own `expiresAt` goes by a machine's wall clock and is left out.
//!
//! Harder means more tries, not dearer ones: checking an answer costs us one try, below a millisecond
//! at every level. Tries are PBKDF2, which browsers do natively, so that a phone and a farm differ
//! by what their processors differ, not by JavaScript.

use std::collections::BTreeMap;

use altcha::{
    ChallengeParameters, HmacAlgorithm, Payload, VerifySolutionOptions, sign_challenge,
    verify_solution,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::base::ids::{Edition, ShowId, hex, parse_hex};
use crate::base::limits::TOKEN_BYTES_MAX;
use crate::base::time::Timestamp;
use crate::token::encode;
use crate::token::keyring::KeyRing;

/// The hardest level. Each doubles the work of the one before it.
pub const LEVEL_MAX: u8 = 7;
/// What a challenge stands before.
const ACTION: &str = "join";
const ALGORITHM: &str = "PBKDF2/SHA-256";
/// PBKDF2 iterations of a try at level 0.
const COST_MIN: u32 = 100;
/// Levels between two digits of the prefix, each of which means sixteen times as many tries.
const LEVELS_PER_DIGIT: u8 = 4;
/// Digits of the prefix at level 0: 256 tries.
const DIGITS_MIN: u8 = 2;

/// What is asked of whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The show that the answer lets join.
    pub show: ShowId,
    /// Its edition.
    pub edition: Edition,
    /// How hard it is: 0 to [`LEVEL_MAX`].
    pub level: u8,
    /// Until when an answer counts, in room time.
    pub until: Timestamp,
}

/// An answer that is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Which challenge it answers: the same for each of its answers.
    pub id: [u8; 16],
    /// Until when it counts.
    pub until: Timestamp,
}

/// The text does not answer a challenge that we would accept here and now. Why is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an answer to a challenge")]
pub struct NoAnswer;

impl Challenge {
    /// Signs the challenge. `random` must be new for each.
    ///
    /// # Panics
    /// If ALTCHA refuses to sign; it does so only for keys that no HMAC takes.
    pub fn sign(&self, ring: &KeyRing, random: [u8; 32]) -> Value {
        let (nonce, salt) = random.split_at(16);
        let mut parameters = ChallengeParameters {
            algorithm: ALGORITHM.to_owned(),
            cost: COST_MIN << (self.level % LEVELS_PER_DIGIT),
            data: Some(self.data()),
            expires_at: None,
            key_length: 32,
            key_prefix: "0".repeat((DIGITS_MIN + self.level / LEVELS_PER_DIGIT).into()),
            key_signature: None,
            memory_cost: None,
            nonce: hex(nonce),
            parallelism: None,
            salt: hex(salt),
        };
        let secret = secret(ring);
        let signed = sign_challenge(&HmacAlgorithm::Sha256, &mut parameters, None, &secret, None);
        let signed = signed.expect("HMAC takes keys of any length");
        json!({ "parameters": signed.parameters, "signature": signed.signature })
    }

    fn data(&self) -> BTreeMap<String, Value> {
        [
            ("action", ACTION.into()),
            ("edition", self.edition.0.into()),
            ("level", self.level.into()),
            ("show", self.show.as_str().into()),
            ("until", self.until.as_millis().into()),
        ]
        .map(|(name, value): (&str, Value)| (name.to_owned(), value))
        .into()
    }

    /// Checks an answer: base64 of the JSON that ALTCHA's widget sends.
    ///
    /// # Errors
    /// [`NoAnswer`] for anything but the right answer to a challenge of ours for this show and
    /// edition that has not run out.
    pub fn check(
        text: &str,
        (show, edition): (&ShowId, Edition),
        now: Timestamp,
        ring: &KeyRing,
    ) -> Result<Answered, NoAnswer> {
        if TOKEN_BYTES_MAX < text.len() {
            return Err(NoAnswer);
        }
        let bytes = STANDARD.decode(text).map_err(|_| NoAnswer)?;
        let payload: Payload = serde_json::from_slice(&bytes).map_err(|_| NoAnswer)?;
        // What costs nothing first; it counts once the signature has been checked.
        let until = fits(&payload, (show, edition), now).ok_or(NoAnswer)?;
        let Payload {
            challenge,
            solution,
        } = &payload;
        let options = VerifySolutionOptions::new(challenge, solution, secret(ring));
        match verify_solution(options) {
            Ok(result) if result.verified => {}
            Ok(_) | Err(_) => return Err(NoAnswer),
        }
        let signature = challenge.signature.as_deref().and_then(first_16);
        let id = signature.ok_or(NoAnswer)?;
        Ok(Answered { id, until })
    }
}

/// Until when an answer counts here, where it does.
fn fits(payload: &Payload, of: (&ShowId, Edition), now: Timestamp) -> Option<Timestamp> {
    let data = payload.challenge.parameters.data.as_ref()?;
    let until = Timestamp::from_unix_ms(data.get("until")?.as_i64()?);
    let is_ours = data.get("action")? == ACTION
        && data.get("show")? == of.0.as_str()
        && data.get("edition")?.as_u64()? == of.1.0;
    (is_ours && now < until).then_some(until)
}

fn secret(ring: &KeyRing) -> String {
    encode(&ring.short_lived("challenge"))
}

/// The first 128 bits of a signature in hexadecimal.
fn first_16(signature: &str) -> Option<[u8; 16]> {
    parse_hex(signature.get(..32)?)
}

/// Works an answer out, as a client does.
///
/// # Errors
/// [`NoAnswer`] for what is no challenge.
pub fn solve(challenge: &Value) -> Result<String, NoAnswer> {
    let challenge: altcha::Challenge =
        serde_json::from_value(challenge.clone()).map_err(|_| NoAnswer)?;
    let solved = altcha::solve_challenge(altcha::SolveChallengeOptions::new(&challenge));
    let solution = solved.ok().flatten().ok_or(NoAnswer)?;
    let payload = Payload {
        challenge,
        solution,
    };
    let json = serde_json::to_vec(&payload).map_err(|_| NoAnswer)?;
    Ok(STANDARD.encode(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    const NOW: Timestamp = Timestamp::from_unix_seconds(1_800_000_000);

    fn ring(secret: &str) -> KeyRing {
        KeyRing::new(&Secret::new(secret.repeat(40)), "k1", &[]).unwrap()
    }

    fn challenge(level: u8) -> Challenge {
        Challenge {
            show: "gala".parse().unwrap(),
            edition: Edition(2),
            level,
            until: NOW.plus_ms(1_000),
        }
    }

    fn check(text: &str, show: &str, edition: u64, now: Timestamp) -> Result<Answered, NoAnswer> {
        let show = show.parse().unwrap();
        Challenge::check(text, (&show, Edition(edition)), now, &ring("a"))
    }

    #[test]
    fn an_answer_counts_for_what_was_asked_and_for_nothing_else() {
        let asked = challenge(0).sign(&ring("a"), [7; 32]);
        let answer = solve(&asked).unwrap();
        let good = check(&answer, "gala", 2, NOW).unwrap();
        assert_eq!(good.until, NOW.plus_ms(1_000));
        assert_eq!(check(&answer, "ball", 2, NOW), Err(NoAnswer));
        assert_eq!(check(&answer, "gala", 3, NOW), Err(NoAnswer));
        assert_eq!(check(&answer, "gala", 2, NOW.plus_ms(1_000)), Err(NoAnswer));
        let other = solve(&challenge(0).sign(&ring("b"), [7; 32])).unwrap();
        assert_eq!(check(&other, "gala", 2, NOW), Err(NoAnswer));
        let twin = solve(&challenge(0).sign(&ring("a"), [8; 32])).unwrap();
        assert_ne!(check(&twin, "gala", 2, NOW).unwrap().id, good.id);
    }

    #[test]
    fn whatever_is_changed_counts_for_nothing() {
        let asked = challenge(1).sign(&ring("a"), [7; 32]);
        let answer = STANDARD.decode(solve(&asked).unwrap()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        for (place, value) in [
            ("/challenge/parameters/cost", json!(100)),
            ("/challenge/parameters/keyPrefix", json!("")),
            ("/challenge/parameters/keyPrefix", json!("zz")),
            ("/challenge/parameters/salt", json!("00")),
            ("/challenge/parameters/nonce", json!("")),
            ("/challenge/parameters/data/level", json!(0)),
            (
                "/challenge/parameters/data/until",
                json!(4_000_000_000_000_i64),
            ),
            ("/challenge/parameters/data/until", json!("x")),
            ("/challenge/parameters/data", json!({})),
            ("/challenge/parameters/algorithm", json!("SHA-256")),
            ("/challenge/signature", json!("0".repeat(64))),
            ("/challenge/signature", Value::Null),
            ("/solution/counter", json!(4_294_967_295_u32)),
            ("/solution/counter", json!(-1)),
            ("/solution/counter", json!(1.5)),
            ("/solution/counter", json!(1e300)),
            ("/solution/derivedKey", json!("00")),
        ] {
            let mut changed = answer.clone();
            *changed.pointer_mut(place).unwrap() = value.clone();
            let text = STANDARD.encode(changed.to_string());
            assert_eq!(
                check(&text, "gala", 2, NOW),
                Err(NoAnswer),
                "{place} {value}"
            );
        }
        for text in ["", "%", "bnVsbA==", "W10=", &"A".repeat(1 << 20)] {
            assert_eq!(check(text, "gala", 2, NOW), Err(NoAnswer), "{text:.20}");
        }
    }

    #[test]
    fn each_level_is_twice_the_work_and_no_dearer_to_check() {
        let works: Vec<u64> = (0..=LEVEL_MAX)
            .map(|level| {
                let asked = challenge(level).sign(&ring("a"), [0; 32]);
                let cost = asked["parameters"]["cost"].as_u64().unwrap();
                assert!(cost <= 800, "{cost}");
                let digits = asked["parameters"]["keyPrefix"].as_str().unwrap().len();
                cost << (4 * digits)
            })
            .collect();
        for pair in works.windows(2) {
            assert_eq!(pair[1], 2 * pair[0], "{works:?}");
        }
    }
}
