//! The folder of the figures. A file is written under a temporary name and then renamed: a reader
//! finds the old file or the new one, never a partial one.

use crate::outcome::CliError;
use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

/// A writable folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder if it is missing and checks that a file can be written there.
    ///
    /// # Errors
    /// If that is impossible.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let unusable = |error: Error| {
            CliError::run(format!(
                "figures cannot be written to {}: {error}; name another folder with --out",
                path.display()
            ))
        };
        fs::create_dir_all(path).map_err(unusable)?;
        let probe = path.join(format!(".rackweave-{}", std::process::id()));
        fs::write(&probe, b"figures")
            .and_then(|()| fs::remove_file(&probe))
            .map_err(unusable)?;
        Ok(Self(path.to_owned()))
    }

    /// Writes a file and returns its path.
    ///
    /// # Errors
    /// If it cannot be written; an existing file is kept.
    pub fn write(&self, name: &str, text: &str) -> Result<String, CliError> {
        let path = self.0.join(name);
        let part = self.0.join(format!(".{name}.part"));
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &path))
            .map_err(|error| {
                // If removal also fails, nothing more can be done.
                let _ = fs::remove_file(&part);
                CliError::run(format!("{} cannot be written: {error}", path.display()))
            })?;
        Ok(path.display().to_string())
    }
}
