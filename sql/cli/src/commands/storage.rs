//! `storage`.

use super::progress;
use crate::args::StorageArguments;
use crate::data::DataSet;
use crate::error::CommandError;
use crate::report::bytes;
use crate::transport::storage::Served;
use crate::{processes, transport};
use std::io::Write as _;
use tokio::signal::unix::{SignalKind, signal};

/// Loads tables and serves them until Ctrl-C or SIGTERM, or until standard input closes.
///
/// # Errors
/// The tables can't be loaded, or the node can't join its rack.
pub async fn run(arguments: &StorageArguments) -> Result<(), CommandError> {
    let options = &arguments.serve;
    if options.until_stdin_closes {
        processes::end_when_stdin_closes();
    }
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| CommandError::set_up(format!("cannot wait for SIGTERM: {error}")))?;
    let stop = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => (),
            _ = terminate.recv() => (),
        }
    };
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
