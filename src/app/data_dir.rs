//! The data folder: one process at a time, and secrets that are made on the first start.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
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
    /// Takes the folder, and makes it where it is missing.
    ///
    /// # Errors
    /// [`StartError`] where it cannot be written, or another process has it.
    pub fn take(path: &Path) -> Result<Self, StartError> {
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
        match lock.try_lock() {
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
        OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                writeln!(file, "{made}")?;
                file.sync_all()
            })
            .map_err(|error| StartError::unavailable(format!("cannot write {shown}: {error}")))?;
        Ok(Secret::new(made))
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
        drop(first);
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
