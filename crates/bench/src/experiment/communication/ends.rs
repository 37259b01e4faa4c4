//! The testbed as a simulated rack, the costs of its cores, and the ends of all ways, on a rack in
//! virtual or in real time.

use super::sweep::{Shape, Way};
use super::ways::{Inlet, Outlet};
use crate::baseline::raw_writer::{Buffers, REQUESTS_PER_PACKAGE, RawWriter};
use crate::baseline::single_buffer::{NOTICE_BYTES, SEND_REQUESTS, SingleBuffer};
use crate::baseline::verbs::{NodeEnd, connect_with};
use crate::harness::metered::Toll;
use crate::harness::prelude::*;
use rackweave_base::KeyRng;
use rackweave_endpoint::messaging::{
    Agreed, KeyedAddress, MessagingConfig, NodeTerms, Prepared, Role,
};
use rackweave_rack::Address;
use rackweave_rack::config::Role as NodeRole;
use rackweave_sim::testbed_communication::{
    self as testbed, COMPUTE, CopyModel, MemoryArea, STORAGE,
};
use rackweave_verbs::{Access, Mtu};

/// A thread's end at the storage node, and the one at the compute node, if the data is consumed.
pub type Ends = (Box<dyn Outlet>, Option<Box<dyn Inlet>>);

/// Upper estimate of the bytes of memory that the regions of a shape take.
pub fn memory_of(shape: &Shape) -> u64 {
    2 * shape.receive_bytes() + (1 << 20)
}

/// Creates and connects the ends of all threads at `now`.
pub fn connect(rack: &Rack, shape: &Shape, now: Instant, seed: u64) -> Result<Vec<Ends>> {
    match shape.way {
        Way::Raw => raw(rack, shape),
        Way::Single => single(rack, shape.bytes),
        Way::Multi => multi(rack, shape, now, seed),
    }
}

fn keyed(region: &Region) -> KeyedAddress {
    KeyedAddress {
        address: region.address,
        rkey: region.rkey,
    }
}

fn raw(rack: &Rack, shape: &Shape) -> Result<Vec<Ends>> {
    let (buffers, threads) = (u64::from(shape.buffers), u64::from(shape.threads));
    let sends = shape.parts() as u32 * REQUESTS_PER_PACKAGE;
    let end = |node, count| {
        let bytes = Buffers::region_bytes(count, shape.bytes);
        NodeEnd::new(rack, node, bytes, sends)
    };
    let in_region = |end: &NodeEnd, count| Buffers {
        region: end.region.clone(),
        count,
        bytes: shape.bytes,
    };
    let far = end(COMPUTE, buffers)?;
    let own = buffers / threads;
    let mut ends: Vec<Ends> = Vec::new();
    for thread in 0..threads {
        let near = end(STORAGE, shape.parts())?;
        let (qpn, _) = connect_with(rack, &near, &far, (sends, 1), &attributes())?;
        let (parts, target) = (in_region(&near, shape.parts()), in_region(&far, buffers));
        let writer = RawWriter::new(parts, target, (thread * own, own), (qpn, near.cq));
        ends.push((Box::new(writer), None));
    }
    Ok(ends)
}

fn single(rack: &Rack, half: u64) -> Result<Vec<Ends>> {
    let half = half as usize;
    let end = |node| NodeEnd::new(rack, node, 2 * half + NOTICE_BYTES, SEND_REQUESTS);
    let (near, far) = (end(STORAGE)?, end(COMPUTE)?);
    let (a, b) = connect_with(rack, &near, &far, (SEND_REQUESTS, 1), &attributes())?;
    let (to_far, to_near) = (keyed(&far.region), keyed(&near.region));
    let near = SingleBuffer::new(near.region, half, (a, near.cq), to_far);
    let far = SingleBuffer::new(far.region, half, (b, far.cq), to_near);
    Ok(vec![(Box::new(near), Some(Box::new(far)))])
}

/// A node's connection parameters: data flows from the storage node to the compute node.
fn messaging(role: Role, shape: &Shape) -> MessagingConfig {
    let common = MessagingConfig {
        message_max: 16 << 30,
        channels_down: shape.threads,
        keepalive: Duration::ZERO,
        timeout: attributes().timeout,
        ..MessagingConfig::default()
    };
    match role {
        Role::Storage => MessagingConfig {
            receive_buffers: 1,
            receive_bytes: 1 << 10,
            send_bytes: match shape.threads {
                1 => 0,
                threads => u64::from(threads) * shape.bytes,
            },
            ..common
        },
        Role::Compute => MessagingConfig {
            receive_buffers: shape.buffers,
            receive_bytes: shape.bytes as u32,
            ..common
        },
    }
}

