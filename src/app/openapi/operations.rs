//! What can be asked of the public API, a line each, in the order in which a fan meets it.

/// What an answer carries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carries {
    Nothing,
    /// JSON of this name among the document's schemas.
    Json(&'static str),
    /// A page for people.
    Html,
    /// A file of a page.
    File,
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Anybody,
    /// Whoever shows a pass; to join, whoever has one already.
    Fan,
    /// Whoever shows a pass and a live ticket.
    Entrant,
    /// Whoever shows an operator's token.
    Operator,
}

/// A header that a request may carry.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// What its value looks like, as a regular expression.
    pub(super) pattern: &'static str,
}

/// What makes a join a repeat of an earlier one.
const JOIN_KEY: Header = Header {
    name: "Idempotency-Key",
    what: "Whoever joins again with it gets the same number. Nobody must be able to guess it.",
    pattern: "^[A-Za-z0-9_-]{22,64}$",
};
/// What makes a purchase a repeat of an earlier one.
const KEY: Header = Header {
    name: "Idempotency-Key",
    what: "The same request with it is carried out once, and answered the same.",
    pattern: "^[!-~]{1,255}$",
};
/// What a challenge is answered with.
const PROOF: Header = Header {
    name: "X-Catraca-Proof",
    what: "The answer to a `challenge`: base64 of JSON with the challenge and its solution.",
    pattern: "^[A-Za-z0-9+/]+={0,2}$",
};
/// What a shop says of an account.
const ACCOUNT: Header = Header {
    name: "X-Catraca-Account",
    what: "The shop's JWT for the account that joins, where the shop says whose join it is.",
    pattern: "^[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+$",
};

/// One method of one path.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) asker: Asker,
    /// A parameter of the query, and what it is.
    pub(super) query: Option<(&'static str, &'static str)>,
    pub(super) headers: &'static [Header],
    pub(super) takes: Option<&'static str>,
    pub(super) answers: &'static [(&'static str, Carries)],
    /// Statuses of its own refusals; those that every path has are added.
    pub(super) refuses: &'static [&'static str],
    /// Of all its refusals those that are told people in a page as well.
    pub(super) refuses_in_page: &'static [&'static str],
}

pub(super) const fn ask(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    asker: Asker,
) -> Operation {
    Operation {
        method,
        path,
        id,
        summary,
        asker,
        query: None,
        headers: &[],
        takes: None,
        answers: &[],
        refuses: &[],
        refuses_in_page: &[],
    }
}

impl Operation {
    pub(super) const fn query(mut self, name: &'static str, what: &'static str) -> Self {
        self.query = Some((name, what));
        self
    }

    pub(super) const fn headers(mut self, headers: &'static [Header]) -> Self {
        self.headers = headers;
        self
    }

    pub(super) const fn takes(mut self, body: &'static str) -> Self {
        self.takes = Some(body);
        self
    }

    pub(super) const fn answers(mut self, answers: &'static [(&'static str, Carries)]) -> Self {
        self.answers = answers;
        self
    }

    pub(super) const fn refuses(mut self, statuses: &'static [&'static str]) -> Self {
        self.refuses = statuses;
        self
    }

    const fn refuses_in_page(mut self, statuses: &'static [&'static str]) -> Self {
        self.refuses_in_page = statuses;
        self
    }
}

/// What the gateway and everything behind it may refuse anywhere.
pub(super) const REFUSED_ANYWHERE: &[&str] = &[
    "400", "403", "404", "405", "408", "413", "414", "417", "429", "500", "503",
];

