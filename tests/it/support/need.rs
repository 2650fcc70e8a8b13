//! Programs that some tests cannot do without, and what happens where one is missing.
//!
//! A missing program is never a silent pass: the test says on stderr that it was skipped and why,
//! and with [`STRICT`] set, as in CI, it fails.

use std::env;
use std::future::Future;
use std::path::{Path, PathBuf};

/// Set by `./dev test` in CI: what is missing fails.
pub(crate) const STRICT: &str = "CATRACA_STRICT";

/// A program, and the names it goes by.
#[derive(Debug)]
pub(crate) struct Need {
    /// What it is, for the message.
    pub(crate) what: &'static str,
    /// The variable that may name its path.
    pub(crate) variable: &'static str,
    /// Names to look for in `PATH`, best first.
    pub(crate) programs: &'static [&'static str],
}

/// Looks at the pages.
pub(crate) const CHROMIUM: Need = Need {
    what: "a headless browser",
    variable: "CATRACA_CHROMIUM",
    programs: &["chromium", "chromium-browser", "google-chrome"],
};

/// Knows which files belong to the repository.
pub(crate) const GIT: Need = Need {
    what: "git",
    variable: "CATRACA_GIT",
    programs: &["git"],
};

/// Keeps rooms.
pub(crate) const REDIS: Need = Need {
    what: "redis-server 7.0 or later",
    variable: "CATRACA_REDIS",
    programs: &["redis-server"],
};

/// Keeps rooms, too.
pub(crate) const VALKEY: Need = Need {
    what: "valkey-server 8 or later",
    variable: "CATRACA_VALKEY",
    programs: &["valkey-server"],
};

/// Keeps orders. Debian hides it from `PATH`: `./dev` knows where.
pub(crate) const POSTGRES: Need = Need {
    what: "PostgreSQL 15 or later",
    variable: "CATRACA_POSTGRES",
    programs: &["postgres"],
};

/// Runs what is written for it.
pub(crate) const JAVA: Need = Need {
    what: "Java 17 or later",
    variable: "CATRACA_JAVA",
    programs: &["java"],
};

/// Takes events. A folder of jars, which no system has in a place of its own: `./dev` fetches them.
pub(crate) const KAFKA: Need = Need {
    what: "a folder with Apache Kafka's jars (./dev servers fetches them)",
    variable: "CATRACA_KAFKA",
    programs: &[],
};

/// Sends the outbox in the relay's place. A folder of jars, as above.
pub(crate) const DEBEZIUM: Need = Need {
    what: "a folder with Debezium's jars (./dev servers fetches them)",
    variable: "CATRACA_DEBEZIUM",
    programs: &[],
};

/// Stands before a shop, and asks us whom to let through.
pub(crate) const NGINX: Need = Need {
    what: "nginx",
    variable: "CATRACA_NGINX",
    programs: &["nginx"],
};

/// Verifies tickets in a way that is not ours, and takes mail.
pub(crate) const PYTHON: Need = Need {
    what: "python3 with PyJWT and aiosmtpd (./dev servers fetches them)",
    variable: "CATRACA_PYTHON",
    programs: &["python3"],
};

/// The same.
pub(crate) const NODE: Need = Need {
    what: "node with jose (./dev servers fetches it)",
    variable: "CATRACA_NODE",
    programs: &["node"],
};

/// Plays the same on Redis and on Valkey, at the same time: such plays mostly wait. What is done is said,
/// so that a failure has a name.
pub(crate) async fn on_both<F: Future<Output = ()>>(play: impl Fn(&'static Need) -> F) {
    let play = async |need: &'static Need| {
        Box::pin(play(need)).await;
        eprintln!("done on {}", need.what);
    };
    tokio::join!(play(&REDIS), play(&VALKEY));
}

impl Need {
    /// The program's path, or `None` where the asking test is to return at once.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        let found = self.look();
        if found.is_none() {
            let strict = env::var(STRICT).is_ok();
            assert!(
                !strict,
                "{} is missing; {} may name its path",
                self.what, self.variable
            );
            eprintln!(
                "skipped: {} is missing; {} may name its path",
                self.what, self.variable
            );
        }
        found
    }

    /// Its path and the folder into which `./dev` has fetched packages for it; `None` as above.
    pub(crate) fn find_with_packages(&self) -> Option<(PathBuf, PathBuf)> {
        let program = self.find()?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers");
        let all = env::var("CATRACA_PACKAGES").map_or(here, PathBuf::from);
        let folder = all.join(self.programs.first()?);
        if !folder.is_dir() {
            let strict = env::var(STRICT).is_ok();
            assert!(!strict, "no packages for {} in {folder:?}", self.what);
            eprintln!("skipped: no packages for {} in {folder:?}", self.what);
            return None;
        }
        Some((program, folder))
    }

    fn look(&self) -> Option<PathBuf> {
        if let Ok(named) = env::var(self.variable) {
            return Some(PathBuf::from(named)).filter(|path| path.exists());
        }
        let folders: Vec<PathBuf> =
            env::split_paths(&env::var("PATH").unwrap_or_default()).collect();
        self.programs
            .iter()
            .flat_map(|program| folders.iter().map(move |folder| folder.join(program)))
            .find(|path| path.is_file())
    }
}

#[test]
fn a_program_that_nobody_has_is_not_found() {
    let nothing = Need {
        what: "nothing",
        variable: "CATRACA_NOTHING",
        programs: &["no-such-program"],
    };
    assert_eq!(nothing.look(), None);
    let shell = Need {
        what: "a shell",
        variable: "CATRACA_NOTHING",
        programs: &["no-such-program", "sh"],
    };
    assert!(shell.look().is_some_and(|path| path.ends_with("sh")));
}
