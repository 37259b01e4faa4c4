//! Arguments of `flow`.

use crate::globals::RackArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `flow`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave flow --example > flows.toml
  rackweave flow flows.toml --simulated
  rackweave flow flows.toml --drivers 0 --format json
  rackweave flow flows.toml --hosted

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
expect_error = true.

With --hosted every action works. The process joins the running rack as a guest for each node that
the script names, because the rack's own processes have these nodes; --as names other nodes for
them, in the order in which the script first names its own. The report shows which node is which.
An action takes some milliseconds there, in which the script's nodes do nothing else: flows that are
to be changed need items for longer than the example's, or items = N in place of run_ms.")]
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
