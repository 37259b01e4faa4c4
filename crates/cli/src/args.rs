//! What can be said at the command line.

use crate::demo::systems::SystemName;
use crate::live::args::{StatArgs, TopArgs};
use crate::perf::args::PerfArgs;
use crate::ycsb::args::YcsbArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use rackweave_rack::RackConfig;
use std::net::SocketAddr;
use std::path::PathBuf;

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

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct GlobalArgs {
    /// The rack's configuration, a TOML file; without it, two storage and two compute nodes
    #[arg(long, global = true, value_name = "FILE", env = "RACKWEAVE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Everything random comes from it
    #[arg(long, global = true, value_name = "N", env = "RACKWEAVE_SEED")]
    pub seed: Option<u64>,
    /// The form of the result on standard output
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "RACKWEAVE_FORMAT"
    )]
    pub format: Format,
    /// No progress bars
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// The form of the result.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One object, described in docs/JSON.md
    Json,
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
    /// Make the keys of a hosted rack
    Keygen(KeygenArgs),
}

/// Arguments of `up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave up                 the default hosted rack; use it with `rackweave demo --hosted`
  rackweave up rack.toml       use it with `rackweave demo --config rack.toml`

Keys that are missing are made. A process that ends is started again; one that is refused three
times in a row ends all. Ctrl-C ends all processes.")]
pub struct UpArgs {
    /// The rack's configuration, a TOML file; goes over --config
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// End all processes, with exit status 1, when one of them ends
    #[arg(long)]
    pub no_restart: bool,
}

