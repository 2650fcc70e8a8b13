//! The head of an HTTP/1 request, read strictly: one spelling of each thing, and no other.

use http::Uri;
use memchr::memchr;

use crate::base::ascii::Set;
use crate::base::limits::{HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
use crate::http::framing::Refusal;

/// What names and methods are written with.
static TOKEN: Set = Set::alphanumeric_and(b"!#$%&'*+-.^_`|~");
/// What targets are written with.
static TARGET: Set = Set::alphanumeric_and(b"-._~!$&'()*+,;=:@/?%[]");

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes, perhaps none.
    Fixed(u64),
    /// Chunks.
    Chunked,
}

/// The head that is being read: line by line, so that a bad one is refused as soon as it is there.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Bytes in which no further line ends.
    searched: usize,
    line_start: usize,
    lines: usize,
    is_http_10: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl Head {
    /// Its length and what follows it, once it is all there. `bytes` begin with the head, and grow.
    ///
    /// # Errors
    /// What is wrong with it, as soon as the line is there in which it is.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Option<(usize, Body)>, Refusal> {
        loop {
            let rest = &bytes[self.searched..];
            let Some(at) = memchr(b'\n', rest) else {
                self.searched = bytes.len();
                return self.check_size(bytes.len()).map(|()| None);
            };
            let end = self.searched + at;
            self.check_size(end)?;
            let line = bytes[self.line_start..end].strip_suffix(b"\r");
            let line = line.ok_or(Refusal::Malformed)?;
            (self.searched, self.line_start) = (end + 1, end + 1);
            match self.lines {
                0 => self.request_line(line)?,
                _ if line.is_empty() => return Ok(Some((end + 1, self.body()?))),
                _ => self.header(line)?,
            }
            self.lines += 1;
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), Refusal> {
        match (bytes < HEADER_BYTES_MAX, self.lines) {
            (true, _) => Ok(()),
            (false, 0) => Err(Refusal::Target),
            (false, _) => Err(Refusal::Headers),
        }
    }

    fn request_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let mut words = line.split(|byte| *byte == b' ');
        let words = [words.next(), words.next(), words.next(), words.next()];
        let [Some(method), Some(target), Some(version), None] = words else {
            return Err(Refusal::Malformed);
        };
        if TARGET_BYTES_MAX < target.len() {
            return Err(Refusal::Target);
        }
        if !is_token(method) || !is_target(target) {
            return Err(Refusal::Malformed);
        }
        match version {
            b"HTTP/1.1" => Ok(()),
            b"HTTP/1.0" => {
                self.is_http_10 = true;
                Ok(())
            }
            other if other.starts_with(b"HTTP/") && other.iter().all(u8::is_ascii_graphic) => {
                Err(Refusal::Version)
            }
            _ => Err(Refusal::Malformed),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Refusal> {
        if HEADERS_MAX < self.lines {
            return Err(Refusal::Headers);
        }
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = content_length(value)?;
            if self.length.replace(length).is_some() {
                return Err(Refusal::Framing);
            }
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Refusal::Framing);
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    /// What follows the head.
    fn body(&self) -> Result<Body, Refusal> {
        match (self.length, self.is_chunked) {
            (length, false) => Ok(Body::Fixed(length.unwrap_or(0))),
            (None, true) if !self.is_http_10 => Ok(Body::Chunked),
            (_, true) => Err(Refusal::Framing),
        }
    }
}

/// Name and value of a header. No space may stand before the colon, and no line may be folded.
pub(crate) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let colon = memchr(b':', line);
    let (name, value) = line.split_at(colon.ok_or(Refusal::Malformed)?);
    let fits = |all, byte: &u8| all & matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    match is_token(name) && value.iter().fold(true, fits) {
        true => Ok((name, &value[1..])),
        false => Err(Refusal::Malformed),
    }
}

/// A length in the spelling that everybody uses. Others (`+5`, `05`, `5, 5`, tabs around it) are
/// read in different ways.
fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    let digits = value.strip_prefix(b" ").unwrap_or(value);
    let is_plain =
        digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    let text = std::str::from_utf8(digits).map_err(|_| Refusal::Framing)?;
    let length = text.parse().map_err(|_| Refusal::Framing)?;
    // A signed reader would take more for a negative number.
    let is_small = length <= i64::MAX.unsigned_abs();
    (is_plain && is_small)
        .then_some(length)
        .ok_or(Refusal::Framing)
}

fn is_token(word: &[u8]) -> bool {
    !word.is_empty() && TOKEN.has_all(word)
}

