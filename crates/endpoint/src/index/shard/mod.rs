//! The state of one endpoint of the index: a tree, and which of its keys are owned.
//!
//! Any number of server threads share a shard. Operations on keys of other endpoints return
//! [`Denied::Moved`]. `handover` gives ranges away and takes them, concurrently with operations.

mod handover;
mod ownership;
mod replication;
mod start;
mod write;

use super::map::{EndpointId, Part, PartitionMap};
use super::meter::Meter;
use super::reader::RemoteTree;
use super::statistics::ShardStatistics;
use crate::btree::{Direction, Tree, TreeError};
use core::sync::atomic::{AtomicU64, Ordering};
use handover::{Getting, Giving};
use ownership::{Owned, Ownership, Span};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Block, Memory};
use rackweave_verbs::Region;
use rackweave_wire::fabric::tree::{META_WORD, Meta, NodePointer, ROOT};
use replication::Replication;
use std::sync::{Arc, Mutex, MutexGuard};

pub use handover::{HandoverError, Marked, MoveId, ShardState};
pub(super) use replication::{Begun, Stands};
pub use replication::{ReplicationError, ReplicationState};
pub(super) use write::{Write, WriteKind};

/// Why an operation was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denied {
    /// The keys belong to another endpoint.
    #[error("the keys belong to another endpoint; the map has version {version} here")]
    Moved {
        /// The version of the endpoint's map.
        version: u64,
    },
    /// The keys are being moved to another endpoint.
    #[error("the keys are being moved; try again soon")]
    Busy,
    /// Writes to the key go to a replica first: only a server thread can execute them.
    #[error("the key has a replica; send the write to a server thread of the endpoint")]
    Replicated,
    /// The tree refused.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Why a shard could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShardError {
    /// The map has no such endpoint.
    #[error("the index has {endpoints} endpoints; there is no {endpoint}")]
    NoEndpoint {
        /// The requested endpoint.
        endpoint: EndpointId,
        /// Number of endpoints of the index.
        endpoints: u16,
    },
    /// The tree's bounds differ from the range in the map.
    #[error("the tree has the keys {low} to {last}, the map gives {endpoint} others")]
    Bounds {
        /// The endpoint of the tree.
        endpoint: EndpointId,
        /// The least key of the tree.
        low: u64,
        /// The greatest key of the tree.
        last: u64,
    },
    /// Memory for the map version could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A tree and the range of it that is owned.
#[derive(Debug)]
pub struct Shard {
    me: EndpointId,
    tree: Tree,
    ownership: Ownership,
    /// The first word is the map version since which the shard's range is unchanged, for READs.
    version: Block,
    /// The version of the map.
    map_version: AtomicU64,
    control: Mutex<Control>,
    replication: Mutex<Replication>,
}

/// State that changes rarely.
#[derive(Debug)]
struct Control {
    map: Arc<PartitionMap>,
    giving: Option<Giving>,
    getting: Option<Getting>,
    /// The range that is being copied to the replica, and the replica's epoch.
    copying: Option<(u64, Span)>,
    /// Whether another endpoint is being restarted, in a map that is not known here yet.
    commits_nothing: bool,
    meters: Vec<Arc<Meter>>,
    /// By meter: the position up to which its keys have been taken.
    sampled: Vec<u64>,
    counters: ShardStatistics,
}

