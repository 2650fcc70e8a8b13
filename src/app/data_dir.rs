//! The data folder: one process that plays every role, or several that play one each; and secrets
//! that are made on the first start.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::app::StartError;
use crate::base::ids::IdSource;
use crate::base::secret::Secret;

/// A data folder that belongs to this process while the value lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Takes the folder for this process alone, and makes it where it is missing.
    ///
    /// # Errors
    /// [`StartError`] where it cannot be written, or another process has it.
    pub fn take(path: &Path) -> Result<Self, StartError> {
        Self::lock(path, File::try_lock)
    }

    /// The same for a process of one role: others of one role may have the folder too.
    ///
    /// # Errors
    /// As [`DataDir::take`].
    pub fn share(path: &Path) -> Result<Self, StartError> {
        Self::lock(path, File::try_lock_shared)
    }

    fn lock(
        path: &Path,
        locking: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, StartError> {
        let shown = path.display();
        let unusable = |error: std::io::Error| {
            StartError::unavailable(format!("cannot use the data folder {shown}: {error}"))
        };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(unusable)?;
        match locking(&lock) {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StartError::unavailable(format!(
                "another catraca runs in the data folder {shown}"
            ))),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The secret in this file; made and kept, readable by its owner only, where it is missing.
    ///
    /// # Errors
    /// [`StartError`] where the file can neither be read nor written.
    pub fn secret(&self, name: &str) -> Result<Secret, StartError> {
        let path = self.file(name);
        let shown = path.display();
        if let Ok(text) = std::fs::read_to_string(&path) {
            return Ok(Secret::new(text.trim()));
        }
        let made = IdSource::random().secret();
        let written = self.write_once(&path, &made);
        written
            .and_then(|()| std::fs::read_to_string(&path))
            .map(|text| Secret::new(text.trim()))
            .map_err(|error| StartError::unavailable(format!("cannot write {shown}: {error}")))
    }

    /// Whole or not at all: of processes that start at once, the first one's counts for all.
    fn write_once(&self, path: &Path, secret: &str) -> std::io::Result<()> {
        let own = self.file(&format!("secret-of-{}", std::process::id()));
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&own)?;
        writeln!(file, "{secret}")?;
        file.sync_all()?;
        let linked = std::fs::hard_link(&own, path);
        std::fs::remove_file(&own)?;
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_process_and_keeps_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = DataDir::take(&path).unwrap();
        let secret = first.secret("secret").unwrap();
        assert_eq!(secret.expose().len(), 64);
        assert!(
            DataDir::take(&path)
                .unwrap_err()
                .to_string()
                .contains("another catraca")
        );
        assert!(DataDir::share(&path).is_err());
        drop(first);
        let shared = [DataDir::share(&path), DataDir::share(&path)].map(Result::unwrap);
        assert!(DataDir::take(&path).is_err());
        drop(shared);
        let second = DataDir::take(&path).unwrap();
        assert_eq!(second.secret("secret").unwrap().expose(), secret.expose());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_one_clear_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = DataDir::take(&file.join("data")).unwrap_err();
        assert_eq!(error.code(), 69);
        assert!(
            error.to_string().starts_with("cannot use the data folder"),
            "{error}"
        );
    }
}
