//! Ring memory of nodes in this process.
//!
//! A [`crate::Site`] with local nodes keeps their regions here; one with remote nodes asks them,
//! and each of them keeps its own.

use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Block, Lkey, Memory, NodeId, Rkey};
use rackweave_verbs::{Access, PdId, Region, RegisterError, Verbs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A region on a node, by its remote identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionName {
    /// The address of the first byte.
    pub address: u64,
    /// The key for peers.
    pub rkey: Rkey,
    /// The key for the node itself.
    pub lkey: Lkey,
}

impl From<&Region> for RegionName {
    fn from(region: &Region) -> Self {
        Self {
            address: region.address,
            rkey: region.rkey,
            lkey: region.lkey,
        }
    }
}

/// Why a node could not make a region.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum RegionError {
    /// Its memory is used up.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It could not register the memory.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// There is no such node, or it is dead.
    #[error("it does not exist or does not answer")]
    NoNode,
    /// The error of a remote node.
    #[error("{0}")]
    Remote(String),
}

/// What a region is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RegionPurpose {
    /// A ring of a flow. It has the complete state of its end of the flow, so that another
    /// controller can take the flow over.
    Ring,
    /// A part of the page directory's state at the node.
    Pages,
    /// The control region of a channel to the page directory, which is fenced when the region is
    /// removed.
    PageChannel {
        /// The slots of the channel.
        slots: u16,
    },
}

/// Regions of local nodes, by node and remote key. Clones share them.
#[derive(Clone, Debug)]
pub struct LocalRegions {
    memory: Memory,
    regions: Arc<Mutex<BTreeMap<(NodeId, u32), Region>>>,
}

impl LocalRegions {
    /// No regions yet; their bytes will come from `memory`.
    pub fn new(memory: Memory) -> Self {
        Self {
            memory,
            regions: Arc::default(),
        }
    }

    fn regions(&self) -> MutexGuard<'_, BTreeMap<(NodeId, u32), Region>> {
        self.regions.lock().expect("no holder of this lock panics")
    }

    /// Allocates and registers `len` zero bytes.
    ///
    /// # Errors
    /// If the arena or the node's table is full.
    pub fn make(
        &self,
        verbs: &mut dyn Verbs,
        node: NodeId,
        pd: PdId,
        len: u64,
        access: Access,
    ) -> Result<RegionName, RegionError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let block = self.memory.allocate(len)?;
        let region = verbs.register(pd, block, access)?;
        let name = RegionName::from(&region);
        self.regions().insert((node, name.rkey.0), region);
        Ok(name)
    }

    /// Forgets a region, which the caller with the node's verbs has to deregister. Its bytes stay
    /// allocated as long as the block is referenced.
    pub fn remove(&self, node: NodeId, rkey: Rkey) -> Option<Region> {
        self.regions().remove(&(node, rkey.0))
    }

    /// A region.
    pub fn get(&self, node: NodeId, rkey: Rkey) -> Option<Region> {
        self.regions().get(&(node, rkey.0)).cloned()
    }

    /// The bytes of a region.
    pub fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.get(node, rkey).map(|region| region.block)
    }

    /// The eight bytes at `offset`, a multiple of eight, read atomically.
    pub fn load(&self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        self.word(node, rkey, offset, |word| {
            word.load(Ordering::Acquire).to_ne_bytes()
        })
    }

    /// Writes eight bytes atomically. Has no effect if there is no such region or offset.
    pub fn store(&self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        self.word(node, rkey, offset, |word| {
            word.store(u64::from_ne_bytes(bytes), Ordering::Release);
        });
    }

    /// Replaces the first of two little-endian words by the second if it is present, and returns
    /// the previous value.
    pub fn compare_swap(
        &self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        (compare, swap): (u64, u64),
    ) -> Option<u64> {
        let (compare, swap) = (compare.to_le(), swap.to_le());
        self.word(node, rkey, offset, |word| {
            let found = word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
            u64::from_le(found.unwrap_or_else(|found| found))
        })
    }

    /// All regions.
    pub fn list(&self) -> Vec<Region> {
        self.regions().values().cloned().collect()
    }

    fn word<R>(
        &self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        act: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let regions = self.regions();
        let block = &regions.get(&(node, rkey.0))?.block;
        let inside = offset.is_multiple_of(8) && offset.checked_add(8)? <= block.len() as u64;
        inside.then(|| act(block.word(offset as usize)))
    }
}
