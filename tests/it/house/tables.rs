//! The architecture as data. docs/architecture.md explains these tables, `layers.rs` checks them, and
//! changing the architecture means changing a line here in a reviewed commit.

/// Between modules: a module may use what stands in a cell above, nothing below, nobody in its own.
pub(crate) const CELLS: &[&[&str]] = &[
    &["base"],
    &["event", "token"],
    // "batch": how many ask a store as one, whatever the store.
    &["batch", "telemetry"],
    &["driver"],
    // "seller": the shop's word on accounts, asked like a store by the gateway alone.
    &["room", "show", "limit", "log", "seller"],
    &["http"],
    &[
        "gateway",
        "admitter",
        "orders",
        "relay",
        "notify",
        "stock",
        "search",
        "analytics",
        "thin",
        "tally",
    ],
    &["journey", "admin", "check"],
    &["config"],
    &["supervisor"],
    &["app"],
    &["cli"],
    &["main"],
];

/// Files without time, chance and I/O; a folder ends in `/`.
pub(crate) const PURE: &[&str] = &[
    "base/",
    "event/",
    "token/",
    "room/model/",
    "room/draw.rs",
    "room/estimate.rs",
    "room/fold.rs",
    "room/keys.rs",
    "room/position.rs",
    "room/quota.rs",
    "show/draw.rs",
    "show/revise.rs",
    "show/settings.rs",
    "gateway/care/breaker.rs",
    "gateway/care/budget.rs",
    "gateway/care/rate.rs",
    "gateway/care/share.rs",
    "gateway/pattern.rs",
    "limit/gcra.rs",
    "limit/prefix.rs",
    "limit/settings.rs",
    "limit/tally.rs",
    "seller/settings.rs",
    "log/breaker.rs",
    "log/patience.rs",
    "gateway/routes.rs",
    "gateway/target.rs",
    "gateway/upstreams.rs",
    "http/frames.rs",
    "http/fields.rs",
    "http/framing.rs",
    "http/head.rs",
    "admitter/ask.rs",
    "admitter/pace.rs",
    "orders/rules/",
    "orders/idempotency.rs",
    "notify/compose.rs",
    "notify/language.rs",
    "relay/horizon.rs",
    "relay/plan.rs",
    "relay/waves.rs",
    "stock/count.rs",
    "analytics/window.rs",
    "journey/facts.rs",
    "journey/fold.rs",
];

/// Folders whose `mod.rs` is a port. Elsewhere a port is a `store.rs` or an `inbox.rs`.
/// Of "batch" and "log/rounds" the two sides are traits, like those of a port.
pub(crate) const PORTS: &[&str] = &[
    "batch",
    "room",
    "show",
    "limit",
    "log",
    "log/rounds",
    "seller",
    "orders/payment",
];

/// The kind of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Decides; see [`PURE`].
    Pure,
    /// One atomic step a method.
    Port,
    /// `in_*` keeps state, `via_*` carries something out.
    Adapter,
    /// Everything else that does the work of a component.
    Service,
    /// Our manners on the wire.
    Http,
    Telemetry,
    Driver,
    /// The independent checker: shares the words and the formats with the rest, and no code.
    Checker,
    /// Puts the parts together.
    Root,
}

/// Within modules: what a kind of file may import from elsewhere, and words it may not contain.
/// Inside its own component a file may use what it likes, but only adapters and roots an adapter.
pub(crate) const fn rules(kind: Kind) -> (&'static [Kind], &'static [&'static str]) {
    use Kind::{Adapter, Checker, Driver, Http, Port, Pure, Root, Service, Telemetry};
    match kind {
        Pure => (
            &[Pure],
            &[
                "async",
                "await",
                "tokio",
                "axum",
                "hyper",
                "sqlx",
                "redis",
                "rdkafka",
                "HashMap",
                "HashSet",
                "Clock",
                "SystemTime",
                "Instant",
                "::now()",
                "rand",
            ],
        ),
        Port => (&[Pure, Port], &["sqlx", "redis", "rdkafka", "axum"]),
        Adapter => (&[Pure, Port, Driver, Telemetry], &["axum"]),
        Service | Http => (
            &[Pure, Port, Http, Telemetry],
            &["sqlx", "redis", "rdkafka"],
        ),
        Telemetry => (&[Pure, Telemetry], &["sqlx", "redis", "rdkafka", "axum"]),
        Driver => (&[Pure, Telemetry, Driver], &["axum"]),
        Checker => (&[Pure, Checker], &["axum"]),
        Root => (
            &[
                Pure, Port, Adapter, Service, Http, Telemetry, Driver, Checker, Root,
            ],
            &[],
        ),
    }
}

/// What only some pure files may use: a crate, and where. Elsewhere purity does not ask.
pub(crate) const RESERVED: &[(&str, &[&str])] = &[
    (
        "serde",
        &[
            "base/",
            "event/",
            "token/",
            "room/draw.rs",
            "room/model/command.rs",
            "room/model/entry.rs",
            "show/settings.rs",
            "limit/settings.rs",
            "seller/settings.rs",
            "gateway/upstreams.rs",
            "journey/fold.rs",
        ],
    ),
    ("serde_json", &["event/", "token/", "show/settings.rs"]),
    ("jsonwebtoken", &["token/"]),
    ("altcha", &["token/"]),
    ("hmac", &["token/"]),
    ("sha2", &["token/", "orders/idempotency.rs", "room/draw.rs"]),
    ("aws_lc_rs", &["token/"]),
];

/// The sanctioned sources of time and chance. They alone may contain these of the words above.
pub(crate) const TIME_AND_CHANCE: &[&str] = &["Clock", "SystemTime", "::now()", "rand"];
/// See [`TIME_AND_CHANCE`].
pub(crate) const SOURCES: &[&str] = &["base/time.rs", "base/ids.rs"];

/// The modules the checker may share with those it checks: words and formats.
pub(crate) const FORMATS: &[&str] = &["base", "event", "token", "check"];

/// Metrics are functions of one file; `base/ids.rs` has a macro of the same name as one of these.
pub(crate) const METRIC_MACROS: &[&str] = &["counter!(", "gauge!(", "histogram!("];
