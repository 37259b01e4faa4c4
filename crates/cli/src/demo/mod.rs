//! The command `demo`: every system on one rack, embedded or running ([`systems`]).
//!
//! Flows come first: TPC-H rows from storage nodes, shuffled by the switch to compute nodes, which
//! answer two queries. The answers are checked against a separate computation over the same rows.
//! Then, on the same rack, the line items are balanced over consumers, and the orders are
//! replicated to all. `run` runs them on threads in real time, or as actors in virtual time; both
//! fill the same [`report`].
//!
//! A running rack is joined as guests: half of them have the tables, the others compute.

mod fan_out;
mod report;
mod run;
pub mod systems;

use crate::globals::{Globals, Mode, RackArgs, SIMULATED};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::RealRack;
use crate::tpch::reference;
use clap::Args;
use rackweave_base::NodeId;
use rackweave_bench::ycsb::Nodes;
use rackweave_controller::{FlowError, FlowState};
use rackweave_endpoint::flow::{Partitioner, Producer};
use rackweave_rack::config::Role;
use rackweave_rack::{Flow, Rack, RackConfig};
use rackweave_workload::tpch::{
    ComputeResult, ComputeWorker, LineitemRow, OrderRow, ScaleFactor, StorageWorker,
};
pub use report::{decimal, q1_row};
use std::path::PathBuf;
use systems::SystemName;

/// Default bytes of an item: half a thousand rows.
const ITEM_BYTES: u32 = 32 << 10;

/// Default scale factor: the one whose answer the specification publishes. It is smaller for models
/// and processes, which take longer per row.
const SCALE_FACTOR: f64 = 1.0;
const SCALE_FACTOR_ELSEWHERE: f64 = 0.1;

/// Places for guests that the demo takes on a running rack.
const GUESTS: usize = 4;

/// What a simulated rack omits.
const OTHER_SYSTEMS: &str =
    "pages, tree, messaging and sequencer: the demo runs them in real time alone";

/// The checked parameters of the demo.
struct DemoPlan {
    config: RackConfig,
    scale: ScaleFactor,
    item_size: u32,
    storage: Vec<NodeId>,
    compute: Vec<NodeId>,
    /// Workers of each node.
    workers: usize,
    /// Bytes of a ring.
    ring_bytes: u32,
}

/// The two flows of the demo.
struct Flows {
    orders: Flow,
    lineitem: Flow,
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

/// Runs the command.
///
/// # Errors
/// If the arguments or the configuration are invalid, or the rack cannot do what is requested.
pub fn run(args: &DemoArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let (mode, config) = Mode::of(args.simulated, &args.rack, globals)?;
    let mut plan = plan(args, mode, config)?;
    let mut report = match mode {
        Mode::Embedded => systems::run(&plan, None, args, globals)?,
        Mode::Simulated => {
            flows_alone(args)?;
            run::simulated(&plan, args.capture.as_deref(), globals)?
        }
        Mode::Hosted => {
            let rack = RealRack::join(&plan.config, GUESTS, (&args.rack, globals))?;
            let (storage, compute) = rack.nodes().split_at(GUESTS / 2);
            (plan.storage, plan.compute) = (storage.into(), compute.into());
            systems::run(&plan, Some(rack), args, globals)?
        }
    };
    if report.mode == SIMULATED {
        report.left_out.push(OTHER_SYSTEMS.to_owned());
        report.interrupted = globals.interrupt.is_set();
        if !report.interrupted && report.result.is_some() {
            let reference = reference(plan.scale, globals);
            report.judge_balanced(&reference);
            report.judge(&reference, plan.scale);
        }
    }
    output::print(globals, "demo", &report)?;
    Ok(Verdict::of(report.verified))
}

/// Refuses options that a simulated rack does not support.
fn flows_alone(args: &DemoArgs) -> Result<(), CliError> {
    match args.systems.iter().find(|&&name| name != SystemName::Flows) {
        None => Ok(()),
        Some(other) => Err(CliError::usage(format!(
            "--systems {}: a simulated demo runs flows alone; leave --simulated away",
            other.name()
        ))),
    }
}

fn plan(args: &DemoArgs, mode: Mode, config: RackConfig) -> Result<DemoPlan, CliError> {
    if args.capture.is_some() && mode == Mode::Hosted {
        return Err(CliError::usage(
            "--capture is for a rack of one's own; `rackweave switch --capture FILE.pcapng` \
             records a hosted one",
        ));
    }
    let scale = args.scale_factor.unwrap_or(match mode {
        Mode::Embedded => SCALE_FACTOR,
        Mode::Simulated | Mode::Hosted => SCALE_FACTOR_ELSEWHERE,
    });
    let scale = ScaleFactor::new(scale)
        .map_err(|error| CliError::usage(format!("--scale-factor: {error}")))?;
    let (storage, compute) = (
        config.nodes_of(Role::Storage),
        config.nodes_of(Role::Compute),
    );
    for (nodes, role) in [(&storage, "storage"), (&compute, "compute")] {
        if nodes.is_empty() {
            return Err(CliError::usage(format!(
                "the demo needs a {role} node; add a [[node]] with role = \"{role}\" to the configuration"
            )));
        }
    }
    let item_size = args.item_size.unwrap_or(ITEM_BYTES);
    let least = (rackweave_endpoint::flow::ITEM_HEADER + LineitemRow::BYTES) as u32;
    if item_size < least || item_size > 1 << 24 || !item_size.is_multiple_of(64) {
        return Err(CliError::usage(format!(
            "--item-size is {item_size}: a multiple of 64 from {least} to {} is needed",
            1 << 24
        )));
    }
    // The testbed's nodes have spare cores, this machine has none.
    let (workers, ring_bytes) = if args.simulated {
        (4, 512 << 10)
    } else {
        (1, 4 << 20)
    };
    let ring_bytes = ring_bytes.max(item_size * 4);
    Ok(DemoPlan {
        config,
        scale,
        item_size,
        storage,
        compute,
        workers,
        ring_bytes,
    })
}

impl DemoPlan {
    /// The roles of nodes in a run over pages or an index.
    fn nodes(&self) -> Result<Nodes, CliError> {
        let first = |role| self.config.nodes_of(role).first().copied();
        let storage = self.storage.first();
        Ok(Nodes {
            compute: self.compute.clone(),
            storage: *storage.ok_or_else(|| CliError::run("there is no storage node"))?,
            memory: first(Role::Memory),
            dpu: first(Role::Dpu),
        })
    }

