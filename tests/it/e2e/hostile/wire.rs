//! HTTP/2 by hand: frames that no library would send, and enough of the answers to judge them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::e2e::hostile::site::{PATIENCE, Site};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Headers in HPACK's plainest form: literal, never indexed.
pub(crate) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// A length with a prefix of seven bits.
fn number(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(u8::try_from(length).unwrap());
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while 128 <= rest {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}

/// A whole request on a stream.
pub(crate) fn request(stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(headers))
}

/// An honest `GET`.
pub(crate) fn honest(path: &str) -> [(&str, &str); 4] {
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
    ]
}

/// What became of a stream, or of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Status(u16),
    Reset(u32),
    GoAway(u32),
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Wire {
    /// Connects and says that HTTP/2 is spoken.
    pub(crate) async fn open(site: &Site) -> Self {
        Self::open_with(site, site.server.gateway, &[]).await
    }

    /// The same with these settings.
    pub(crate) async fn open_with(site: &Site, to: SocketAddr, settings: &[u8]) -> Self {
        let stream = site.connect(to).await;
        let mut wire = Self {
            stream,
            unread: Vec::new(),
        };
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        hello.extend(frame(SETTINGS, 0, 0, settings));
        assert!(wire.write(&hello).await);
        wire
    }

    /// Whether these bytes could be handed over.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> bool {
        let written = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await;
        matches!(written, Ok(Ok(())))
    }

    /// The next frame: kind, flags, stream, payload. `None` at the end.
    async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        loop {
            if let [a, b, c, kind, flags, s, t, u, v, rest @ ..] = &self.unread[..] {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if length <= rest.len() {
                    let stream = u32::from_be_bytes([*s, *t, *u, *v]);
                    let found = (*kind, *flags, stream, rest[..length].to_vec());
                    self.unread.drain(..9 + length);
                    return Some(found);
                }
            }
            match self.stream.read_buf(&mut self.unread).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Reads until it is known what became of a stream.
    pub(crate) async fn outcome(&mut self, stream: u32) -> Outcome {
        self.outcome_within(stream, PATIENCE)
            .await
            .expect("an outcome in time")
    }

    /// The same; `None` when time is up.
    pub(crate) async fn outcome_within(&mut self, stream: u32, time: Duration) -> Option<Outcome> {
        let looking = async {
            loop {
                let Some((kind, flags, on, payload)) = self.frame().await else {
                    return Outcome::Closed;
                };
                let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
                match kind {
                    HEADERS if on == stream => return Outcome::Status(status(&payload)),
                    RESET if on == stream => return Outcome::Reset(code(0)),
                    GO_AWAY => return Outcome::GoAway(code(4)),
                    SETTINGS if flags & 1 == 0 => {
                        self.write(&frame(SETTINGS, 1, 0, &[])).await;
                    }
                    PING if flags & 1 == 0 => {
                        self.write(&frame(PING, 1, 0, &payload)).await;
                    }
                    _ => {}
                }
            }
        };
        tokio::time::timeout(time, looking).await.ok()
    }

    /// Reads to the end. Whether it comes in time.
    pub(crate) async fn ends(&mut self) -> bool {
        let reading = async { while self.frame().await.is_some() {} };
        tokio::time::timeout(PATIENCE, reading).await.is_ok()
    }
}

/// `:status`, the first header of an answer.
fn status(block: &[u8]) -> u16 {
    match block {
        [0x88, ..] => 200,
        [0x89, ..] => 204,
        [0x8a, ..] => 206,
        [0x8b, ..] => 304,
        [0x8c, ..] => 400,
        [0x8d, ..] => 404,
        [0x8e, ..] => 500,
        [0x48 | 0x08, 3, digits @ ..] => digits[..3]
            .iter()
            .fold(0, |all, digit| all * 10 + u16::from(digit - b'0')),
        [0x48 | 0x08, length, packed @ ..] => huffman(&packed[..usize::from(length & 127)]),
        _ => 0,
    }
}

/// Digits in HPACK's code: five bits for 0, 1 and 2, six for the others.
fn huffman(packed: &[u8]) -> u16 {
    let bits: Vec<u16> = packed
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)))
        .collect();
    let read = |from: usize, count: usize| {
        bits[from..from + count]
            .iter()
            .fold(0, |all, bit| all * 2 + bit)
    };
    let (mut at, mut all) = (0, 0);
    for _ in 0..3 {
        let five = read(at, 5);
        let (digit, length) = if five < 3 {
            (five, 5)
        } else {
            (read(at, 6) - 0x19 + 3, 6)
        };
        (all, at) = (all * 10 + digit, at + length);
    }
    all
}

#[test]
fn answers_are_read() {
    assert_eq!(status(&[0x88]), 200);
    assert_eq!(status(b"\x48\x03413"), 413);
    // 401 is 011010 00000 00001, padded with ones.
    assert_eq!(status(&[0x48, 0x82, 0b0110_1000, 0b0000_0001]), 401);
}
