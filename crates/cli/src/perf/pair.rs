//! Two nodes with connected queue pairs and buffers: the setup of the verbs' tests.

use crate::outcome::CliError;
use core::sync::atomic::Ordering;
use rackweave_base::{NodeId, Qpn, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::Rack;
use rackweave_verbs::{Access, CqId, QpCapabilities, Region};

/// Bytes of buffers per queue pair, unless a single message is longer.
const BUFFER_BYTES: u64 = 1 << 20;

/// Buffers are filled and checked in pieces of this size.
const PIECE: usize = 64 << 10;

/// Sizes and numbers.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Bytes of a message.
    pub size: u32,
    pub queue_pairs: u32,
    /// Messages in flight per queue pair.
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

    /// The offset of a message's buffer in the region.
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
pub struct Side {
    pub node: NodeId,
    /// Its buffers.
    pub region: Region,
    pub cq: CqId,
    pub qpns: Vec<Qpn>,
}

/// Both nodes.
pub struct Pair {
    /// The posting node.
    pub near: Side,
    /// The other one.
    pub far: Side,
}

impl Pair {
    /// Creates buffers and connected queue pairs on `nodes`.
    ///
    /// # Errors
    /// If a node lacks resources.
    pub fn new(
        rack: &Rack,
        shape: &Shape,
        nodes: [NodeId; 2],
        attributes: &PairAttributes,
    ) -> Result<Self, CliError> {
        let open = |node| Side::open(rack, node, shape);
        let (near, far) = (open(nodes[0])?, open(nodes[1])?);
        for (&a, &b) in near.qpns.iter().zip(&far.qpns) {
            rack.connect((nodes[0], a), (nodes[1], b), attributes)?;
        }
        Ok(Self { near, far })
    }

    /// Whether the buffers that the messages of each queue pair have used have the same bytes on
    /// both sides; `messages` is the number of messages per queue pair.
    pub fn is_alike(&self, shape: &Shape, messages: &[u64]) -> bool {
        let (mut near, mut far) = (vec![0; PIECE], vec![0; PIECE]);
        let size = shape.size as usize;
        let used = messages.iter().enumerate().flat_map(|(at, &messages)| {
            let slots = 0..messages.min(shape.slots());
            slots.map(move |slot| shape.offset(at, slot) as usize)
        });
        let mut pieces = used.flat_map(|start| {
            let pieces = (0..size).step_by(PIECE);
            pieces.map(move |at| (start + at, PIECE.min(size - at)))
        });
        pieces.all(|(at, len)| {
            self.near.region.block.read(at, &mut near[..len]);
            self.far.region.block.read(at, &mut far[..len]);
            near[..len] == far[..len]
        })
    }
}

impl Side {
    fn open(rack: &Rack, node: NodeId, shape: &Shape) -> Result<Self, CliError> {
        let block = rack.memory().allocate(shape.bytes() as usize)?;
        let queued = shape.depth.max(shape.receives);
        let entries = shape.queue_pairs.saturating_mul(queued);
        let capabilities = QpCapabilities {
            send_max: shape.depth,
            receive_max: shape.receives.max(1),
            segments_max: 1,
        };
        rack.node_at(node).with(|nic| {
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all())?;
            let cq = nic.create_cq(entries)?;
            let qpns = (0..shape.queue_pairs).map(|_| nic.create_qp(pd, cq, cq, capabilities));
            Ok(Self {
                node,
                region,
                cq,
                qpns: qpns.collect::<Result<_, _>>()?,
            })
        })
    }

    /// Fills the buffers: those that are a source of messages with bytes that differ at all
    /// positions, others with zeros.
    pub fn fill(&self, is_source: bool, seed: u64) {
        let mut rng = Rng::new(seed).fork("perf");
        let mut piece = vec![0; PIECE];
        let all = self.region.block.len();
        for at in (0..all).step_by(PIECE) {
            let len = PIECE.min(all - at);
            if is_source {
                for word in piece[..len].chunks_mut(8) {
                    word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
                }
            }
            self.region.block.write(at, &piece[..len]);
        }
    }

    /// Whether the word of each queue pair has been incremented once per message.
    pub fn words_are(&self, shape: &Shape, messages: &[u64]) -> bool {
        let word = |queue_pair| self.region.block.word(shape.offset(queue_pair, 0) as usize);
        let mut counts = messages.iter().enumerate();
        counts.all(|(at, &count)| word(at).load(Ordering::Acquire) == count)
    }
}
