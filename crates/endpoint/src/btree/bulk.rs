//! Bulk loading of an empty tree from sorted keys.

use super::error::TreeError;
use super::node::Entry;
use super::tree::Tree;
use super::writer::Writer;
use rackweave_wire::fabric::tree::{NodePointer, ROOT};

impl Tree {
    /// Fills an empty tree. Tree nodes are filled to nine tenths, so that the first inserts find
    /// free space. No other thread may use the tree meanwhile. After an error the tree is empty,
    /// but the space that was used stays used until the tree is created anew.
    ///
    /// # Errors
    /// If the tree has entries already, keys do not ascend, a value is too long or the tree is
    /// full.
    pub fn bulk_load<V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<u64, TreeError> {
        let root = self.node(ROOT).lock();
        if root.level() != 0 || root.count() != 0 {
            root.leave();
            return Err(TreeError::NotEmpty);
        }
        let (low, last) = (root.low(), root.last());
        let mut level = Level::new(self, 0, last);
        let mut loaded = 0;
        let mut previous = None;
        for (key, value) in entries {
            let entry = match self.loaded_entry(key, value.as_ref(), previous, (low, last)) {
                Ok(entry) => entry,
                Err(error) => {
                    root.leave();
                    return Err(error);
                }
            };
            // The first tree node's low fence is that of the tree.
            let fence = if previous.is_none() { low } else { key };
            if let Err(error) = level.push(entry, fence) {
                root.leave();
                return Err(error);
            }
            previous = Some(key);
            loaded += 1;
        }
        let result = self.stack(root, level);
        result.map(|()| loaded)
    }

    fn loaded_entry(
        &self,
        key: u64,
        value: &[u8],
        previous: Option<u64>,
        (low, last): (u64, u64),
    ) -> Result<Entry, TreeError> {
        if let Some(previous) = previous.filter(|&previous| previous >= key) {
            return Err(TreeError::NotAscending { previous, key });
        }
        if !(low..=last).contains(&key) {
            return Err(TreeError::OutOfBounds { key, low, last });
        }
        let limit = self.inner.superblock.value_max;
        if value.len() > limit as usize {
            return Err(TreeError::ValueTooLarge {
                length: value.len(),
                limit,
            });
        }
        Ok(match value.try_into() {
            Ok(word) => Entry {
                key,
                value: u64::from_le_bytes(word),
                is_reference: false,
            },
            Err(_) => Entry {
                key,
                value: self
                    .inner
                    .heap
                    .add(&self.inner.arena, key, value)?
                    .to_word(),
                is_reference: true,
            },
        })
    }

    /// Builds levels on top of `level` until one tree node holds all, which becomes the root.
    fn stack<'a>(&'a self, mut root: Writer<'_>, mut level: Level<'a>) -> Result<(), TreeError> {
        loop {
            let height = level.level;
            let nodes = level.end();
            if let [(_, only)] = nodes[..] {
                let mut top = self.node(only.index).lock();
                let entries = top.truncate(0);
                root.begin(root.epoch(), height, self.inner.superblock.tree);
                for entry in entries {
                    root.push(entry);
                }
                self.free_node(top);
                root.finish();
                return Ok(());
            }
            if nodes.is_empty() {
                root.leave();
                return Ok(());
            }
            level = Level::new(self, height + 1, root.last());
            for (low, pointer) in nodes {
                if let Err(error) = level.push(Entry::child(low, pointer), low) {
                    root.leave();
                    return Err(error);
                }
            }
        }
    }
}

/// The tree nodes of one level, from left to right.
struct Level<'a> {
    tree: &'a Tree,
    level: u8,
    fill: usize,
    /// The last fence of the rightmost tree node.
    last: u64,
    /// The tree node that is being filled.
    open: Option<Writer<'a>>,
    done: Vec<(u64, NodePointer)>,
}

impl<'a> Level<'a> {
    fn new(tree: &'a Tree, level: u8, last: u64) -> Self {
        Self {
            tree,
            level,
            fill: (tree.limit(level) * 9 / 10).max(2),
            last,
            open: None,
            done: Vec::new(),
        }
    }

    /// Adds an entry. If it becomes the first of a tree node, `fence` is that node's low fence.
    fn push(&mut self, entry: Entry, fence: u64) -> Result<(), TreeError> {
        if self
            .open
            .as_ref()
            .is_none_or(|open| open.count() >= self.fill)
        {
            let mut next = self.tree.new_node(self.level)?;
            let pointer = NodePointer {
                index: next.node().index,
                epoch: next.epoch(),
            };
            next.set_fences(fence, self.last);
            next.set_next(NodePointer::NONE);
            self.done.push((fence, pointer));
            if let Some(mut full) = self.open.replace(next) {
                full.set_fences(full.low(), fence - 1);
                full.set_next(pointer);
                full.finish();
            }
        }
        if let Some(open) = &mut self.open {
            open.push(entry);
        }
        Ok(())
    }

    /// All tree nodes of the level with their low fences.
    fn end(mut self) -> Vec<(u64, NodePointer)> {
        if let Some(open) = self.open.take() {
            open.finish();
        }
        core::mem::take(&mut self.done)
    }
}
impl Drop for Level<'_> {
    /// After an error no latch stays held.
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.finish();
        }
    }
}
