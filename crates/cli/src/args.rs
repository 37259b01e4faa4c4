//! What can be said at the command line: the commands, each of which has its own arguments.

use crate::chaos::{ChaosArgs, ProgramArgs};
use crate::columns::ColumnsArgs;
use crate::demo::DemoArgs;
use crate::figures::FiguresArgs;
use crate::flow::FlowArgs;
use crate::globals::GlobalArgs;
use crate::hosted::child::LeashArgs;
use crate::hosted::keygen::KeygenArgs;
use crate::hosted::node::NodeArgs;
use crate::hosted::switch::SwitchArgs;
use crate::hosted::up::UpArgs;
use crate::info::InfoArgs;
use crate::perf::args::PerfArgs;
use crate::perf::peer::PeerArgs;
use crate::stat::StatArgs;
use crate::top::TopArgs;
use crate::ycsb::args::YcsbArgs;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// A whole rack in one process: storage and compute nodes, and a programmable switch that moves
/// data between them.
#[derive(Parser, Debug)]
#[command(
    name = "rackweave",
    version,
    after_help = "\
Examples:
  rackweave                                  the demo with its defaults
  rackweave demo --simulated --loss 0.01     the demo in virtual time over bad links
  rackweave perf read_lat                    latency of a READ from node to node
  rackweave flow flows.toml --simulated      timed actions on flows, every item checked
  rackweave ycsb --workload c --zipf 1.1     YCSB over the page store, every read verified
  rackweave chaos --seeds 1000               a thousand seeded fault schedules
  rackweave figures zero-sided-6 --quick     a figure of a paper, measured in virtual time
  rackweave info --config rack.toml          what the configuration comes to
  rackweave top                              watch what runs in another terminal
  rackweave up                               a rack of processes; then, elsewhere:
  rackweave demo --hosted                    the demo over it

Exit status: 0 passed, 1 failed verdict, 2 bad usage, 130 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: GlobalArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run every system on one rack, each verified and beside the limits of this machine
    Demo(DemoArgs),
    /// Measure the rack
    Perf(PerfArgs),
    /// Run a script of timed actions on flows: create, weigh, let members come and go, close
    Flow(FlowArgs),
    /// Run YCSB over the page store, every record that is read verified
    Ycsb(YcsbArgs),
    /// Run seeded fault schedules and check what happened
    Chaos(ChaosArgs),
    /// Run the papers' experiments in virtual time: curves, pictures, claims beside ours
    Figures(FiguresArgs),
    /// Show the effective configuration and what it takes; of a hosted rack also how it is doing
    Info(InfoArgs),
    /// Watch a command that runs here, or a hosted rack, as it goes
    Top(TopArgs),
    /// Print what a command that runs here, or a hosted rack, has counted
    Stat(StatArgs),
    /// Start a hosted rack on this machine: a process for the switch and one per node
    Up(UpArgs),
    /// Run the switch of a hosted rack
    Switch(SwitchArgs),
    /// Run one node of a hosted rack
    Node(NodeArgs),
    /// Serve TPC-H's columns on a hosted rack, or query them
    Columns(ColumnsArgs),
    /// Make the keys of a hosted rack
    Keygen(KeygenArgs),
    /// Be the etcd server of a rack under test
    #[command(hide = true)]
    Etcd(LeashArgs),
    /// Be a program of the campaign against hosted racks
    #[command(hide = true)]
    ChaosProgram(ProgramArgs),
    /// Be the far end of a perf test on a running rack
    #[command(hide = true)]
    PerfPeer(PeerArgs),
}

/// Parses the command line. Returns also the flags of the command that are on it, in the order in
/// which they are defined, by their short names if they have one.
pub fn parse() -> (Cli, Vec<String>) {
    let mut all = Cli::command();
    let matches = all.get_matches_mut();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut all).exit());
    let Some((name, matches)) = matches.subcommand() else {
        return (cli, Vec::new());
    };
    let arguments = all
        .find_subcommand(name)
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    let given = arguments.filter(|argument| {
        let source = matches.value_source(argument.get_id().as_str());
        source == Some(ValueSource::CommandLine)
    });
    let flag = |argument: &clap::Arg| match argument.get_short() {
        Some(short) => Some(format!("-{short}")),
        None => argument.get_long().map(|long| format!("--{long}")),
    };
    let given = given.filter_map(flag).collect();
    (cli, given)
}
