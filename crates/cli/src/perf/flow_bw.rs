//! The tests `flow_bw`, `shuffle_bw`, `balance_bw` and `replicate_bw`.

use super::args::PerfArgs;
use super::flow::{self, FlowMeasured, FlowPlan};
use super::report::{self, per_second, ratio};
use super::test_run::TestRun;
use crate::amount::Amount;
use crate::globals::Globals;
use crate::items::Manner;
use crate::memcpy;
use crate::outcome::{CliError, Verdict};
use crate::programs::OwnRack;
use crate::progress::Progress;
use crate::report::{joined, without_nulls};
use rackweave_base::{Duration, NodeId};
use rackweave_controller::FlowShape;
use rackweave_rack::RackConfig;
use rackweave_sim::LinkModel;
use rackweave_sim::world::LinkReport;
use serde_json::{Value, json};
use std::path::Path;

/// Ethernet, IPv4, UDP and BTH: the headers of a fragment in the middle.
const HEADER_BYTES: usize = 14 + 20 + 8 + 12;

/// Rounds of a flow and its comparisons. The first round touches memory that the system has not yet
/// allocated.
const ROUNDS: usize = 3;

/// Number of consumers whose rings of 64 MiB fit a rack's default memory limit.
const RINGS_LARGE: usize = 8;

/// The ICRC after the payload.
const CHECK_BYTES: usize = 4;

/// The plan of a flow between these nodes, with defaults applied.
fn plan(
    args: &PerfArgs,
    config: &RackConfig,
    shape: FlowShape,
    (producers, consumers): (Vec<NodeId>, Vec<NodeId>),
    bytes_default: u64,
) -> Result<FlowPlan, CliError> {
    let item_size = args.size.unwrap_or(65_536);
    if !item_size.is_multiple_of(8) {
        return Err(CliError::usage(format!(
            "-s is {item_size}: items need a multiple of 8 bytes"
        )));
    }
    let arrivals = match shape {
        FlowShape::Shuffle | FlowShape::Replicate => (producers.len() * consumers.len()) as u64,
        FlowShape::Balance => producers.len() as u64,
    };
    let is_shuffle = shape == FlowShape::Shuffle && arrivals > 1;
    let ring_default = match (args.simulated, is_shuffle) {
        (false, false) if consumers.len() <= RINGS_LARGE => 64 << 20,
        (false, false) => 16 << 20,
        (false, true) => 4 << 20,
        (true, _) => 4 << 20,
    };
    let ring_bytes = args.ring.unwrap_or(ring_default).max(2 * item_size);
    let items_default = (bytes_default / u64::from(item_size) / arrivals).clamp(1, 20_000_000);
    let batch_default = ((256 << 10) / item_size).clamp(1, 4096);
    let threads = match args.threads {
        Some(threads) => threads,
        None if config.driver_threads == 0 || args.simulated || is_shuffle => 1,
        None => 2,
    };
    Ok(FlowPlan {
        shape,
        producers,
        consumers,
        item_size,
        ring_bytes,
        manner: Manner {
            batch: args.batch.unwrap_or(batch_default),
            touch: args.touch,
        },
        amount: Amount::of(args.iterations, args.duration, Amount::Count(items_default))?,
        threads,
    })
}

/// A flow and its comparisons: the best round of each.
struct Compared {
    measured: FlowMeasured,
    /// Gigabytes per second of an equivalent copy on this machine; none if time is virtual.
    memcpy: Option<f64>,
    /// The same flow on an embedded rack, if this one is hosted.
    embedded: Option<FlowMeasured>,
}

/// Items per second from the first taken to the last.
fn rate(measured: &FlowMeasured) -> f64 {
    per_second(measured.items, measured.nanos_taking)
}

/// The faster of the best round so far and another, verified if all are.
fn better(best: Option<FlowMeasured>, other: FlowMeasured) -> FlowMeasured {
    let Some(best) = best else { return other };
    let verified = best.verified && other.verified;
    let better = match rate(&best) >= rate(&other) {
        true => best,
        false => other,
    };
    FlowMeasured { verified, ..better }
}

fn run_flow(
    test: &TestRun<'_>,
    plan: &FlowPlan,
    capture: Option<&Path>,
) -> Result<FlowMeasured, CliError> {
    let mut progress = Progress::new(test.globals, test.args.test.name);
    flow::run(test.own_rack()?, plan, test.globals, capture, &mut progress)
}

