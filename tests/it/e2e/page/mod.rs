//! The pages: their bytes, and what a browser makes of them.

mod bytes;
mod in_a_browser;
mod scenarios;
mod stage;
