//! Streams of requests in which others hide, made up from a seed.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// What may become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It has one reading, and nothing ambiguous stands before it.
    Must,
    /// Its head has one reading; its body has none.
    May,
    /// It is ambiguous, hidden or stands behind what is.
    Never,
}

/// What is sent on one connection.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) names: BTreeMap<String, Class>,
}

impl Stream {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Headers that frame a body in more than one way, or in none. `LEN` is the whole body's length,
/// `CUT` that of its part before the hidden request.
const TWO_FRAMINGS: [&str; 44] = [
    "content-length: LEN\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: chunked\r\ncontent-length: LEN\r\n",
    "content-length: CUT\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: chunked\r\ncontent-length: CUT\r\n",
    "content-length: LEN\r\ncontent-length: CUT\r\n",
    "content-length: CUT\r\ncontent-length: LEN\r\n",
    "content-length: CUT\r\ncontent-length: CUT\r\n",
    "content-length: CUT, LEN\r\n",
    "content-length: LEN, LEN\r\n",
    "content-length: +CUT\r\n",
    "content-length: 0CUT\r\n",
    "content-length: 0xCUT\r\n",
    "content-length: -CUT\r\n",
    "content-length:  CUT\r\n",
    "content-length: CUT \r\n",
    "content-length:\tCUT\r\n",
    "content-length: CUT\x0b\r\n",
    "content-length:\r\n CUT\r\n",
    "content-length: CUT\r\n LEN\r\n",
    "content-length : CUT\r\n",
    " content-length: CUT\r\n",
    "x: y\n content-length: CUT\r\n",
    "x: y\ncontent-length: CUT\r\n",
    "x: y\rcontent-length: CUT\r\n",
    "content-length: CUT\ncontent-length: LEN\r\n",
    "content-length\0: CUT\r\n",
    "transfer-encoding: xchunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
    "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: chunked, identity\r\n",
    "transfer-encoding: identity, chunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding: gzip, chunked\r\n",
    "transfer-encoding : chunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding\t: chunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding:\tchunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding: \x0bchunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding: chunked\0\r\ncontent-length: CUT\r\n",
    "transfer-encoding: \"chunked\"\r\ncontent-length: CUT\r\n",
    "transfer-encoding:\r\n chunked\r\ncontent-length: CUT\r\n",
    "x: y\r\n transfer-encoding: chunked\r\ncontent-length: CUT\r\n",
    "x: y\ntransfer-encoding: chunked\r\ncontent-length: CUT\r\n",
    "x: y\rtransfer-encoding: chunked\r\ncontent-length: CUT\r\n",
    "transfer-encoding: chunked\ncontent-length: CUT\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-encoding: chunked\r\n",
];

/// First lines and hosts with two readings.
const TWO_HEADS: [&str; 18] = [
    "GET http://evil/open/x HTTP/1.1\r\nhost: a\r\n",
    "GET http://a/open/x HTTP/1.1\r\nhost: b\r\n",
    "GET /open/x HTTP/1.1\r\nhost: a\r\nhost: b\r\n",
    "GET /open/x HTTP/1.1\nhost: a\r\n",
    "GET /open/x HTTP/1.1\r\nhost: a\n",
    "GET /open/x\rHTTP/1.1\r\nhost: a\r\n",
    "GET /open/x HTTP/1.1\rhost: a\r\n",
    "\r\nGET /open/x HTTP/1.1\r\nhost: a\r\n",
    "GET /open/x HTTP/1.1 HTTP/1.1\r\nhost: a\r\n",
    "GET  /open/x HTTP/1.1\r\nhost: a\r\n",
    "GET /open/x\tHTTP/1.1\r\nhost: a\r\n",
    "GET /open/../open/x HTTP/1.1\r\nhost: a\r\n",
    "GET /open/x%0d%0a HTTP/1.1\r\nhost: a\r\n",
    "GET /open/x\0 HTTP/1.1\r\nhost: a\r\n",
    "GET /open/x HTTP/1.1\r\n host: a\r\n",
    "GET /open/x HTTP/1.1\r\nhost : a\r\n",
    "GET /open/x HTTP/2.0\r\nhost: a\r\n",
    "GET /open/x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nexpect: x\r\n",
];

/// Bodies in chunks with two readings; `HIDDEN` is a request, `SIZE` its length in hexadecimal.
const TWO_CHUNKINGS: [&str; 18] = [
    "5;a=\"\r\nHIDDEN\"\r\nabcde\r\n0\r\n\r\n",
    "5\nabcde\n0\n\nHIDDEN",
    "0x5\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "5 \r\nabcde\r\n0\r\n\r\nHIDDEN",
    "+5\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "5\r\nabcde0\r\n\r\nHIDDEN",
    "5\r\nabcdeXX0\r\n\r\nHIDDEN",
    "5;\nHIDDEN\r\nabcde\r\n0\r\n\r\n",
    "5;a\nSIZE\r\nHIDDEN\r\n0\r\n\r\n",
    "5\r\nabcde\r\n0\n\nHIDDEN",
    "5\r\nabcde\r\n0\r\nx: y\n\nHIDDEN",
    "5\r\nabcde\r\n0\r\n\rHIDDEN",
    "-1\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "ffffffffffffffff0\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "5\r\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "\r\n5\r\nabcde\r\n0\r\n\r\nHIDDEN",
    "5\r\nabcde\r\n00;x\r\n\r\nHIDDEN",
    "5\r\nabcde\r\n0\r\ncontent-length: 9\r\n\r\nHIDDEN",
];

/// Makes up one stream.
#[derive(Debug)]
pub(crate) struct Spelling {
    random: SmallRng,
    number: u64,
    names: BTreeMap<String, Class>,
}

impl Spelling {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            random,
            number,
            names: BTreeMap::new(),
        }
    }

    fn name(&mut self, class: Class) -> String {
        let name = format!("n{}-{}", self.number, self.names.len());
        self.names.insert(name.clone(), class);
        name
    }

    /// A stream: honest requests, then one that means harm, then one that nobody may read.
    pub(crate) fn stream(mut self) -> Stream {
        let mut bytes = Vec::new();
        for _ in 0..self.random.random_range(0..3) {
            bytes.extend(self.honest());
        }
        let (kind, harm) = match self.number % 6 {
            0 | 1 => ("framing", self.two_framings()),
            2 => ("head", self.two_heads()),
            3 => ("chunks", self.two_chunkings()),
            4 => ("noise", self.noise()),
            _ => ("honest", self.refused_and_honest()),
        };
        bytes.extend(harm);
        if kind == "honest" {
            bytes.extend(self.last(Class::Must));
        } else {
            bytes.extend(self.last(Class::Never));
        }
        Stream {
            kind,
            bytes,
            names: self.names,
        }
    }

    /// The last request of a connection.
    fn last(&mut self, class: Class) -> Vec<u8> {
        let name = self.name(class);
        format!("GET /open/last HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\nconnection: close\r\n\r\n")
            .into()
    }

    /// A request that no reader may see as one.
    fn hidden(&mut self) -> String {
        let name = self.name(Class::Never);
        format!("GET /open/hidden HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\n\r\n")
    }

    fn honest(&mut self) -> Vec<u8> {
        let name = self.name(Class::Must);
        let hidden = self.hidden();
        let request = match self.random.random_range(0..3) {
            0 => format!("GET /open/x HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\n\r\n"),
            1 => format!(
                "POST /open/x HTTP/1.1\r\nx-name: {name}\r\nhost: a\r\ncontent-length: {}\r\n\r\n{hidden}",
                hidden.len()
            ),
            _ => format!(
                "POST /open/x HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\nx-name: {name}\r\n\r\n{:x}\r\n{hidden}\r\n0\r\n\r\n",
                hidden.len()
            ),
        };
        request.into()
    }

    fn two_framings(&mut self) -> Vec<u8> {
        let framing = *TWO_FRAMINGS
            .choose(&mut self.random)
            .expect("there are some");
        let (name, hidden) = (self.name(Class::Never), self.hidden());
        let before = [
            "",
            "0\r\n\r\n",
            "1\r\na\r\n0\r\n\r\n",
            "a",
            "5\r\nabcde\r\n",
        ];
        let before = *before.choose(&mut self.random).expect("there are some");
        let whole = before.len() + hidden.len();
        let framing = framing
            .replace("LEN", &whole.to_string())
            .replace("CUT", &before.len().to_string());
        format!(
            "POST /open/x HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\n{framing}\r\n{before}{hidden}"
        )
        .into()
    }

    fn two_heads(&mut self) -> Vec<u8> {
        let head = *TWO_HEADS.choose(&mut self.random).expect("there are some");
        let (name, hidden) = (self.name(Class::Never), self.hidden());
        let hide = self.random.random_bool(0.5);
        let tail = if hide { hidden } else { String::new() };
        format!("{head}x-name: {name}\r\n\r\n{tail}").into()
    }

    fn two_chunkings(&mut self) -> Vec<u8> {
        let body = *TWO_CHUNKINGS
            .choose(&mut self.random)
            .expect("there are some");
        let (name, hidden) = (self.name(Class::May), self.hidden());
        let body = body
            .replace("HIDDEN", &hidden)
            .replace("SIZE", &format!("{:x}", hidden.len()));
        format!("POST /open/x HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\ntransfer-encoding: chunked\r\n\r\n{body}").into()
    }

    /// A good request with one byte more in the lines that frame it: one that no token and no number
    /// has. Every such request is refused.
    fn noise(&mut self) -> Vec<u8> {
        let (name, hidden) = (self.name(Class::Never), self.hidden());
        let framing = if self.random.random_bool(0.5) {
            format!("content-length: {}", hidden.len())
        } else {
            "transfer-encoding: chunked".to_owned()
        };
        let noise = *b"\0\t\x0b\x0c\r\n ,;\"()/\x7f\x80\xff"
            .choose(&mut self.random)
            .expect("there are some");
        let mut line = framing.into_bytes();
        // Not behind the colon, where one space more would still be the grammar's.
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .expect("a header");
        let mut at = self.random.random_range(0..line.len());
        if at == colon + 1 || at == colon + 2 {
            at = colon;
        }
        line.insert(at, noise);
        let mut request =
            format!("POST /open/x HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\n").into_bytes();
        request.extend(line);
        request.extend(format!("\r\n\r\n{hidden}").into_bytes());
        request
    }

    /// Requests that are refused in an orderly way: what they carry is read as their body.
    fn refused_and_honest(&mut self) -> Vec<u8> {
        let (name, hidden) = (self.name(Class::Never), self.hidden());
        let refused = match self.random.random_range(0..3) {
            0 => format!(
                "POST /orders HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\ncontent-length: {}\r\n\r\n{hidden}",
                hidden.len()
            ),
            1 => format!(
                "POST /nowhere HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\ncontent-length: {}\r\n\r\n{hidden}",
                hidden.len()
            ),
            _ => format!(
                "POST /orders/1 HTTP/1.1\r\nhost: a\r\nx-name: {name}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{hidden}\r\n0\r\n\r\n",
                hidden.len()
            ),
        };
        let honest = self.honest();
        [refused.into_bytes(), honest].concat()
    }
}
