//! What went wrong, in the words of the command line, with what to do.

use super::args::YcsbArgs;
use crate::outcome::CliError;
use rackweave_bench::index::IndexRunError;
use rackweave_bench::pages::PagesError;
use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::page_store::{FixError, OpenError};
use rackweave_rack::services::{PageError, PageServiceError};
use rackweave_target::FileError;

/// An error with a remedy.
pub(super) fn tell(error: &PagesError, args: &YcsbArgs) -> CliError {
    let file = match &args.file {
        Some(path) => path.display().to_string(),
        None => "the store".to_owned(),
    };
    let anew = format!("remove {file} and leave --reuse away to make it anew");
    let usage = |remedy: &str| CliError::usage(format!("{error}; {remedy}"));
    let about = |remedy: &str| CliError::usage(format!("{file}: {error}; {remedy}"));
    match error {
        PagesError::Workload(_) | PagesError::Rate(_) | PagesError::OutOfRange { .. } => {
            CliError::usage(error.to_string())
        }
        PagesError::Heap(_) => usage("set --page-size and --record-size"),
        PagesError::Buffer { .. } => usage("set --buffer or --depth"),
        PagesError::NoFallback { .. } => usage("raise --indexed, or name a node with --fallback"),
        PagesError::File(FileError::Exists(path)) => CliError::usage(format!(
            "{} exists already; use it with --reuse, or remove it first",
            path.display()
        )),
        PagesError::File(FileError::NotBlocks { .. }) => {
            usage(&format!("it was cut short or is no store; {anew}"))
        }
        PagesError::DoubleWrites { wanted } => about(match wanted {
            true => "leave --double-write away",
            false => "use --double-write",
        }),
        PagesError::Service(PageServiceError::Medium { .. })
        | PagesError::NoHeap { .. }
        | PagesError::Unfinished
        | PagesError::Damaged { .. } => about(&anew),
        PagesError::OtherHeap { what, found, .. } => {
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
            Some(
                PageError::Open(
                    OpenError::Blank(_)
                    | OpenError::NoStore { .. }
                    | OpenError::Format { .. }
                    | OpenError::Damaged(_)
                    | OpenError::Truncated { .. }
                    | OpenError::Capacity(_),
                )
                | PageError::Fix(FixError::Corrupt { .. } | FixError::WrongPage { .. }),
            ) => about(&anew),
            Some(
                PageError::Fix(FixError::StorageFull)
                | PageError::Open(OpenError::Fix(FixError::StorageFull)),
            ) => full(&file),
            Some(PageError::Flush(flush)) if flush.cause() == FixError::StorageFull => full(&file),
            Some(PageError::Fix(FixError::PoolTooSmall { .. })) => {
                usage("raise --buffer or lower --depth")
            }
            _ => CliError::run(other),
        },
    }
}

fn full(file: &str) -> CliError {
    CliError::run(format!(
        "{file}: the device is full; make room, lower --records, or use another device with --file"
    ))
}

/// The same for the index.
pub(super) fn tell_index(error: &IndexRunError) -> CliError {
    match error {
        IndexRunError::Workload(_) | IndexRunError::Rate(_) | IndexRunError::OutOfRange { .. } => {
            CliError::usage(error.to_string())
        }
        IndexRunError::Tree(TreeError::Config { setting, .. }) => {
            let remedy = match *setting {
                "node_size" => "set --node-size",
                "fan_out" => "set --fan-out",
                _ => "lower --records or --record-size",
            };
            CliError::usage(format!("{error}; {remedy}"))
        }
        IndexRunError::NoDpu => CliError::usage(format!(
            "{error}; add a [[node]] entry with role = \"dpu\" to the configuration, or use \
             --endpoints 1"
        )),
        other => CliError::run(other),
    }
}
