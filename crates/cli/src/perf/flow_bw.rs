//! The tests `flow_bw`, `shuffle_bw`, `balance_bw` and `replicate_bw`.

use super::amount::Amount;
use super::args::PerfArgs;
use super::flow::{self, FlowMeasured, FlowPlan};
use super::flow_hosted;
use super::report::{self, per_second, ratio};
use crate::capture::CaptureReport;
use crate::globals::Globals;
use crate::items::Manner;
use crate::memcpy;
use crate::mode::Mode;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use crate::report::without_nulls;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::FlowShape;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_sim::LinkModel;
use rackweave_sim::world::LinkReport;
use serde_json::{Value, json};
use std::path::Path;

/// Ethernet, IPv4, UDP and BTH: what stands before the payload of a fragment in the middle.
const HEADER_BYTES: usize = 14 + 20 + 8 + 12;

/// Rounds of a flow and what it is compared with. In the first, memory is touched that the system
/// has yet to give.
const ROUNDS: usize = 3;

/// Consumers whose rings of 64 MiB fit the memory that a rack may take by default.
const RINGS_LARGE: usize = 8;

/// The ICRC behind it.
const CHECK_BYTES: usize = 4;

/// The rack, with the nodes that a shuffle asks for.
fn rack_config(args: &PerfArgs, mode: &Mode, globals: &Globals) -> Result<RackConfig, CliError> {
    let mut config = mode.config(&args.rack, globals)?;
    config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
    if let Some(nodes) = args.nodes {
        config.node = (0..nodes)
            .map(|at| NodeConfig::new(format!("node{at}"), Role::Compute))
            .collect();
    }
    config.check()?;
    Ok(config)
}

/// What a flow between these nodes asks for, with defaults in place.
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
        amount: Amount::of(args, Amount::Count(items_default))?,
        threads,
    })
}

type Ran = (FlowMeasured, Option<CaptureReport>);

/// A test, where it runs, and the rack's configuration.
struct Subject<'a> {
    args: &'a PerfArgs,
    mode: Mode,
    config: RackConfig,
    globals: &'a Globals,
}

/// Items per second from the first taken to the last, which is what a hosted rack can tell: its
/// producers and consumers have clocks of their own.
fn rate(measured: &FlowMeasured) -> f64 {
    per_second(measured.items, measured.nanos_taking)
}

/// The faster of two rounds, verified if both are.
fn better(one: FlowMeasured, other: FlowMeasured) -> FlowMeasured {
    let verified = one.verified && other.verified;
    let better = if rate(&one) >= rate(&other) {
        one
    } else {
        other
    };
    FlowMeasured { verified, ..better }
}

impl<'a> Subject<'a> {
    fn new(args: &'a PerfArgs, globals: &'a Globals) -> Result<Self, CliError> {
        let mode = Mode::of(args.simulated, &args.rack, globals)?;
        args.check_hosted(&mode)?;
        let config = rack_config(args, &mode, globals)?;
        Ok(Self {
            args,
            mode,
            config,
            globals,
        })
    }

    fn run(&self, plan: &FlowPlan, capture: Option<&Path>) -> Result<Ran, CliError> {
        let (config, globals) = (&self.config, self.globals);
        let mut progress = Progress::new(globals, self.args.test.name);
        if matches!(self.mode, Mode::Hosted(_)) {
            let measured = flow_hosted::run(config, plan, globals, &mut progress)?;
            return Ok((measured, None));
        }
        let is_simulated = self.args.simulated;
        flow::run(config, is_simulated, plan, globals, capture, &mut progress)
    }

    /// The flow on a hosted rack and on an embedded one, in turn: the best round of each. Rounds of
    /// a given time are long enough to be one.
    fn beside(&self, plan: &FlowPlan) -> Result<(FlowMeasured, Option<FlowMeasured>), CliError> {
        let rounds = match plan.amount {
            Amount::Count(_) => ROUNDS,
            Amount::Nanos(_) => 1,
        };
        let (mut hosted, mut embedded) = (self.run(plan, None)?.0, None);
        for round in 0..rounds {
            if round > 0 {
                hosted = better(hosted, self.run(plan, None)?.0);
            }
            if self.globals.interrupt.is_set() {
                break;
            }
            let mut progress = Progress::new(self.globals, "the same on an embedded rack");
            let (config, globals) = (&self.config, self.globals);
            let (measured, _) = flow::run(config, false, plan, globals, None, &mut progress)?;
            embedded = Some(match embedded {
                Some(best) => better(best, measured),
                None => measured,
            });
        }
        Ok((hosted, embedded))
    }

