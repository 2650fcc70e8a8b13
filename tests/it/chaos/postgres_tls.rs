//! TLS to PostgreSQL: who demands it gets it, and from nobody that they do not know.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;

use crate::support::authority::Authority;
use crate::support::chain;
use crate::support::postgres::{Server, database, give, open_folder};
use crate::support::process::run_in;

/// Makes a certificate for `localhost` in files of the server's user, signed by an authority in
/// `ca.pem`; another authority, which has signed nothing, is in `other.pem`.
fn certify(folder: &Path) {
    let (authority, other) = (Authority::new(), Authority::new());
    for (file, text) in [("ca.pem", &authority.pem), ("other.pem", &other.pem)] {
        fs::write(folder.join(file), text).unwrap();
    }
    let server = authority.certify(&["localhost"]);
    for (file, text) in [("cert.pem", server.cert), ("key.pem", server.key)] {
        let file = folder.join(file);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        give(&file);
    }
}

/// What becomes of a connection: whether it goes through TLS, or the words that say why there is none.
async fn connected(url: &str) -> Result<bool, String> {
    let db = match Postgres::open(url, POSTGRES).await {
        Ok(db) => db,
        Err(error) => return Err(chain(&error)),
    };
    assert!(
        db.ready().is_ok(),
        "what cannot be is not waited for: {url}"
    );
    let is_secret = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let is_secret = sqlx::query_scalar(is_secret).fetch_one(&db.pool).await;
    db.close().await;
    is_secret.map_err(|error| chain(&SqlError::from(error)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_demands_tls_gets_it_from_whom_they_know_or_not_at_all() {
    let folder = open_folder();
    certify(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let settings = [
        "fsync=off",
        "ssl=on",
        &format!("ssl_cert_file={cert}"),
        &format!("ssl_key_file={key}"),
    ];
    let Some(server) = Server::start(&settings) else {
        return;
    };
    let url = server.database().await;
    let named = url.replace("127.0.0.1", "localhost");
    let with = |url: &str, mode: &str, ca: &str| {
        let ca = file(ca);
        format!("{url}?sslmode={mode}&sslrootcert={ca}")
    };
    for (url, expected) in [
        (with(&named, "verify-full", "ca.pem"), Ok(true)),
        (with(&url, "verify-ca", "ca.pem"), Ok(true)),
        (format!("{url}?sslmode=require"), Ok(true)),
        (format!("{url}?sslmode=disable"), Ok(false)),
        (with(&url, "verify-full", "ca.pem"), Err("certificate")),
        (with(&named, "verify-full", "other.pem"), Err("certificate")),
        (with(&url, "verify-ca", "other.pem"), Err("certificate")),
    ] {
        match (connected(&url).await, expected) {
            (Err(says), Err(word)) => assert!(says.contains(word), "{url}: {says}"),
            (Ok(is_secret), Ok(expected)) => assert_eq!(is_secret, expected, "{url}"),
            (told, _) => panic!("{url}: {told:?}"),
        }
    }
    let plain = format!("{}?sslmode=require", database().await.unwrap());
    let says = connected(&plain).await.unwrap_err();
    assert!(says.contains("TLS"), "{says}");

    // As the operator sees it.
    for (url, code, says) in [
        (with(&named, "verify-full", "other.pem"), 69, "certificate"),
        (with(&named, "verify-full", "no.pem"), 78, "no.pem"),
        (format!("{url}?sslmode=perhaps"), 78, "ssl_mode"),
    ] {
        let env = [("CATRACA__DATABASE__URL", url.as_str())];
        let data = tempfile::tempdir().unwrap();
        let refused = run_in(data.path(), &["up", "--data-dir", "."], &env).await;
        assert_eq!(refused.code, Some(code), "{url}: {refused:?}");
        assert!(refused.err.contains(says), "{url}: {refused:?}");
    }
}
