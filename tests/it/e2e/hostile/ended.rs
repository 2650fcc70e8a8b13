//! Tickets whose time is over, although they were good (row 74): the fan left, or the key that signed them
//! counts no more.

use std::process::Stdio;

use crate::e2e::hostile::site::After::{Open, Passed};
use crate::e2e::hostile::site::{Row, Site, with};
use crate::support::process::Server;

/// The same site, whose program was stopped and started anew with these variables.
async fn again(site: Site, env: &[(&str, &str)]) -> Site {
    let Site {
        server,
        shop,
        folder,
        strangers,
    } = site;
    assert_eq!(server.terminate().await, Some(0));
    let file = folder.path().join("site.toml");
    let words = ["--config", file.to_str().unwrap()];
    let server = Server::up_by(folder.path(), &words, env, Stdio::inherit()).await;
    let site = Site {
        server,
        shop,
        folder,
        strangers,
    };
    site.is_open().await;
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_ends_with_its_admission_and_with_its_key() {
    let site = Site::open().await;
    let (stays, leaves) = (site.buyer().await, site.buyer().await);
    let buys = |headers: &str| with("GET /orders/1", headers);
    let passes = |headers: &str| Row::new(74, buys(headers), 200, Passed);
    let refused = |headers: &str| Row::new(74, buys(headers), 401, Open);
    let judge = async |site: &Site, chapter: &str, rows: &[Row]| {
        site.judge(site.server.gateway, chapter, rows).await;
    };

    let good = passes(&leaves.headers());
    judge(&site, "before leaving", &[good]).await;
    let leave = with("DELETE /v1/shows/gala/place", &leaves.headers());
    let left = [Row::new(74, leave, 204, Open), refused(&leaves.headers())];
    judge(&site, "after leaving", &left).await;

    let rotating = [
        ("CATRACA__KEYS__ACTIVE", "k2"),
        ("CATRACA__KEYS__ACCEPTED", "k1"),
    ];
    let site = again(site, &rotating).await;
    let rows = [passes(&stays.headers()), refused(&leaves.headers())];
    judge(&site, "while a key is retired", &rows).await;
    let site = again(site, &rotating[..1]).await;
    let rows = [refused(&stays.headers()), refused(&leaves.headers())];
    judge(&site, "after a key is gone", &rows).await;
    let new = site.buyer().await;
    judge(&site, "by the new key", &[passes(&new.headers())]).await;
}