    /// The node of each storage worker, or of each compute worker.
    fn places(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        nodes
            .iter()
            .flat_map(|&node| core::iter::repeat_n(node, self.workers))
            .collect()
    }

    fn flows(&self, rack: &Rack) -> Result<Flows, FlowError> {
        let (from, to) = (self.places(&self.storage), self.places(&self.compute));
        let flow = rack.flow(&from, &to).item_bytes(self.item_size);
        let flow = flow.ring_bytes(self.ring_bytes);
        Ok(Flows {
            orders: flow.clone().build()?,
            lineitem: flow.build()?,
        })
    }

    fn storage_workers(&self, flows: &Flows) -> Result<Vec<StorageWorker>, CliError> {
        let count = self.storage.len() * self.workers;
        let partitioner = |flow: &Flow, at: usize, row: usize| -> Result<Partitioner, FlowError> {
            let producers: Vec<Producer> = flow.take_producers(at)?;
            Ok(Partitioner::new(producers, row))
        };
        (0..count)
            .map(|at| {
                let orders = partitioner(&flows.orders, at, OrderRow::BYTES)?;
                let lineitem = partitioner(&flows.lineitem, at, LineitemRow::BYTES)?;
                StorageWorker::new(self.scale, at as u32, count as u32, orders, lineitem)
                    .map_err(CliError::run)
            })
            .collect()
    }

    fn compute_workers(&self, flows: &Flows) -> Result<Vec<ComputeWorker>, CliError> {
        let count = self.compute.len() * self.workers;
        (0..count)
            .map(|at| {
                let (orders, lineitem) = (&flows.orders, &flows.lineitem);
                let (orders, lineitem) = (orders.take_consumer(at)?, lineitem.take_consumer(at)?);
                Ok(ComputeWorker::new(orders, lineitem))
            })
            .collect()
    }
}

impl Flows {
    fn close(&self) {
        self.orders.close();
        self.lineitem.close();
    }

    /// Why flows were aborted, in words.
    fn problems(&self) -> Vec<String> {
        let states = [&self.orders, &self.lineitem].map(Flow::state);
        let problem = |state| match state {
            FlowState::Aborted(reason) => Some(format!("a flow was broken off: {reason}")),
            FlowState::Running | FlowState::Ended => None,
        };
        states.into_iter().filter_map(problem).collect()
    }
}

/// The workers' results, or why there are none.
type Found = Result<Vec<ComputeResult>, String>;
