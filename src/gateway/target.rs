//! The strict grammar of request targets. Two readers of the same path must not differ, so whatever
//! could be read in two ways is refused, and nothing is repaired.
//!
//! Refused: empty and dot segments, parameters (`;`), raw bytes outside of RFC 3986's `pchar`,
//! percent-encoded characters that need no encoding or that separate (`/`, `\`, `%`), control
//! characters, encoded bytes that are not UTF-8, and letters that look like separators. Other
//! percent-encoded UTF-8 passes as it came.

use crate::base::ascii::Set;

/// Segments of a path.
const SEGMENTS_MAX: usize = 64;

/// The target can be read in more than one way, or in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request target is not strictly formed")]
pub struct BadTarget;

/// The segments of a path: what stands between the slashes. The last is empty where the path ends
/// with a slash; no other is.
///
/// # Errors
/// [`BadTarget`] where the path breaks the grammar.
pub fn segments(path: &str) -> Result<Vec<&str>, BadTarget> {
    check_path(path)?;
    Ok(path.split('/').skip(1).collect())
}

/// Whether a path has segments.
///
/// # Errors
/// [`BadTarget`] where it breaks the grammar.
pub fn check_path(path: &str) -> Result<(), BadTarget> {
    let rest = path.strip_prefix('/').ok_or(BadTarget)?;
    let mut segments = rest.split('/').enumerate().peekable();
    while let Some((before, segment)) = segments.next() {
        let is_empty_inside = segment.is_empty() && segments.peek().is_some();
        if SEGMENTS_MAX <= before || is_empty_inside {
            return Err(BadTarget);
        }
        check(segment)?;
    }
    Ok(())
}

fn check(segment: &str) -> Result<(), BadTarget> {
    if PCHAR.has_all(segment.as_bytes()) && !segment.ends_with('.') {
        return Ok(()); // nothing is encoded, and nothing is trimmed
    }
    let decoded = decode(segment)?;
    let text = std::str::from_utf8(&decoded).map_err(|_| BadTarget)?;
    let edges = [text.chars().next(), text.chars().last()];
    let trimmed_somewhere = edges.contains(&Some(' ')) || text.ends_with('.');
    if trimmed_somewhere || text.chars().any(is_confusing) {
        return Err(BadTarget);
    }
    Ok(())
}

/// Decodes a segment, refusing raw bytes that must be encoded and encoded ones that need not be.
fn decode(segment: &str) -> Result<Vec<u8>, BadTarget> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if PCHAR.has(byte) {
            decoded.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else {
            return Err(BadTarget);
        };
        let value = (hex(high)? << 4) | hex(low)?;
        let needless = PCHAR.has(value) || matches!(value, b'/' | b'\\' | b'%' | b';');
        if byte != b'%' || needless || value.is_ascii_control() {
            return Err(BadTarget);
        }
        decoded.push(value);
    }
    Ok(decoded)
}

/// `pchar` of RFC 3986 without `%`, and without `;`, behind which some servers hide dot segments.
static PCHAR: Set = Set::alphanumeric_and(b"-._~!$&'()*+,=:@");

/// What a query may be written with: also what separates its parts.
static QUERY: Set = Set::alphanumeric_and(b"-._~!$&'()*+,=:@/?;%[]");

fn hex(digit: u8) -> Result<u8, BadTarget> {
    let value = char::from(digit).to_digit(16).ok_or(BadTarget)?;
    u8::try_from(value).map_err(|_| BadTarget)
}

/// Characters that a normalising reader turns into `/`, `\` or `.`, or does not show.
fn is_confusing(letter: char) -> bool {
    matches!(letter,
        '\u{ff0f}' | '\u{ff3c}' | '\u{ff0e}' | '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2215}'
        | '\u{29f8}' | '\u{fe52}' | '\u{fe68}' // slashes, backslashes, dots
        | '\u{80}'..='\u{9f}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' // controls, marks, zero width
    )
}