    /// How often a flow runs, and memcpy beside it. One round is enough where nothing disturbs it
    /// or the user says how long.
    fn rounds(&self, plan: &FlowPlan) -> usize {
        let is_alone = self.args.simulated || self.args.capture.is_some();
        match plan.amount {
            Amount::Count(_) if !is_alone => ROUNDS,
            _ => 1,
        }
    }

    /// What this machine copies as the flow does, in gigabytes per second; nothing if time is
    /// virtual.
    fn memcpy(&self, plan: &FlowPlan) -> Option<f64> {
        let (ring, size) = (plan.ring_bytes as usize, plan.item_size as usize);
        (!self.args.simulated).then(|| memcpy::bandwidth(ring, size) / 1e9)
    }

    /// Whether all is as it should be, and what there is to say. `more` is what the test adds.
    fn finish(
        &self,
        plan: &FlowPlan,
        (measured, capture): Ran,
        more: Value,
    ) -> Result<Verdict, CliError> {
        let cpu = communication(plan, &measured);
        // A flow costs its ends no communication at all; that is what zero-sided means.
        let is_zero_sided = cpu.is_none_or(|(producers, consumers)| producers + consumers == 0.0);
        let mut found = json!({
            "parameters": {
                "shape": plan.shape.name(),
                "producers": plan.producers.len(),
                "consumers": plan.consumers.len(),
                "item_size_bytes": plan.item_size,
                "ring_bytes": plan.ring_bytes,
                "batch_items": plan.manner.batch,
                "touch": plan.manner.touch,
                "threads": plan.threads,
                "mtu_bytes": self.config.nic.mtu,
            },
        });
        let parts = [
            moved(&measured, plan.item_size),
            more,
            json!({
                "link": links(plan, &self.config, &measured),
                "communication_cpu": cpu.map(|(producers_s, consumers_s)| {
                    json!({"producers_s": producers_s, "consumers_s": consumers_s})
                }),
                "capture": capture,
            }),
        ];
        if let Value::Object(found) = &mut found {
            for part in parts {
                found.extend(part.as_object().cloned().unwrap_or_default());
            }
        }
        let verified = measured.verified && is_zero_sided;
        let on = (self.mode.name(), &self.config);
        report::finish(
            self.globals,
            self.args.test,
            on,
            verified,
            &without_nulls(found),
        )
    }
}

/// What flowed, and how fast.
fn moved(measured: &FlowMeasured, item_size: u32) -> Value {
    let bytes = measured.items * u64::from(item_size);
    json!({
        "items": measured.items,
        "bytes": bytes,
        "elapsed_s": measured.nanos as f64 / 1e9,
        "items_per_s": per_second(measured.items, measured.nanos),
        "gigabytes_per_s": gigabytes(measured, item_size),
    })
}

/// Gigabytes per second.
fn gigabytes(measured: &FlowMeasured, item_size: u32) -> f64 {
    per_second(measured.items * u64::from(item_size), measured.nanos) / 1e9
}

/// Bytes that a default run moves.
fn bytes_default(args: &PerfArgs) -> u64 {
    if args.simulated { 256 << 20 } else { 2 << 30 }
}

