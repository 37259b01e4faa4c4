//! Two nodes with connected queue pairs and buffers: the setup of the verbs' tests.

use super::initiator::Kind;
use crate::outcome::CliError;
use core::sync::atomic::Ordering;
use rackweave_base::{Memory, NodeId, Qpn, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_rack::Rack;
use rackweave_verbs::{Access, CqId, QpCapabilities, Region, Verbs};
use serde::{Deserialize, Serialize};

/// Bytes of buffers per queue pair, unless a single message is longer.
const BUFFER_BYTES: u64 = 1 << 20;

/// Buffers are filled and checked in pieces of this size.
const PIECE: usize = 64 << 10;

/// Sizes and numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Bytes of a message.
    pub size: u32,
    /// Queue pairs.
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
        nodes: (NodeId, NodeId),
        attributes: &PairAttributes,
    ) -> Result<Self, CliError> {
        let memory = rack.memory().clone();
        let open = |node| {
            rack.node_at(node)
                .with(|nic| Side::open(node, nic, &memory, shape))
        };
        let (near, far) = (open(nodes.0)?, open(nodes.1)?);
        for (&a, &b) in near.qpns.iter().zip(&far.qpns) {
            rack.connect((nodes.0, a), (nodes.1, b), attributes)?;
        }
        Ok(Self { near, far })
    }
}

impl Side {
    /// Creates buffers and queue pairs that are not connected.
    ///
    /// # Errors
    /// If the node lacks resources.
    pub fn open(
        node: NodeId,
        nic: &mut dyn Verbs,
        memory: &Memory,
        shape: &Shape,
    ) -> Result<Self, CliError> {
        let block = memory.allocate(shape.bytes() as usize)?;
        let entries = shape
            .queue_pairs
            .saturating_mul(shape.depth.max(shape.receives));
        let capabilities = QpCapabilities {
            send_max: shape.depth,
            receive_max: shape.receives.max(1),
            segments_max: 1,
        };
        let pd = nic.create_pd();
        let region = nic.register(pd, block, Access::all())?;
        let cq = nic.create_cq(entries)?;
        let mut side = Self {
            node,
            region,
            cq,
            qpns: Vec::new(),
        };
        for _ in 0..shape.queue_pairs {
            match nic.create_qp(pd, cq, cq, capabilities) {
                Ok(qpn) => side.qpns.push(qpn),
                Err(error) => {
                    side.close(nic);
                    return Err(error.into());
                }
            }
        }
        Ok(side)
    }

    /// Releases all resources.
    pub fn close(&self, nic: &mut dyn Verbs) {
        // What the NIC no longer knows needs no release.
        for &qpn in &self.qpns {
            let _ = nic.destroy_qp(qpn);
        }
        let _ = nic.destroy_cq(self.cq);
        nic.deregister(&self.region);
    }

    /// Fills the buffers: the source buffers of messages of `kind` with bytes that differ at all
    /// positions, other buffers with zeros.
    pub fn fill(&self, kind: Kind, end: Whose, seed: u64) {
        let is_source = match kind {
            Kind::Read => end == Whose::Far,
            Kind::Write | Kind::Send => end == Whose::Near,
            Kind::FetchAdd | Kind::CompareSwap => false,
        };
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

    /// A digest of all buffers that the messages of each queue pair have used; `messages` is the
    /// number of messages per queue pair.
    pub fn digest(&self, shape: &Shape, messages: &[u64]) -> u64 {
        let mut piece = vec![0; PIECE];
        let size = shape.size as usize;
        let mut digest = DIGEST_START;
        for (queue_pair, &messages) in messages.iter().enumerate().take(self.qpns.len()) {
            for slot in 0..messages.min(shape.slots()) {
                let start = shape.offset(queue_pair, slot) as usize;
                for at in (0..size).step_by(PIECE) {
                    let len = PIECE.min(size - at);
                    self.region.block.read(start + at, &mut piece[..len]);
                    digest = digested(digest, &piece[..len]);
                }
            }
        }
        digest
    }

    /// Whether the word of each queue pair has been incremented once per message.
    pub fn words_are(&self, shape: &Shape, messages: &[u64]) -> bool {
        let word = |queue_pair| self.region.block.word(shape.offset(queue_pair, 0) as usize);
        let counts = messages.iter().enumerate().take(self.qpns.len());
        let mut words = counts.map(|(at, &count)| word(at).load(Ordering::Acquire) == count);
        words.all(|is_right| is_right)
    }
}

/// One of the two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The posting node.
    Near,
    /// The other node.
    Far,
}

/// The offset basis and the prime of 64-bit FNV-1a, here taken by words of eight bytes.
const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;
const DIGEST_PRIME: u64 = 0x0100_0000_01b3;

fn digested(digest: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(digest, |digest, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Rotated, so that high bits of a word also change low bits of the digest.
        (digest ^ u64::from_le_bytes(word))
            .wrapping_mul(DIGEST_PRIME)
            .rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_bytes_and_their_places_apart() {
        let digest = |bytes: &[u8]| digested(DIGEST_START, bytes);
        let mut bytes: Vec<u8> = (0..100).collect();
        let before = digest(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert_ne!(digest(&bytes), before, "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.swap(8, 16);
        assert_ne!(digest(&bytes), before);
    }
}
