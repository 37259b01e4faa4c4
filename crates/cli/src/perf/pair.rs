//! Two nodes with connected queue pairs and buffers: what the verbs' tests run on.

use crate::outcome::CliError;
use rackweave_base::{Memory, NodeId, Qpn, Rng};
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_nic::Nic;
use rackweave_rack::{EmbeddedRack, SimulatedRack};
use rackweave_verbs::{Access, CqId, QpCapabilities, Region, Verbs};

/// Bytes of buffers per queue pair, unless a single message is longer.
const BUFFER_BYTES: u64 = 1 << 20;

/// Buffers are compared in pieces of this size.
const PIECE: usize = 64 << 10;

/// What the tests ask of a rack, embedded or simulated.
pub trait Site {
    /// Acts on a node's NIC.
    fn act<R>(&mut self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R;
    /// Connects two queue pairs.
    fn connect_pair(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError>;
    /// The arena of all regions.
    fn arena(&self) -> Memory;
}

impl Site for &EmbeddedRack {
    fn act<R>(&mut self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R {
        self.node(node).with(act)
    }

    fn connect_pair(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }

    fn arena(&self) -> Memory {
        self.memory().clone()
    }
}

impl Site for SimulatedRack {
    fn act<R>(&mut self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R {
        act(self
            .nic_mut(node)
            .expect("no node of a measurement crashes"))
    }

    fn connect_pair(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }

    fn arena(&self) -> Memory {
        self.memory().clone()
    }
}

/// How many of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a message.
    pub size: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Messages under way per queue pair.
    pub depth: u32,
    /// Receive requests per queue pair of the far side.
    pub receives: u32,
}

impl Shape {
    /// Bytes from one buffer to the next.
    pub fn stride(&self) -> u64 {
        u64::from(self.size).next_multiple_of(64)
    }

    /// Buffers per queue pair; message `i` uses buffer `i` modulo this on both sides.
    pub fn slots(&self) -> u64 {
        (BUFFER_BYTES / self.stride()).clamp(1, u64::from(self.depth.max(self.receives)))
    }

    /// Where the buffer of a message begins in the region.
    #[inline]
    pub fn offset(&self, queue_pair: usize, message: u64) -> u64 {
        let slots = self.slots();
        (queue_pair as u64 * slots + message % slots) * self.stride()
    }

    fn bytes(&self) -> u64 {
        u64::from(self.queue_pairs) * self.slots() * self.stride()
    }
}

/// One of the two nodes.
#[derive(Clone, Debug)]
pub struct Side {
    /// The node.
    pub node: NodeId,
    /// Its buffers.
    pub region: Region,
    /// Its completion queue.
    pub cq: CqId,
    /// Its queue pairs.
    pub qpns: Vec<Qpn>,
}

/// Both nodes.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The shape of it.
    pub shape: Shape,
    /// The node that posts.
    pub near: Side,
    /// The other one.
    pub far: Side,
}

impl Pair {
    /// Makes buffers and connected queue pairs on `nodes`.
    ///
    /// # Errors
    /// If a node lacks room.
    pub fn new(
        site: &mut impl Site,
        shape: Shape,
        nodes: (NodeId, NodeId),
        attributes: &PairAttributes,
    ) -> Result<Self, CliError> {
        let near = Side::new(site, shape, nodes.0)?;
        let far = Side::new(site, shape, nodes.1)?;
        for (&a, &b) in near.qpns.iter().zip(&far.qpns) {
            site.connect_pair((nodes.0, a), (nodes.1, b), attributes)?;
        }
        Ok(Self { shape, near, far })
    }

    /// Fills the buffers of one side with bytes that differ everywhere, those of the other with
    /// zeros.
    pub fn fill(&self, source: &Side, target: &Side, seed: u64) {
        let mut rng = Rng::new(seed).fork("perf");
        let mut piece = vec![0; PIECE];
        self.pieces(|at, len| {
            for word in piece.chunks_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
            }
            source.region.block.write(at, &piece[..len]);
            target.region.block.write(at, &vec![0; len]);
        });
    }

    /// Whether both sides hold the same in every buffer that the messages of each queue pair have
    /// used; `messages` says how many those were.
    pub fn is_equal(&self, messages: impl Fn(usize) -> u64) -> bool {
        let (mut near, mut far) = (vec![0; PIECE], vec![0; PIECE]);
        let size = self.shape.size as usize;
        (0..self.near.qpns.len()).all(|queue_pair| {
            (0..messages(queue_pair).min(self.shape.slots())).all(|slot| {
                let start = self.shape.offset(queue_pair, slot) as usize;
                (0..size).step_by(PIECE).all(|at| {
                    let len = PIECE.min(size - at);
                    self.near.region.block.read(start + at, &mut near[..len]);
                    self.far.region.block.read(start + at, &mut far[..len]);
                    near[..len] == far[..len]
                })
            })
        })
    }

    fn pieces(&self, mut act: impl FnMut(usize, usize)) {
        let all = self.near.region.block.len();
        for at in (0..all).step_by(PIECE) {
            act(at, PIECE.min(all - at));
        }
    }
}

impl Side {
    fn new(site: &mut impl Site, shape: Shape, node: NodeId) -> Result<Self, CliError> {
        let block = site.arena().allocate(shape.bytes() as usize)?;
        let entries = shape
            .queue_pairs
            .saturating_mul(shape.depth.max(shape.receives));
        let capabilities = QpCapabilities {
            send_max: shape.depth,
            receive_max: shape.receives.max(1),
            segments_max: 1,
        };
        site.act(node, |nic| {
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all())?;
            let cq = nic.create_cq(entries)?;
            let qpns = (0..shape.queue_pairs)
                .map(|_| nic.create_qp(pd, cq, cq, capabilities))
                .collect::<Result<_, _>>()?;
            Ok(Self {
                node,
                region,
                cq,
                qpns,
            })
        })
    }
}