/// All of them.
pub(super) const OPERATIONS: &[Operation] = &[
    ask(
        "POST",
        "/v1/shows/{show}/join",
        "join",
        "Take a place in line; repeating it gives the same",
        Asker::Anybody,
    )
    .headers(&[JOIN_KEY, PROOF, ACCOUNT])
    .answers(&[
        ("201", Carries::Json("Joined")),
        ("200", Carries::Json("Joined")),
    ])
    .refuses(&["401", "409"]),
    ask(
        "GET",
        "/v1/shows/{show}/status",
        "status",
        "How one stands, and the ticket once it is one's turn",
        Asker::Fan,
    )
    .query("serving", "The greatest `serving` that the fan has seen.")
    .answers(&[("200", Carries::Json("Status"))])
    .refuses(&["401", "409"]),
    ask(
        "DELETE",
        "/v1/shows/{show}/place",
        "leave",
        "Give up one's place or admission",
        Asker::Fan,
    )
    .answers(&[("204", Carries::Nothing)])
    .refuses(&["401"]),
    ask(
        "GET",
        "/v1/shows/{show}/receipt",
        "receipt",
        "A proof of one's number",
        Asker::Fan,
    )
    .answers(&[("200", Carries::Json("Receipt"))])
    .refuses(&["401"]),
    ask(
        "GET",
        "/v1/shows/{show}/ticket",
        "ticket",
        "Whether one would pass the gate; also for auth_request",
        Asker::Entrant,
    )
    .answers(&[("200", Carries::Json("Ticket"))])
    .refuses(&["401"]),
    ask(
        "GET",
        "/v1/shows/{show}/board",
        "board",
        "The public snapshot of a show, cacheable",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Json("Board"))]),
    ask(
        "GET",
        "/v1/shows/{show}/seats",
        "seats",
        "What is left, by section, cacheable",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Json("Seats"))])
    .refuses(&["502", "504"]),
    ask(
        "POST",
        "/v1/shows/{show}/holds",
        "hold",
        "Set seats aside, all or none",
        Asker::Entrant,
    )
    .headers(&[KEY])
    .takes("HoldRequest")
    .answers(&[("201", Carries::Json("Hold"))])
    .refuses(&["401", "409", "422", "502", "504"]),
    ask(
        "DELETE",
        "/v1/shows/{show}/holds/{hold}",
        "release",
        "Give held seats back",
        Asker::Entrant,
    )
    .answers(&[("204", Carries::Nothing)])
    .refuses(&["401", "409", "502", "504"]),
    ask(
        "POST",
        "/v1/shows/{show}/orders",
        "order",
        "Buy what is held, once; repeating it gives the same",
        Asker::Entrant,
    )
    .headers(&[KEY])
    .takes("OrderRequest")
    .answers(&[
        ("201", Carries::Json("Order")),
        ("200", Carries::Json("Order")),
    ])
    .refuses(&["401", "409", "422", "502", "504"]),
    ask(
        "GET",
        "/v1/shows/{show}/orders",
        "orders",
        "One's own orders",
        Asker::Fan,
    )
    .answers(&[("200", Carries::Json("Orders"))])
    .refuses(&["401", "502", "504"]),
    ask(
        "GET",
        "/v1/shows/{show}/orders/{order}",
        "order_status",
        "One's own order as it stands",
        Asker::Fan,
    )
    .answers(&[("200", Carries::Json("OrderStatus"))])
    .refuses(&["401", "502", "504"]),
    ask(
        "POST",
        "/v1/shows/{show}/orders/{order}/payment",
        "pay",
        "Try again to pay",
        Asker::Entrant,
    )
    .headers(&[KEY])
    .takes("PaymentRequest")
    .answers(&[
        ("202", Carries::Json("OrderStatus")),
        ("200", Carries::Json("OrderStatus")),
    ])
    .refuses(&["401", "409", "422", "502", "504"]),
    ask(
        "GET",
        "/w/{show}",
        "waiting_page",
        "The waiting page",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Html)]),
    ask(
        "GET",
        "/w/{show}/place",
        "place_page",
        "One's place without scripts",
        Asker::Anybody,
    )
    .query("lang", "The language of the page.")
    .answers(&[("200", Carries::Html)]),
    ask(
        "POST",
        "/w/{show}/join",
        "join_form",
        "The join of the page without scripts",
        Asker::Anybody,
    )
    .answers(&[("303", Carries::Nothing)])
    .refuses(&["401"])
    .refuses_in_page(&["401", "429", "503"]),
    ask(
        "POST",
        "/w/{show}/leave",
        "leave_form",
        "The leave of the page without scripts",
        Asker::Anybody,
    )
    .answers(&[("303", Carries::Nothing)]),
    ask(
        "GET",
        "/w/assets/{name}",
        "asset",
        "A file of the waiting page",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::File)]),
    ask(
        "GET",
        "/.well-known/jwks.json",
        "jwks",
        "The keys that verify tickets and receipts",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Json("Jwks"))]),
    ask(
        "GET",
        "/openapi.json",
        "openapi",
        "This document",
        Asker::Anybody,
    )
    .answers(&[("200", Carries::Json("Document"))]),
];
