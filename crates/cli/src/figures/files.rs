//! The folder that figures go to. A file is written beside its place and then moved there: whoever
//! looks finds the old one or the new one, never half of one.

use crate::outcome::CliError;
use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

/// A folder that can be written to.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is missing and sees that a file can be written there.
    ///
    /// # Errors
    /// If not.
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

    /// Writes a file and says where it is.
    ///
    /// # Errors
    /// If it cannot be written; what was there before stays.
    pub fn write(&self, name: &str, text: &str) -> Result<String, CliError> {
        let path = self.0.join(name);
        let part = self.0.join(format!(".{name}.part"));
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &path))
            .map_err(|error| {
                // If it cannot be removed either, there is nothing more to be done about it.
                let _ = fs::remove_file(&part);
                CliError::run(format!("{} cannot be written: {error}", path.display()))
            })?;
        Ok(path.display().to_string())
    }
}
