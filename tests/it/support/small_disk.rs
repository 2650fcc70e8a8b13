//! A disk of its own for one test, soon full: memory, mounted where we may. That is where we are root;
//! elsewhere the test says that it was skipped and why.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What takes the space that is left.
const BALLAST: &str = "ballast";
/// Pages of it at a time, at first and in the end.
const CHUNKS: [usize; 2] = [1 << 20, 4096];
/// Unmounts at the end of its input, which is that of this process, however it comes.
const KEEPER: &str = r#"read -r _; umount --lazy "$1"; rmdir "$1""#;

/// A disk that is there until this value goes.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    folder: PathBuf,
    keeper: Child,
}

impl SmallDisk {
    /// A new one of so many mebibytes. `None` where this machine does not let us mount.
    pub(crate) fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir_in("/tmp").unwrap().keep();
        let size = format!("size={mebibytes}m,mode=1777");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]);
        let mounted = mount.arg(&folder).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            fs::remove_dir(&folder).unwrap();
            eprintln!("skipped: only root may mount a disk to fill, and not everywhere");
            return None;
        }
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn();
        Some(Self {
            folder,
            keeper: keeper.unwrap(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Takes all the space that is left.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.folder.join(BALLAST)).unwrap();
        for chunk in CHUNKS {
            loop {
                match ballast.write_all(&vec![0; chunk]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// There is space again.
    pub(crate) fn clear(&self) {
        fs::remove_file(self.folder.join(BALLAST)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}
