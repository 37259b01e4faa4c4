//! `worker`.

use super::stopped;
use crate::args::WorkerArguments;
use crate::error::CommandError;
use crate::transport;
use std::io::Write as _;

/// Serves tasks until Ctrl-C or SIGTERM, or until standard input closes.
///
/// # Errors
/// The worker cannot start.
pub async fn run(arguments: &WorkerArguments) -> Result<(), CommandError> {
    let stop = stopped(arguments.serve.until_stdin_closes)?;
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