/// For processes that others start.
#[derive(Args, Clone, Debug)]
pub struct LeashArgs {
    /// End when standard input closes
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// Arguments of `switch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave switch --config rack.toml
  rackweave switch --config rack.toml --listen 0.0.0.0:7471 --capture switch.pcapng")]
pub struct SwitchArgs {
    /// Where the controller listens; without it, hosted.listen or hosted.control
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Write what the switch sees, before and after, to a pcapng file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Arguments of `node`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave node storage0 --config rack.toml
  rackweave node storage0 --config rack.toml --controller 10.0.0.1:7471")]
pub struct NodeArgs {
    /// Its name in the configuration
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the controller is; without it, hosted.control
    #[arg(long, value_name = "ADDRESS")]
    pub controller: Option<SocketAddr>,
    #[command(flatten)]
    pub leash: LeashArgs,
}

/// Arguments of `keygen`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave keygen --config rack.toml
  rackweave keygen --config rack.toml --directory keys

Makes what is missing and keeps what is there. To where NAME runs go NAME.key, NAME.crt and
authority.crt: those of `controller` to the switch, those of `operator` to where commands are given,
those of each node to the node. authority.key stays here: who has it can make keys for this rack.")]
pub struct KeygenArgs {
    /// Where the keys lie; without it, hosted.keys, or `keys` in hosted.directory
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How long new certificates last; those that end within a third of it are renewed
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub days: u32,
    /// Take this name's key back, and make a new one: the old one is put on the list `revoked`,
    /// which the switch reads again on SIGHUP
    #[arg(long, value_name = "NAME")]
    pub revoke: Option<String>,
}

/// Settings of the rack that have a flag. They go over the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct RackArgs {
    /// Use the hosted rack that runs: without --config the one that `rackweave up` starts by
    /// default. A configuration with a `[hosted]` section says this by itself
    #[arg(long)]
    pub hosted: bool,
    /// Threads that drive an embedded rack beside those who wait
    #[arg(long, value_name = "N")]
    pub drivers: Option<u32>,
    /// Lose packets with this probability
    #[arg(long, value_name = "P")]
    pub loss: Option<f64>,
    /// Deliver packets twice with this probability
    #[arg(long, value_name = "P")]
    pub duplicate: Option<f64>,
    /// Have packets overtaken by later ones with this probability
    #[arg(long, value_name = "P")]
    pub reorder: Option<f64>,
    /// Flip a bit of packets with this probability
    #[arg(long, value_name = "P")]
    pub corrupt: Option<f64>,
}

impl RackArgs {
    /// The flag among those given that only a rack of one's own can follow.
    pub fn only_for_own_rack(&self) -> Option<&'static str> {
        [
            ("--drivers", self.drivers.is_some()),
            ("--loss", self.loss.is_some()),
            ("--duplicate", self.duplicate.is_some()),
            ("--reorder", self.reorder.is_some()),
            ("--corrupt", self.corrupt.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    /// Puts what was given into `config`.
    pub fn apply(&self, config: &mut RackConfig) {
        let faults = &mut config.faults;
        for (given, setting) in [
            (self.loss, &mut faults.loss),
            (self.duplicate, &mut faults.duplicate),
            (self.reorder, &mut faults.reorder),
            (self.corrupt, &mut faults.corrupt),
        ] {
            *setting = given.unwrap_or(*setting);
        }
        config.driver_threads = self.drivers.unwrap_or(config.driver_threads);
    }
}

/// Arguments of `demo`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  rackweave demo
  rackweave demo --systems pages,tree --scale-factor 0.1
  rackweave demo --simulated --loss 0.01 --duplicate 0.01 --reorder 0.01 --corrupt 0.01 --seed 7
  rackweave demo --capture demo.pcapng --format json
  rackweave demo --hosted                    on the rack that `rackweave up` runs
  rackweave demo --config rack.toml          the same if the file has a [hosted] section")]
pub struct DemoArgs {
    /// In virtual time, on a modelled 100 Gbit/s testbed
    #[arg(long)]
    pub simulated: bool,
    /// Which systems, on one rack, one after another; without it, all. Simulated and hosted racks
    /// run flows alone
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    pub systems: Vec<SystemName>,
    /// How many rows: 1 is six million of lineitem; less of it makes less of everything. Without
    /// it, 1, and 0.1 on simulated and hosted racks
    #[arg(long, value_name = "F")]
    pub scale_factor: Option<f64>,
    /// Bytes of an item, a multiple of 64; without it, 32 KiB
    #[arg(long, value_name = "BYTES")]
    pub item_size: Option<u32>,
    /// Write what the switch saw, before and after, to a pcapng file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Arguments of `flow`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave flow --example > flows.toml
  rackweave flow flows.toml --simulated
  rackweave flow flows.toml --drivers 0 --format json

A script is a list of timed actions, in TOML or, if its name ends in .json, in JSON:

  [[action]]
  at_ms = 0
  action = \"create\"
  flow = \"scan\"
  shape = \"balance\"
  producers = [\"storage0\", \"storage1\"]
  consumers = [\"compute0\"]
  items = 20000

  [[action]]
  at_ms = 1
  action = \"add-consumer\"
  flow = \"scan\"
  node = \"compute1\"
  consumer_rate_mb_s = 500

Actions: create, weight, add-consumer, remove-consumer, add-producer, close, report. Producers push
stamped items, and consumers check every byte, the order, and that nothing is lost or comes twice.
An action that is refused is shown, and the flow goes on; the verdict fails unless the action has
expect_error = true.")]
pub struct FlowArgs {
    /// The script
    #[arg(value_name = "SCRIPT", required_unless_present = "example")]
    pub script: Option<PathBuf>,
    /// Print a script that shows every action, and run nothing
    #[arg(long)]
    pub example: bool,
    /// In virtual time, on a modelled 100 Gbit/s testbed
    #[arg(long)]
    pub simulated: bool,
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Arguments of `chaos`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave chaos --system flows --seeds 1000
  rackweave chaos --system flows --seeds 1 --seed 4711     replay one schedule
  rackweave chaos --system index --access one-sided        all clients read by READs
  rackweave chaos --system index --access in-network       and are led by the switches
  rackweave chaos --system sequencer --seeds 3000          no number twice, none missing
  rackweave chaos --system messaging --seeds 3000          each message once, or an error at both
  rackweave chaos --system all --seeds 10000               all simulated systems, one verdict
  rackweave chaos --system hosted                          kill processes of hosted racks

Systems: flows, pages, index, sequencer, messaging (in the simulator), all (those, one after the
other), hosted (racks of processes, each in a folder of its own). With a configuration that has a
[hosted] section, hosted is meant, and it is their template.")]
pub struct ChaosArgs {
    /// What is put under stress; without it, flows
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// How many schedules; the first has the seed given by --seed. Without it 100, or 5 of hosted
    /// racks
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Begin no more schedules after the first that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Plant this bug first; `list` names them. Only in a build made for it
    #[arg(long, value_name = "NAME")]
    pub canary: Option<String>,
    /// How all clients of an index read: rpc, one-sided or in-network; without it, each as its seed
    /// says
    #[arg(long, value_name = "HOW")]
    pub access: Option<String>,
    /// Threads, each with schedules of its own; without it, one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Arguments of `figures`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave figures --list
  rackweave figures                                  all of them: minutes
  rackweave figures zero-sided-6 --quick --out /tmp/figures
  rackweave figures zero-sided-7 --format json
  rackweave figures communication-6a --embedded

report.html has everything in one page: open it in a browser. Of each figure NAME.csv has the curves
and NAME.svg the picture; claims.csv has what the papers say beside what was measured. The racks are
the papers' testbeds: --config changes nothing here. A ratio that is far from one is no failure.")]
pub struct FiguresArgs {
    /// Which figures; without names, all
    #[arg(value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(
              rackweave_bench::experiment::ALL.iter().map(|one| one.name)))]
    pub names: Vec<String>,
    /// How much is run
    #[arg(long, value_enum, default_value_t = FiguresScale::Full, conflicts_with = "quick")]
    pub scale: FiguresScale,
    /// Few points and short runs: short for --scale quick
    #[arg(long)]
    pub quick: bool,
    /// Figures that run at a time, each on one core; without it, as many as there are cores. The
    /// result does not depend on it
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: PathBuf,
    /// Measure on an embedded rack in real time instead, beside this machine's memcpy; the
    /// communication tier's figures only
    #[arg(long, requires = "names")]
    pub embedded: bool,
    /// Print what there is, and run nothing
    #[arg(long)]
    pub list: bool,
}

/// How much of the figures is run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FiguresScale {
    /// Few points, small data and short runs
    Quick,
    /// Every claim at the paper's point, and enough points for the shape of each curve
    Full,
    /// The paper's sweeps as far as this machine can run them; takes long
    Paper,
}

impl FiguresArgs {
    /// How much is run.
    pub fn scale(&self) -> rackweave_bench::experiment::Scale {
        use rackweave_bench::experiment::Scale;
        match self.scale {
            _ if self.quick => Scale::Quick,
            FiguresScale::Quick => Scale::Quick,
            FiguresScale::Full => Scale::Full,
            FiguresScale::Paper => Scale::Paper,
        }
    }
}

/// Arguments of `info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave info
  rackweave info --config rack.toml > effective.txt
  rackweave info --format json --drivers 2")]
pub struct InfoArgs {
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Seconds, more than none and at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("seconds above 0 and up to 86400 are needed".into()),
    }
}
