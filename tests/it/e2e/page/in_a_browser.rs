//! Both pages in a headless Chromium, in every state and language.

use std::path::PathBuf;

use catraca::gateway::page::Language;
use serde_json::{Value, json};

use crate::e2e::page::scenarios;
use crate::e2e::page::stage::Stage;
use crate::support::browser::{Browser, Shot};

/// Names a folder; then a picture of every state is put there, to be looked at by people.
const SCREENS: &str = "CATRACA_SCREENS";

fn shows() -> Vec<(&'static str, Language, String)> {
    let in_languages = |name: &'static str| {
        Language::ALL.map(|language| {
            let tag = language.tag().to_lowercase();
            (name, language, format!("{name}--{tag}"))
        })
    };
    scenarios::all()
        .iter()
        .flat_map(|scenario| in_languages(scenario.name))
        .collect()
}

/// Plays these pages and gives back what each says, in the same order.
async fn play(browser: &Browser, addresses: Vec<String>) -> (Stage, Vec<Value>) {
    let mut stage = Stage::open(addresses).await;
    let opened = browser.open(&format!("{}/frames", stage.address));
    let said = stage.collected().await;
    let complaints = opened.complaints();
    for sign in [
        "Content Security Policy",
        "Uncaught",
        "TypeError",
        "404 (Not Found)",
    ] {
        let found = complaints.lines().find(|line| line.contains(sign));
        assert_eq!(found, None, "the browser complains");
    }
    (stage, said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_pages_say_the_same_in_every_state_and_language() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let shows = shows();
    let addresses = shows
        .iter()
        .flat_map(|(_, language, show)| {
            let lang = language.tag();
            [
                format!("/w/{show}?lang={lang}#same"),
                format!("/w/{show}/place?lang={lang}"),
            ]
        })
        .collect();
    let (_, said) = play(&browser, addresses).await;
    for ((name, language, _), pages) in shows.iter().zip(said.chunks_exact(2)) {
        let [with_scripts, without] = pages else {
            unreachable!("chunks of two")
        };
        let mut without = without.clone();
        without["checked"] = with_scripts["checked"].clone(); // only a script can check
        assert_eq!(*with_scripts, without, "{name} in {}", language.tag());
        assert_eq!(with_scripts["lang"], language.tag());
        let checked = with_scripts["checked"].as_array().unwrap().len();
        assert_eq!(checked, usize::from(*name == "drawn"), "{name}");
        assert_eq!(with_scripts["inline"], 0);
        let state = name.replace('-', "_");
        let word = with_scripts["state"].as_str().unwrap();
        let open = ["next", "slowed", "unlikely", "drawn", "present"];
        let is_open = open.contains(name) && word == "waiting";
        assert!(is_open || state.starts_with(word), "{name} is {word}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_outlives_a_reload_and_is_one_in_two_tabs() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let addresses = [
        "/w/waiting--reload?lang=en#waiting,reload,waiting",
        "/w/waiting--tabs?lang=en#waiting",
        "/w/waiting--tabs?lang=en#waiting",
        "/w/waiting--left?lang=en#waiting,leave,gone",
    ]
    .map(str::to_owned);
    let (stage, said) = play(&browser, addresses.into()).await;
    for page in &said[..3] {
        assert_eq!(page["number"], scenarios::PLACE.to_string());
        assert_eq!(page["state"], "waiting");
    }
    assert_eq!(stage.asked("waiting--reload", "join"), 1);
    assert_eq!(stage.asked("waiting--tabs", "join"), 1);
    assert_eq!(stage.asked("waiting--left", "leave"), 1);
    assert_eq!(said[3]["state"], "gone");
    assert_eq!(said[3]["number"], Value::Null);
    assert_eq!(said[3]["join"], json!(["Join again"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_answers_a_challenge_by_itself_in_every_language() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let shows = Language::ALL.map(|language| {
        let tag = language.tag();
        let show = format!("waiting--challenged-{}", tag.to_lowercase());
        (format!("/w/{show}?lang={tag}#waiting"), show)
    });
    let addresses = shows.iter().map(|(address, _)| address.clone()).collect();
    let (stage, said) = play(&browser, addresses).await;
    for ((_, show), page) in shows.iter().zip(&said) {
        assert_eq!(page["state"], "waiting", "{show}");
        assert_eq!(page["number"], scenarios::PLACE.to_string(), "{show}");
        assert_eq!(page["notice"], json!([]), "{show}");
        // Without, and with the answer.
        assert_eq!(stage.asked(show, "join"), 2, "{show}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_of_every_state() {
    let Some(folder) = std::env::var_os(SCREENS).map(PathBuf::from) else {
        return;
    };
    let Some(browser) = Browser::find() else {
        return;
    };
    std::fs::create_dir_all(&folder).unwrap();
    let stage = Stage::open(Vec::new()).await;
    let phone = Shot {
        width: 500,
        height: 900,
        is_dark: false,
    };
    let desk = Shot {
        width: 1_000,
        height: 800,
        is_dark: true,
    };
    for (_, language, show) in shows() {
        for (kind, width, shot) in [
            ("small", 320, phone),
            ("phone", 390, phone),
            ("desk", 1_000, desk),
        ] {
            let show = show.replace("--", &format!("--{kind}-"));
            let url = format!(
                "{}/picture/{width}/{show}/{}",
                stage.address,
                language.tag()
            );
            browser.picture(&url, shot, &folder.join(format!("{show}.png")));
        }
    }
}
