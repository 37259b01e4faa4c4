//! Zero-sided RDMA, figure 8: a shuffle between GPUs, by the number of nodes.
//!
//! Two shuffle kernels on every node send items of 512 KiB to all kernels in turn. Either the
//! switch takes the items out of rings, or the kernels put them themselves (NVSHMEM).

use super::shuffle::{self, FlowShape, Traffic};
use super::{Experiment, ExperimentError, Run, Scale};
use crate::baseline::ends::Failure;
use crate::baseline::put_shuffle::{self, Plan};
use crate::baseline::tuples;
use crate::baseline::worker::Ledger;
use crate::figure::{Axis, Claim, Drawing, Figure, Series};
use core::cell::RefCell;
use rackweave_base::Duration;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_sim::devices;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The figure.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zero-sided-8",
    about: "GPU-to-GPU shuffle, against puts that the GPUs issue themselves",
    run,
};

/// Kernels of a node. Source: section 7.1.
const KERNELS: usize = 2;

/// Bytes of an item. Source: section 7.1.
const ITEM_BYTES: usize = 512 << 10;

/// Rings of the flow. Transfers of one item, two at a time to each of two consumers of a node: up
/// to 2 MiB are under way to a node, of which its port's queue holds half; that takes all four from
/// different nodes to overflow, and with larger transfers or more of them it does.
const FLOW: FlowShape = FlowShape {
    item_bytes: ITEM_BYTES as u32,
    producer_slots: 4,
    consumer_slots: 8,
    batch_bytes: ITEM_BYTES as u32,
    transfers: 2,
};

/// What one run gave.
struct Point {
    gigabytes_per_second: f64,
    traffic: Traffic,
}

/// A kernel that fills a ring for every destination in turn.
struct Source {
    outputs: Vec<Producer>,
    own: usize,
    plan: Plan,
    sent: u64,
    ledger: Rc<RefCell<Ledger>>,
}

/// A kernel that empties its ring.
struct Sink {
    input: Consumer,
    own: usize,
    destinations: usize,
    ledger: Rc<RefCell<Ledger>>,
}

/// Runs the figure.
///
/// # Errors
/// If a run fails or gives a wrong result.
pub fn run(run: &mut Run<'_>) -> Result<Figure, ExperimentError> {
    let bytes_per_node: u64 = match run.scale {
        Scale::Quick => 64 << 20,
        Scale::Full | Scale::Paper => 512 << 20,
    };
    let names = ["zero-sided", "put (like NVSHMEM)"];
    let mut series: Vec<Series> = Vec::new();
    let mut drops = Vec::new();
    for name in names {
        let mut points = Vec::new();
        for nodes in 2..=4_usize {
            let share = (3 * series.len() + nodes - 2) as f64 / 6.0;
            let kernels = (KERNELS * nodes) as u64;
            let items = bytes_per_node / ITEM_BYTES as u64 / KERNELS as u64;
            let plan = Plan {
                item_bytes: ITEM_BYTES,
                items_per_destination: items.div_ceil(kernels),
                fill_time: fill_time(),
            };
            let point = if series.is_empty() {
                zero_sided(run, nodes, plan, share)?
            } else {
                put(run, nodes, plan, share)?
            };
            points.push((nodes as f64, point.gigabytes_per_second));
            let Traffic {
                drops: count,
                queue_bytes_max,
            } = point.traffic;
            if count > 0 {
                drops.push(format!(
                    "{name}, {nodes} nodes: {count} (queue up to {queue_bytes_max} B)"
                ));
            }
        }
        let name = name.to_string();
        series.push(Series { name, points });
    }
    Ok(figure(run.seed, series, bytes_per_node, &drops))
}

/// How long a kernel takes to fill an item: the kernels of a GPU share its memory, which is written
/// once.
fn fill_time() -> Duration {
    let bytes = (KERNELS * ITEM_BYTES) as u64;
    Duration::from_nanos((bytes * 1_000_000_000).div_ceil(devices::GPU_MEMORY_BYTES_PER_SECOND))
}

fn figure(seed: u64, series: Vec<Series>, bytes_per_node: u64, drops: &[String]) -> Figure {
    let mut notes = vec![
        format!(
            "{KERNELS} kernels per node, items of {} KiB, {} MiB from every node, to all nodes in \
             turn and to itself through the NIC as well, in both systems",
            ITEM_BYTES >> 10,
            bytes_per_node >> 20
        ),
        "puts are best case: no coordination, four in flight per kernel, posted at the cost of a \
         CPU core; what they leave in memory in the end is checked"
            .into(),
        "zero-sided: one item per transfer, two transfers at a time per consumer, all items checked"
            .into(),
        "GPUs are actors that are charged for their memory's bandwidth; a GPU has the PCIe link of \
         the node's NIC"
            .into(),
        "bandwidth is that between the first and the last tenth of the bytes to arrive; a put has \
         arrived when the kernel has its completion"
            .into(),
    ];
    notes.push(match drops {
        [] => "no packet was dropped".into(),
        _ => format!(
            "packets dropped in front of full ports: {}",
            drops.join("; ")
        ),
    });
    let claims = match &series[..] {
        [zero_sided, put] => zero_sided
            .points
            .iter()
            .zip(&put.points)
            .map(|(own, other)| Claim {
                what: format!("zero-sided over put, {} nodes (almost equal)", own.0),
                source: "section 7.1, figure 8".into(),
                paper: 1.0,
                ours: own.1 / other.1,
                unit: "x".into(),
            })
            .collect(),
        _ => Vec::new(),
    };
    Figure {
        name: "zero-sided-8".into(),
        title: "GPU-to-GPU shuffle".into(),
        x: Axis::linear("nodes", ""),
        y: Axis::linear("bandwidth per node", "GB/s"),
        drawing: Drawing::Bars,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series,
        claims,
        notes,
        seed,
    }
}

