//! Arguments of `chaos`.

use clap::Args;
use std::path::PathBuf;

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
    /// At most so many faults, one after the other, in each seed of hosted racks; without it, three
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub faults: Option<u32>,
    /// Keep what the processes of hosted racks recorded in seeds that fail, in this folder
    #[arg(long, value_name = "FOLDER")]
    pub journals: Option<PathBuf>,
    /// Threads, each with schedules of its own; without it, one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}
