//! The documents of both APIs are what the program prints, and tell every route that there is.

use std::collections::BTreeSet;
use std::fs;

use catraca::app::openapi::Api;
use serde_json::Value;

use crate::house::root;
use crate::house::source::is_word;

/// A document, where it is kept, and where its routes are made. Fans' are the gateway's own, and those of
/// the shop behind it. What probes and scrapers ask is in docs/metrics.md.
const DOCUMENTS: [(Api, &str, &[&str]); 2] = [
    (
        Api::Public,
        "docs/openapi.json",
        &["src/gateway/mod.rs", "src/orders/api.rs"],
    ),
    (
        Api::Operators,
        "docs/openapi-admin.json",
        &[
            "src/admin/mod.rs",
            "src/admin/dead_letters.rs",
            "src/relay/api.rs",
            "src/orders/operate.rs",
            "src/search/api.rs",
            "src/journey/api.rs",
            "src/analytics/api.rs",
        ],
    ),
];
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// `get /w/{show}`.
type Routes = BTreeSet<String>;

/// The routes that a router is built of.
fn made(text: &str) -> Routes {
    let mut routes = Routes::new();
    for (at, _) in text.match_indices(".route(") {
        let call = text[at..].split("\n        .").next().unwrap_or_default();
        let mut quoted = call.split('"');
        let (Some(path), Some(handlers)) = (quoted.nth(1), quoted.next()) else {
            continue;
        };
        for method in METHODS {
            let named = |(at, _): (usize, &str)| {
                let before = &handlers[..at];
                !before.ends_with(is_word) && handlers[at + method.len()..].starts_with('(')
            };
            if handlers.match_indices(method).any(named) {
                routes.insert(format!("{method} {path}"));
            }
        }
    }
    routes
}

/// The routes of the document.
fn told(document: &str) -> Routes {
    let document: Value = serde_json::from_str(document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let each = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys();
        let lines: Vec<String> = methods.map(|method| format!("{method} {path}")).collect();
        lines
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn the_document_is_what_the_program_prints() {
    for (api, page, _) in DOCUMENTS {
        let kept = fs::read_to_string(root().join(page)).unwrap();
        assert!(kept == api.text(), "{page} is old: ./dev openapi");
    }
}

#[test]
fn every_route_is_told_and_every_told_one_is_there() {
    for (api, page, routers) in DOCUMENTS {
        let mut routes = Routes::new();
        for router in routers {
            routes.extend(made(&fs::read_to_string(root().join(router)).unwrap()));
        }
        let told = told(&api.text());
        let missing: Vec<_> = routes.difference(&told).collect();
        let in_vain: Vec<_> = told.difference(&routes).collect();
        assert!(
            missing.is_empty() && in_vain.is_empty(),
            "{page} lacks {missing:#?} and has in vain {in_vain:#?}"
        );
    }
}

/// Headers that our own handlers read beside credentials, and the operations that tell them.
const READ: [(&str, &str, &[&str]); 3] = [
    ("src/gateway/challenge.rs", "x-catraca-proof", &["join"]),
    ("src/gateway/account.rs", "x-catraca-account", &["join"]),
    (
        "src/http/extract.rs",
        "idempotency-key",
        &["hold", "join", "order", "pay"],
    ),
];

#[test]
fn headers_that_are_read_are_told_and_so_is_how_long_to_wait() {
    let document: Value = serde_json::from_str(&Api::Public.text()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = || {
        paths
            .values()
            .flat_map(|item| item.as_object().unwrap().values())
    };
    for (reader, header, tellers) in READ {
        let source = fs::read_to_string(root().join(reader)).unwrap();
        assert!(source.contains(&format!("\"{header}\"")), "{reader}");
        let tells = |operation: &&Value| {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let mut names = parameters.filter(|one| one["in"] == "header");
            names.any(|one| one["name"].as_str().unwrap().eq_ignore_ascii_case(header))
        };
        let mut told: Vec<_> = operations()
            .filter(tells)
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        told.sort_unstable();
        assert_eq!(told, tellers, "{header}");
    }
    for operation in operations() {
        let headers = &operation["responses"]["429"]["headers"];
        for name in ["Retry-After", "RateLimit", "RateLimit-Policy"] {
            assert!(headers[name].is_object(), "{name} of {operation}");
        }
    }
}

#[test]
fn routes_are_read_from_a_router() {
    let router = r#"
        .route("/a/{b}", get(own).post(visit::forget))
        .route(
            "/c",
            delete(target),
        )
        .fallback(post(x))"#;
    let routes: Vec<_> = made(router).into_iter().collect();
    assert_eq!(routes, ["delete /c", "get /a/{b}", "post /a/{b}"]);
}
