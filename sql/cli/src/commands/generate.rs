//! `tpch gen`.

use super::progress;
use crate::args::GenArguments;
use crate::error::CommandError;
use crate::report::bytes;
use crate::tpch::generate::{Size, generate};
use crate::tpch::manifest::Manifest;
use std::path::{Path, PathBuf};

/// Rows of all tables at scale factor 1, about: 6 million of lineitem and 2.66 million others.
const ROWS: f64 = 8_661_245.0;

/// Makes the data, unless they are there.
///
/// # Errors
/// The directory has other data, or cannot be written.
pub fn run(arguments: &GenArguments) -> Result<(), CommandError> {
    let directory = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("tpch-sf{}", arguments.sf)));
    if let Some(manifest) = existing(&directory, arguments)? {
        print("exists already", &directory, &manifest);
        return Ok(());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    let rows = (ROWS * arguments.sf) as u64;
    let bar = progress(
        rows,
        "{bar:30} {human_pos}/{human_len} rows, {per_sec}, {eta}",
    );
    let size = Size {
        scale_factor: arguments.sf,
        parts: arguments.parts,
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let manifest = generate(&directory, size, threads, &|rows| bar.inc(rows))?;
    bar.finish_and_clear();
    print("made", &directory, &manifest);
    Ok(())
}

/// The manifest of a directory that has the data already.
fn existing(directory: &Path, arguments: &GenArguments) -> Result<Option<Manifest>, CommandError> {
    let manifest = Manifest::read(directory).map_err(|error| {
        CommandError::set_up(format!("cannot read {}: {error}", directory.display()))
    })?;
    let same = |manifest: &Manifest| {
        manifest.scale_factor.to_bits() == arguments.sf.to_bits()
            && manifest
                .tables
                .get("lineitem")
                .is_some_and(|table| table.files == arguments.parts)
    };
    Ok(manifest.filter(same))
}

fn print(verb: &str, directory: &Path, manifest: &Manifest) {
    let size = usize::try_from(manifest.bytes()).map_or_else(|_| "?".to_owned(), bytes);
    println!(
        "{} {verb}: scale factor {}",
        directory.display(),
        manifest.scale_factor
    );
    for (name, table) in &manifest.tables {
        println!(
            "  {name:<10} {:>12} rows {:>4} files",
            table.rows, table.files
        );
    }
    println!("  {:<10} {:>12} rows, {size}", "all", manifest.rows());
}