/// Checks a query and returns the show it names, if it names one.
///
/// # Errors
/// [`BadTarget`] for raw bytes that no query has, and where the show is named twice: two readers
/// could take two shows.
pub fn show_in_query(query: &str) -> Result<Option<String>, BadTarget> {
    if !QUERY.has_all(query.as_bytes()) {
        return Err(BadTarget);
    }
    let mut named = None;
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let key = key.split('[').next().unwrap_or_default();
        if key.trim().eq_ignore_ascii_case("show") && named.replace(value.into_owned()).is_some() {
            return Err(BadTarget);
        }
    }
    Ok(named)
}

/// Whether a text may stand in a Host header: a name, an IPv4 or a bracketed IPv6 address, and
/// perhaps a port.
pub fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    };
    let v6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let host_fits = match v6 {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=253).contains(&host.len())
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        }
    };
    let port_fits =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host_fits && port.is_none_or(port_fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_reading_passes_as_it_came() {
        for (path, count) in [
            ("/", 1),
            ("/orders", 1),
            ("/orders/", 2),
            ("/v1/shows/stadium-show/orders/x:y@z", 5),
            ("/a%20b", 1),
            ("/S%C3%A3o%20Paulo", 1),
            ("/%e2%82%ac", 1),
            ("/a.b/.well-known/jwks.json", 3),
            ("/a,b=c&d+e!f$g'h(i)*~_", 1),
            ("/%7Bx%7D", 1),
        ] {
            assert_eq!(segments(path).map(|s| s.len()), Ok(count), "{path}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let long = "/a".repeat(500);
        let rows = "\
            //orders /./orders /x/../orders /orders/. /orders/.. /orders//1 //  \
            /orders;a=b /;/orders /public/..;/orders /public/..;foo=bar/orders \
            /%6frders /%6Frders /orders%2f1 /orders%2F..%2Fx /public%2f..%2forders \
            /%2e%2e/orders /.%2e/orders /%2e/orders /%2E%2e%2Forders \
            /%256frders /%25%36%66rders /%c0%afrders /%u002forders /%25 \
            /orders%00 /orders%0a /orders%0d%0aX:y /orders%20 /orders%09 /%20orders /orders. /a%7f \
            /\\orders /public\\..\\orders /orders%5c1 /orders%5C..%5Cx /public/../../orders \
            /public/%2e%2e%2forders /health/../orders \
            /%EF%BC%8Forders /a%E2%88%95b /%EF%BB%BForders /%E2%80%8Eorders /a%C2%80 /%ff /%C3 /%C3%28 \
            /a|b /a\"b /a{b} /a^b /a`b /a<b> /% /%4 /%zz /a%3Bb /a%40b orders *";
        let raw = ["", "/\u{ff0f}orders", "/caf\u{e9}", "/a b", long.as_str()];
        for path in rows.split_whitespace().chain(raw) {
            assert_eq!(segments(path), Err(BadTarget), "{path}");
        }
    }

    #[test]
    fn a_show_is_named_once() {
        for (query, named) in [
            ("", Ok(None)),
            ("a=1&b=2", Ok(None)),
            ("show=x", Ok(Some("x".to_owned()))),
            ("show=x%26show", Ok(Some("x&show".to_owned()))),
            ("show=1&show=2", Err(BadTarget)),
            ("show=1&SHOW=1", Err(BadTarget)),
            ("show=1&show[]=1", Err(BadTarget)),
            ("show=1&%73how=1", Err(BadTarget)),
            ("a=\u{e9}", Err(BadTarget)),
            ("a=|", Err(BadTarget)),
        ] {
            assert_eq!(show_in_query(query), named, "{query}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        for good in [
            "a",
            "shop.example.com",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "a:65535",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "", ":80", "a@b", "a/b", "a b", "a:99999", "a:", "a:+1", "a:b", "[::1", "[x]:1", "é",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