/// The share of the payload rate that is possible on the consumers' links.
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
/// If an argument makes no sense or the rack cannot do it.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let subject = Subject::new(args, globals)?;
    let last = NodeId(subject.config.node.len() as u16 - 1);
    let ends = (vec![NodeId(0)], vec![last]);
    let plan = plan(
        args,
        &subject.config,
        FlowShape::Shuffle,
        ends,
        bytes_default(args),
    )?;
    let before = subject.memcpy(&plan);
    let (mut ran, embedded) = if matches!(subject.mode, Mode::Hosted(_)) {
        let (hosted, embedded) = subject.beside(&plan)?;
        ((hosted, None), embedded)
    } else {
        (subject.run(&plan, args.capture.as_deref())?, None)
    };
    let item_size = plan.item_size;
    let memcpy = before.zip(subject.memcpy(&plan));
    let memcpy = memcpy.map(|(before, after)| before.max(after));
    let more = json!({
        "memcpy_gigabytes_per_s": memcpy,
        "ratio_to_memcpy": memcpy.map(|memcpy| ratio(gigabytes(&ran.0, item_size), memcpy)),
        "embedded": embedded.as_ref().map(|embedded| moved(embedded, item_size)),
        "ratio_to_embedded": embedded.as_ref().map(|it| ratio(rate(&ran.0), rate(it))),
    });
    ran.0.verified &= embedded.is_none_or(|embedded| embedded.verified);
    subject.finish(&plan, ran, more)
}

/// Runs `shuffle_bw`: every node to every node, and before it the 1:1 flow on the same rack.
///
/// # Errors
/// As for [`run`].
pub fn shuffle(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let subject = Subject::new(args, globals)?;
    let config = &subject.config;
    let nodes: Vec<NodeId> = (0..config.node.len()).map(|at| NodeId(at as u16)).collect();
    let last = nodes[nodes.len() - 1];
    let ends = (vec![NodeId(0)], vec![last]);
    let shape = FlowShape::Shuffle;
    let single = plan(args, config, shape, ends, bytes_default(args))?;
    let count = nodes.len() as u64;
    let ends = (nodes.clone(), nodes);
    let many = plan(args, config, shape, ends, bytes_default(args) * count)?;
    let single = FlowPlan {
        ring_bytes: many.ring_bytes,
        threads: many.threads,
        ..single
    };
    let (alone, _) = subject.run(&single, None)?;
    let mut ran = subject.run(&many, args.capture.as_deref())?;
    ran.0.verified &= alone.verified;
    let linear = count as f64 * gigabytes(&alone, single.item_size);
    let more = json!({
        "one_to_one": moved(&alone, single.item_size),
        "ratio_to_linear": ratio(gigabytes(&ran.0, many.item_size), linear),
    });
    subject.finish(&many, ran, more)
}

/// Runs `balance_bw` or `replicate_bw`: node 0 to some of the others, beside memcpy. All copies of
/// an item count, so what is compared with memcpy is what the machine moved, and the ratio is that
/// of one consumer to its share of memcpy as well. Both are the best of some rounds in turn.
///
/// # Errors
/// As for [`run`].
pub fn fan_out(args: &PerfArgs, globals: &Globals, shape: FlowShape) -> Result<Verdict, CliError> {
    let subject = Subject::new(args, globals)?;
    if matches!(subject.mode, Mode::Hosted(_)) {
        return Err(CliError::usage(format!(
            "{} needs a rack of its own: the flows of hosted racks are shuffles so far",
            args.test.name
        )));
    }
    let count = args.consumers.unwrap_or(2);
    // Every node but the producer's, from the last one down; then again.
    let last = subject.config.node.len() as u16 - 1;
    let place = |at: u16| NodeId(last - at % last.max(1));
    let consumers: Vec<NodeId> = (0..count).map(place).collect();
    let ends = (vec![NodeId(0)], consumers);
    let plan = plan(args, &subject.config, shape, ends, bytes_default(args))?;
    let mut copy = subject.memcpy(&plan);
    let mut best: Option<Ran> = None;
    for _ in 0..subject.rounds(&plan) {
        let (measured, capture) = subject.run(&plan, args.capture.as_deref())?;
        let measured = match best {
            Some((best, _)) => better(best, measured),
            None => measured,
        };
        best = Some((measured, capture));
        copy = copy
            .zip(subject.memcpy(&plan))
            .map(|(one, other)| one.max(other));
        if globals.interrupt.is_set() {
            break;
        }
    }
    let ran = best.expect("there is a round at least");
    let (share, all) = (f64::from(count), gigabytes(&ran.0, plan.item_size));
    let more = json!({
        "memcpy_gigabytes_per_s": copy,
        "ratio_to_memcpy": copy.map(|copy| ratio(all, copy)),
        "consumer_gigabytes_per_s": all / share,
        "memcpy_share_gigabytes_per_s": copy.map(|copy| copy / share),
    });
    subject.finish(&plan, ran, more)
}
