//! Makes the eight tables as Parquet files, with the crates `tpchgen` and `tpchgen-arrow`.
//!
//! The data set is built in `DIR.partial` and renamed when it is complete, so that an interrupted
//! run leaves no half table.

use super::TABLES;
use super::manifest::{Manifest, Table};
use crate::error::CommandError;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchReader};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tpchgen::generators as rows;
use tpchgen_arrow as arrow_rows;

/// Rows of a row group. A scan is divided at row groups, and a reader holds one in memory.
const ROW_GROUP_ROWS: usize = 256 * 1024;

/// The crate that makes the data. The lock file pins the version.
const GENERATOR: &str = "tpchgen 4";

/// What to make.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Scale factor, more than 0.
    pub scale_factor: f64,
    /// Files of each large table, at least 1.
    pub parts: u32,
}

/// A file to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    table: &'static str,
    index: u32,
    of: u32,
}

/// The files of a data set, the smallest first.
pub fn parts(size: Size) -> Vec<Part> {
    let of = |table| match table {
        "region" | "nation" | "supplier" => 1,
        _ => size.parts,
    };
    let parts = |table| {
        (0..of(table)).map(move |index| Part {
            table,
            index,
            of: of(table),
        })
    };
    TABLES.into_iter().flat_map(parts).collect()
}

/// Makes a data set in `directory` with `threads` threads. `advanced` is called with the rows of
/// each batch.
///
/// # Errors
/// The directory already has other contents, or a file cannot be written.
pub fn generate(
    directory: &Path,
    size: Size,
    threads: usize,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<Manifest, CommandError> {
    let partial = partial_directory(directory)?;
    for table in TABLES {
        fs::create_dir_all(partial.join(table)).map_err(|error| cannot_write(&partial, &error))?;
    }
    // Taken from the end: the largest files are made first, so that no thread is left with one.
    let queue = Mutex::new(parts(size));
    let tables = Mutex::new(BTreeMap::<String, Table>::new());
    // A function: the guard must not live as long as the body of the loop.
    let next = || lock(&queue).pop();
    let work = || {
        while let Some(part) = next() {
            let written = write_part(&partial, size.scale_factor, part, advanced)
                .map_err(|error| cannot_write(&partial, &error))?;
            let mut tables = lock(&tables);
            let table = tables.entry(part.table.to_owned()).or_default();
            table.rows += written.rows;
            table.bytes += written.bytes;
            table.files += 1;
        }
        Ok::<(), CommandError>(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a generator panicked"))
    })?;
    let manifest = Manifest {
        benchmark: "tpch".to_owned(),
        scale_factor: size.scale_factor,
        generator: GENERATOR.to_owned(),
        tables: tables.into_inner().expect("no thread panicked"),
    };
    let finish = || {
        manifest.write(&partial)?;
        fs::rename(&partial, directory)
    };
    finish().map_err(|error| cannot_write(directory, &error))?;
    Ok(manifest)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked")
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::set_up(format!("cannot write to {}: {error}", path.display()))
}

/// An empty directory beside the one that is asked for.
fn partial_directory(directory: &Path) -> Result<PathBuf, CommandError> {
    if fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(CommandError::set_up(format!(
            "{} has other contents. Remove it, or choose another directory with --out",
            directory.display()
        )));
    }
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = directory.with_file_name(name);
    if partial.exists() {
        // Only this program makes directories of this name; an interrupted run left it.
        fs::remove_dir_all(&partial).map_err(|error| cannot_write(&partial, &error))?;
    }
    Ok(partial)
}

struct Written {
    rows: u64,
    bytes: u64,
}

fn write_part(
    directory: &Path,
    scale_factor: f64,
    part: Part,
    advanced: &(dyn Fn(u64) + Sync),
) -> Result<Written, ParquetError> {
    let path = directory
        .join(part.table)
        .join(format!("part-{}.parquet", part.index));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let batches = batches(scale_factor, part);
    let mut writer =
        ArrowWriter::try_new(File::create(&path)?, batches.schema(), Some(properties))?;
    let mut rows = 0;
    for batch in batches {
        let batch: RecordBatch = batch.map_err(|error: ArrowError| ParquetError::from(error))?;
        writer.write(&batch)?;
        rows += batch.num_rows() as u64;
        advanced(batch.num_rows() as u64);
    }
    writer.close()?;
    Ok(Written {
        rows,
        bytes: fs::metadata(&path)?.len(),
    })
}

/// The rows of a file.
fn batches(scale_factor: f64, part: Part) -> Box<dyn RecordBatchReader> {
    let Part { table, index, of } = part;
    let index = i32::try_from(index + 1).expect("the command line limits the number of parts");
    let of = i32::try_from(of).expect("the command line limits the number of parts");
    macro_rules! table {
        ($rows:ident, $batches:ident) => {
            Box::new(arrow_rows::$batches::new(rows::$rows::new(
                scale_factor,
                index,
                of,
            )))
        };
    }
    match table {
        "region" => table!(RegionGenerator, RegionArrow),
        "nation" => table!(NationGenerator, NationArrow),
        "supplier" => table!(SupplierGenerator, SupplierArrow),
        "customer" => table!(CustomerGenerator, CustomerArrow),
        "part" => table!(PartGenerator, PartArrow),
        "partsupp" => table!(PartSuppGenerator, PartSuppArrow),
        "orders" => table!(OrderGenerator, OrderArrow),
        "lineitem" => table!(LineItemGenerator, LineItemArrow),
        _ => unreachable!("TABLES has the names above"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, generate};
    use crate::tpch::manifest::Manifest;
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn writes_every_table_and_a_manifest() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("data");
        let partial = parent.path().join("data.partial");
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("rest-of-an-interrupted-run"), "").unwrap();
        let rows = AtomicU64::new(0);
        let size = Size {
            scale_factor: 0.001,
            parts: 2,
        };
        let advanced = |batch| {
            rows.fetch_add(batch, Ordering::Relaxed);
        };
        let manifest = generate(&directory, size, 2, &advanced).unwrap();
        let count = |table: &str| (manifest.tables[table].rows, manifest.tables[table].files);
        // Clause 4.2.5: rows for each scale factor; the rows of lineitem are not a multiple.
        assert_eq!(count("region"), (5, 1));
        assert_eq!(count("nation"), (25, 1));
        assert_eq!(count("supplier"), (10, 1));
        assert_eq!(count("customer"), (150, 2));
        assert_eq!(count("part"), (200, 2));
        assert_eq!(count("partsupp"), (800, 2));
        assert_eq!(count("orders"), (1500, 2));
        assert_eq!(count("lineitem").1, 2);
        assert_eq!(manifest.rows(), rows.into_inner());
        assert_eq!(Manifest::read(&directory).unwrap(), Some(manifest));
        assert!(directory.join("lineitem/part-1.parquet").is_file());
        assert!(!partial.exists());
        let error = generate(&directory, size, 1, &|_| ()).unwrap_err();
        assert!(error.to_string().contains("--out"), "{error}");
    }
}
