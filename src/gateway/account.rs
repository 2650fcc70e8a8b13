//! Whose account joins, where the shop says so: one place per account, from wherever it joins.

use http::{HeaderMap, HeaderName, StatusCode};

use crate::base::ids::ShowId;
use crate::gateway::Gateway;
use crate::gateway::boards::Seen;
use crate::http::extract::single;
use crate::http::problem::Problem;
use crate::seller::{Accounts, NoAccount};
use crate::telemetry::metrics;
use crate::token::account::Account;

/// The header that carries the shop's token.
static ACCOUNT_HEADER: HeaderName = HeaderName::from_static("x-catraca-account");

/// The token that a request shows, as it came: whoever has a place keeps it without.
pub(crate) fn token(headers: &HeaderMap) -> Option<String> {
    match single(headers, &ACCOUNT_HEADER) {
        Ok(token) => token.map(str::to_owned),
        Err(_) => Some(String::new()), // two tokens are none that counts
    }
}

/// The account that joins; none where shops have none here, or this one needs none.
///
/// # Errors
/// 401 for a token that does not count, and for none where one is required; 503 where the shop's keys
/// cannot be had.
pub(crate) async fn of<'a>(
    gateway: &'a Gateway,
    seen: &Seen,
    show: &ShowId,
    token: Option<&str>,
) -> Result<Option<(&'a Accounts, Account)>, Problem> {
    let Some(accounts) = &gateway.accounts else {
        return Ok(None); // whoever shows one all the same joins as anybody does
    };
    let Some(token) = token else {
        return match accounts.are_required() {
            true => Err(no_account()),
            false => Ok(None),
        };
    };
    match accounts.account(token, show, seen.now()).await {
        Ok(account) => {
            metrics::account("known");
            Ok(Some((accounts, account)))
        }
        Err(NoAccount::Refused) => Err(no_account()),
        Err(NoAccount::Away(why)) => {
            metrics::account("unavailable");
            Err(Problem::unavailable("seller-unavailable")
                .retry_after(5)
                .caused_by(why))
        }
    }
}

/// 401, the same whatever is wrong.
fn no_account() -> Problem {
    metrics::account("refused");
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "account-required",
        "This needs the shop's word for your account. Sign in there and come from there.",
    )
}
