//! A disk that takes its time: a library, for a server to load, that makes every flush wait while a
//! certain file is there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A flush takes longer than a server waits for one before it writes on.
const SOURCE: &str = r#"#include <unistd.h>
static int slow(void) { if (access("FLAG", F_OK) == 0) sleep(20); return 0; }
int fsync(int file) { (void)file; return slow(); }
int fdatasync(int file) { (void)file; return slow(); }
"#;

/// The library, compiled once.
pub(crate) fn library() -> PathBuf {
    folder().join("slow.so")
}

/// From now on flushes are slow.
pub(crate) fn slow_down() {
    std::fs::write(folder().join("slow"), "").unwrap();
}

/// The disk is as before.
pub(crate) fn speed_up() {
    std::fs::remove_file(folder().join("slow")).unwrap();
}

fn folder() -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let [flag, source, library] =
            ["slow", "slow.c", "slow.so"].map(|name| folder.path().join(name));
        let text = SOURCE.replace("FLAG", flag.to_str().unwrap());
        std::fs::write(&source, text).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .unwrap();
        assert!(status.success(), "cc builds the slow disk");
        folder
    });
    folder.path().to_owned()
}
