//! The tree: creation, descent, lookup.

mod lookup;

pub(super) use lookup::{Found, found_at};

use super::allocator::Allocator;
use super::arena::Arena;
use super::config::TreeConfig;
use super::error::TreeError;
use super::heap::Heap;
use super::node::Node;
use super::pins::Pins;
use super::sync::{Arc, AtomicU64, Ordering};
use super::writer::Writer;
use core::ops::ControlFlow;
use rackweave_wire::fabric::tree::{Layout, ROOT, Superblock, SuperblockError};

#[cfg(not(any(loom, shuttle)))]
use rackweave_base::Block;

/// A B+tree. Clones share it; any number of threads may use it concurrently.
#[derive(Clone)]
pub struct Tree {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub arena: Arena,
    pub layout: Layout,
    pub superblock: Superblock,
    pub nodes: Allocator,
    pub heap: Heap,
    pub pins: Pins,
    pub counters: Counters,
}

/// Counters of infrequent events.
#[derive(Default)]
pub(super) struct Counters {
    pub restarts: AtomicU64,
    pub splits: AtomicU64,
    pub merges: AtomicU64,
}

impl Counters {
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Statistics of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Tree nodes in use.
    pub tree_nodes: u32,
    /// Bytes of the heap that have ever been used.
    pub heap_bytes: u64,
    /// Operations that were restarted because of a concurrent writer.
    pub restarts: u64,
    /// Tree nodes that were split.
    pub splits: u64,
    /// Tree nodes that were merged into their neighbours.
    pub merges: u64,
}

/// The outcome of an attempt: a result, or that another attempt is due. `None` if a writer
/// interfered.
pub(super) type Attempt<T> = Option<ControlFlow<T>>;

/// The position of a descent: a tree node and the word of its latch.
#[derive(Clone, Copy)]
pub(super) struct LatchedNode<'a> {
    pub node: Node<'a>,
    pub latch: u64,
}

impl LatchedNode<'_> {
    #[inline]
    pub fn is_still(&self) -> bool {
        self.node.latch().is_still(self.latch)
    }
}

impl Tree {
    /// Creates an empty tree in `block`, whatever the block contains. The block may be longer than
    /// the tree.
    ///
    /// # Errors
    /// If a setting is out of range or the block is too short.
    #[cfg(not(any(loom, shuttle)))]
    pub fn create(block: Block, config: &TreeConfig) -> Result<Self, TreeError> {
        config.check()?;
        let superblock = config.superblock();
        let given = block.len() as u64;
        let needed = superblock.bytes();
        if needed > given {
            return Err(SuperblockError::TooShort { needed, given }.into());
        }
        let layout = Layout::new(config.node_size).expect("checked above");
        let tree = Self::in_arena(Arena::new(block), layout, superblock);
        tree.format(config.low, config.last);
        Ok(tree)
    }

    /// Opens the tree in `block`. All of it is verified.
    ///
    /// # Errors
    /// If the block holds no tree, one of another version, or a damaged one.
    #[cfg(not(any(loom, shuttle)))]
    pub fn open(block: Block) -> Result<Self, TreeError> {
        let given = block.len() as u64;
        let needed = Superblock::WORDS as u64 * 8;
        if given < needed {
            return Err(SuperblockError::TooShort { needed, given }.into());
        }
        let mut words = [0; Superblock::WORDS];
        for (word, stored) in words.iter_mut().zip(block.words(0, Superblock::WORDS)) {
            *word = u64::from_le(stored.load(Ordering::Acquire));
        }
        let superblock = Superblock::decode(&words, given)?;
        let layout = Layout::new(superblock.node_size).expect("a superblock is checked");
        let tree = Self::in_arena(Arena::new(block), layout, superblock);
        tree.adopt()?;
        Ok(tree)
    }

