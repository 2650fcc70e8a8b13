//! The bytes of the pages: their size, what they must not hold, and their texts.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use catraca::gateway::page::{
    CONTENT_SECURITY_POLICY, Language, Notice, PlaceState, Refresh, Site,
};

use crate::e2e::page::scenarios;

/// A waiting page with everything it loads must stay below this.
const BYTES_MAX: usize = 50_000;

/// The waiting page, and the files that it and its scripts name.
fn everything(site: &Site) -> BTreeMap<String, String> {
    let show = "stadium-show".parse().unwrap();
    let page = String::from_utf8(site.waiting_page(&show).to_vec()).unwrap();
    let mut files = BTreeMap::from([("page".to_owned(), page)]);
    let mut unread = vec!["page".to_owned()];
    while let Some(name) = unread.pop() {
        for named in names(&files[&name]) {
            if !files.contains_key(&named) {
                let asset = site
                    .asset(&named)
                    .unwrap_or_else(|| panic!("{named} is missing"));
                assert!(asset.cache_control.contains("immutable"), "{named}");
                files.insert(
                    named.clone(),
                    String::from_utf8(asset.bytes.to_vec()).unwrap(),
                );
                unread.push(named);
            }
        }
    }
    files
}

/// Files that a text names: `/w/assets/x` in pages, `"./x"` in scripts.
fn names(text: &str) -> Vec<String> {
    let after = |mark: &str| {
        text.split(mark)
            .skip(1)
            .filter_map(|rest| rest.split('"').next().map(str::to_owned))
            .collect::<Vec<String>>()
    };
    [after("\"/w/assets/"), after("\"./")].concat()
}

/// The texts by language, as the script gets them.
fn texts(site: &Site) -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let table = |language: Language| {
        let name = format!("texts-{}.js", language.tag().to_lowercase());
        let script = site.asset(&name).unwrap();
        let script = std::str::from_utf8(&script.bytes).unwrap();
        let json = script.strip_prefix("export default ").unwrap();
        serde_json::from_str(json.trim_end().trim_end_matches(';')).unwrap()
    };
    Language::ALL
        .map(|language| (language.tag(), table(language)))
        .into()
}

#[test]
fn the_page_is_small_and_whole() {
    let files = everything(&Site::new());
    assert_eq!(files.len(), 15, "{:?}", files.keys());
    let is_other_language =
        |name: &str| name.starts_with("texts-es") || name.starts_with("texts-en");
    // Only shows that draw load it, and only those who are challenged the others.
    let for_some = ["draw.", "challenge.", "altcha"];
    let is_for_some = |name: &str| for_some.iter().any(|begin| name.starts_with(begin));
    let loaded: Vec<(&str, usize)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.len()))
        .filter(|(name, _)| !is_other_language(name) && !is_for_some(name))
        .collect();
    let total: usize = loaded.iter().map(|(_, size)| size).sum();
    assert!(total < BYTES_MAX, "{total} bytes: {loaded:?}");
}