fn zero_sided(
    run: &mut Run<'_>,
    nodes: usize,
    plan: Plan,
    share: f64,
) -> Result<Point, ExperimentError> {
    let mut rack = shuffle::rack(nodes, run.seed)?;
    let kernels = shuffle::threads(nodes, KERNELS);
    let flow = shuffle::flow(&mut rack, &kernels, &kernels, FLOW)?;
    let count = kernels.len() as u64;
    let items = plan.items_per_destination * count * count;
    let ledger = Ledger::new(kernels.len(), items * ITEM_BYTES as u64);
    for (own, &node) in kernels.iter().enumerate() {
        let wrong = |error| ExperimentError::Run(format!("a ring: {error}"));
        let source = Source {
            outputs: flow.take_producers(own).map_err(wrong)?,
            own,
            plan,
            sent: 0,
            ledger: ledger.clone(),
        };
        let sink = Sink {
            input: flow.take_consumer(own).map_err(wrong)?,
            own,
            destinations: kernels.len(),
            ledger: ledger.clone(),
        };
        rack.spawn(node, Box::new(source));
        rack.spawn(node, Box::new(sink));
    }
    shuffle::drive(&mut rack, run, share, &|| ledger.borrow().failure.clone())?;
    let ledger = ledger.borrow();
    let total = ledger.total();
    shuffle::verify(
        "items and wrong ones",
        (total.tuples, total.wrong),
        (items, 0),
    )?;
    Ok(Point {
        gigabytes_per_second: ledger.bytes_per_second() / nodes as f64 / 1e9,
        traffic: shuffle::traffic(&rack),
    })
}

fn put(run: &mut Run<'_>, nodes: usize, plan: Plan, share: f64) -> Result<Point, ExperimentError> {
    let mut rack = shuffle::rack(nodes, run.seed)?;
    let kernels = shuffle::threads(nodes, KERNELS);
    let count = kernels.len() as u64;
    let items = plan.items_per_destination * count * count;
    let ledger = Ledger::new(kernels.len(), items * ITEM_BYTES as u64);
    let landing = put_shuffle::spawn(&mut rack, &kernels, plan, &ledger)?;
    shuffle::drive(&mut rack, run, share, &|| ledger.borrow().failure.clone())?;
    shuffle::verify("wrong items", landing.wrong(), 0)?;
    let rate = ledger.borrow().bytes_per_second();
    Ok(Point {
        gigabytes_per_second: rate / nodes as f64 / 1e9,
        traffic: shuffle::traffic(&rack),
    })
}

impl Source {
    fn turn(&mut self) -> Result<Step, Failure> {
        let count = self.outputs.len();
        let total = self.plan.items_per_destination * count as u64;
        if self.sent == total {
            self.outputs.iter_mut().for_each(Producer::finish);
            return Ok(Step::Done);
        }
        let to = (self.own + self.sent as usize) % count;
        let key = put_shuffle::item_key(self.own, to, self.sent / count as u64);
        match self.outputs[to].push_each(1, |item| tuples::write(key, item)) {
            Ok(_) => {
                self.sent += 1;
                Ok(Step::Compute(self.plan.fill_time))
            }
            Err(PushError::Full) => Ok(Step::WaitForPacket),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Actor for Source {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        let result = self.turn();
        self.ledger.borrow_mut().note(result)
    }
}

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut ledger = self.ledger.borrow_mut();
        let from_here = |key| put_shuffle::aims_at(key, self.own, self.destinations);
        let mut is_right = false;
        let look = |item: &[u8]| is_right = tuples::read(item).is_some_and(from_here);
        match self.input.take_each(1, look) {
            Taken::Items(_) => {
                let tally = &mut ledger.tallies[self.own];
                tally.tuples += 1;
                tally.wrong += u64::from(!is_right);
                ledger.add(context.now(), ITEM_BYTES as u64);
                // A kernel that reads an item takes as long as one that writes it.
                Step::Compute(fill_time())
            }
            Taken::Empty => Step::WaitForPacket,
            Taken::Ended => {
                ledger.finished_at = ledger.finished_at.max(context.now());
                Step::Done
            }
            Taken::Aborted => ledger.note(Err("the flow was broken off".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_deliver_and_neither_beats_the_link() {
        let mut progress = |_| true;
        let mut run = Run {
            scale: Scale::Quick,
            seed: 3,
            progress: &mut progress,
        };
        let plan = Plan {
            item_bytes: ITEM_BYTES,
            items_per_destination: 2,
            fill_time: fill_time(),
        };
        for measure in [zero_sided, put] {
            let point = measure(&mut run, 2, plan, 0.0).unwrap();
            let rate = point.gigabytes_per_second;
            assert!((1.0..12.5).contains(&rate), "{rate} GB/s");
        }
    }
}
