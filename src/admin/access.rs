//! Who may do what: bearer tokens with a name and a role.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::http::problem::Problem;

/// What a token's bearer may do; each role may do what stands to its left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Changes what a sale day changes: states, rates, messages, replays.
    Operator,
    /// Creates shows.
    Admin,
}

impl Role {
    /// The role that goes by this word.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

/// An operator, as their token names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The token's name.
    pub name: String,
    /// The token's role.
    pub role: Role,
}

impl Operator {
    /// Refuses an operator whose role is below `role`.
    ///
    /// # Errors
    /// 403.
    pub fn must_be(&self, role: Role) -> Result<(), Problem> {
        if self.role < role {
            let title = "Your token's role does not allow this.";
            return Err(Problem::new(StatusCode::FORBIDDEN, "role-too-low", title)
                .with("needs", role.to_string()));
        }
        Ok(())
    }
}

/// The tokens that are accepted, by their SHA-256.
#[derive(Debug, Default)]
pub struct Access {
    tokens: Vec<([u8; 32], Operator)>,
}

impl Access {
    /// Accepts a token by its hash.
    pub fn allow(&mut self, sha256: [u8; 32], operator: Operator) {
        self.tokens.push((sha256, operator));
    }

    /// The hash under which a token is kept.
    pub fn hash(token: &str) -> [u8; 32] {
        Sha256::digest(token.as_bytes()).into()
    }

    /// Looks at every token, so that the time tells nothing about which one was close.
    fn operator(&self, token: &str) -> Option<&Operator> {
        let hash = Self::hash(token);
        let mut found = None;
        for (known, operator) in &self.tokens {
            if known.ct_eq(&hash).into() {
                found = Some(operator);
            }
        }
        found
    }
}

/// Layer: a known bearer token, or 401; whoever changes something is at least an operator, or 403.
/// The operator goes on as an extension.
///
/// # Errors
/// 401 for a missing or unknown token, 403 for a viewer who would change something.
pub async fn require_token(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer "));
    let Some(operator) = token.and_then(|token| access.operator(token)).cloned() else {
        let title = "This needs an operator's bearer token.";
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "token-required",
            title,
        ));
    };
    if request.method() != Method::GET {
        operator.must_be(Role::Operator)?;
    }
    request.extensions_mut().insert(operator);
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_tokens_are_found_by_hash() {
        let mut access = Access::default();
        let ana = Operator {
            name: "ana".into(),
            role: Role::Operator,
        };
        access.allow(Access::hash("t1"), ana.clone());
        assert_eq!(access.operator("t1"), Some(&ana));
        assert_eq!(access.operator("t2"), None);
        assert!(ana.must_be(Role::Viewer).is_ok() && ana.must_be(Role::Admin).is_err());
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            assert_eq!(Role::of_word(&role.to_string()), Some(role));
        }
    }
}
