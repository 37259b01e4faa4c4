//! `worker`.

use crate::args::WorkerArguments;
use crate::error::CommandError;
use crate::{processes, transport};
use std::io::Write as _;
use tokio::signal::unix::{SignalKind, signal};

/// Serves tasks until Ctrl-C or SIGTERM, or until standard input closes.
///
/// # Errors
/// The worker cannot start.
pub async fn run(arguments: &WorkerArguments) -> Result<(), CommandError> {
    if arguments.serve.until_stdin_closes {
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
    transport::serve(
        &arguments.serve,
        |url| {
            println!("{url}");
            // The command that started this worker waits for the line.
            let _ = std::io::stdout().flush();
        },
        stop,
    )
    .await
}
