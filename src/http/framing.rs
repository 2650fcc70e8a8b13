//! Where each HTTP/1 message of a connection begins and ends, read strictly.
//!
//! hyper reads what RFC 9112 lets a lenient server repair: a length beside chunks, lone line feeds,
//! extensions of chunks. Two readers in a row that repair differently are how requests are smuggled.
//! So every head and every chunk passes this reader first, which knows one spelling of each. What it
//! does not know is not repaired; it ends the connection.

use crate::base::limits::HEADERS_MAX;
use crate::http::fields::is_framing;
use crate::http::head::{Body, Head, field};

/// The longest line with the size of a chunk: 15 hexadecimal digits and the end of the line. There
/// is no room for extensions, which nobody needs and readers end differently.
const CHUNK_LINE_BYTES_MAX: usize = 17;
/// The longest line of a trailer section.
const TRAILER_LINE_BYTES_MAX: usize = 8_192;
/// Why a connection is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A line is not what the grammar says, or ends in another way.
    Malformed,
    /// The end of a body could be found in two ways, or in none.
    Framing,
    /// Too many headers, or too long ones.
    Headers,
    /// The request target is too long.
    Target,
    /// A version of HTTP that is not spoken here.
    Version,
}

impl Refusal {
    /// Its word, for the metric.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Framing => "framing",
            Self::Headers => "headers",
            Self::Target => "target",
            Self::Version => "version",
        }
    }
}

/// What a reader made of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// So many may go on. What follows is incomplete: to be shown again, with more behind it.
    pub(crate) passed: usize,
    /// What follows is to go nowhere.
    pub(crate) refusal: Option<Refusal>,
}

/// Reads one connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Head(Head),
    Fixed { left: u64 },
    Size,
    Chunk { left: u64 },
    ChunkEnd,
    Trailers { lines: usize },
}

impl Default for Stage {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl Reader {
    /// Whether what comes next belongs to a request that has already gone on.
    pub(crate) fn is_inside(&self) -> bool {
        !matches!(self.stage, Stage::Head(_))
    }

    /// Reads on. `bytes` begin with what was left over last time.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Taken {
        let mut passed = 0;
        loop {
            match self.step(&bytes[passed..]) {
                Ok(0) => {
                    let refusal = None;
                    return Taken { passed, refusal };
                }
                Ok(more) => passed += more,
                Err(refusal) => {
                    let refusal = Some(refusal);
                    return Taken { passed, refusal };
                }
            }
        }
    }

    /// The next whole piece: its length, 0 where it is not all there.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        match &mut self.stage {
            Stage::Head(head) => {
                let Some((length, body)) = head.read(bytes)? else {
                    return Ok(0);
                };
                self.stage = match body {
                    Body::Fixed(0) => Stage::default(),
                    Body::Fixed(left) => Stage::Fixed { left },
                    Body::Chunked => Stage::Size,
                };
                Ok(length)
            }
            Stage::Fixed { left } => {
                let length = at_most(bytes, left);
                if *left == 0 {
                    self.stage = Stage::default();
                }
                Ok(length)
            }
            Stage::Size => {
                let Some(line) = line(bytes, CHUNK_LINE_BYTES_MAX)? else {
                    return Ok(0);
                };
                self.stage = match chunk_size(line)? {
                    0 => Stage::Trailers { lines: 0 },
                    left => Stage::Chunk { left },
                };
                Ok(line.len() + 2)
            }
            Stage::Chunk { left } => {
                let length = at_most(bytes, left);
                if *left == 0 {
                    self.stage = Stage::ChunkEnd;
                }
                Ok(length)
            }
            Stage::ChunkEnd => match bytes {
                [] | [b'\r'] => Ok(0),
                [b'\r', b'\n', ..] => {
                    self.stage = Stage::Size;
                    Ok(2)
                }
                _ => Err(Refusal::Framing),
            },
            Stage::Trailers { lines } => {
                let Some(line) = line(bytes, TRAILER_LINE_BYTES_MAX)? else {
                    return Ok(0);
                };
                *lines += 1;
                let length = line.len() + 2;
                if line.is_empty() {
                    self.stage = Stage::default();
                } else {
                    check_trailer(line, *lines)?;
                }
                Ok(length)
            }
        }
    }
}

