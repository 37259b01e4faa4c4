//! For tests of racks with several switches: every node READs from, WRITEs to and SENDs to every
//! other, and every byte is checked.

use crate::Rack;
use rackweave_base::{Block, Duration, NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::{
    Access, Completion, CompletionStatus, CqId, Operation, Progress, QpCapabilities,
    ReceiveRequest, Region, WorkRequest,
};

/// Bytes of a message: more than one packet.
const LEN: usize = 5000;

/// Time limit of a round, by the rack's clock.
const LIMIT: Duration = Duration::from_secs(60);

/// The parts of a node's region, for each peer.
#[derive(Clone, Copy)]
enum Part {
    Source,
    Read,
    Written,
    Sent,
}

struct End {
    region: Region,
    cq: CqId,
    /// By peer; `None` for the node itself.
    qps: Vec<Option<Qpn>>,
}

/// All nodes, connected with each other.
pub(crate) struct Mesh {
    ends: Vec<End>,
    /// Distinguishes rounds.
    round: u8,
}

fn offset(part: Part, peer: usize) -> usize {
    (4 * peer + part as usize) * LEN
}

/// The bytes that `of` has for `whom`.
fn pattern(of: usize, whom: usize, round: u8) -> Vec<u8> {
    let byte = |at: usize| (at * 7 + of * 31 + whom * 57) as u8 ^ round;
    (0..LEN).map(byte).collect()
}

fn bytes(block: &Block, at: usize) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    block.read(at, &mut bytes);
    bytes
}

impl Mesh {
    pub fn new(rack: &Rack, nodes: usize, attributes: &PairAttributes) -> Self {
        let mut ends: Vec<End> = (0..nodes).map(|at| end(rack, at, nodes)).collect();
        for a in 0..nodes {
            for b in a + 1..nodes {
                let made = [a, b].map(|at| create_qp(rack, at, &ends[at]));
                let [near, far] = made;
                let pair = ((NodeId(a as u16), near), (NodeId(b as u16), far));
                rack.connect(pair.0, pair.1, attributes).unwrap();
                ends[a].qps[b] = Some(near);
                ends[b].qps[a] = Some(far);
            }
        }
        Self { ends, round: 0 }
    }

    /// Posts a READ, a WRITE and a SEND from every node to every other.
    pub fn post(&mut self, rack: &Rack) {
        self.round = self.round.wrapping_add(1);
        for (at, peer, qpn) in self.pairs() {
            let (near, far) = (&self.ends[at].region, &self.ends[peer].region);
            let source = pattern(at, peer, self.round);
            near.block.write(offset(Part::Source, peer), &source);
            let slot = near.segment(offset(Part::Sent, peer) as u64, LEN as u32);
            let request = ReceiveRequest::new(0, &[slot]);
            rack.node_at(NodeId(at as u16))
                .with(|nic| nic.post_receive(qpn, request))
                .unwrap();
            assert_eq!(near.block.len(), far.block.len());
        }
        for (at, peer, qpn) in self.pairs() {
            let (near, far) = (&self.ends[at].region, &self.ends[peer].region);
            let segment = |part| near.segment(offset(part, peer) as u64, LEN as u32);
            let address = |part| far.address + offset(part, at) as u64;
            let rkey = far.rkey;
            let requests = [
                (
                    Operation::Read {
                        address: address(Part::Source),
                        rkey,
                    },
                    Part::Read,
                ),
                (
                    Operation::Write {
                        address: address(Part::Written),
                        rkey,
                        immediate: None,
                    },
                    Part::Source,
                ),
                (Operation::Send { immediate: None }, Part::Source),
            ];
            rack.node_at(NodeId(at as u16)).with(|nic| {
                for (operation, part) in requests {
                    let request = WorkRequest::new(1, operation, &[segment(part)]);
                    nic.post_send(qpn, request).unwrap();
                }
            });
        }
    }

    /// Waits until everything that was posted is complete, and checks every byte.
    pub fn finish(&mut self, rack: &Rack) {
        let peers = self.ends.len() - 1;
        let limit = rack.now() + LIMIT;
        for at in 0..self.ends.len() {
            let node = rack.node_at(NodeId(at as u16));
            let mut done: Vec<Completion> = Vec::new();
            // Three operations of its own, and the received message, for each peer.
            while done.len() < 4 * peers {
                node.poll(|nic| nic.poll_cq(self.ends[at].cq, 64, &mut done));
                let bad = done.iter().find(|c| c.status != CompletionStatus::Success);
                assert!(bad.is_none(), "node {at}: {bad:?}");
                if done.len() < 4 * peers {
                    assert!(rack.now() < limit, "node {at} waits too long");
                    if !node.drive() {
                        node.relax(1000);
                    }
                }
            }
        }
        for (at, peer, _) in self.pairs() {
            let block = &self.ends[at].region.block;
            let expected = pattern(peer, at, self.round);
            for part in [Part::Read, Part::Written, Part::Sent] {
                let found = bytes(block, offset(part, peer));
                assert!(found == expected, "{peer} to {at}, part {}", part as usize);
            }
        }
    }

    pub fn round(&mut self, rack: &Rack) {
        self.post(rack);
        self.finish(rack);
    }

    fn pairs(&self) -> Vec<(usize, usize, Qpn)> {
        let of = |(at, end): (usize, &End)| {
            let qps = end.qps.iter().enumerate();
            let qps = qps.filter_map(move |(peer, qpn)| Some((at, peer, (*qpn)?)));
            qps.collect::<Vec<_>>()
        };
        self.ends.iter().enumerate().flat_map(of).collect()
    }
}

fn end(rack: &Rack, at: usize, nodes: usize) -> End {
    let block = rack.memory().allocate(4 * nodes * LEN).unwrap();
    rack.node_at(NodeId(at as u16)).with(|nic| {
        let pd = nic.create_pd();
        let region = nic.register(pd, block, Access::all()).unwrap();
        let cq = nic.create_cq(8 * nodes as u32).unwrap();
        let qps = vec![None; nodes];
        End { region, cq, qps }
    })
}

fn create_qp(rack: &Rack, at: usize, end: &End) -> Qpn {
    let (pd, cq) = (end.region.pd, end.cq);
    rack.node_at(NodeId(at as u16))
        .with(|nic| nic.create_qp(pd, cq, cq, QpCapabilities::default()))
        .unwrap()
}

/// A configuration with this topology and `nodes` nodes, alternating between compute and storage.
pub(crate) fn config(topology: crate::config::TopologyName, nodes: usize) -> crate::RackConfig {
    use crate::config::{NodeConfig, Role};
    let mut config = crate::RackConfig {
        memory_limit: 64 << 20,
        driver_threads: 0,
        ..crate::RackConfig::default()
    };
    config.switch.topology = topology;
    // Packets are to find their way through the switches.
    config.link.cut_through = false;
    config.node = (0..nodes)
        .map(|at| match at % 2 {
            0 => NodeConfig::new(format!("compute{at}"), Role::Compute),
            _ => NodeConfig::new(format!("storage{at}"), Role::Storage),
        })
        .collect();
    config
}
