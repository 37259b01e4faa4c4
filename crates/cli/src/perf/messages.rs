//! READ, WRITE, SEND and atomics between two nodes through the forwarding switch.

use super::flow::SLICE;
use super::test_run::TestRun;
use crate::measure::{Amount, latency, per_second, rate};
use crate::outcome::CliError;
use crate::perf::initiator::{Initiator, Kind, Responder};
use crate::perf::pair::{Offer, Shape, Side};
use crate::perf::peer::Peer;
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
}

/// Two nodes with connected queue pairs and buffers.
struct Pair {
    /// The posting node.
    near: Side,
    /// The other one.
    far: Offer,
    at_far_end: FarEnd,
}

/// Where the other node is.
enum FarEnd {
    /// In this process.
    Here(Side),
    /// In another process of the running rack.
    There(Peer),
}

/// Runs one of the tests: latency tests send one message at a time, others as many as possible.
/// Checks that all data is in its place.
pub fn measure(test: &mut TestRun<'_>, kind: Kind, is_latency: bool) -> Result<Value, CliError> {
    let plan = MessagePlan::new(test, kind, is_latency)?;
    let (args, config, shape) = (test.args, &test.config, &plan.shape);
    plan.check(config)?;
    let mut rack = test.own_rack()?;
    let mut pair = plan.pair(test, &rack)?;
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
    let received = ends.iter().filter_map(End::source).map(|far| far.received);
    let found = match &mut pair.at_far_end {
        FarEnd::Here(far) => far.found(shape, &completed, received.sum()),
        FarEnd::There(peer) => peer.found(&completed)?,
    };
    let (messages, nanos) = near.measured();
    let is_right = match kind.is_atomic() {
        true => found.is_counted,
        false => found.digest == pair.near.digest(shape, &completed),
    };
    let has_arrived = kind != Kind::Send || found.received == completed.iter().sum::<u64>();
    test.verified = near.is_sound && messages > 0 && has_arrived && is_right;
    let [source, target] = [pair.near.node, pair.far.node];
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
    fn pair(&self, test: &TestRun<'_>, rack: &Rack) -> Result<Pair, CliError> {
        let (config, [near, far]) = (&test.config, test.ends());
        let attributes = PairAttributes {
            mtu: Mtu::from_bytes(config.nic.mtu).unwrap_or_default(),
            timeout: Duration::from_millis(if test.args.simulated { 1 } else { 67 }),
            rnr_retries: 7,
            ..PairAttributes::default()
        };
        let near = Side::open(rack, near, &self.shape)?;
        let (mut at_far_end, far) = match test.is_hosted() {
            true => {
                let (peer, offer) = Peer::with_buffers(test, self.kind, self.shape)?;
                (FarEnd::There(peer), offer)
            }
            false => {
                let side = Side::open(rack, far, &self.shape)?;
                side.fill(self.kind == Kind::Read, config.seed);
                let offer = side.offer();
                (FarEnd::Here(side), offer)
            }
        };
        let is_pushed = matches!(self.kind, Kind::Write | Kind::Send);
        near.fill(is_pushed, config.seed);
        near.connect(rack, &far, &attributes)?;
        if let FarEnd::There(peer) = &mut at_far_end {
            peer.begin()?;
        }
        Ok(Pair {
            near,
            far,
            at_far_end,
        })
    }

    /// The programs of the ends that are here.
    fn ends(&self, rack: &Rack, pair: &Pair) -> Result<Group<End<Responder, Initiator>>, CliError> {
        let mut ends = Group::new();
        if let (Kind::Send, FarEnd::Here(far)) = (self.kind, &pair.at_far_end) {
            let responder = rack.node_at(far.node).with(|nic| {
                let mut queue = Queue::Nic(nic);
                Responder::new(self.shape, far, &mut queue)
            })?;
            ends.push((far.node, End::Source(responder)));
        }
        let remote = (pair.far.address, pair.far.rkey);
        let amount = (self.amount, self.warm_up);
        let initiator = Initiator::new(self.kind, self.shape, &pair.near, remote, amount);
        ends.push((pair.near.node, End::Sink(initiator)));
        Ok(ends)
    }
}