#[test]
fn a_page_of_another_release_still_finds_its_files() {
    let site = Site::new();
    let ours = site.asset("page.js").unwrap();
    let theirs = site.asset("page.0123456789ab.js").unwrap();
    assert_eq!(ours.bytes, theirs.bytes);
    assert!(!theirs.cache_control.contains("immutable"));
    for unknown in [
        "",
        ".",
        "page",
        "page.",
        "other.js",
        "page.css.js.exe",
        "../page.js",
        "é.js",
    ] {
        assert!(site.asset(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn what_others_wrote_is_what_they_published() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web/vendor/altcha");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let sums = String::from_utf8(read("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 3);
    for (sum, name) in sums.lines().filter_map(|line| line.split_once("  ")) {
        let hash = Sha256::digest(read(name));
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, sum, "{name}");
    }
    assert!(read("LICENSE").starts_with(b"MIT License"));
}

#[test]
fn everybody_gets_the_same_bytes() {
    let (show, other) = ("a".parse().unwrap(), "b".parse().unwrap());
    assert_eq!(
        Site::new().waiting_page(&show),
        Site::new().waiting_page(&show)
    );
    assert_ne!(
        Site::new().waiting_page(&show),
        Site::new().waiting_page(&other)
    );
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(
            CONTENT_SECURITY_POLICY
                .split("; ")
                .any(|given| given == part),
            "{part}"
        );
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
    let site = Site::new();
    let mut pages = every_place_page(&site);
    pages.push(everything(&site)["page"].clone());
    for page in pages {
        for (at, _) in page.match_indices('<') {
            let tag = page[at..].split('>').next().unwrap();
            check_tag(tag);
        }
    }
    let ours = everything(&site).into_iter();
    // What others wrote names their homes in its messages; the policy keeps it from going there.
    for (name, text) in ours.filter(|(name, _)| !name.starts_with("altcha")) {
        let foreign = text.split("http").skip(1).find(|rest| {
            (rest.starts_with("://") || rest.starts_with("s://"))
                && !rest.starts_with("://www.w3.org/2000/svg")
        });
        assert_eq!(foreign, None, "{name}");
    }
}

/// No handler, no style, no script but by address.
fn check_tag(tag: &str) {
    assert!(!tag.starts_with("<style"), "{tag}");
    assert!(
        !tag.starts_with("<script") || tag.contains(" src=\"/w/assets/"),
        "{tag}"
    );
    for attribute in tag.split_whitespace().skip(1) {
        let name = attribute.split('=').next().unwrap();
        assert!(name != "style" && !name.starts_with("on"), "{tag}");
    }
}

/// The place page in every state and language.
fn every_place_page(site: &Site) -> Vec<String> {
    let mut pages = Vec::new();
    for language in Language::ALL {
        for scenario in scenarios::all() {
            let mut view = scenarios::view("stadium-show", language);
            (scenario.view)(&mut view);
            pages.push(site.place_page(&view));
        }
    }
    pages
}

#[test]
fn hostile_names_and_messages_stay_texts() {
    let site = Site::new();
    let mut view = scenarios::view("stadium-show", Language::En);
    let hostile = r#""><script>alert(1)</script>{position}<img src=x onerror='alert(1)'>"#;
    view.name = hostile.to_owned();
    view.message = Some(hostile.to_owned());
    let page = site.place_page(&view);
    assert!(!page.contains("<script") && !page.contains("<img src=x"));
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"));
    assert!(page.contains("{position}"), "a name is not filled in");
    let admitted = |enter: &str| {
        let mut view = scenarios::view("stadium-show", Language::En);
        let enter = Some(enter.to_owned());
        view.state = PlaceState::Admitted {
            enter,
            expires_in_ms: 60_000,
        };
        site.place_page(&view)
    };
    assert!(admitted("https://shop.example/?a=\"b\"").contains(r#"id="enter""#));
    for running in [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        " javascript:x",
        "data:text/html,x",
    ] {
        assert!(!admitted(running).contains(r#"id="enter""#), "{running}");
    }
}

#[test]
fn a_reader_without_scripts_can_join_leave_and_stop_the_reloading() {
    let site = Site::new();
    let mut view = scenarios::view("stadium-show", Language::Es);
    let page = site.place_page(&view);
    assert!(page.contains(r#"<html lang="es">"#));
    assert!(page.contains(r#"content="15; url=/w/stadium-show/place?lang=es""#));
    assert!(
        page.contains(r#"href="/w/stadium-show/place?lang=es&#38;stop=1""#),
        "{page}"
    );
    assert!(page.contains(r#"action="/w/stadium-show/leave?lang=es""#));
    assert!(page.contains(r#"data-number="1204000""#) && page.contains(r#"data-state="waiting""#));
    view.refresh = Refresh::Stopped;
    assert!(!site.place_page(&view).contains("http-equiv"));
    view.state = PlaceState::NotJoined;
    view.number = None;
    view.notice = Some(Notice::Full);
    let page = site.place_page(&view);
    assert!(page.contains(r#"method="post" action="/w/stadium-show/join?lang=es""#));
    assert!(page.contains("La fila está llena") && !page.contains("data-number"));
}

#[test]
fn every_text_exists_in_every_language_and_each_language_is_its_own() {
    let texts = texts(&Site::new());
    let english = &texts["en"];
    assert_eq!(texts.len(), 3);
    for (language, table) in &texts {
        assert_eq!(table.len(), english.len());
        for (key, text) in table {
            assert!(!text.trim().is_empty(), "{language}: {key}");
            assert_eq!(blanks(text), blanks(&english[key]), "{language}: {key}");
        }
    }
    for (one, other) in [("en", "es"), ("en", "pt-BR"), ("es", "pt-BR")] {
        let sentences = |text: &&String| text.contains(' ') && 20 < text.len();
        let same: Vec<_> = texts[one]
            .values()
            .filter(sentences)
            .filter(|text| texts[other].values().any(|theirs| theirs == *text))
            .collect();
        assert_eq!(same, Vec::<&String>::new(), "{one} and {other}");
    }
}

/// The words in braces.
fn blanks(text: &str) -> BTreeSet<&str> {
    text.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
        .collect()
}

#[test]
fn scripts_and_templates_use_only_texts_that_exist_and_all_of_them() {
    let texts = texts(&Site::new());
    let known: BTreeSet<&str> = texts["en"].keys().map(String::as_str).collect();
    let mut used = BTreeSet::new();
    let sources = [
        include_str!("../../../../web/page.js"),
        include_str!("../../../../web/challenge.js"),
        include_str!("../../../../web/say.js"),
        include_str!("../../../../web/place.html"),
        include_str!("../../../../src/gateway/page/say.rs"),
        include_str!("../../../../src/gateway/page/view.rs"),
        include_str!("../../../../src/gateway/page/mod.rs"),
    ]
    .map(|source| source.replace("self.t.", "t.").replace(".texts().", " t."));
    for source in &sources {
        used.extend(keys(source));
    }
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let idle: Vec<_> = known
        .difference(&used)
        .filter(|key| !is_built(key))
        .collect();
    assert!(idle.is_empty(), "nobody says {idle:?}");
}

/// Keys after `t.`, where `t` is a word of its own.
fn keys(source: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
    source
        .match_indices("t.")
        .filter(|(at, _)| {
            !source[..*at].ends_with(|c: char| c.is_alphanumeric() || "_.".contains(c))
        })
        .filter_map(|(at, _)| source[at + 2..].split(|c| !is_word(c)).next())
        .filter(|key| !key.is_empty())
        .collect()
}

/// Keys that the script puts together from a state.
fn is_built(key: &str) -> bool {
    ["loading_", "missing_"]
        .iter()
        .any(|state| key.starts_with(state))
        || ["lost", "check", "account"].contains(&key)
}