/// The flow and its comparisons, in turn, for this many rounds.
fn compare(test: &TestRun<'_>, plan: &FlowPlan, rounds: usize) -> Result<Compared, CliError> {
    let (globals, args) = (test.globals, test.args);
    let copy = || {
        let (ring, size) = (plan.ring_bytes as usize, plan.item_size as usize);
        (!args.simulated).then(|| memcpy::bandwidth(ring, size) / 1e9)
    };
    let (mut memcpy, mut best, mut embedded) = (copy(), None, None);
    for _ in 0..rounds {
        let measured = run_flow(test, plan, args.capture.as_deref())?;
        best = Some(better(best, measured));
        if test.is_hosted() && !test.is_interrupted() {
            let mut progress = Progress::new(globals, "the same on an embedded rack");
            let own = OwnRack::new(&test.config, false, globals)?;
            let measured = flow::run(own, plan, globals, None, &mut progress)?;
            embedded = Some(better(embedded, measured));
        }
        memcpy = memcpy.zip(copy()).map(|(one, other)| one.max(other));
        if test.is_interrupted() {
            break;
        }
    }
    Ok(Compared {
        measured: best.expect("there is a round at least"),
        memcpy,
        embedded,
    })
}

/// Number of rounds of a flow, and its comparisons. One round suffices where nothing disturbs it or
/// the user sets the duration.
fn rounds(args: &PerfArgs, plan: &FlowPlan) -> usize {
    match plan.amount {
        Amount::Count(_) if !args.simulated && args.capture.is_none() => ROUNDS,
        _ => 1,
    }
}

/// Prints the results and returns the verdict. `more` has the results specific to the test.
fn finish(
    mut test: TestRun<'_>,
    plan: &FlowPlan,
    measured: &FlowMeasured,
    more: Value,
) -> Result<Verdict, CliError> {
    let cpu = communication(plan, measured);
    // A flow costs its ends no communication at all: this is the meaning of zero-sided.
    let is_zero_sided = cpu.is_none_or(|(producers, consumers)| producers + consumers == 0.0);
    test.verified &= measured.verified && is_zero_sided;
    let parameters = json!({
        "parameters": {
            "shape": plan.shape.name(),
            "producers": plan.producers.len(),
            "consumers": plan.consumers.len(),
            "item_size_bytes": plan.item_size,
            "ring_bytes": plan.ring_bytes,
            "batch_items": plan.manner.batch,
            "touch": plan.manner.touch,
            "threads": plan.threads,
            "mtu_bytes": test.config.nic.mtu,
        },
    });
    let rest = json!({
        "link": links(plan, &test.config, measured),
        "communication_cpu": cpu.map(|(producers_s, consumers_s)| {
            json!({"producers_s": producers_s, "consumers_s": consumers_s})
        }),
        "capture": measured.capture,
    });
    let found = joined([parameters, moved(measured, plan.item_size), more, rest]);
    test.finish(&without_nulls(found))
}

/// The amount of data moved, and its rate.
fn moved(measured: &FlowMeasured, item_size: u32) -> Value {
    let bytes = json!({
        "bytes": measured.items * u64::from(item_size),
        "gigabytes_per_s": gigabytes(measured, item_size),
    });
    joined([report::rate("items", measured.items, measured.nanos), bytes])
}

/// Gigabytes per second.
fn gigabytes(measured: &FlowMeasured, item_size: u32) -> f64 {
    per_second(measured.items * u64::from(item_size), measured.nanos) / 1e9
}

/// Bytes that a default run moves.
fn bytes_default(args: &PerfArgs) -> u64 {
    if args.simulated { 256 << 20 } else { 2 << 30 }
}

/// The share of the possible payload rate of the consumers' links.
fn links(plan: &FlowPlan, config: &RackConfig, measured: &FlowMeasured) -> Option<Value> {
    let model = LinkModel {
        bits_per_second: (config.link.gigabits_per_second * 1e9) as u64,
        ..LinkModel::default()
    };
    let check = if config.needs_check() { CHECK_BYTES } else { 0 };
    let picos = model.occupancy(HEADER_BYTES + config.nic.mtu as usize + check);
    let payload_max = f64::from(config.nic.mtu) * 1e12 / picos as f64;
    let span = measured.nanos.max(1) as f64 / 1e9;
    let count = plan.consumers.len() as f64;
    let (mut utilisation, mut payload_rate, mut queue_bytes_max) = (0.0, 0.0, 0);
    for node in &plan.consumers {
        let link = measured.links.get(usize::from(node.0))?.from_switch.link;
        utilisation += link.busy_picos as f64 / 1e12 / span / count;
        let bytes = measured.items as f64 * f64::from(plan.item_size) / count;
        payload_rate += bytes / span / payload_max / count;
        queue_bytes_max = queue_bytes_max.max(link.queue_bytes_max);
    }
    let drops = |link: &LinkReport| link.to_switch.link.drops + link.from_switch.link.drops;
    let drops: u64 = measured.links.iter().map(drops).sum();
    Some(json!({
        "utilisation": utilisation,
        "payload_rate": payload_rate,
        "drops": drops,
        "queue_bytes_max": queue_bytes_max,
    }))
}

