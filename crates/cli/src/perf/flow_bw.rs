//! The tests `flow_bw` and `shuffle_bw`.

use super::amount::Amount;
use super::ends::Manner;
use super::flow::{self, FlowMeasured, FlowPlan};
use super::flow_report::{Communication, FlowReport, Links, Moved, Parameters};
use super::flow_simulated;
use super::report::{CaptureReport, Setting, ratio};
use crate::args::PerfArgs;
use crate::globals::Globals;
use crate::memcpy;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use rackweave_base::{Duration, NodeId};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{Endianness, NodeConfig, Role};
use rackweave_sim::LinkModel;
use rackweave_sim::world::LinkReport;
use std::path::Path;

/// Ethernet, IPv4, UDP and BTH: what stands before the payload of a fragment in the middle.
const HEADER_BYTES: usize = 14 + 20 + 8 + 12;

/// The ICRC behind it.
const CHECK_BYTES: usize = 4;

/// The rack, with the nodes that a shuffle asks for.
pub fn rack_config(args: &PerfArgs, globals: &Globals) -> Result<RackConfig, CliError> {
    let mut config = globals.rack_config(&args.rack)?;
    config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
    if let Some(nodes) = args.nodes {
        config.node = (0..nodes)
            .map(|at| NodeConfig {
                name: format!("node{at}"),
                role: Role::Compute,
                byte_order: Endianness::Little,
            })
            .collect();
    }
    config.check()?;
    Ok(config)
}

/// What a flow between these nodes asks for, with defaults in place.
pub fn plan(
    args: &PerfArgs,
    config: &RackConfig,
    (producers, consumers): (Vec<NodeId>, Vec<NodeId>),
    bytes_default: u64,
) -> Result<FlowPlan, CliError> {
    let item_size = args.size.unwrap_or(65_536);
    if !item_size.is_multiple_of(8) {
        return Err(CliError::usage(format!(
            "-s is {item_size}: items need a multiple of 8 bytes"
        )));
    }
    let rings = (producers.len() * consumers.len()) as u64;
    let is_shuffle = rings > 1;
    let ring_default = match (args.simulated, is_shuffle) {
        (false, false) => 64 << 20,
        (false, true) => 4 << 20,
        (true, _) => 4 << 20,
    };
    let ring_bytes = args.ring.unwrap_or(ring_default).max(2 * item_size);
    let items_default = (bytes_default / u64::from(item_size) / rings).clamp(1, 20_000_000);
    let batch_default = ((256 << 10) / item_size).clamp(1, 4096);
    let threads = match args.threads {
        Some(threads) => threads,
        None if config.driver_threads == 0 || args.simulated || is_shuffle => 1,
        None => 2,
    };
    Ok(FlowPlan {
        producers,
        consumers,
        item_size,
        ring_bytes,
        manner: Manner {
            batch: args.batch.unwrap_or(batch_default),
            touch: args.touch,
        },
        amount: Amount::of(args, Amount::Count(items_default))?,
        threads,
    })
}

type Ran = (FlowMeasured, Option<CaptureReport>);

fn run_plan(
    args: &PerfArgs,
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    capture: Option<&Path>,
) -> Result<Ran, CliError> {
    let mut progress = Progress::new(globals, super::name_of(args.test));
    if args.simulated {
        flow_simulated::run(config, plan, globals, capture, &mut progress)
    } else {
        flow::run(config, plan, globals, capture, &mut progress)
    }
}

/// Bytes that a default run moves.
fn bytes_default(args: &PerfArgs) -> u64 {
    if args.simulated { 256 << 20 } else { 2 << 30 }
}

/// The share of the payload rate that is possible on the consumers' links.
fn links(plan: &FlowPlan, config: &RackConfig, measured: &FlowMeasured) -> Option<Links> {
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
    let drops = measured.links.iter().map(drops).sum();
    Some(Links {
        utilisation,
        payload_rate,
        drops,
        queue_bytes_max,
    })
}

