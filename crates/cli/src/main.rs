//! The `rackweave` command: a whole rack at the command line.
//!
//! `args` lists the commands, `outcome` is the end of a command. Each command has its own folder
//! with its arguments: `demo`, `perf`, `flow`, `ycsb`, `chaos`, `figures`, `info`, `stat`, `top`,
//! `columns`, and `hosted` for the processes of a hosted rack. The result of a command is one JSON
//! object (docs/JSON.md), which `output` prints as JSON or as text (`report`). This crate knows
//! every other; no other knows it.

mod args;
mod canary;
mod capture;
mod chaos;
mod columns;
mod demo;
mod figures;
mod flow;
mod globals;
mod hosted;
mod info;
mod items;
mod live;
mod measure;
mod outcome;
mod output;
mod perf;
mod pool;
mod programs;
mod progress;
mod rack_source;
mod report;
mod stat;
mod switch_shape;
mod top;
mod tpch;
mod ycsb;

use args::{Cli, Command};
use demo::DemoArgs;
use globals::{Format, Globals};
use outcome::{CliError, Verdict};
use std::process::ExitCode;

fn main() -> ExitCode {
    canary::inherit();
    let (Cli { globals, command }, given) = args::parse();
    match Globals::new(globals, given) {
        Ok(globals) => {
            let result = run(command, &globals);
            outcome::exit_code(result, globals.interrupt.is_set())
        }
        Err(error) => outcome::report(&error),
    }
}

fn run(command: Option<Command>, globals: &Globals) -> Result<Verdict, CliError> {
    match command {
        None => demo::run(&DemoArgs::default(), globals),
        Some(Command::Demo(args)) => demo::run(&args, globals),
        Some(Command::Perf(args)) => perf::run(&args, globals),
        Some(Command::Flow(args)) => flow::run(&args, globals),
        Some(Command::Ycsb(args)) => ycsb::run(&args, globals),
        Some(Command::Chaos(args)) => match canary::prepare(args.canary.as_deref())? {
            canary::Prepared::Listed => Ok(Verdict::Passed),
            canary::Prepared::Ready => chaos::run(&args, globals),
        },
        Some(Command::Figures(args)) => figures::run(&args, globals),
        Some(Command::Info(args)) => info::run(&args, globals),
        Some(Command::Top(args)) => top::run(&args, globals),
        Some(Command::Stat(args)) => stat::run(&args, globals),
        Some(Command::Up(_) | Command::Switch(_) | Command::Node(_))
            if globals.args.format == Format::OpenMetrics =>
        {
            Err(CliError::usage(
                "up, switch and node report events, of which there are no metrics; use --format \
                 json here, and `rackweave stat --hosted --format openmetrics` for the rack",
            ))
        }
        Some(Command::Up(args)) => hosted::up::run(&args, globals),
        Some(Command::Switch(args)) => hosted::switch::run(&args, globals),
        Some(Command::Node(args)) => hosted::node::run(&args, globals),
        Some(Command::Columns(args)) => columns::run(&args, globals),
        Some(Command::Keygen(args)) => hosted::keygen::run(&args, globals),
        Some(Command::Etcd(_)) => hosted::etcd::run(globals),
        Some(Command::PerfPeer(args)) => perf::peer::run(&args, globals),
        Some(Command::ChaosProgram(args)) => chaos::run_program(&args, globals),
    }
}
