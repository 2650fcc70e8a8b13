//! Sets of bytes, for grammars: one look-up a byte.

/// Which bytes belong to a set.
#[derive(Debug)]
pub struct Set([bool; 256]);

impl Set {
    /// Letters, digits and these.
    pub const fn alphanumeric_and(others: &[u8]) -> Self {
        let mut set = [false; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            set[byte as usize] = byte.is_ascii_alphanumeric();
            byte += 1;
        }
        let mut at = 0;
        while at < others.len() {
            set[others[at] as usize] = true;
            at += 1;
        }
        Self(set)
    }

    /// Whether this byte belongs to it.
    pub const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// Whether all of these do.
    pub fn has_all(&self, bytes: &[u8]) -> bool {
        // Nearly always all do: to look at each costs less than to ask after each whether to go on.
        bytes.iter().fold(true, |all, byte| all & self.has(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_given() {
        const SET: Set = Set::alphanumeric_and(b"-~\xff");
        for byte in 0..=u8::MAX {
            let is = byte.is_ascii_alphanumeric() || b"-~\xff".contains(&byte);
            assert_eq!(SET.has(byte), is, "{byte}");
        }
        assert!(SET.has_all(b"") && SET.has_all(b"aZ09-~") && !SET.has_all(b"a.b"));
    }
}