fn communication(plan: &FlowPlan, measured: &FlowMeasured) -> Option<Communication> {
    let of = |nodes: &[NodeId]| -> Option<f64> {
        let spent = nodes
            .iter()
            .map(|node| measured.cpus.get(usize::from(node.0)));
        spent
            .map(|cpu| cpu.map(|cpu| Duration::as_secs_f64(cpu.communication)))
            .sum()
    };
    Some(Communication {
        producers_s: of(&plan.producers)?,
        consumers_s: of(&plan.consumers)?,
    })
}

fn report(
    args: &PerfArgs,
    config: &RackConfig,
    plan: &FlowPlan,
    globals: &Globals,
    (measured, capture): Ran,
) -> FlowReport {
    let communication_cpu = communication(plan, &measured);
    // A flow costs its ends no communication at all; that is what zero-sided means.
    let is_zero_sided =
        communication_cpu.is_none_or(|cpu| cpu.producers_s + cpu.consumers_s == 0.0);
    FlowReport {
        setting: Setting::new(args.test, args.simulated, config),
        parameters: Parameters {
            producers: plan.producers.len(),
            consumers: plan.consumers.len(),
            item_size_bytes: plan.item_size,
            ring_bytes: plan.ring_bytes,
            batch_items: plan.manner.batch,
            touch: plan.manner.touch,
            threads: plan.threads,
            mtu_bytes: config.nic.mtu,
        },
        verified: measured.verified && is_zero_sided,
        interrupted: globals.interrupt.is_set(),
        moved: Moved::new(&measured, plan.item_size),
        memcpy_gigabytes_per_s: None,
        ratio_to_memcpy: None,
        link: links(plan, config, &measured),
        communication_cpu,
        one_to_one: None,
        ratio_to_linear: None,
        capture,
    }
}

fn finish(globals: &Globals, report: &FlowReport) -> Result<Verdict, CliError> {
    crate::output::print(globals, "perf", report)?;
    Ok(Verdict::of(report.verified))
}

/// Runs `flow_bw`: node 0 to the last node.
///
/// # Errors
/// If an argument makes no sense or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = rack_config(args, globals)?;
    let last = NodeId(config.node.len() as u16 - 1);
    let plan = plan(
        args,
        &config,
        (vec![NodeId(0)], vec![last]),
        bytes_default(args),
    )?;
    let copy = || {
        let (ring, size) = (plan.ring_bytes as usize, plan.item_size as usize);
        (!args.simulated).then(|| memcpy::bandwidth(ring, size) / 1e9)
    };
    let before = copy();
    let ran = run_plan(args, &config, &plan, globals, args.capture.as_deref())?;
    let after = copy();
    let mut report = report(args, &config, &plan, globals, ran);
    report.memcpy_gigabytes_per_s = before.zip(after).map(|(before, after)| before.max(after));
    let gigabytes = report.moved.gigabytes_per_s;
    report.ratio_to_memcpy = report
        .memcpy_gigabytes_per_s
        .map(|copy| ratio(gigabytes, copy));
    finish(globals, &report)
}

/// Runs `shuffle_bw`: every node to every node, and before it the 1:1 flow on the same rack.
///
/// # Errors
/// As for [`run`].
pub fn shuffle(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = rack_config(args, globals)?;
    let nodes: Vec<NodeId> = (0..config.node.len()).map(|at| NodeId(at as u16)).collect();
    let last = nodes[nodes.len() - 1];
    let single = plan(
        args,
        &config,
        (vec![NodeId(0)], vec![last]),
        bytes_default(args),
    )?;
    let count = nodes.len() as u64;
    let many = plan(
        args,
        &config,
        (nodes.clone(), nodes),
        bytes_default(args) * count,
    )?;
    let single = FlowPlan {
        ring_bytes: many.ring_bytes,
        threads: many.threads,
        ..single
    };
    let (alone, _) = run_plan(args, &config, &single, globals, None)?;
    let ran = run_plan(args, &config, &many, globals, args.capture.as_deref())?;
    let mut report = report(args, &config, &many, globals, ran);
    let one_to_one = Moved::new(&alone, single.item_size);
    report.verified &= alone.verified;
    report.ratio_to_linear = Some(ratio(
        report.moved.gigabytes_per_s,
        count as f64 * one_to_one.gigabytes_per_s,
    ));
    report.one_to_one = Some(one_to_one);
    finish(globals, &report)
}
