//! Errors of a run in the words of the command line, with remedies.

use super::args::YcsbArgs;
use crate::outcome::CliError;
use rackweave_bench::ycsb::YcsbError;
use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::page_store::{FixError, OpenError};
use rackweave_rack::services::{PageError, PageServiceError};
use rackweave_target::FileError;

/// An error with a remedy.
pub(super) fn explain(error: &YcsbError, args: &YcsbArgs) -> CliError {
    let file = match &args.file {
        Some(path) => path.display().to_string(),
        None => "the store".to_owned(),
    };
    let anew = format!("remove {file} and leave --reuse away to make it anew");
    let usage = |remedy: &str| CliError::usage(format!("{error}; {remedy}"));
    let about = |remedy: &str| CliError::usage(format!("{file}: {error}; {remedy}"));
    match error {
        YcsbError::Workload(_) | YcsbError::Rate(_) | YcsbError::OutOfRange { .. } => {
            CliError::usage(error.to_string())
        }
        YcsbError::Tree(TreeError::Config { setting, .. }) => usage(match *setting {
            "node_size" => "set --node-size",
            "fan_out" => "set --fan-out",
            _ => "lower --records or --record-size",
        }),
        YcsbError::NoDpu => usage(
            "add a [[node]] entry with role = \"dpu\" to the configuration, or use --endpoints 1",
        ),
        YcsbError::Heap(_) => usage("set --page-size and --record-size"),
        YcsbError::Buffer { .. } => usage("set --buffer or --depth"),
        YcsbError::NoFallback { .. } => usage("raise --indexed, or name a node with --fallback"),
        YcsbError::File(FileError::Exists(path)) => CliError::usage(format!(
            "{} exists already; use it with --reuse, or remove it first",
            path.display()
        )),
        YcsbError::File(FileError::NotBlocks { .. }) => {
            usage(&format!("it was cut short or is no store; {anew}"))
        }
        YcsbError::DoubleWrites { wanted } => about(match wanted {
            true => "leave --double-write away",
            false => "use --double-write",
        }),
        YcsbError::Pages(PageServiceError::Medium { .. })
        | YcsbError::NoHeap { .. }
        | YcsbError::Unfinished
        | YcsbError::Damaged { .. } => about(&anew),
        YcsbError::OtherHeap { what, found, .. } => {
            let flag = if *what == "records" {
                "--records"
            } else {
                "--record-size"
            };
            about(&format!("use {flag} {found}"))
        }
        other => match other.page_error() {
            Some(PageError::Open(OpenError::PageSize { found, .. })) => CliError::usage(format!(
                "{file} has pages of {found} bytes; use --page-size {found}"
            )),
            Some(error) if is_damage(&error) => about(&anew),
            Some(error) if is_full(&error) => full(&file),
            Some(PageError::Fix(FixError::PoolTooSmall { .. })) => {
                usage("raise --buffer or lower --depth")
            }
            _ => CliError::run(other),
        },
    }
}

/// Whether the store is none, or not whole.
fn is_damage(error: &PageError) -> bool {
    matches!(
        error,
        PageError::Open(
            OpenError::Blank(_)
                | OpenError::NoStore { .. }
                | OpenError::Format { .. }
                | OpenError::Damaged(_)
                | OpenError::Truncated { .. }
                | OpenError::Capacity(_),
        ) | PageError::Fix(FixError::Corrupt { .. } | FixError::WrongPage { .. })
    )
}

fn is_full(error: &PageError) -> bool {
    match error {
        PageError::Fix(FixError::StorageFull)
        | PageError::Open(OpenError::Fix(FixError::StorageFull)) => true,
        PageError::Flush(flush) => flush.cause() == FixError::StorageFull,
        _ => false,
    }
}

fn full(file: &str) -> CliError {
    CliError::run(format!(
        "{file}: the device is full; make room, lower --records, or use another device with --file"
    ))
}
