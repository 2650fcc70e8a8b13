//! What can be asked of the operators' API, a line each.

use crate::app::openapi::operations::{Asker, Carries, Header, Operation, ask};

/// What the operators' door may refuse anywhere.
pub(super) const REFUSED_ANYWHERE: &[&str] = &[
    "400", "401", "403", "404", "405", "408", "413", "414", "417", "500", "503",
];

/// Which version of a show a change is for.
const IF_MATCH: Header = Header {
    name: "If-Match",
    what: "The version that is to be changed, in quotes, as `ETag` told it.",
    pattern: "^\"[0-9]{1,18}\"$",
};

const fn read(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    ask("GET", path, id, summary, Asker::Operator)
}

const fn act(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    ask("POST", path, id, summary, Asker::Operator)
}

/// All of them.
pub(super) const OPERATIONS: &[Operation] = &[
    read("/admin/v1/shows", "shows", "Every show").answers(&[("200", Carries::Json("Shows"))]),
    read("/admin/v1/shows/{show}", "show", "One show").answers(&[("200", Carries::Json("Show"))]),
    ask(
        "PUT",
        "/admin/v1/shows/{show}",
        "put_show",
        "Create a show, or replace its settings at a version (role admin)",
        Asker::Operator,
    )
    .headers(&[IF_MATCH])
    .takes("ShowSettings")
    .answers(&[
        ("201", Carries::Json("Show")),
        ("200", Carries::Json("Show")),
    ])
    .refuses(&["409", "412", "422"]),
    ask(
        "PATCH",
        "/admin/v1/shows/{show}",
        "patch_show",
        "Replace the members that are named, live (role operator)",
        Asker::Operator,
    )
    .headers(&[IF_MATCH])
    .takes("ShowChange")
    .answers(&[("200", Carries::Json("Show"))])
    .refuses(&["409", "412", "422"]),
    act(
        "/admin/v1/shows/{show}/{verb}",
        "verb",
        "Open, pause, resume, close the show, or take its room away",
    )
    .answers(&[("200", Carries::Json("Show"))])
    .refuses(&["409", "422"]),
    act(
        "/admin/v1/shows/{show}/beacon",
        "beacon",
        "Enter what a draw's beacon has published, once",
    )
    .takes("BeaconRequest")
    .answers(&[("200", Carries::Json("Show"))])
    .refuses(&["409", "422"]),
    act(
        "/admin/v1/shows/{show}/revoke",
        "revoke",
        "End one fan's turn; every gateway refuses the ticket within a second",
    )
    .takes("RevokeRequest")
    .answers(&[("200", Carries::Json("Revoked"))])
    .refuses(&["422"]),
    act(
        "/admin/v1/shows/{show}/cancel",
        "cancel_show",
        "Close a show for good, and pay everybody back (role admin)",
    )
    .takes("CancelRequest")
    .answers(&[("200", Carries::Json("Show"))])
    .refuses(&["422"]),
    read(
        "/admin/v1/shows/{show}/cancellation",
        "cancellation",
        "How far that has come",
    )
    .answers(&[("200", Carries::Json("Cancellation"))]),
    read(
        "/admin/v1/shows/{show}/availability",
        "availability",
        "What is left, as it is listed",
    )
    .answers(&[("200", Carries::Json("Availability"))]),
    read(
        "/admin/v1/shows/{show}/sales",
        "sales",
        "What was sold, by minute",
    )
    .query("after", "Only minutes after this one, RFC 3339.")
    .answers(&[("200", Carries::Json("Sales"))]),
    read(
        "/admin/v1/shows/{show}/joins",
        "joins",
        "How many joined, by network in five minutes",
    )
    .query("after", "Only windows after this one, RFC 3339.")
    .answers(&[("200", Carries::Json("Joins"))]),
    read(
        "/admin/v1/orders/{order}/journey",
        "journey",
        "Where an order stopped, by its id or its hold's",
    )
    .answers(&[("200", Carries::Json("Journey"))]),
    act(
        "/admin/v1/orders/{order}/cancel",
        "cancel_order",
        "Take an order back, and pay it back",
    )
    .answers(&[("200", Carries::Json("OrderStatus"))])
    .refuses(&["409", "422"]),
    read(
        "/admin/v1/dead-letters",
        "dead_letters",
        "What consumers have set aside",
    )
    .query("after", "Only those with a greater id.")
    .answers(&[("200", Carries::Json("DeadLetters"))]),
    act(
        "/admin/v1/dead-letters/{id}/replay",
        "replay",
        "Try one again",
    )
    .answers(&[("200", Carries::Json("Replayed"))]),
    read(
        "/admin/v1/quarantine",
        "quarantine",
        "Events that can never be sent, and what waits behind them",
    )
    .answers(&[("200", Carries::Json("Quarantine"))]),
    act(
        "/admin/v1/quarantine/{seq}/release",
        "release",
        "Try to send one after all",
    )
    .answers(&[("200", Carries::Json("Released"))])
    .refuses(&["409"]),
    act(
        "/admin/v1/quarantine/{seq}/skip",
        "skip",
        "Go on without one",
    )
    .answers(&[("200", Carries::Json("Released"))])
    .refuses(&["409"]),
    ask(
        "GET",
        "/openapi.json",
        "openapi",
        "This document",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Json("Document"))]),
];