    pub(super) fn in_arena(arena: Arena, layout: Layout, superblock: Superblock) -> Self {
        let inner = Inner {
            layout,
            nodes: Allocator::new(superblock.tree_nodes),
            heap: Heap::new(superblock.heap_at(), superblock.heap_bytes),
            pins: Pins::new(superblock.tree_nodes),
            counters: Counters::default(),
            superblock,
            arena,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Writes the superblock and an empty root.
    pub(super) fn format(&self, low: u64, last: u64) {
        // Latches that an earlier user of the block held are not held now.
        for index in 0..self.inner.superblock.tree_nodes {
            let latch = self.node(index).latch().0;
            let word = latch.load(Ordering::Relaxed);
            if word & 1 == 1 {
                latch.store(word.wrapping_add(1), Ordering::Relaxed);
            }
        }
        let mut root = self.node(ROOT).lock();
        let epoch = root.epoch().wrapping_add(1) | 1;
        root.begin(epoch, 0, self.inner.superblock.tree);
        root.set_fences(low, last);
        root.set_next(rackweave_wire::fabric::tree::NodePointer::NONE);
        root.finish();
        let words = self.inner.superblock.encode();
        let stored = self.inner.arena.words(0, Superblock::WORDS);
        for (stored, word) in stored.iter().zip(words) {
            stored.store(word.to_le(), Ordering::Release);
        }
    }

    /// The block that holds the tree.
    #[cfg(not(any(loom, shuttle)))]
    pub fn block(&self) -> &Block {
        self.inner.arena.block()
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.inner.superblock
    }

    /// The shape of its tree nodes.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Maximum number of entries of a tree node of `level`.
    #[inline]
    pub(super) fn limit(&self, level: u8) -> usize {
        match self.inner.superblock.fan_out {
            fan_out @ 1.. if level > 0 => usize::from(fan_out),
            _ => self.inner.layout.capacity(),
        }
    }

    /// The statistics.
    pub fn statistics(&self) -> Statistics {
        let counters = &self.inner.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            tree_nodes: self.inner.nodes.used(),
            heap_bytes: self.inner.heap.usage().0 * rackweave_wire::fabric::tree::UNIT,
            restarts: get(&counters.restarts),
            splits: get(&counters.splits),
            merges: get(&counters.merges),
        }
    }

    /// Levels of the tree: 1 if the root is a leaf.
    pub fn levels(&self) -> u32 {
        let root = self.node(ROOT);
        loop {
            let latch = root.latch().read();
            let level = root.meta().level;
            if root.latch().is_still(latch) {
                return u32::from(level) + 1;
            }
        }
    }

    /// The least and the greatest key that belong to the tree.
    pub fn bounds(&self) -> (u64, u64) {
        let root = self.node(ROOT);
        loop {
            let latch = root.latch().read();
            let bounds = (root.low(), root.last());
            if root.latch().is_still(latch) {
                return bounds;
            }
        }
    }

    #[inline]
    pub(super) fn node(&self, index: u32) -> Node<'_> {
        let inner = &*self.inner;
        let layout = inner.layout;
        let words = inner
            .arena
            .words(layout.offset(index) as usize, layout.words());
        Node::new(index, layout, words)
    }

    /// The tree node that a parent points to, if its index is valid: a parent that a writer is
    /// changing may contain anything.
    #[inline]
    pub(super) fn place(&self, index: u32) -> Option<LatchedNode<'_>> {
        if index >= self.inner.superblock.tree_nodes {
            return None;
        }
        let node = self.node(index);
        let latch = node.latch().read();
        Some(LatchedNode { node, latch })
    }

    #[inline]
    pub(super) fn root(&self) -> LatchedNode<'_> {
        let node = self.node(ROOT);
        let latch = node.latch().read();
        LatchedNode { node, latch }
    }

    /// Descends to the tree node of `level` where `key` belongs if it is within the bounds, or to
    /// the root if that is lower. Returns it and its parent, unless it is the root. `None` if a
    /// writer interfered.
    #[inline]
    pub(super) fn descend(
        &self,
        key: u64,
        level: u8,
    ) -> Option<(LatchedNode<'_>, Option<LatchedNode<'_>>)> {
        let mut parent = None;
        let mut place = self.root();
        loop {
            let meta = place.node.meta();
            if meta.level <= level {
                return place.is_still().then_some((place, parent));
            }
            let index = place.node.child_index(place.node.count(meta), key);
            parent = Some(place);
            place = self.child(&place, index)?;
        }
    }

    /// The child of a tree node. `None` if a writer interfered.
    #[inline]
    pub(super) fn child(&self, parent: &LatchedNode<'_>, index: usize) -> Option<LatchedNode<'_>> {
        let child = self.place(parent.node.child(index).index);
        // If no writer interfered, the parent points to a tree node.
        child.filter(|_| parent.is_still())
    }

    /// Repeats an attempt until it succeeds.
    #[inline]
    pub(super) fn insist<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> T {
        loop {
            match attempt() {
                Some(ControlFlow::Break(result)) => return result,
                Some(ControlFlow::Continue(())) => {}
                None => self.restarted(),
            }
        }
    }

    /// The result of a write that leaves the leaf unchanged.
    pub(super) fn unchanged(
        &self,
        leaf: &LatchedNode<'_>,
        key: u64,
        found: bool,
    ) -> Option<Result<bool, TreeError>> {
        let covered = leaf.node.covers(key);
        leaf.is_still().then(|| match covered {
            true => Ok(found),
            false => {
                let (low, last) = self.bounds();
                Err(TreeError::OutOfBounds { key, low, last })
            }
        })
    }

    /// Counts a restart of an operation.
    #[cold]
    pub(super) fn restarted(&self) {
        Counters::count(&self.inner.counters.restarts);
        #[cfg(any(loom, shuttle))]
        super::sync::yield_now();
    }

    /// Allocates a tree node, with its latch held.
    pub(super) fn new_node(&self, level: u8) -> Result<Writer<'_>, TreeError> {
        let used_up = TreeError::NodesUsedUp {
            capacity: self.inner.nodes.capacity(),
        };
        let index = self.inner.nodes.take().ok_or(used_up)?;
        let mut writer = self.node(index).lock();
        // With the planted bug, a freed tree node keeps its epoch.
        let epoch = writer.epoch().wrapping_add(1) | 1;
        writer.begin(epoch, level, self.inner.superblock.tree);
        Ok(writer)
    }

    /// Ends the use of a tree node.
    pub(super) fn free_node(&self, writer: Writer<'_>) {
        let index = writer.node().index;
        writer.retire();
        self.inner.nodes.give(index);
    }
}

impl core::fmt::Debug for Tree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tree")
            .field("superblock", &self.inner.superblock)
            .field("levels", &self.levels())
            .finish_non_exhaustive()
    }
}
