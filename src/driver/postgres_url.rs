//! What a URL of PostgreSQL must have and may have, before anybody connects.

use std::fs::File;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::driver::sql::SqlError;

/// Parameters of a URL that name files.
const FILES: [&str; 7] = [
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
];
/// Those that name the server.
const HOSTS: [&str; 2] = ["host", "hostaddr"];
/// The others. The library passes over what it does not know.
const PARAMETERS: [&str; 9] = [
    "sslmode",
    "ssl-mode",
    "statement-cache-capacity",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// Whether a URL makes sense, as far as that can be told without asking the server.
///
/// # Errors
/// [`SqlError`] with what is wrong.
pub fn check(url: &str) -> Result<(), SqlError> {
    let unfit = |why: String| Err(SqlError::Unfit(why));
    let parts = url::Url::parse(url).map_err(|error| SqlError::Unfit(error.to_string()))?;
    let mut has_host = parts.host_str().is_some_and(|host| !host.is_empty());
    for (key, value) in parts.query_pairs() {
        let (key, value) = (&*key, &*value);
        let is_option = key.starts_with("options[") && key.ends_with(']');
        if HOSTS.contains(&key) {
            has_host |= !value.is_empty();
        } else if FILES.contains(&key) {
            if let Err(error) = File::open(value) {
                return unfit(format!("{key} {value:?}: {error}"));
            }
        } else if !is_option && !PARAMETERS.contains(&key) {
            return unfit(format!("there is no parameter {key:?}"));
        }
    }
    if !has_host {
        return unfit("the URL names no host".to_owned());
    }
    PgConnectOptions::from_str(url)?; // only now: it warns of what it does not know, value and all
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_and_nothing_unknown() {
        for (url, says) in [
            ("postgres://db", ""),
            ("postgresql://catraca@db:5432/catraca?sslmode=require", ""),
            ("postgres:///catraca?host=/run/postgresql&user=catraca", ""),
            (
                "postgres://db/?options=-c%20a%3Db&options[c]=d&hostaddr=127.0.0.1",
                "",
            ),
            ("postgres://", "no host"),
            ("postgres:///catraca", "no host"),
            ("postgres:///?host=", "no host"),
            (
                "postgres://db/catraca?colour=red",
                "no parameter \"colour\"",
            ),
            ("postgres://db/?SSLMODE=require", "no parameter \"SSLMODE\""),
            ("postgres://db/?sslmode=maybe", "database failed"),
            ("postgres://db/?port=x", "database failed"),
            (
                "postgres://db/?ssl-ca=/nowhere/ca.pem",
                "ssl-ca \"/nowhere/ca.pem\"",
            ),
        ] {
            match check(url) {
                Ok(()) => assert_eq!(says, "", "{url}"),
                Err(error) => {
                    let why = error.to_string();
                    assert!(!says.is_empty() && why.contains(says), "{url}: {why}");
                }
            }
        }
    }
}
