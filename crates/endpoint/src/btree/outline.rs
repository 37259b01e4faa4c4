//! The upper levels of a tree, for switches that direct lookups into it.

use super::tree::Tree;
use rackweave_wire::fabric::tree::{NodePointer, ROOT};
use serde::{Deserialize, Serialize};

/// A consistent copy of an inner tree node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutlineNode {
    /// Its index in the block.
    pub index: u32,
    /// Its epoch.
    pub epoch: u32,
    /// Its level: 1 or more.
    pub level: u8,
    /// The least key that belongs to it.
    pub low: u64,
    /// The greatest key that belongs to it.
    pub last: u64,
    /// Its children with the least key of each, ascending; the children of level 1 are leaves.
    pub children: Vec<(u64, NodePointer)>,
}

impl OutlineNode {
    /// The pointer to it.
    pub fn pointer(&self) -> NodePointer {
        NodePointer {
            index: self.index,
            epoch: self.epoch,
        }
    }
}

impl Tree {
    /// The inner tree nodes from the root down, level by level and from left to right, at most
    /// `most`; empty if the root is a leaf. Each is a consistent copy, but writers may interfere
    /// between two copies: a child that has been freed since its parent was read is omitted, with
    /// its whole subtree. A caller that keeps pointers to them must pin them: [`Tree::pin`].
    pub fn outline(&self, most: usize) -> Vec<OutlineNode> {
        let root = self.outline_root();
        if most == 0 || root.level == 0 {
            return Vec::new();
        }
        let mut nodes = vec![root];
        let mut at = 0;
        while let Some(parent) = nodes.get(at).filter(|parent| parent.level > 1) {
            let (level, children) = (parent.level - 1, parent.children.clone());
            for (_, pointer) in children {
                if nodes.len() == most {
                    return nodes;
                }
                let child = self.outline_of(pointer.index);
                nodes.extend(child.filter(|child| {
                    child.epoch == pointer.epoch && child.epoch & 1 == 1 && child.level == level
                }));
            }
            at += 1;
        }
        nodes
    }

    fn outline_root(&self) -> OutlineNode {
        self.outline_of(ROOT).expect("every tree has a root")
    }

    /// A consistent copy of a tree node, in use or not; `None` if the index is invalid.
    fn outline_of(&self, index: u32) -> Option<OutlineNode> {
        loop {
            let place = self.place(index)?;
            let (node, meta) = (place.node, place.node.meta());
            let count = node.count(meta);
            let outline = OutlineNode {
                index,
                epoch: meta.epoch,
                level: meta.level,
                low: node.low(),
                last: node.last(),
                children: (0..count)
                    .map(|at| (node.key(at), node.child(at)))
                    .collect(),
            };
            if place.is_still() {
                return Some(outline);
            }
            self.restarted();
        }
    }
}
