//! `rackweave-sql`: SQL on several workers.
//!
//! The command makes TPC-H data, starts or reaches workers, and executes queries on them with
//! `DataFusion` and `datafusion-distributed`. The processes exchange batches over Rackweave or over
//! Arrow Flight ([`transport`]); everything else is the same for both ([`session`]).

mod args;
mod commands;
mod data;
mod error;
mod execute;
mod processes;
mod query;
mod report;
mod session;
mod statements;
mod storage;
mod table;
mod tpch;
mod traffic;
mod transport;

use args::{Arguments, Command, TpchCommand};
use clap::Parser as _;
use error::CommandError;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rackweave-sql: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(command: &Command) -> Result<(), CommandError> {
    match command {
        Command::Tpch(TpchCommand::Gen(arguments)) => commands::generate::run(arguments),
        Command::Run(arguments) => runtime(None)?.block_on(commands::run::run(arguments)),
        Command::Explain(arguments) => runtime(None)?.block_on(commands::explain::run(arguments)),
        Command::Compare(arguments) => runtime(None)?.block_on(commands::compare::run(arguments)),
        Command::Exchange(arguments) => runtime(None)?.block_on(commands::exchange::run(arguments)),
        Command::Worker(arguments) => {
            runtime(arguments.serve.threads)?.block_on(commands::worker::run(arguments))
        }
        Command::Storage(arguments) => runtime(None)?.block_on(commands::storage::run(arguments)),
        Command::Switch(arguments) => transport::rackweave::run_switch(arguments),
        Command::Shell(arguments) => commands::shell::run(arguments, &runtime(None)?),
    }
}

/// The runtime which executes queries, with a thread for each CPU unless `threads` says otherwise.
fn runtime(threads: Option<usize>) -> Result<Runtime, CommandError> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder
        .build()
        .map_err(|error| CommandError::set_up(format!("cannot start threads: {error}")))
}
