//! READ, WRITE, SEND and atomics between two nodes through the forwarding switch.

use super::flow::SLICE;
use super::test_run::TestRun;
use crate::measure::{Amount, latency, per_second, rate};
use crate::outcome::CliError;
use crate::perf::initiator::{Initiator, Kind, Responder};
use crate::perf::pair::{Pair, Shape};
use crate::programs::{self, End, Group, Queue, Watch, Wish};
use crate::report::{joined, without_nulls};
use rackweave_base::{Duration, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::{Rack, RackConfig};
use rackweave_verbs::Mtu;
use serde_json::{Value, json};

/// The parameters of a test, with defaults applied.
struct MessagePlan {
    /// What to post.
    kind: Kind,
    /// Sizes and numbers.
    shape: Shape,
    /// How much to post.
    amount: Amount,
    /// How long to post before that, in nanoseconds.
    warm_up: u64,
    /// The posting node, and the other node.
    nodes: [NodeId; 2],
}

/// Runs one of the tests: latency tests send one message at a time, others as many as possible.
/// Checks that all data is in its place.
pub fn measure(test: &mut TestRun<'_>, kind: Kind, is_latency: bool) -> Result<Value, CliError> {
    let plan = MessagePlan::new(test, kind, is_latency)?;
    let (args, config, shape) = (test.args, &test.config, &plan.shape);
    plan.check(config)?;
    let mut rack = test.own_rack()?;
    let pair = plan.pair(&rack, config, args.simulated)?;
    let recording = rack.record(args.capture.as_deref())?;
    let ends = plan.ends(&rack, &pair)?;
    let queue_pairs = u64::from(shape.queue_pairs);
    let progress = &mut test.progress;
    let mut set = |completed, now: u64| {
        if let Some(now) = now.checked_sub(plan.warm_up) {
            progress.set(|| plan.amount.fraction(completed / queue_pairs, now));
        }
    };
    let mut watch = Watch::new(test.globals, Wish::Finish, SLICE, &mut set);
    let (ends, ran) = programs::run(&mut rack, vec![ends], &mut watch);
    let capture = rack.recorded(recording)?;
    ran?;
    let near = ends.iter().find_map(End::sink).expect("one end posts");
    let completed = near.completed();
    let sent: u64 = completed.iter().sum();
    let mut responders = ends.iter().filter_map(End::source);
    let have_arrived = responders.all(|far| far.received == sent);
    let (messages, nanos) = near.measured();
    let is_right = match kind.is_atomic() {
        true => pair.far.words_are(shape, &completed),
        false => pair.is_alike(shape, &completed),
    };
    test.verified = near.is_sound && messages > 0 && have_arrived && is_right;
    let [source, target] = plan.nodes;
    let receiving = if kind == Kind::Read { source } else { target };
    let link = rack
        .simulated()
        .and_then(|rack| rack.link_report(receiving));
    let picos = nanos.max(1) as f64 * 1e3;
    let name = |node: NodeId| &config.node[usize::from(node.0)].name;
    let bytes = messages * u64::from(shape.size);
    let gigabytes_per_s = per_second(bytes, nanos) / 1e9;
    let parameters = json!({
        "parameters": {
            "size_bytes": shape.size,
            "queue_pairs": shape.queue_pairs,
            "tx_depth": shape.depth,
            "warm_up_s": plan.warm_up as f64 / 1e9,
            "mtu_bytes": config.nic.mtu,
            "source": name(source),
            "target": name(target),
        },
    });
    let more = json!({
        "bytes": bytes,
        "gigabytes_per_s": gigabytes_per_s,
        "gigabits_per_s": gigabytes_per_s * 8.0,
        "latency_ns": latency(&near.histogram),
        // Of the link to the node that received the data.
        "link_utilisation": link.map(|it| it.from_switch.link.busy_picos as f64 / picos),
        "capture": capture,
    });
    let rate = rate("messages", messages, nanos);
    Ok(without_nulls(joined([parameters, rate, more])))
}

impl MessagePlan {
    fn new(test: &TestRun<'_>, kind: Kind, is_latency: bool) -> Result<Self, CliError> {
        let args = test.args;
        let (size, depth, count) = match is_latency {
            true => (2, 1, 1000),
            false => (65_536, args.tx_depth.unwrap_or(128), 5000),
        };
        Ok(Self {
            kind,
            shape: Shape {
                size: match kind.is_atomic() {
                    true => 8,
                    false => args.size.unwrap_or(size),
                },
                queue_pairs: args.queue_pairs.unwrap_or(1),
                depth,
                receives: match kind {
                    Kind::Send => depth.saturating_mul(2).clamp(16, 4096).max(depth),
                    _ => 0,
                },
            },
            amount: Amount::of(args.iterations, args.duration, Amount::Count(count))?,
            // Within two heartbeats two nodes that share memory have a direct cable.
            warm_up: match test.is_hosted() {
                true => 2 * test.config.hosted().heartbeat().as_nanos() as u64,
                false => 0,
            },
            nodes: test.ends(),
        })
    }

    /// Refuses queues that the NICs of this configuration cannot create.
    fn check(&self, config: &RackConfig) -> Result<(), CliError> {
        let Shape {
            depth,
            queue_pairs,
            receives,
            ..
        } = self.shape;
        let entries = config.nic.queue_entries;
        if depth.max(receives) > entries {
            return Err(CliError::usage(format!(
                "-t is {depth}: a queue holds {entries} entries at most; lower -t or raise \
                 nic.queue_entries"
            )));
        }
        let (needed, most) = (
            queue_pairs * depth.max(receives),
            config.nic.completion_entries,
        );
        if needed > most {
            return Err(CliError::usage(format!(
                "-q {queue_pairs} with -t {depth} needs {needed} completions at a time, {most} are \
                 possible; lower -q or -t, or raise nic.completion_entries"
            )));
        }
        Ok(())
    }

    /// Sets up the pair of nodes and fills the buffers.
    fn pair(&self, rack: &Rack, config: &RackConfig, simulated: bool) -> Result<Pair, CliError> {
        let attributes = PairAttributes {
            mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
            timeout: Duration::from_millis(if simulated { 1 } else { 67 }),
            rnr_retries: 7,
            ..PairAttributes::default()
        };
        let pair = Pair::new(rack, &self.shape, self.nodes, &attributes)?;
        let is_pushed = matches!(self.kind, Kind::Write | Kind::Send);
        pair.near.fill(is_pushed, config.seed);
        pair.far.fill(self.kind == Kind::Read, config.seed);
        Ok(pair)
    }

    /// The programs of both ends.
    fn ends(&self, rack: &Rack, pair: &Pair) -> Result<Group<End<Responder, Initiator>>, CliError> {
        let mut ends = Group::new();
        if self.kind == Kind::Send {
            let responder = rack.node_at(pair.far.node).with(|nic| {
                let mut queue = Queue::Nic(nic);
                Responder::new(self.shape, &pair.far, &mut queue)
            })?;
            ends.push((pair.far.node, End::Source(responder)));
        }
        let remote = (pair.far.region.address, pair.far.region.rkey);
        let amount = (self.amount, self.warm_up);
        let initiator = Initiator::new(self.kind, self.shape, &pair.near, remote, amount);
        ends.push((pair.near.node, End::Sink(initiator)));
        Ok(ends)
    }
}
