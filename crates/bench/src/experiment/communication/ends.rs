//! The ends of all ways, on a rack in virtual or in real time.

use super::shape::{Shape, Way};
use super::testbed::attributes;
use crate::baseline::raw_writer::{REQUESTS_PER_PACKAGE, RawTarget, RawWriter};
use crate::baseline::single_buffer::{NOTICE_BYTES, SEND_REQUESTS, SingleBuffer};
use crate::experiment::Result;
use crate::experiment::drive::OrFailed;
use rackweave_base::{Duration, Instant, KeyRng, NodeId, Qpn, Rng};
use rackweave_endpoint::messaging::{
    Agreed, KeyedAddress, MessagingConfig, NodeTerms, Prepared, Receiver, Role, Sender,
};
use rackweave_rack::{Address, Rack};
use rackweave_sim::testbed_communication::{COMPUTE, STORAGE};
use rackweave_verbs::{Access, CqId, Mtu, QpCapabilities, Region};

/// Both units' ends.
#[derive(Debug)]
pub enum Ends<C = (Sender, Receiver)> {
    /// A writer for each thread, and the compute unit's receive buffers.
    Raw(Vec<RawWriter>, Region),
    /// The storage unit's end and the compute unit's.
    Single(Box<[SingleBuffer; 2]>),
    /// A channel for each thread.
    Multi(Vec<C>),
}

/// Upper estimate of the bytes of memory that the regions of a shape take.
pub fn memory_of(shape: &Shape) -> u64 {
    2 * shape.receive_bytes() + (1 << 20)
}

impl Ends {
    /// Creates and connects the ends at `now`.
    pub fn new(rack: &Rack, shape: &Shape, now: Instant, seed: u64) -> Result<Self> {
        match shape.way {
            Way::Raw => raw(rack, shape),
            Way::Single => single(rack, shape.bytes),
            Way::Multi => multi(rack, shape, now, seed),
        }
    }
}

fn region(rack: &Rack, node: NodeId, bytes: u64) -> Result<Region> {
    let block = rack
        .memory()
        .allocate(bytes as usize)
        .or_failed("the buffers")?;
    let made = rack.node_at(node).with(|nic| {
        let pd = nic.create_pd();
        nic.register(pd, block, Access::all())
    });
    made.or_failed("the buffers")
}

fn end(rack: &Rack, node: NodeId, at: &Region, sends: u32) -> Result<(Qpn, CqId)> {
    rack.node_at(node).with(|nic| {
        let cq = nic.create_cq(sends).or_failed("a queue pair")?;
        let capabilities = QpCapabilities {
            send_max: sends,
            receive_max: 1,
            segments_max: 1,
        };
        let qpn = nic.create_qp(at.pd, cq, cq, capabilities);
        Ok((qpn.or_failed("a queue pair")?, cq))
    })
}

/// A connected queue pair at the storage unit and one at the compute unit.
fn pair(rack: &Rack, regions: [&Region; 2], sends: u32) -> Result<[(Qpn, CqId); 2]> {
    let near = end(rack, STORAGE, regions[0], sends)?;
    let far = end(rack, COMPUTE, regions[1], sends)?;
    rack.connect((STORAGE, near.0), (COMPUTE, far.0), &attributes())
        .or_failed("a queue pair")?;
    Ok([near, far])
}

fn keyed(region: &Region) -> KeyedAddress {
    KeyedAddress {
        address: region.address,
        rkey: region.rkey,
    }
}

fn raw(rack: &Rack, shape: &Shape) -> Result<Ends> {
    let (buffers, threads) = (u64::from(shape.buffers), u64::from(shape.threads));
    let far = region(rack, COMPUTE, RawTarget::bytes_of(buffers, shape.bytes))?;
    let own = buffers / threads;
    let mut writers = Vec::new();
    for thread in 0..threads {
        let bytes = RawWriter::region_bytes(shape.parts(), shape.bytes);
        let near = region(rack, STORAGE, bytes)?;
        let sends = shape.parts() as u32 * REQUESTS_PER_PACKAGE;
        let [end, _] = pair(rack, [&near, &far], sends)?;
        let target = RawTarget {
            at: keyed(&far),
            buffers,
            buffer_bytes: shape.bytes,
            own: (thread * own, own),
        };
        writers.push(RawWriter::new(near, shape.parts(), target, end));
    }
    Ok(Ends::Raw(writers, far))
}

fn single(rack: &Rack, half: u64) -> Result<Ends> {
    let bytes = 2 * half + NOTICE_BYTES as u64;
    let near = region(rack, STORAGE, bytes)?;
    let far = region(rack, COMPUTE, bytes)?;
    let [a, b] = pair(rack, [&near, &far], SEND_REQUESTS)?;
    let (to_far, to_near) = (keyed(&far), keyed(&near));
    let half = half as usize;
    let ends = [
        SingleBuffer::new(near, half, a, to_far),
        SingleBuffer::new(far, half, b, to_near),
    ];
    Ok(Ends::Single(Box::new(ends)))
}

/// A unit's connection parameters: data flows from the storage unit to the compute unit.
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

fn multi(rack: &Rack, shape: &Shape, now: Instant, seed: u64) -> Result<Ends> {
    let units = [(STORAGE, Role::Storage), (COMPUTE, Role::Compute)];
    let mut rng = KeyRng::seeded(Rng::new(seed).fork("messaging"));
    let terms = units.map(|(node, role)| {
        let address = Address::of_node(node);
        let config = messaging(role, shape);
        NodeTerms::new(&config, 0, address.ip, address.mac, Mtu::B4096)
    });
    let mut prepared = Vec::new();
    for (at, (node, role)) in units.into_iter().enumerate() {
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
    for (at, (one, (node, _))) in prepared.into_iter().zip(units).enumerate() {
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
    Ok(Ends::Multi(pairs.collect()))
}
