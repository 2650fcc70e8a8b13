//! The waiting page: what a fan sees, as bytes.
//!
//! Two pages say the same. `waiting_page` is one file for everybody: its script keeps the fan's
//! place in the browser and lives on the board, so a CDN can serve both. `place_page` is for
//! browsers without scripts: one fan's place, drawn here, reloading itself.
//!
//! Nothing is inline, so [`CONTENT_SECURITY_POLICY`] can forbid all that is. An admitted fan goes on
//! to the shop by a link, never by the redirect of a form: `form-action` also holds for redirects,
//! and the shop may be another origin.
//!
//! Absent on purpose: routes, cookies, clocks. The text of every sentence is in `texts/`.

mod assets;
pub mod language;
mod say;
mod texts;
pub mod view;

use askama::Template;
use bytes::Bytes;

use crate::base::ids::ShowId;
use crate::gateway::page::assets::Assets;
use crate::gateway::page::texts::Texts;
use crate::gateway::page::view::Screen;

pub use crate::gateway::page::assets::Asset;
pub use crate::gateway::page::language::Language;
pub use crate::gateway::page::view::{DrawView, Notice, PlaceState, PlaceView, Refresh, WaitView};

/// `Content-Security-Policy` of both pages: our own files and nothing inline. What makes markup or
/// starts a worker must say so by name: the widget that shows a challenge, and our use of it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types catraca-challenge svelte-trusted-html";

/// `Cache-Control` of the waiting page. The place page is `no-store`.
pub const WAITING_PAGE_CACHE_CONTROL: &str = "public, max-age=60";

/// The pages and their files, put together once at start.
#[derive(Debug)]
pub struct Site {
    assets: Assets,
}

impl Site {
    /// Puts the pages together.
    pub fn new() -> Self {
        Self {
            assets: Assets::new(),
        }
    }

    /// `GET /w/{show}`: the same bytes for everybody who asks about this show.
    pub fn waiting_page(&self, show: &ShowId) -> Bytes {
        let page = WaitingTemplate {
            show: show.as_str(),
            style: &self.assets.path("page.css"),
            script: &self.assets.path("page.js"),
            mark: &self.assets.path("mark.svg"),
        };
        Bytes::from(render(&page))
    }

    /// `GET /w/{show}/place`, and the answer to a form that was refused: one fan's place.
    pub fn place_page(&self, view: &PlaceView) -> String {
        render(&PlaceTemplate {
            screen: Screen::of(view),
            view,
            t: view.language.texts(),
            style: &self.assets.path("page.css"),
            mark: &self.assets.path("mark.svg"),
        })
    }

    /// `GET /w/assets/{name}`: a file of the pages; `None` is a 404.
    pub fn asset(&self, name: &str) -> Option<Asset> {
        self.assets.get(name)
    }
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

fn render(template: &impl Template) -> String {
    template
        .render()
        .expect("templates are fed strings only, and a String takes any of them")
}

#[derive(Template)]
#[template(path = "page.html")]
struct WaitingTemplate<'a> {
    show: &'a str,
    style: &'a str,
    script: &'a str,
    mark: &'a str,
}

#[derive(Template)]
#[template(path = "place.html")]
struct PlaceTemplate<'a> {
    screen: Screen,
    view: &'a PlaceView,
    t: &'static Texts,
    style: &'a str,
    mark: &'a str,
}

impl PlaceTemplate<'_> {
    /// This page's own address, in the reader's language, with `more` of a query.
    fn address(&self, more: &str) -> String {
        let language = self.view.language.tag();
        format!("/w/{}/place?lang={language}{more}", self.view.show)
    }

    /// What stands on the browser's tab.
    fn title(&self) -> String {
        let name = ("name", self.view.name.as_str());
        match &self.screen.position {
            Some(position) => say::fill(self.t.title_in_line, &[("position", position), name]),
            None => say::fill(self.t.title_state, &[("state", self.screen.title), name]),
        }
    }

    fn every(&self, seconds: &u32) -> String {
        let time = say::duration(u64::from(*seconds) * 1_000, self.t);
        say::fill(self.t.reloads, &[("time", &time)])
    }
}