fn multi(rack: &Rack, shape: &Shape, now: Instant, seed: u64) -> Result<Vec<Ends>> {
    let nodes = [(STORAGE, Role::Storage), (COMPUTE, Role::Compute)];
    let mut rng = KeyRng::seeded(Rng::new(seed).fork("messaging"));
    let terms = nodes.map(|(node, role)| {
        let address = Address::of_node(node);
        let config = messaging(role, shape);
        NodeTerms::new(&config, 0, address.ip, address.mac, Mtu::B4096)
    });
    let mut prepared = Vec::new();
    for (at, (node, role)) in nodes.into_iter().enumerate() {
        let config = messaging(role, shape);
        config.check(role).or_failed("the configuration")?;
        let agreed = Agreed::new(role, terms[at], terms[1 - at]).or_failed("the terms")?;
        let memory = rack.memory();
        let made = rack
            .node_at(node)
            .with(|nic| Prepared::new(nic, memory, &config, &agreed, &mut rng));
        prepared.push(made.or_failed("the connection")?);
    }
    let keys: Vec<_> = prepared.iter().map(Prepared::keys).collect();
    let mut connections = Vec::new();
    for (at, (one, (node, _))) in prepared.into_iter().zip(nodes).enumerate() {
        let made = rack
            .node_at(node)
            .with(|nic| one.connect(now, nic, &keys[1 - at]));
        connections.push(made.or_failed("the connection")?);
    }
    let receivers = connections.pop().map(|compute| compute.receivers);
    let senders = connections.pop().map(|storage| storage.senders);
    let pairs = senders
        .into_iter()
        .flatten()
        .zip(receivers.into_iter().flatten());
    let boxed = |(sender, receiver)| -> Ends { (Box::new(sender), Some(Box::new(receiver))) };
    Ok(pairs.map(boxed).collect())
}

/// Acknowledgement timeout of a NIC: far longer than the longest WRITE takes, and nothing is lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration of two nodes with `memory` bytes for regions.
pub fn config(seed: u64, memory: u64) -> RackConfig {
    let mut config = RackConfig {
        seed,
        memory_limit: memory + (64 << 20),
        node: vec![
            NodeConfig::new("storage", NodeRole::Storage),
            NodeConfig::new("compute", NodeRole::Compute),
        ],
        ..RackConfig::default()
    };
    config.switch.consumer_rings = 1;
    config.switch.producer_rings = 1;
    config.nic.mtu = 4096;
    config
}

pub fn rack(seed: u64, memory: u64) -> Result<Testbed> {
    Testbed::with_models(&config(seed, memory), |world| {
        world.nodes = testbed::nodes();
        world.switch = testbed::switch();
    })
}

/// Attributes of the baselines' queue pairs.
fn attributes() -> PairAttributes {
    PairAttributes {
        access: Access::REMOTE_WRITE,
        timeout: TIMEOUT,
        ..PairAttributes::default()
    }
}

/// The costs of a node's core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Core {
    cpu: CpuModel,
    copies: CopyModel,
}

impl Core {
    pub fn new(node: NodeId) -> Self {
        Self {
            cpu: testbed::cpu(node),
            copies: CopyModel::new(node),
        }
    }

    /// Time to copy from memory into an area of `area` bytes that is reused.
    pub fn copy_in(&self, bytes: u64, area: u64) -> Duration {
        self.copies
            .copy(bytes, MemoryArea::Memory, MemoryArea::Reused(area))
    }

    /// Time to copy to memory out of an area of `area` bytes that a device refills.
    pub fn copy_out(&self, bytes: u64, area: u64) -> Duration {
        let from = MemoryArea::FromDevice(area);
        self.copies.copy(bytes, from, MemoryArea::Memory)
    }

    /// Time to clear what has just been copied out.
    pub fn clear(&self, bytes: u64) -> Duration {
        self.copies.set(bytes, MemoryArea::Reused(bytes))
    }

    /// Time to poll words that have not changed.
    pub fn look(&self, words: u64) -> Duration {
        self.cpu.cycles(devices::HOST_UNCHANGED_CYCLES * words)
    }

    /// Time to read a word that a NIC has written.
    pub fn news(&self) -> Duration {
        self.cpu.cache_latency
    }
}

impl Toll for Core {
    fn posts(&self, requests: usize) -> Duration {
        let requests = devices::WORK_REQUEST_CYCLES * requests as u64;
        self.cpu.cycles(requests + devices::DOORBELL_CYCLES)
    }

    fn receives(&self) -> Duration {
        self.cpu.cycles(devices::RECEIVE_REQUEST_CYCLES)
    }

    fn takes(&self, _completion: &Completion) -> Duration {
        self.cpu.poll_cost
    }
}
