//! Makes up requests that mean to slip past a gate.

use std::net::Ipv4Addr;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Makes up requests.
pub(crate) struct Liar {
    rng: StdRng,
}

impl Liar {
    /// The same seed, the same lies.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
        }
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.choose(&mut self.rng).copied().unwrap_or_default()
    }

    /// A guarded path, an open one, or one behind the other, bent up to three times.
    pub(crate) fn target(&mut self) -> String {
        let guarded = [
            "/",
            "/orders",
            "/orders/7",
            "/orders/7/pay",
            "/api/checkout/a/b",
        ];
        let open = [
            "/about",
            "/static/a.css",
            "/static/",
            "/w/gala",
            "/v1/shows/gala/board",
            "/livez",
        ];
        let mut target = match self.rng.random_range(0..4) {
            0 => self.pick(&guarded).to_owned(),
            1 => format!("{}{}", self.pick(&open), self.pick(&guarded)),
            2 => format!("{}/..{}", self.pick(&open), self.pick(&guarded)),
            _ => format!("{}/../..{}", self.pick(&open), self.pick(&guarded)),
        };
        for _ in 0..self.rng.random_range(0..=3) {
            self.bend(&mut target);
        }
        target
    }

    fn bend(&mut self, target: &mut String) {
        let inserts = [
            "/",
            "//",
            "/.",
            "/./",
            "/..",
            "/../",
            ";",
            ";a=b",
            "%2f",
            "%2F",
            "%5c",
            "\\",
            "%00",
            "%20",
            "%09",
            "%0d%0a",
            "%2e",
            "%2e%2e/",
            "%252e%252e/",
            "%c0%af",
            "%u002f",
            "\u{ff0f}",
            "%EF%BC%8F",
            "\u{200b}",
            "?",
            "?show=other",
            "#",
            "%23",
            "%3f",
            "%25",
            "+",
            ".",
            ".json",
            "..;/",
            "@",
            ":80",
            "|",
            "\"",
            "^",
        ];
        let letters: Vec<(usize, char)> = target.char_indices().collect();
        let Some(&(at, letter)) = letters.choose(&mut self.rng) else {
            return;
        };
        match self.rng.random_range(0..6) {
            0 => target.insert_str(at, self.pick(&inserts)),
            1 => target.push_str(self.pick(&inserts)),
            2 => target.replace_range(at..at + letter.len_utf8(), &encoded(letter, "%")),
            3 => target.replace_range(at..at + letter.len_utf8(), &encoded(letter, "%25")),
            4 => target.replace_range(
                at..at + letter.len_utf8(),
                &letter.to_uppercase().to_string(),
            ),
            _ => drop(target.remove(at)),
        }
    }

    /// A request for it as bytes, with headers that mean to mislead.
    pub(crate) fn request(&mut self, target: &str) -> String {
        let methods = [
            "GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "FOO", "TRACE",
        ];
        let method = if self.rng.random_bool(0.7) {
            "GET"
        } else {
            self.pick(&methods)
        };
        let host = self.pick(&["a", "a:80", "127.0.0.1", "orders", "[::1]"]);
        let form = self.pick(&["", "", "", "", "", "", "http://a", "http://orders", "//a"]);
        let lies = [
            "",
            "",
            "",
            "x-original-url: /about\r\n",
            "x-rewrite-url: /orders\r\n",
            "x-forwarded-prefix: /static\r\n",
            "x-http-method-override: GET\r\n",
            "x-catraca-ticket-id: 00\r\n",
            "x-catraca-fan: 00\r\n",
            "connection: x-catraca-fan\r\n",
            "upgrade: h2c\r\nhttp2-settings: AAA\r\n",
            "accept: text/html\r\n",
            "cookie: catraca-ticket-gala=x\r\n",
            "content-length: 0\r\n",
        ];
        let lie = self.pick(&lies);
        let client = Ipv4Addr::from_bits(self.rng.random());
        format!(
            "{method} {form}{target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             x-forwarded-for: {client}\r\n{lie}\r\n"
        )
    }
}

fn encoded(letter: char, percent: &str) -> String {
    let mut bytes = [0; 4];
    let bytes = letter.encode_utf8(&mut bytes).bytes();
    bytes.map(|byte| format!("{percent}{byte:02x}")).collect()
}
