//! The tests `flow_bw`, `shuffle_bw`, `balance_bw` and `replicate_bw`.

use super::flow::{self, FlowMeasured, FlowPlan};
use super::test_run::TestRun;
use crate::items::Manner;
use crate::measure::{Amount, memcpy_bandwidth, rate, ratio};
use crate::outcome::CliError;
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

/// The plan of a flow between these nodes, with defaults applied; by default it moves `times` as
/// much data as that of a single consumer.
fn plan(
    test: &TestRun<'_>,
    shape: FlowShape,
    (producers, consumers): (&[NodeId], &[NodeId]),
    times: u64,
) -> Result<FlowPlan, CliError> {
    let args = test.args;
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
    let ring_default = match args.simulated || is_shuffle {
        true => 4 << 20,
        false if consumers.len() <= RINGS_LARGE => 64 << 20,
        false => 16 << 20,
    };
    let bytes_default: u64 = if args.simulated { 256 << 20 } else { 2 << 30 };
    let items_default = bytes_default * times / u64::from(item_size) / arrivals;
    let items_default = Amount::Count(items_default.clamp(1, 20_000_000));
    let batch_default = ((256 << 10) / item_size).clamp(1, 4096);
    let is_alone = test.config.driver_threads == 0 || args.simulated || is_shuffle;
    Ok(FlowPlan {
        shape,
        producers: producers.to_vec(),
        consumers: consumers.to_vec(),
        item_size,
        ring_bytes: args.ring.unwrap_or(ring_default).max(2 * item_size),
        manner: Manner {
            batch: args.batch.unwrap_or(batch_default),
            touch: args.touch,
        },
        amount: Amount::of(args.iterations, args.duration, items_default)?,
        threads: args.threads.unwrap_or(if is_alone { 1 } else { 2 }),
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

/// The faster of the best round so far and another, verified if all are.
fn better(best: Option<FlowMeasured>, other: FlowMeasured) -> FlowMeasured {
    let Some(best) = best else { return other };
    let verified = best.verified && other.verified;
    let better = match best.rate() >= other.rate() {
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
    let mut progress = Progress::new(test.globals, test.args.test.name());
    flow::run(test.own_rack()?, plan, test.globals, capture, &mut progress)
}

/// The flow and its comparisons, in turn, for several rounds. One round suffices where nothing
/// disturbs it, the user sets the duration, or it is a 1:1 flow that is not compared with another.
fn compare(test: &TestRun<'_>, plan: &FlowPlan) -> Result<Compared, CliError> {
    let (globals, args) = (test.globals, test.args);
    let is_alone = plan.shape == FlowShape::Shuffle && !test.is_hosted();
    let rounds = match plan.amount {
        Amount::Count(_) if !args.simulated && args.capture.is_none() && !is_alone => ROUNDS,
        _ => 1,
    };
    let copy = || {
        let (ring, size) = (plan.ring_bytes as usize, plan.item_size as usize);
        (!args.simulated).then(|| memcpy_bandwidth(ring, size) / 1e9)
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

/// The results. `more` has those that only this test has.
fn found(test: &mut TestRun<'_>, plan: &FlowPlan, measured: &FlowMeasured, more: Value) -> Value {
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
    without_nulls(joined([parameters, moved(measured), more, rest]))
}

/// The amount of data moved, and its rate.
fn moved(measured: &FlowMeasured) -> Value {
    let bytes = json!({"bytes": measured.bytes, "gigabytes_per_s": measured.gigabytes_per_s()});
    joined([rate("items", measured.items, measured.nanos), bytes])
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
    let (mut utilisation, mut queue_bytes_max) = (0.0, 0);
    for node in &plan.consumers {
        let link = measured.links.get(usize::from(node.0))?.from_switch.link;
        utilisation += link.busy_picos as f64 / 1e12 / span / count;
        queue_bytes_max = queue_bytes_max.max(link.queue_bytes_max);
    }
    let drops = |link: &LinkReport| link.to_switch.link.drops + link.from_switch.link.drops;
    let drops: u64 = measured.links.iter().map(drops).sum();
    Some(json!({
        "utilisation": utilisation,
        "payload_rate": measured.bytes as f64 / count / span / payload_max,
        "drops": drops,
        "queue_bytes_max": queue_bytes_max,
    }))
}

/// CPU seconds that the nodes of producers and of consumers spent on communication.
fn communication(plan: &FlowPlan, measured: &FlowMeasured) -> Option<(f64, f64)> {
    let of = |nodes: &[NodeId]| -> Option<f64> {
        let cpus = nodes
            .iter()
            .map(|node| measured.cpus.get(usize::from(node.0)));
        cpus.map(|cpu| Some(Duration::as_secs_f64(cpu?.communication)))
            .sum()
    };
    Some((of(&plan.producers)?, of(&plan.consumers)?))
}

/// Runs `flow_bw`: node 0 to the last node.
///
/// # Errors
/// If an argument is invalid or the rack cannot do it.
pub fn single(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let [first, last] = test.ends();
    let plan = plan(test, FlowShape::Shuffle, (&[first], &[last]), 1)?;
    let Compared {
        measured,
        memcpy,
        embedded,
    } = compare(test, &plan)?;
    let embedded = embedded.as_ref();
    test.verified = embedded.is_none_or(|embedded| embedded.verified);
    let more = json!({
        "memcpy_gigabytes_per_s": memcpy,
        "ratio_to_memcpy": memcpy.map(|memcpy| ratio(measured.gigabytes_per_s(), memcpy)),
        "embedded": embedded.map(moved),
        "ratio_to_embedded": embedded.map(|it| ratio(measured.rate(), it.rate())),
    });
    Ok(found(test, &plan, &measured, more))
}

/// Runs `shuffle_bw`: every node to every node, preceded by the 1:1 flow on the same rack.
///
/// # Errors
/// As for [`single`].
pub fn shuffle(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let ([first, last], shape) = (test.ends(), FlowShape::Shuffle);
    let (nodes, count) = (&test.nodes, test.nodes.len() as u64);
    let single = plan(test, shape, (&[first], &[last]), 1)?;
    let many = plan(test, shape, (nodes, nodes), count)?;
    let single = FlowPlan {
        ring_bytes: many.ring_bytes,
        threads: many.threads,
        ..single
    };
    let alone = run_flow(test, &single, None)?;
    let measured = run_flow(test, &many, test.args.capture.as_deref())?;
    test.verified = alone.verified;
    let linear = count as f64 * alone.gigabytes_per_s();
    let more = json!({
        "one_to_one": moved(&alone),
        "ratio_to_linear": ratio(measured.gigabytes_per_s(), linear),
    });
    Ok(found(test, &many, &measured, more))
}

/// Runs `balance_bw` or `replicate_bw`: node 0 to some of the others, compared with memcpy. All
/// copies of an item count, so memcpy is compared with what the machine moved, and the ratio is
/// also that of one consumer to its share of memcpy. Both are the best of several alternating
/// rounds.
///
/// # Errors
/// As for [`single`].
pub fn fan_out(test: &mut TestRun<'_>, shape: FlowShape) -> Result<Value, CliError> {
    let count = test.args.consumers.unwrap_or(2);
    // Every node but the producer's, from the last one down; then again.
    let (&first, others) = test.nodes.split_first().expect("a rack has nodes");
    let others = others.iter().rev().copied().cycle().take(count.into());
    let mut consumers: Vec<_> = others.collect();
    consumers.resize(count.into(), first);
    let plan = plan(test, shape, (&[first], &consumers), 1)?;
    let Compared {
        measured, memcpy, ..
    } = compare(test, &plan)?;
    let (share, all) = (f64::from(count), measured.gigabytes_per_s());
    let more = json!({
        "memcpy_gigabytes_per_s": memcpy,
        "ratio_to_memcpy": memcpy.map(|memcpy| ratio(all, memcpy)),
        "consumer_gigabytes_per_s": all / share,
        "memcpy_share_gigabytes_per_s": memcpy.map(|memcpy| memcpy / share),
    });
    Ok(found(test, &plan, &measured, more))
}
