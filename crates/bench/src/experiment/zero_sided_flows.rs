//! Zero-sided RDMA, section 4: how many flows fit the switch, and the state of each.
//!
//! 1:1 flows of one transfer at a time between four nodes, all active at once, in a switch whose
//! programs fit the first Tofino. Every item is checked.

use crate::harness::prelude::*;
use rackweave_rack::testing::SimulatedMachines;
use rackweave_sim::checkers::stamp;

const NODES: u16 = 4;
const ITEM_BYTES: u32 = 1024;
const RING_SLOTS: u32 = 8;

/// Lanes of a flow of one transfer: at each end one for data and two for words.
const LANES: u16 = 6;

/// Minimum number of lanes in a switch's configuration.
const LANES_MIN: u16 = 8;

/// Flows of the reference switch, to see what grows with the number of flows.
const FEW: u16 = 2;

/// How often a core polls all its rings.
const ROUND: Duration = Duration::from_micros(10);

/// Virtual time after which flows that have not ended count as stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// Producers of one node: each ring has the number of its flow, and how many of its `items` were
/// sent.
fn feeder(mut rings: Vec<(u16, Producer, u64)>, items: u64, seed: u64) -> impl Program {
    let mut item = vec![0; ITEM_BYTES as usize];
    move |_: &mut Context<'_>| -> Turn {
        let mut left = false;
        for (flow, ring, sent) in &mut rings {
            while *sent < items {
                stamp::fill(&mut item, *flow, 0, *sent, seed);
                match ring.push(&item) {
                    Ok(()) => *sent += 1,
                    Err(PushError::Full) => break,
                    Err(error) => return Err(error.to_string()),
                }
                if *sent == items {
                    ring.finish();
                }
            }
            left |= *sent < items;
        }
        Ok(if left { Step::Sleep(ROUND) } else { Step::Done })
    }
}

/// Consumers of one node, which count the right items and the wrong ones.
fn taker(
    mut rings: Vec<(u16, Consumer, u64)>,
    seed: u64,
    counts: Rc<Cell<[u64; 2]>>,
) -> impl Program {
    move |_: &mut Context<'_>| -> Turn {
        rings.retain_mut(|(flow, ring, next)| {
            loop {
                let look = |item: &[u8]| {
                    let is = |s: stamp::Stamp| (s.producer, s.sequence) == (*flow, *next);
                    let good = stamp::check(item, seed).is_ok_and(is);
                    let mut seen = counts.get();
                    seen[usize::from(!good)] += 1;
                    counts.set(seen);
                    *next += 1;
                };
                match ring.take_each(RING_SLOTS, look) {
                    Taken::Items(_) => {}
                    Taken::Empty => return true,
                    Taken::Ended | Taken::Aborted => return false,
                }
            }
        });
        Ok(match rings.is_empty() {
            true => Step::Done,
            false => Step::Sleep(ROUND),
        })
    }
}

fn config(flows: u16, seed: u64) -> RackConfig {
    let mut config = RackConfig {
        seed,
        node: nodes("node", Role::Compute, NODES.into()).collect(),
        ..RackConfig::default()
    };
    config.flow.transfers = 1;
    config.switch.budget = BudgetName::Tofino1;
    config.switch.lanes = (flows * LANES).max(LANES_MIN);
    (config.switch.consumer_rings, config.switch.producer_rings) = (flows, flows);
    (config.nic.queue_pairs, config.nic.regions) = (1 << 14, 1 << 12);
    config
}

/// Bytes of registers and of tables per flow in a switch for `flows` flows. State that does not
/// grow with the flows is excluded by subtracting that of a switch for few flows.
fn state_of_one(flows: u16) -> Result<(f64, f64)> {
    let state = |flows| -> Result<(f64, f64)> {
        let rack = Testbed::new(&config(flows, 1))?;
        let ledger = rack.switch().ledger();
        let (registers, tables) = (ledger.bytes_registers(), ledger.bytes_tables());
        Ok((registers as f64, tables as f64))
    };
    let (many, few) = (state(flows)?, state(FEW)?);
    let more = f64::from(flows - FEW);
    Ok(((many.0 - few.0) / more, (many.1 - few.1) / more))
}

/// Goodput of this many flows together, in GB/s.
fn goodput(run: &mut Run<'_>, flows: u16, items: u64) -> Result<f64> {
    let seed = run.seed;
    let mut rack = Testbed::new(&config(flows, seed))?;
    let mut made: Vec<(NodeId, NodeId, Flow)> = Vec::new();
    for at in 0..flows {
        let (from, to) = (NodeId(at % NODES), NodeId((at + 1) % NODES));
        let bytes = RING_SLOTS * ITEM_BYTES;
        let spec = flow_spec(&rack, [&[from], &[to]], ITEM_BYTES, bytes)?;
        made.push((from, to, rack.create_flow(spec)?));
    }
    let counts = Rc::new(Cell::new([0, 0]));
    for node in (0..NODES).map(NodeId) {
        let (mut fed, mut taken) = (Vec::new(), Vec::new());
        for (at, (from, to, flow)) in (0..).zip(&made) {
            if *from == node {
                let rings = flow.take_producers(0)?.into_iter();
                fed.extend(rings.map(|ring| (at, ring, 0)));
            }
            if *to == node {
                taken.push((at, flow.take_consumer(0)?, 0));
            }
        }
        rack.spawn(node, feeder(fed, items, seed));
        rack.spawn(node, taker(taken, seed, counts.clone()));
    }
    rack.drive(run, Until::Done(PATIENCE))?;
    let all = u64::from(flows) * items;
    let [right, wrong] = counts.get();
    if (right, wrong) != (all, 0) {
        let text = format!("{flows} flows: {right} of {all} items right, {wrong} wrong");
        return Err(ExperimentError::Run(text));
    }
    let seconds = (rack.now() - Instant::ZERO).as_nanos() as f64 / 1e9;
    Ok(all as f64 * f64::from(ITEM_BYTES) / seconds / 1e9)
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let all = [1, 10, 100, 500, 1000, 1500];
    let (counts, items): (&[u16], u64) = run.scale.pick((&[1500], 24), (&all, 100));
    let systems = [((), "1 KiB items")];
    let curves =
        Grid::new(&systems, counts).measure(run, |run, (), flows| goodput(run, flows, items))?;
    let most = counts[counts.len() - 1];
    let (registers, tables) = state_of_one(most)?;
    let series = grid::series(&curves, f64::from, |goodput| *goodput);
    Ok(Measured::new(series, values! { most, registers, tables }))
}

#[cfg(test)]
mod tests;
