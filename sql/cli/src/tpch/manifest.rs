//! `manifest.json` beside the tables: what the data are, so that a run can tell.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// The file's name in the data directory. It is written last: a directory with it is complete.
pub const FILE: &str = "manifest.json";

/// What a data directory contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `tpch`.
    pub benchmark: String,
    /// Scale factor; 1 is about a gigabyte of text.
    pub scale_factor: f64,
    /// The program that made the data, with its version.
    pub generator: String,
    /// By name.
    pub tables: BTreeMap<String, Table>,
}

/// The files of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Rows in all files.
    pub rows: u64,
    /// Size of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u32,
}

impl Manifest {
    /// The manifest of a directory; `None` where there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a manifest.
    pub fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the manifest into a directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec_pretty(self)?)
    }

    /// Rows in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.values().map(|table| table.rows).sum()
    }

    /// Size of all tables' files.
    pub fn bytes(&self) -> u64 {
        self.tables.values().map(|table| table.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE, Manifest, Table};

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), None);
        let manifest = Manifest {
            benchmark: "tpch".to_owned(),
            scale_factor: 0.01,
            generator: "test".to_owned(),
            tables: [(
                "region".to_owned(),
                Table {
                    rows: 5,
                    bytes: 100,
                    files: 1,
                },
            )]
            .into(),
        };
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), Some(manifest));
    }

    #[test]
    fn a_damaged_manifest_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "{").unwrap();
        assert!(Manifest::read(directory.path()).is_err());
    }
}
