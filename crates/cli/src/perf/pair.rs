//! A node with queue pairs and buffers: the setup of the verbs' tests at either end.

use crate::outcome::CliError;
use core::hash::Hasher;
use core::sync::atomic::Ordering;
use rackweave_base::{NodeId, Qpn, Rkey, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::Rack;
use rackweave_verbs::{Access, CqId, QpCapabilities, Region};
use serde::{Deserialize, Serialize};
use std::hash::DefaultHasher;

/// Bytes of buffers per queue pair, unless a single message is longer.
const BUFFER_BYTES: u64 = 1 << 20;

/// Buffers are filled and checked in pieces of this size.
const PIECE: usize = 64 << 10;

/// Sizes and numbers.
#[derive(Clone, Copy, Serialize, Deserialize)]
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

/// What one node has to know of the other one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    pub node: NodeId,
    pub qpns: Vec<Qpn>,
    /// The address and the key of its buffers.
    pub address: u64,
    pub rkey: Rkey,
}

/// What a side finds in its buffers.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Found {
    /// Messages that were received.
    pub received: u64,
    /// As [`Side::digest`].
    pub digest: u64,
    /// As [`Side::words_are`].
    pub is_counted: bool,
}

impl Side {
    /// Creates buffers and queue pairs on a node.
    ///
    /// # Errors
    /// If the node lacks resources.
    pub fn open(rack: &Rack, node: NodeId, shape: &Shape) -> Result<Self, CliError> {
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

    /// Connects its queue pairs to those of another node.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn connect(
        &self,
        rack: &Rack,
        to: &Offer,
        attributes: &PairAttributes,
    ) -> Result<(), CliError> {
        for (&a, &b) in self.qpns.iter().zip(&to.qpns) {
            rack.connect((self.node, a), (to.node, b), attributes)?;
        }
        Ok(())
    }

    /// What the other node has to know.
    pub fn offer(&self) -> Offer {
        Offer {
            node: self.node,
            qpns: self.qpns.clone(),
            address: self.region.address,
            rkey: self.region.rkey,
        }
    }

    /// What it finds once so many messages were completed on each queue pair, and received.
    pub fn found(&self, shape: &Shape, messages: &[u64], received: u64) -> Found {
        Found {
            received,
            digest: self.digest(shape, messages),
            is_counted: self.words_are(shape, messages),
        }
    }

    /// A hash of the buffers that the messages of each queue pair have used: the same on both sides
    /// if they have the same bytes. `messages` is the number of messages per queue pair.
    pub fn digest(&self, shape: &Shape, messages: &[u64]) -> u64 {
        let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; PIECE]);
        let size = shape.size as usize;
        for (at, &messages) in messages.iter().enumerate() {
            for slot in 0..messages.min(shape.slots()) {
                let start = shape.offset(at, slot) as usize;
                for at in (0..size).step_by(PIECE) {
                    let len = PIECE.min(size - at);
                    self.region.block.read(start + at, &mut piece[..len]);
                    hasher.write(&piece[..len]);
                }
            }
        }
        hasher.finish()
    }

    /// Whether the word of each queue pair has been incremented once per message.
    fn words_are(&self, shape: &Shape, messages: &[u64]) -> bool {
        let word = |queue_pair| self.region.block.word(shape.offset(queue_pair, 0) as usize);
        let mut counts = messages.iter().enumerate();
        counts.all(|(at, &count)| word(at).load(Ordering::Acquire) == count)
    }
}