/// CPU seconds that the nodes of producers and of consumers spent on communication.
fn communication(plan: &FlowPlan, measured: &FlowMeasured) -> Option<(f64, f64)> {
    let of = |nodes: &[NodeId]| -> Option<f64> {
        let spent = nodes
            .iter()
            .map(|node| measured.cpus.get(usize::from(node.0)));
        spent
            .map(|cpu| cpu.map(|cpu| Duration::as_secs_f64(cpu.communication)))
            .sum()
    };
    Some((of(&plan.producers)?, of(&plan.consumers)?))
}

/// Runs `flow_bw`: node 0 to the last node.
///
/// # Errors
/// If an argument is invalid or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut test = TestRun::on_any_rack(args, globals, 1)?;
    let ends = (vec![test.nodes[0]], vec![test.last()]);
    let shape = FlowShape::Shuffle;
    let plan = plan(args, &test.config, shape, ends, bytes_default(args))?;
    let rounds = match test.is_hosted() {
        true => rounds(args, &plan),
        false => 1,
    };
    let Compared {
        measured,
        memcpy,
        embedded,
    } = compare(&test, &plan, rounds)?;
    let (embedded, item_size) = (embedded.as_ref(), plan.item_size);
    test.verified = embedded.is_none_or(|embedded| embedded.verified);
    let more = json!({
        "memcpy_gigabytes_per_s": memcpy,
        "ratio_to_memcpy": memcpy.map(|memcpy| ratio(gigabytes(&measured, item_size), memcpy)),
        "embedded": embedded.map(|embedded| moved(embedded, item_size)),
        "ratio_to_embedded": embedded.map(|it| ratio(rate(&measured), rate(it))),
    });
    finish(test, &plan, &measured, more)
}

/// Runs `shuffle_bw`: every node to every node, preceded by the 1:1 flow on the same rack.
///
/// # Errors
/// As for [`run`].
pub fn shuffle(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let mut test = TestRun::on_any_rack(args, globals, 1)?;
    let (config, shape) = (&test.config, FlowShape::Shuffle);
    let ends = (vec![test.nodes[0]], vec![test.last()]);
    let single = plan(args, config, shape, ends, bytes_default(args))?;
    let count = test.nodes.len() as u64;
    let ends = (test.nodes.clone(), test.nodes.clone());
    let many = plan(args, config, shape, ends, bytes_default(args) * count)?;
    let single = FlowPlan {
        ring_bytes: many.ring_bytes,
        threads: many.threads,
        ..single
    };
    let alone = run_flow(&test, &single, None)?;
    let measured = run_flow(&test, &many, args.capture.as_deref())?;
    test.verified = alone.verified;
    let linear = count as f64 * gigabytes(&alone, single.item_size);
    let more = json!({
        "one_to_one": moved(&alone, single.item_size),
        "ratio_to_linear": ratio(gigabytes(&measured, many.item_size), linear),
    });
    finish(test, &many, &measured, more)
}

/// Runs `balance_bw` or `replicate_bw`: node 0 to some of the others, compared with memcpy. All
/// copies of an item count, so memcpy is compared with what the machine moved, and the ratio is
/// also that of one consumer to its share of memcpy. Both are the best of several alternating
/// rounds.
///
/// # Errors
/// As for [`run`].
pub fn fan_out(args: &PerfArgs, globals: &Globals, shape: FlowShape) -> Result<Verdict, CliError> {
    let test = TestRun::on_any_rack(args, globals, 1)?;
    let count = args.consumers.unwrap_or(2);
    // Every node but the producer's, from the last one down; then again.
    let (&first, others) = test.nodes.split_first().expect("a rack has nodes");
    let others = others.iter().rev().copied().cycle().take(count.into());
    let mut consumers: Vec<_> = others.collect();
    consumers.resize(count.into(), first);
    let ends = (vec![first], consumers);
    let plan = plan(args, &test.config, shape, ends, bytes_default(args))?;
    let found = compare(&test, &plan, rounds(args, &plan))?;
    let (measured, memcpy) = (found.measured, found.memcpy);
    let (share, all) = (f64::from(count), gigabytes(&measured, plan.item_size));
    let more = json!({
        "memcpy_gigabytes_per_s": memcpy,
        "ratio_to_memcpy": memcpy.map(|memcpy| ratio(all, memcpy)),
        "consumer_gigabytes_per_s": all / share,
        "memcpy_share_gigabytes_per_s": memcpy.map(|memcpy| memcpy / share),
    });
    finish(test, &plan, &measured, more)
}
