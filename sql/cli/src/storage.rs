//! Loads tables from Parquet files into the memory of a storage node.
//!
//! A chunk of a table is a part of a row group, so that a storage node reads only the row groups of
//! its share. Chunks are numbered through all files of a table, whatever the shares are: storage
//! nodes with the same data give the same chunk the same number.

use crate::data::{DataSet, parquet_files};
use crate::error::CommandError;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use rackweave_datafusion::columns::{StorageTables, StoreError};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// A share of the row groups of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// From zero.
    index: usize,
    of: usize,
}

impl Share {
    /// Share `index`, from zero, of `of`.
    pub fn new(index: usize, of: usize) -> Option<Self> {
        (index < of).then_some(Self { index, of })
    }

    /// Parses `1/2`, the first share of two.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let number: usize = number.parse().ok()?;
            Self::new(number.checked_sub(1)?, of.parse().ok()?)
        });
        numbers.ok_or_else(|| "expected a share such as 1/2, the first of two".to_owned())
    }

    /// About as many of `rows`.
    pub fn part_of(self, rows: u64) -> u64 {
        rows / self.of as u64
    }

    /// Small tables have one row group; each begins with another share.
    fn has(self, table: usize, row_group: usize) -> bool {
        (table + row_group) % self.of == self.index
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

/// Why a file can't be loaded.
#[derive(Debug, Error)]
enum LoadError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("its columns are not those of {0}")]
    Columns(String),
    #[error("it has too many rows for chunks of this size")]
    Chunks,
}

/// Loads the share of all tables. `advanced` is called with the rows of each chunk.
///
/// # Errors
/// A file can't be read, has columns that can't be served, or doesn't fit into memory.
pub fn load(
    data: &DataSet,
    share: Share,
    chunk_rows: usize,
    tables: &mut StorageTables,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<(), CommandError> {
    for (index, (name, path)) in data.tables.iter().enumerate() {
        let failed = |path: &Path, error: &LoadError| {
            let path = path.display();
            CommandError::set_up(format!("cannot load the table {name} from {path}: {error}"))
        };
        let mut files = Vec::new();
        for path in parquet_files(path) {
            let file = OpenFile::open(path.clone());
            files.push(file.map_err(|error| failed(&path, &error))?);
        }
        let table = Table {
            index,
            name,
            chunk_rows,
        };
        table
            .load(&files, share, tables, advanced)
            .map_err(|(path, error)| failed(&path, &error))?;
    }
    Ok(())
}

struct OpenFile {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
}

impl OpenFile {
    fn open(path: PathBuf) -> Result<Self, LoadError> {
        let file = File::open(&path)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())?;
        Ok(Self {
            path,
            file,
            metadata,
        })
    }

    /// The rows of each row group.
    fn row_groups(&self) -> impl Iterator<Item = usize> {
        let groups = self.metadata.metadata().row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
    }
}

struct Table<'a> {
    index: usize,
    name: &'a str,
    chunk_rows: usize,
}

impl Table<'_> {
    fn load(
        &self,
        files: &[OpenFile],
        share: Share,
        tables: &mut StorageTables,
        advanced: &(dyn Fn(u64) + Sync),
    ) -> Result<(), (PathBuf, LoadError)> {
        let Some(first) = files.first() else {
            return Ok(());
        };
        let schema = presented(first.metadata.schema());
        let rows = files.iter().flat_map(OpenFile::row_groups);
        let chunks = rows
            .map(|rows| rows.div_ceil(self.chunk_rows))
            .sum::<usize>();
        let added = u32::try_from(chunks)
            .map_err(|_| LoadError::Chunks)
            .and_then(|chunks| Ok(tables.add_table(self.name, Arc::clone(&schema), chunks)?));
        added.map_err(|error| (first.path.clone(), error))?;
        let (mut row_group, mut chunk) = (0, 0);
        for file in files {
            let failed = |error: LoadError| (file.path.clone(), error);
            if presented(file.metadata.schema()) != schema {
                return Err(failed(LoadError::Columns(first.path.display().to_string())));
            }
            for (group, rows) in file.row_groups().enumerate() {
                if share.has(self.index, row_group) {
                    self.load_row_group(file, (group, chunk), &schema, tables, advanced)
                        .map_err(failed)?;
                }
                row_group += 1;
                chunk += rows.div_ceil(self.chunk_rows);
            }
        }
        Ok(())
    }

    /// The chunks of a row group, of which the first has number `chunk`.
    fn load_row_group(
        &self,
        file: &OpenFile,
        (group, chunk): (usize, usize),
        schema: &SchemaRef,
        tables: &mut StorageTables,
        advanced: &(dyn Fn(u64) + Sync),
    ) -> Result<(), LoadError> {
        let (metadata, file) = (file.metadata.clone(), file.file.try_clone()?);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_row_groups(vec![group])
            .with_batch_size(self.chunk_rows)
            .build()?;
        for (number, rows) in (chunk..).zip(reader) {
            let rows = convert(&rows?, schema)?;
            let number = u32::try_from(number).map_err(|_| LoadError::Chunks)?;
            tables.add_chunk(self.name, number, &rows)?;
            advanced(rows.num_rows() as u64);
        }
        Ok(())
    }
}

/// The columns as queries see them. Texts are views, as `DataFusion` reads them from files, so that
/// plans are the same.
fn presented(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn convert(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().zip(schema.fields());
    let columns: Vec<ArrayRef> = columns
        .map(|(column, field)| cast(column, field.data_type()))
        .collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
}

#[cfg(test)]
mod tests {
    use super::{Share, load};
    use crate::data::DataSet;
    use crate::tpch::generate::{Size, generate};
    use rackweave::Rack;
    use rackweave_datafusion::columns::StorageTables;
    use std::collections::BTreeMap;

    #[test]
    fn shares_have_every_chunk_once() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("data");
        let size = Size {
            scale_factor: 0.001,
            parts: 3,
        };
        let manifest = generate(&directory, size, 2, &|_| ()).unwrap();
        let data = DataSet::open(directory.to_str().unwrap()).unwrap();
        let rack = Rack::builder().build().unwrap();
        let mut found: BTreeMap<String, (u64, Vec<u32>, u32)> = BTreeMap::new();
        for index in 0..2 {
            let share = Share::new(index, 2).unwrap();
            let mut tables = StorageTables::new(&rack);
            load(&data, share, 1000, &mut tables, &|_| ()).unwrap();
            assert!(tables.parts().iter().any(|part| !part.chunks.is_empty()));
            for part in tables.parts() {
                let entry = found.entry(part.name.clone()).or_default();
                entry.0 += part.chunks.iter().map(|chunk| chunk.rows).sum::<u64>();
                entry.1.extend(part.chunks.iter().map(|chunk| chunk.number));
                entry.2 = part.chunks_total;
            }
        }
        assert_eq!(found.len(), manifest.tables.len());
        for (name, (rows, mut chunks, total)) in found {
            chunks.sort_unstable();
            assert_eq!(chunks, (0..total).collect::<Vec<_>>(), "{name}");
            assert_eq!(rows, manifest.tables[&name].rows, "{name}");
        }
    }

    #[test]
    fn shares_are_numbered_from_one() {
        assert_eq!(Share::parse("2/3").ok(), Share::new(1, 3));
        assert_eq!(Share::new(1, 3).unwrap().to_string(), "2/3");
        for wrong in ["", "1", "0/2", "3/2", "1/0", "a/b"] {
            assert!(Share::parse(wrong).is_err(), "{wrong}");
        }
    }
}
