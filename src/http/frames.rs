//! What an HTTP/2 connection may cost us besides requests.
//!
//! Some frames cost the reader more than the sender and bring nothing: resets, pings, settings,
//! priorities, continuations, empty data. A library bounds what they make it keep, not how often it is
//! asked to. Here they are counted: an honest client sends few, and a proxy's grow with its requests.

/// Such frames at once.
const BURST: u64 = 1_000;
/// Such frames a second in the long run, beside those that requests bring with them.
const PER_S: u64 = 100;
/// What one frame costs, in thousandths: time refills so much a millisecond times [`PER_S`].
const FRAME: u64 = 1_000;
/// Bytes of the preface that a client begins with.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// Counts the frames of one connection.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bytes of the preface or of a payload that are still to come.
    skip: u64,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    credit: u64,
    refilled_ms: u64,
}

impl Meter {
    /// A connection that begins now, with its preface.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            skip: PREFACE.len() as u64,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            credit: BURST * FRAME,
            refilled_ms: now_ms,
        }
    }

    /// Counts what is in these bytes. Returns whether it is still bearable.
    pub(crate) fn take(&mut self, mut bytes: &[u8], now_ms: u64) -> bool {
        self.earn(now_ms.saturating_sub(self.refilled_ms) * PER_S);
        self.refilled_ms = now_ms;
        while !bytes.is_empty() {
            let skipped = bytes
                .len()
                .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= skipped as u64;
            bytes = &bytes[skipped..];
            let missing = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            let (header, rest) = bytes.split_at(missing);
            self.header[self.header_bytes..][..missing].copy_from_slice(header);
            self.header_bytes += missing;
            bytes = rest;
            if self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
                if !self.count() {
                    return false;
                }
            }
        }
        true
    }

    fn earn(&mut self, credit: u64) {
        self.credit = self.credit.saturating_add(credit).min(BURST * FRAME);
    }

    /// Counts the frame whose header is there.
    fn count(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.skip = u64::from(length);
        let cost = match kind {
            HEADERS => {
                self.earn(FRAME);
                0
            }
            DATA if 0 < length || flags & END_STREAM != 0 => 0,
            WINDOW_UPDATE => 0,
            RST_STREAM => 2 * FRAME, // one more than the request that it ends has brought
            _ => FRAME,
        };
        let left = self.credit.checked_sub(cost);
        self.credit = left.unwrap_or_default();
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![0; usize::from(length)]);
        frame
    }

    /// How many times a connection bears these frames at once, and then a second later.
    fn borne(frames: &[Vec<u8>], piece: usize) -> (u64, u64) {
        let bytes = frames.concat();
        let send =
            |meter: &mut Meter, now_ms| bytes.chunks(piece).all(|bytes| meter.take(bytes, now_ms));
        let count = |meter: &mut Meter, now_ms| {
            (0..10_000).take_while(|_| send(meter, now_ms)).count() as u64
        };
        let (mut first, mut second) = (Meter::new(0), Meter::new(0));
        assert!(first.take(PREFACE, 0) && second.take(PREFACE, 0));
        let at_once = count(&mut first, 0);
        for _ in 0..at_once {
            assert!(send(&mut second, 0));
        }
        (at_once, count(&mut second, 1_000))
    }

    #[test]
    fn what_brings_nothing_runs_out() {
        for piece in [1, 5, 64] {
            for costly in [
                frame(2, 0, 5),
                frame(4, 0, 0),
                frame(6, 0, 8),
                frame(9, 0, 3),
                frame(0, 0, 0),
            ] {
                assert_eq!(borne(&[costly], piece), (1_000, 100));
            }
            let reset_at_once = [frame(1, 5, 20), frame(3, 0, 4)];
            let (burst, later) = borne(&reset_at_once, piece);
            assert!(
                (999..=1_001).contains(&burst) && later <= 101,
                "{burst} {later}"
            );
        }
    }

    #[test]
    fn requests_and_their_bodies_cost_nothing() {
        let half_reset = [
            frame(1, 5, 20),
            frame(1, 4, 20),
            frame(0, 0, 9),
            frame(0, 1, 0),
            frame(3, 0, 4),
            frame(8, 0, 4),
        ];
        assert_eq!(borne(&half_reset, 64), (10_000, 10_000));
    }
}
