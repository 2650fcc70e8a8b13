//! Which fields belong to one hop, and which may not come after the body: the one list of each, for
//! whoever reads or passes on a message.

/// Fields of one connection (RFC 9110 §7.6.1), old ways to say the same, and `Expect`, which is answered
/// by whoever reads it first. `Trailer` is not among them: what it announces may pass.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields that say where a message ends, whom it is for and how it is coded. In a trailer they are an
/// attempt to be read twice.
const FRAMING: [&str; 5] = [
    "content-encoding",
    "content-length",
    "host",
    "trailer",
    "transfer-encoding",
];

/// Other fields that mean something only before the body (RFC 9110 §6.5.1): routing, credentials,
/// conditions, and what says how to read the content. A reader that took them from a trailer could be
/// told anything after it was checked.
const BEFORE_THE_BODY: [&str; 17] = [
    "accept",
    "age",
    "authorization",
    "cache-control",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expires",
    "location",
    "max-forwards",
    "origin",
    "range",
    "retry-after",
    "set-cookie",
    "vary",
    "warning",
];

/// How the names of more such fields begin.
const BEFORE_THE_BODY_BEGINS: [&str; 6] = [
    "access-control-",
    "forwarded",
    "if-",
    "proxy-",
    "sec-",
    "www-",
];

/// Whether a field ends with the connection that it came by. Names are in lower case, here and below.
pub(crate) fn is_of_one_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// Whether a field says where a message ends, whom it is for or how it is coded.
pub(crate) fn is_framing(name: &str) -> bool {
    FRAMING.contains(&name)
}

/// Whether a field may come after the body.
pub(crate) fn may_trail(name: &str) -> bool {
    let is_early = is_of_one_hop(name)
        || is_framing(name)
        || BEFORE_THE_BODY.contains(&name)
        || BEFORE_THE_BODY_BEGINS
            .iter()
            .any(|begin| name.starts_with(begin));
    !is_early
}
