//! Arguments of `demo`.

use super::systems::SystemName;
use crate::globals::RackArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `demo`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  rackweave demo
  rackweave demo --systems pages,tree --scale-factor 0.1
  rackweave demo --simulated --loss 0.01 --duplicate 0.01 --reorder 0.01 --corrupt 0.01 --seed 7
  rackweave demo --capture demo.pcapng --format json
  rackweave demo --hosted                    on the rack that `rackweave up` runs
  rackweave demo --config rack.toml          the same if the file has a [hosted] section

On a running rack the demo is four of its nodes: guests, or those that --as names.")]
pub struct DemoArgs {
    /// In virtual time, on a modelled 100 Gbit/s testbed
    #[arg(long)]
    pub simulated: bool,
    /// Which systems, on one rack, one after another; without it, all that a running rack has
    /// programs for. A simulated rack runs flows alone
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
