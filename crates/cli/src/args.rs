//! What can be said at the command line: the commands, each of which has its own arguments.

use crate::chaos::ProgramArgs;
use crate::chaos::args::ChaosArgs;
use crate::columns::args::ColumnsArgs;
use crate::demo::args::DemoArgs;
use crate::figures::args::FiguresArgs;
use crate::flow::args::FlowArgs;
use crate::globals::GlobalArgs;
use crate::hosted::args::{KeygenArgs, LeashArgs, NodeArgs, SwitchArgs, UpArgs};
use crate::info::InfoArgs;
use crate::live::args::{StatArgs, TopArgs};
use crate::perf::args::PerfArgs;
use crate::ycsb::args::YcsbArgs;
use clap::{Parser, Subcommand};

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
}
