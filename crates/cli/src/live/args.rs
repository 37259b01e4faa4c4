//! Arguments of `top` and `stat`.

use clap::Args;

/// Arguments of `top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave ycsb --operations 10000000 &      something to watch, such as this, or
  rackweave demo                              this in another terminal
  rackweave top                               watch it
  rackweave top --pid 4711                    watch this one of several
  rackweave top --hosted                      watch the rack that `rackweave up` runs

Keys: 1 to 5 and Tab choose a view, arrow keys scroll, p pauses, ? helps, q ends. A command is found
from the moment on at which it has a rack in its process; commands in virtual time have none.")]
pub struct TopArgs {
    /// The process; without it, the one that began last
    #[arg(long, value_name = "N")]
    pub pid: Option<u32>,
    /// Seconds between two looks, at least a quarter
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub interval: f64,
    /// Wait for a command to begin, and after its end for the next one
    #[arg(long)]
    pub wait: bool,
    /// Watch the hosted rack that runs: see `rackweave demo --help`
    #[arg(long)]
    pub hosted: bool,
}

/// Arguments of `stat`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave stat                              what the command that began last has counted
  rackweave stat --pid 4711 --format json     this one, as one JSON object
  rackweave stat --format openmetrics         as metrics, for Prometheus
  rackweave stat --interval 1 --count 10      and what happens each second, ten times
  rackweave stat --hosted --all               the rack that `rackweave up` runs, zeros included

Counters of NICs have the names that `rdma statistic` shows for rdma_rxe and mlx5.")]
pub struct StatArgs {
    /// The process; without it, the one that began last
    #[arg(long, value_name = "N")]
    pub pid: Option<u32>,
    /// Counters that are zero, too
    #[arg(long)]
    pub all: bool,
    /// Print again after so many seconds, with what has happened since; at least a quarter
    #[arg(long, value_name = "S")]
    pub interval: Option<f64>,
    /// Print so often; without it, until the command ends
    #[arg(long, value_name = "N", requires = "interval")]
    pub count: Option<u64>,
    /// Ask the hosted rack that runs: see `rackweave demo --help`
    #[arg(long)]
    pub hosted: bool,
}
