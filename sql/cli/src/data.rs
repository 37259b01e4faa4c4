//! Tables from Parquet files: a directory per table, or a file per table.

use crate::error::CommandError;
use crate::tpch::manifest::Manifest;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use std::path::{Path, PathBuf};
use url::Url;

/// A directory with tables.
#[derive(Debug, Clone)]
pub struct DataSet {
    /// Absolute, because workers may have another working directory.
    pub directory: PathBuf,
    /// Names and paths, in the order of the names.
    pub tables: Vec<(String, PathBuf)>,
    /// For data which `tpch gen` made.
    pub manifest: Option<Manifest>,
}

impl DataSet {
    /// Opens a local directory, given as a path or as a `file://` URL.
    ///
    /// # Errors
    /// It is no such directory, or has no tables.
    pub fn open(location: &str) -> Result<Self, CommandError> {
        let path = local_path(location)?;
        let cannot = |error: std::io::Error| {
            CommandError::set_up(format!(
                "cannot read the data in {location}: {error}. \
                 Make data with `rackweave-sql tpch gen --sf 0.1 --out {location}`"
            ))
        };
        let directory = path.canonicalize().map_err(cannot)?;
        let manifest = Manifest::read(&directory).map_err(cannot)?;
        let mut tables = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if let Some(name) = table_name(&path) {
                tables.push((name, path));
            }
        }
        if tables.is_empty() {
            return Err(CommandError::set_up(format!(
                "{location} has no tables. A table is a directory with Parquet files, or a file \
                 NAME.parquet. Make some with `rackweave-sql tpch gen`"
            )));
        }
        tables.sort();
        Ok(Self {
            directory,
            tables,
            manifest,
        })
    }

    /// No tables: they are elsewhere.
    pub fn empty(location: &str) -> Self {
        Self {
            directory: location.into(),
            tables: Vec::new(),
            manifest: None,
        }
    }

    /// The scale factor of TPC-H data; 1 for other data.
    pub fn scale_factor(&self) -> f64 {
        self.manifest
            .as_ref()
            .map_or(1.0, |manifest| manifest.scale_factor)
    }

    /// The rows of data that `tpch gen` made; 0 for other data, of which they are not known.
    pub fn rows(&self) -> u64 {
        self.manifest.as_ref().map_or(0, Manifest::rows)
    }

    /// The bytes of all files of the tables.
    pub fn bytes(&self) -> u64 {
        let files = self.tables.iter().flat_map(|(_, path)| parquet_files(path));
        let sizes = files.filter_map(|file| std::fs::metadata(file).ok());
        sizes.map(|metadata| metadata.len()).sum()
    }

    /// Makes the tables known to a session.
    ///
    /// # Errors
    /// A file is not a Parquet file.
    pub async fn register(&self, context: &SessionContext) -> Result<(), CommandError> {
        for (name, path) in &self.tables {
            let text = path.to_string_lossy();
            let registered = context
                .register_parquet(name, text.as_ref(), ParquetReadOptions::default())
                .await;
            registered.map_err(|error| {
                let error = error.strip_backtrace();
                CommandError::set_up(format!("cannot read the table {name} in {text}: {error}"))
            })?;
        }
        Ok(())
    }
}

fn local_path(location: &str) -> Result<PathBuf, CommandError> {
    let url = match Url::parse(location) {
        Ok(url) if location.contains("://") => url,
        _ => return Ok(location.into()),
    };
    let path = (url.scheme() == "file")
        .then(|| url.to_file_path().ok())
        .flatten();
    path.ok_or_else(|| {
        CommandError::set_up(format!(
            "{location}: this command reads local files only. Use a path or file:///PATH"
        ))
    })
}

/// The files of a table, in the order of their names.
pub fn parquet_files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| is_parquet(path)).collect();
    files.sort();
    files
}

fn is_parquet(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "parquet")
}

/// The table at a path: a directory which has a Parquet file, or a Parquet file.
fn table_name(path: &Path) -> Option<String> {
    let is_table = if path.is_dir() {
        !parquet_files(path).is_empty()
    } else {
        is_parquet(path)
    };
    is_table
        .then(|| {
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned())
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::{DataSet, local_path};
    use std::fs;

    #[test]
    fn tables_are_directories_and_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("many")).unwrap();
        fs::create_dir_all(path.join("empty")).unwrap();
        for file in ["many/part-0.parquet", "one.parquet", "notes.txt"] {
            fs::write(path.join(file), "").unwrap();
        }
        let data = DataSet::open(path.to_str().unwrap()).unwrap();
        let names: Vec<_> = data.tables.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["many", "one"]);
        assert_eq!(
            (data.manifest.clone(), data.scale_factor().to_bits()),
            (None, 1_f64.to_bits())
        );
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = DataSet::open("/no/such/directory").unwrap_err();
        assert!(error.to_string().contains("tpch gen"), "{error}");
        let error = local_path("s3://bucket/tables").unwrap_err();
        assert!(error.to_string().contains("file:///PATH"), "{error}");
        assert_eq!(
            local_path("file:///tmp/a%20b").unwrap().to_str(),
            Some("/tmp/a b")
        );
    }
}
