//! A headless Chromium: opens an address, and takes pictures.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::need::CHROMIUM;

/// A browser with a profile of its own, gone with the value.
#[derive(Debug)]
pub(crate) struct Browser {
    program: PathBuf,
    profile: tempfile::TempDir,
}

/// An open page. Dropping it closes the browser.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    child: Child,
    complaints: PathBuf,
    _browser: &'a Browser,
}

/// How a picture is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shot {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The reader prefers a dark page.
    pub(crate) is_dark: bool,
}

impl Browser {
    /// `None` where this machine has no browser and may do without.
    pub(crate) fn find() -> Option<Self> {
        Some(Self {
            program: CHROMIUM.find()?,
            profile: tempfile::tempdir().unwrap(),
        })
    }

    /// Opens a page and leaves it open.
    pub(crate) fn open(&self, url: &str) -> Opened<'_> {
        let complaints = self.profile.path().join("complaints");
        let child = self
            .command()
            .args(["--enable-logging=stderr", "--log-level=0", url])
            .stderr(File::create(&complaints).unwrap())
            .spawn()
            .unwrap();
        Opened {
            child,
            complaints,
            _browser: self,
        }
    }

    /// Takes a picture of a page once it is loaded.
    pub(crate) fn picture(&self, url: &str, shot: Shot, file: &Path) {
        let scheme = if shot.is_dark { 0 } else { 1 };
        let status = self
            .command()
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--window-size={},{}", shot.width, shot.height))
            .arg(format!("--screenshot={}", file.display()))
            .arg(url)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() && file.is_file(), "no picture of {url}");
    }

    /// A file among the browser's own, gone with it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.profile.path().join(name)
    }

    /// The browser without a page.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }
}

impl Opened<'_> {
    /// What the browser had to say, the pages' consoles among it.
    pub(crate) fn complaints(&self) -> String {
        let bytes = std::fs::read(&self.complaints).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