/// Whether hyper will read the target, and read all of it: it drops fragments, and answers what it
/// cannot read in words of its own.
fn is_target(target: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(target) else {
        return false;
    };
    let read = || text.parse::<Uri>().is_ok();
    TARGET.has_all(target) && (text.starts_with('/') || read())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET /x HTTP/1.1\r\nhost: a\r\n\r\n";

    /// What becomes of a head, whichever way it is cut.
    fn check(head: &str, refusal: Refusal) {
        for piece in [1, 2, 7, head.len()] {
            let mut reader = Head::default();
            let ends = (piece..head.len()).step_by(piece).chain([head.len()]);
            let found = ends.map(|end| reader.read(&head.as_bytes()[..end]));
            let refused = found.filter_map(Result::err).next();
            assert_eq!(refused, Some(refusal), "{head:.99} in pieces of {piece}");
        }
    }

    #[test]
    fn what_has_one_reading_is_read() {
        for (head, body) in [
            (GET, Body::Fixed(0)),
            (
                "POST http://a/x HTTP/1.1\r\ncontent-length: 3\r\n\r\n",
                Body::Fixed(3),
            ),
            (
                "OPTIONS * HTTP/1.0\r\ncontent-length: 0\r\n\r\n",
                Body::Fixed(0),
            ),
            ("CONNECT a:80 HTTP/1.1\r\n\r\n", Body::Fixed(0)),
            (
                "GET /a?b[]=%20 HTTP/1.1\r\nx:\r\nTransfer-Encoding: Chunked\r\n\r\n",
                Body::Chunked,
            ),
        ] {
            let read = Head::default().read(format!("{head}rest").as_bytes());
            assert_eq!(read, Ok(Some((head.len(), body))), "{head}");
        }
    }

    #[test]
    fn heads_with_two_readings_are_refused() {
        use Refusal::{Framing, Headers, Malformed, Target, Version};
        let many = "x: 1\r\n".repeat(HEADERS_MAX + 1);
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(TARGET_BYTES_MAX));
        let wide = format!("GET / HTTP/1.1\r\nx: {}\r\n", "a".repeat(HEADER_BYTES_MAX));
        for (head, refusal) in [
            ("GET / HTTP/1.1\n", Malformed),
            ("GET  / HTTP/1.1\r\n", Malformed),
            ("GET / HTTP/1.1 \r\n", Malformed),
            ("GET\t/ HTTP/1.1\r\n", Malformed),
            ("GET /\r\n", Malformed),
            ("G@T / HTTP/1.1\r\n", Malformed),
            ("GET /\u{e9} HTTP/1.1\r\n", Malformed),
            ("GET /a#b HTTP/1.1\r\n", Malformed),
            ("GET /a|b HTTP/1.1\r\n", Malformed),
            ("GET \\a HTTP/1.1\r\n", Malformed),
            ("GET http:/a HTTP/1.1\r\n", Malformed),
            ("GET http://[::1/a HTTP/1.1\r\n", Malformed),
            ("GET / HTTP/1.1\r\r\n", Malformed),
            ("GET / http/1.1\r\n", Malformed),
            ("GET / HTTP/2.0\r\n", Version),
            ("GET / HTTP/1.1\r\nx : 1\r\n", Malformed),
            ("GET / HTTP/1.1\r\nx: 1\r\n 2\r\n", Malformed),
            ("GET / HTTP/1.1\r\n x: 1\r\n", Malformed),
            ("GET / HTTP/1.1\r\nx: 1\rb: 2\r\n", Malformed),
            ("GET / HTTP/1.1\r\nx: \0\r\n", Malformed),
            ("GET / HTTP/1.1\r\n: 1\r\n", Malformed),
            ("GET / HTTP/1.1\r\nx\r\n", Malformed),
            ("GET / HTTP/1.1\r\nx: 1\nb: 2\r\n", Malformed),
            ("GET / HTTP/1.1\r\ncontent-length: 5, 5\r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length: +5\r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length: 05\r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length:  5\r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length: 5 \r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length:\t5\r\n", Framing),
            ("GET / HTTP/1.1\r\ncontent-length:\r\n", Framing),
            (
                "GET / HTTP/1.1\r\ncontent-length: 9223372036854775808\r\n",
                Framing,
            ),
            (
                "GET / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 5\r\n",
                Framing,
            ),
            (
                "GET / HTTP/1.1\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n",
                Framing,
            ),
            (
                "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n",
                Framing,
            ),
            (
                "GET / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n",
                Framing,
            ),
            (
                "GET / HTTP/1.1\r\ntransfer-encoding: \u{b}chunked\r\n",
                Malformed,
            ),
            (
                "GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
                Framing,
            ),
            (&format!("GET / HTTP/1.1\r\n{many}"), Headers),
            (&wide, Headers),
            (&long, Target),
        ] {
            check(head, refusal);
        }
    }
}
