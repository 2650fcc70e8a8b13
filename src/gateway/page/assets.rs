//! The files of the pages: compiled in, and named by their content.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::base::ids::hex;
use crate::gateway::page::language::Language;

/// A file under `/w/assets/`.
#[derive(Debug, Clone)]
pub struct Asset {
    /// The content.
    pub bytes: Bytes,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// `Cache-Control`.
    pub cache_control: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const FOR_NOW: &str = "public, max-age=60";

/// What answers a challenge: loaded only by those who are asked.
const CHALLENGE: [(&str, &str, &str); 4] = [
    (
        "altcha.js",
        SCRIPT,
        include_str!("../../../web/vendor/altcha/altcha.min.js"),
    ),
    (
        "altcha.css",
        STYLE,
        include_str!("../../../web/vendor/altcha/altcha.css"),
    ),
    (
        "altcha-worker.js",
        SCRIPT,
        include_str!("../../../web/vendor/altcha/worker.js"),
    ),
    (
        "challenge.js",
        SCRIPT,
        include_str!("../../../web/challenge.js"),
    ),
];

/// Our files, each by its plain name: `page.js`.
#[derive(Debug)]
pub(super) struct Assets {
    files: BTreeMap<&'static str, File>,
}

#[derive(Debug)]
struct File {
    hashed_name: String,
    asset: Asset,
}

impl Assets {
    /// Reads and names all files. A script comes after those it imports, because the names of
    /// these become part of its content.
    pub(super) fn new() -> Self {
        let mut assets = Self {
            files: BTreeMap::new(),
        };
        let text = |text: &str| text.to_owned();
        assets.add(
            "mark.svg",
            "image/svg+xml",
            text(include_str!("../../../web/mark.svg")),
        );
        assets.add(
            "page.css",
            STYLE,
            text(include_str!("../../../web/page.css")),
        );
        for language in Language::ALL {
            assets.add(texts_name(language), SCRIPT, texts_script(language));
        }
        assets.add(
            "line.js",
            SCRIPT,
            text(include_str!("../../../web/line.js")),
        );
        assets.add(
            "draw.js",
            SCRIPT,
            text(include_str!("../../../web/draw.js")),
        );
        for (name, content_type, content) in CHALLENGE {
            assets.add(name, content_type, text(content));
        }
        assets.add("say.js", SCRIPT, text(include_str!("../../../web/say.js")));
        assets.add(
            "visit.js",
            SCRIPT,
            text(include_str!("../../../web/visit.js")),
        );
        assets.add(
            "page.js",
            SCRIPT,
            text(include_str!("../../../web/page.js")),
        );
        assets
    }

    /// The path of a file.
    ///
    /// # Panics
    /// There is no such file: a template names one that does not exist.
    pub(super) fn path(&self, name: &str) -> String {
        let file = self
            .files
            .get(name)
            .expect("templates name files that exist");
        format!("/w/assets/{}", file.hashed_name)
    }

    /// A file by its hashed name. Under another hash it is still our version, not to be kept: while
    /// gateways of two releases run side by side, a page of one may ask the other for its script.
    pub(super) fn get(&self, hashed_name: &str) -> Option<Asset> {
        let (stem, rest) = hashed_name.split_once('.')?;
        let (_, extension) = rest.rsplit_once('.').unwrap_or(("", rest));
        let file = self.files.get(format!("{stem}.{extension}").as_str())?;
        let mut asset = file.asset.clone();
        if file.hashed_name != hashed_name {
            asset.cache_control = FOR_NOW;
        }
        Some(asset)
    }

    fn add(&mut self, name: &'static str, content_type: &'static str, mut content: String) {
        for (imported, file) in &self.files {
            let (plain, hashed) = (
                format!("\"./{imported}\""),
                format!("\"./{}\"", file.hashed_name),
            );
            content = content.replace(&plain, &hashed);
        }
        let hash = hex(&Sha256::digest(content.as_bytes())[..6]);
        let hashed_name = name.replacen('.', &format!(".{hash}."), 1);
        let asset = Asset {
            bytes: Bytes::from(content),
            content_type,
            cache_control: FOR_EVER,
        };
        self.files.insert(name, File { hashed_name, asset });
    }
}

/// The texts of each language are a file of their own: a reader loads one.
const fn texts_name(language: Language) -> &'static str {
    match language {
        Language::PtBr => "texts-pt-br.js",
        Language::En => "texts-en.js",
        Language::Es => "texts-es.js",
    }
}

/// The one table, for the script as for the templates.
fn texts_script(language: Language) -> String {
    let json = serde_json::to_string(language.texts()).expect("a table of strings is always JSON");
    format!("export default {json};\n")
}
