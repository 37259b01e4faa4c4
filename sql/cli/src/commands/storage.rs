//! `storage`.

use super::{progress, stopped};
use crate::args::StorageArguments;
use crate::data::DataSet;
use crate::error::CommandError;
use crate::report::bytes;
use crate::transport;
use crate::transport::storage::Served;
use std::io::Write as _;

/// Loads tables and serves them until Ctrl-C or SIGTERM, or until standard input closes.
///
/// # Errors
/// The tables can't be loaded, or the node can't join its rack.
pub async fn run(arguments: &StorageArguments) -> Result<(), CommandError> {
    let options = &arguments.serve;
    let stop = stopped(options.until_stdin_closes)?;
    let data = DataSet::open(&options.data)?;
    let rows = options.share.part_of(data.rows());
    let bar = progress(rows, "{bar:30} {human_pos}/{human_len} rows, {per_sec}");
    if options.until_stdin_closes {
        // Several storage processes share the terminal of the command that started them.
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let (advancing, ending) = (bar.clone(), bar);
    let ready = |served: Served| {
        ending.finish_and_clear();
        println!(
            "{} serves {} rows of {} tables in {} chunks, {}",
            options.node,
            served.rows,
            served.tables,
            served.chunks,
            bytes(served.bytes)
        );
        // The command that started this process waits for the line.
        let _ = std::io::stdout().flush();
    };
    let advanced = move |rows| advancing.inc(rows);
    transport::storage::serve(options, data, advanced, ready, stop).await
}
