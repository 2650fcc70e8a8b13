//! Addresses that mail can go to, as far as their form tells.

use lettre::Address;
use lettre::message::Mailbox;

use crate::base::limits::EMAIL_BYTES_MAX;

/// An address that can be no more than one, for it stands between `<` and `>` in what is said to a server, and of
/// which the head of a mail can be made and read again.
pub fn recipient(address: &str) -> Option<Address> {
    let parts = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '<' | '>');
    if EMAIL_BYTES_MAX < address.len() || address.contains(parts) {
        return None;
    }
    let address: Address = address.parse().ok()?;
    let written = Mailbox::new(None, address.clone()).to_string();
    written.parse::<Mailbox>().is_ok().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_can_go_to_one_address_that_a_head_can_name() {
        for good in [
            "ana@example.com",
            "a.b+c@b.example",
            "\"x\"@b.example",
            "ü@ü.example",
        ] {
            assert!(recipient(good).is_some(), "{good}");
        }
        let long = format!("{}@example.com", "a".repeat(EMAIL_BYTES_MAX));
        for bad in [
            "",
            "ana",
            "ana@",
            "@example.com",
            "ana@example.com, bo@example.com",
            "ana@example.com>",
            "<ana@example.com>",
            "ana\r\nBcc: bo@example.com",
            "\"a b\"@b.example",
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            &long,
        ] {
            assert!(recipient(bad).is_none(), "{bad}");
        }
    }
}