impl Shard {
    /// The shard of endpoint `me`. The bounds of the tree must match the map; if the endpoint owns
    /// nothing, the tree must be empty.
    ///
    /// # Errors
    /// If they do not match, or a page of memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        me: EndpointId,
        tree: Tree,
        map: PartitionMap,
    ) -> Result<Self, ShardError> {
        if me.0 >= map.endpoints() {
            return Err(ShardError::NoEndpoint {
                endpoint: me,
                endpoints: map.endpoints(),
            });
        }
        let (low, last) = tree.bounds();
        let keys = span_of(&map, me);
        let fits = match keys.is_none() {
            true => is_empty(&tree),
            false => (keys.low, keys.last) == (low, last),
        };
        if !fits {
            let endpoint = me;
            return Err(ShardError::Bounds {
                endpoint,
                low,
                last,
            });
        }
        let version = memory.allocate(8)?;
        version.word(0).store(map.since(me), Ordering::Release);
        Ok(Self {
            me,
            tree,
            ownership: Ownership::new(keys),
            version,
            map_version: AtomicU64::new(map.version()),
            control: Mutex::new(Control {
                map: Arc::new(map),
                giving: None,
                getting: None,
                copying: None,
                commits_nothing: false,
                meters: Vec::new(),
                sampled: Vec::new(),
                counters: ShardStatistics::default(),
            }),
            replication: Mutex::default(),
        })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> EndpointId {
        self.me
    }

    /// The tree. Changes made through it bypass the checks of ownership and moves.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The block with the map version since which the shard's range is unchanged, to be registered
    /// for READs together with the tree's block.
    pub fn version_block(&self) -> &Block {
        &self.version
    }

    /// The location of the tree for READs, if its blocks are registered as these regions.
    pub fn remote(&self, tree: &Region, version: &Region) -> RemoteTree {
        let layout = self.tree.layout();
        let superblock = self.tree.superblock();
        let meta = layout.offset(ROOT) as usize + META_WORD * 8;
        let word = self.tree.block().word(meta).load(Ordering::Acquire);
        RemoteTree {
            tree: superblock.tree,
            layout,
            tree_nodes: superblock.tree_nodes,
            root: NodePointer {
                index: ROOT,
                epoch: Meta::from_word(u64::from_le(word)).epoch,
            },
            heap_bytes: superblock.heap_bytes,
            value_max: superblock.value_max,
            address: tree.address,
            rkey: tree.rkey,
            version_address: version.address,
            version_rkey: version.rkey,
        }
    }

    /// The map as this endpoint knows it.
    pub fn map(&self) -> Arc<PartitionMap> {
        self.control().map.clone()
    }

    /// The version of the map.
    pub fn version(&self) -> u64 {
        self.map_version.load(Ordering::Acquire)
    }

    /// The range that the endpoint owns.
    pub fn part(&self) -> Option<Part> {
        self.control().map.part_of(self.me)
    }

    /// Adds the counters that a server thread keeps for the shard.
    pub fn add_meter(&self, meter: Arc<Meter>) {
        let mut control = self.control();
        control.meters.push(meter);
        control.sampled.push(0);
    }

    /// The counters of all server threads, including those that have ended.
    pub fn meters(&self) -> Vec<Arc<Meter>> {
        self.control().meters.clone()
    }

    /// Appends keys of requests since the last call: about one in four, and at most the last 512 of
    /// each server thread.
    pub fn take_sample(&self, keys: &mut Vec<u64>) {
        let mut control = self.control();
        let Control {
            meters, sampled, ..
        } = &mut *control;
        for (meter, sampled) in meters.iter().zip(sampled) {
            *sampled = meter.keys_since(*sampled, keys);
        }
    }

    /// Counters of moves. Server threads count the rest: see [`Shard::meters`].
    pub fn handover_statistics(&self) -> ShardStatistics {
        self.control().counters
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().expect("no holder of this lock panics")
    }

    fn moved(&self) -> Denied {
        Denied::Moved {
            version: self.version(),
        }
    }

    /// Calls `look` for a key and returns its result if the shard owned the key throughout.
    #[inline]
    fn read<R>(&self, key: u64, mut look: impl FnMut() -> R) -> Result<R, Denied> {
        loop {
            let owned = self.ownership.read();
            if !owned.keys.contains(key) {
                return Err(self.moved());
            }
            let result = look();
            if self.ownership.is_still(&owned) {
                return Ok(result);
            }
        }
    }

    /// Puts the value of a key into `value`. False if the key is absent.
    ///
    /// # Errors
    /// If the key belongs to another endpoint.
    #[inline]
    pub fn get(&self, key: u64, value: &mut Vec<u8>) -> Result<bool, Denied> {
        self.read(key, || self.tree.lookup(key, value))
    }

    /// Fills an empty shard; see [`Tree::bulk_load`]. No other thread may use the tree meanwhile.
    ///
    /// # Errors
    /// If the keys are not owned, do not ascend, or the tree returns an error.
    pub fn bulk_load<V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<u64, TreeError> {
        self.tree.bulk_load(entries)
    }

    /// Passes the owned entries from `low` to `last` to `page` until it returns false. Returns the
    /// key at which to continue: that of the refused entry, or the end of the owned keys; `None` if
    /// no entries are left. `again` is called when the scan begins, and when it restarts because
    /// keys were moved meanwhile.
    ///
    /// # Errors
    /// If the key at the near end belongs to another endpoint.
    pub fn scan<P>(
        &self,
        (low, last): (u64, u64),
        direction: Direction,
        page: &mut P,
        again: impl Fn(&mut P),
        mut visit: impl FnMut(&mut P, u64, &[u8]) -> bool,
    ) -> Result<Option<u64>, Denied> {
        if low > last {
            // Also called for a page that stays empty.
            again(page);
            return Ok(None);
        }
        let first = match direction {
            Direction::Forward => low,
            Direction::Backward => last,
        };
        loop {
            again(page);
            let owned = self.ownership.read();
            if !owned.keys.contains(first) {
                return Err(self.moved());
            }
            let here = owned.keys.and(Span { low, last });
            let mut refused = None;
            self.tree
                .scan(here.low..=here.last, direction, &mut |key, value| {
                    let goes_on = visit(page, key, value);
                    refused = (!goes_on).then_some(key);
                    goes_on
                });
            let beyond = match direction {
                Direction::Forward => here.last.checked_add(1),
                Direction::Backward => here.low.checked_sub(1),
            };
            let beyond = beyond.filter(|key| (low..=last).contains(key));
            if self.ownership.is_still(&owned) {
                return Ok(refused.or(beyond));
            }
        }
    }

    fn owned(&self) -> Owned {
        self.ownership.read()
    }
}

/// The range that an endpoint owns.
fn span_of(map: &PartitionMap, endpoint: EndpointId) -> Span {
    map.part_of(endpoint).map_or(Span::NONE, |part| Span {
        low: part.low,
        last: part.last,
    })
}

fn is_empty(tree: &Tree) -> bool {
    let (low, last) = tree.bounds();
    let mut empty = true;
    tree.scan(low..=last, Direction::Forward, &mut |_, _| {
        empty = false;
        false
    });
    empty
}

#[cfg(test)]
mod tests;
