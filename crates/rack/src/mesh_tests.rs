//! For tests of racks with several switches: every node READs from, WRITEs to and SENDs to every
//! other, and every byte is looked at.

use rackweave_base::{Block, Memory, NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_nic::Nic;
use rackweave_verbs::{
    Access, Completion, CompletionStatus, CqId, Operation, QpCapabilities, ReceiveRequest, Region,
    Verbs, WorkRequest,
};

/// Bytes of a message: more than one packet.
const LEN: usize = 5000;

/// Two or more switches, and what a test may do with them.
pub(crate) trait Meshed {
    fn arena(&self) -> Memory;
    fn act(&mut self, node: NodeId, act: &mut dyn FnMut(&mut Nic));
    fn join(&mut self, a: (NodeId, Qpn), b: (NodeId, Qpn), attributes: &PairAttributes);
    /// Lets a little time pass. Panics when it has been too long.
    fn pass(&mut self);
}

/// What lies in a node's region, for each peer.
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
    /// By peer; none for the node itself.
    qps: Vec<Option<Qpn>>,
}

/// All nodes connected with each other.
pub(crate) struct Mesh {
    ends: Vec<End>,
    /// Tells rounds apart.
    round: u8,
}

fn offset(part: Part, peer: usize) -> usize {
    (4 * peer + part as usize) * LEN
}

/// What `of` has for `whom`.
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
    pub fn new(rack: &mut dyn Meshed, nodes: usize, attributes: &PairAttributes) -> Self {
        let mut ends: Vec<End> = (0..nodes).map(|at| end(rack, at, nodes)).collect();
        for a in 0..nodes {
            for b in a + 1..nodes {
                let made = [a, b].map(|at| create_qp(rack, at, &ends[at]));
                let [near, far] = made;
                let pair = ((NodeId(a as u16), near), (NodeId(b as u16), far));
                rack.join(pair.0, pair.1, attributes);
                ends[a].qps[b] = Some(near);
                ends[b].qps[a] = Some(far);
            }
        }
        Self { ends, round: 0 }
    }

    /// Posts a READ, a WRITE and a SEND from everybody to everybody.
    pub fn post(&mut self, rack: &mut dyn Meshed) {
        self.round = self.round.wrapping_add(1);
        for (at, peer, qpn) in self.pairs() {
            let (near, far) = (&self.ends[at].region, &self.ends[peer].region);
            let source = pattern(at, peer, self.round);
            near.block.write(offset(Part::Source, peer), &source);
            let slot = near.segment(offset(Part::Sent, peer) as u64, LEN as u32);
            rack.act(NodeId(at as u16), &mut |nic| {
                let request = ReceiveRequest::new(0, &[slot]);
                nic.post_receive(qpn, request).unwrap();
            });
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
            rack.act(NodeId(at as u16), &mut |nic| {
                for (operation, part) in requests {
                    let request = WorkRequest::new(1, operation, &[segment(part)]);
                    nic.post_send(qpn, request).unwrap();
                }
            });
        }
    }

    /// Waits until everything that was posted is done, and looks at every byte.
    pub fn finish(&mut self, rack: &mut dyn Meshed) {
        let peers = self.ends.len() - 1;
        for at in 0..self.ends.len() {
            let mut done: Vec<Completion> = Vec::new();
            // Three of one's own, and the message that came, for each peer.
            while done.len() < 4 * peers {
                rack.act(NodeId(at as u16), &mut |nic| {
                    nic.poll_cq(self.ends[at].cq, 64, &mut done);
                });
                let bad = done.iter().find(|c| c.status != CompletionStatus::Success);
                assert!(bad.is_none(), "node {at}: {bad:?}");
                if done.len() < 4 * peers {
                    rack.pass();
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

    pub fn round(&mut self, rack: &mut dyn Meshed) {
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

fn end(rack: &mut dyn Meshed, at: usize, nodes: usize) -> End {
    let block = rack.arena().allocate(4 * nodes * LEN).unwrap();
    let mut made = None;
    rack.act(NodeId(at as u16), &mut |nic| {
        let pd = nic.create_pd();
        let region = nic.register(pd, block.clone(), Access::all()).unwrap();
        let cq = nic.create_cq(8 * nodes as u32).unwrap();
        let qps = vec![None; nodes];
        made = Some(End { region, cq, qps });
    });
    made.unwrap()
}

fn create_qp(rack: &mut dyn Meshed, at: usize, end: &End) -> Qpn {
    let mut qpn = Qpn(0);
    rack.act(NodeId(at as u16), &mut |nic| {
        let (pd, cq) = (end.region.pd, end.cq);
        qpn = nic
            .create_qp(pd, cq, cq, QpCapabilities::default())
            .unwrap();
    });
    qpn
}

/// A configuration with this topology and so many nodes, by turns for compute and storage.
pub(crate) fn config(topology: crate::config::TopologyName, nodes: usize) -> crate::RackConfig {
    use crate::config::{NodeConfig, Role};
    let mut config = crate::RackConfig {
        memory_limit: 64 << 20,
        driver_threads: 0,
        ..crate::RackConfig::default()
    };
    config.switch.topology = topology;
    config.node = (0..nodes)
        .map(|at| match at % 2 {
            0 => NodeConfig::new(format!("compute{at}"), Role::Compute),
            _ => NodeConfig::new(format!("storage{at}"), Role::Storage),
        })
        .collect();
    config
}