/// How many of these bytes belong to what is left, which becomes less.
fn at_most(bytes: &[u8], left: &mut u64) -> usize {
    let all = bytes.len() as u64;
    let taken = all.min(*left);
    *left -= taken;
    usize::try_from(taken).unwrap_or(bytes.len())
}

/// The next line without its end, at most `max` bytes with it.
fn line(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, Refusal> {
    match bytes.iter().take(max).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = bytes[..end].strip_suffix(b"\r");
            line.map(Some).ok_or(Refusal::Framing)
        }
        None if max <= bytes.len() => Err(Refusal::Framing),
        None => Ok(None),
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Refusal> {
    let digits = line.iter().all(u8::is_ascii_hexdigit) && !line.is_empty();
    let text = std::str::from_utf8(line).map_err(|_| Refusal::Framing)?;
    let size = u64::from_str_radix(text, 16).map_err(|_| Refusal::Framing)?;
    digits.then_some(size).ok_or(Refusal::Framing)
}

fn check_trailer(line: &[u8], lines: usize) -> Result<(), Refusal> {
    let (name, _) = field(line)?;
    if HEADERS_MAX < lines {
        return Err(Refusal::Headers);
    }
    match is_framing(&String::from_utf8_lossy(name).to_ascii_lowercase()) {
        true => Err(Refusal::Framing),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET /x HTTP/1.1\r\nhost: a\r\n\r\n";

    /// What becomes of a stream, whichever way it is cut: bytes that went on, and the refusal.
    fn read(stream: &[u8], piece: usize) -> Taken {
        let (mut reader, mut held, mut all) = (Reader::default(), Vec::new(), 0);
        for bytes in stream.chunks(piece) {
            held.extend_from_slice(bytes);
            let taken = reader.take(&held);
            all += taken.passed;
            held.drain(..taken.passed);
            if taken.refusal.is_some() {
                return Taken {
                    passed: all,
                    ..taken
                };
            }
        }
        Taken {
            passed: all,
            refusal: None,
        }
    }

    fn check(stream: &str, passed: usize, refusal: Option<Refusal>) {
        for piece in [1, 2, 7, stream.len()] {
            let taken = read(stream.as_bytes(), piece);
            assert_eq!(
                taken,
                Taken { passed, refusal },
                "{stream:.99} in pieces of {piece}"
            );
        }
    }

    #[test]
    fn messages_follow_each_other() {
        let post = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nx-t: 1\r\n\r\n";
        let old = "GET / HTTP/1.0\r\n\r\n";
        let all = [GET, post, GET, chunked, old, GET].concat();
        check(&all, all.len(), None);
        check(&format!("{all}GET /y HT"), all.len(), None);
        check(&format!("{all}\r\n"), all.len(), Some(Refusal::Malformed));
    }

    #[test]
    fn chunks_with_two_readings_are_refused() {
        let head = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        let good = format!("{head}1\r\na\r\n");
        for bad in [
            "0x1\r\n",
            "+1\r\n",
            "-1\r\n",
            "1 \r\n",
            " 1\r\n",
            "\r\n",
            "g\r\n",
            "1;x\r\n",
            "1;x=y\r\n",
            "1\n",
            "f0000000000000003\r\n",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\r\r",
            "0\r\nhost: b\r\n",
            "0\r\nContent-Length: 1\r\n",
            "0\r\nx : 1\r\n",
            "0\r\n x\r\n",
        ] {
            let mut reader = Reader::default();
            let stream = format!("{good}{bad}");
            let taken = reader.take(stream.as_bytes());
            assert!(taken.refusal.is_some(), "{bad:?}");
            assert!(reader.is_inside() && good.len() <= taken.passed, "{bad:?}");
        }
    }
}
