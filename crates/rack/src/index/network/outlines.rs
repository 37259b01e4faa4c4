//! Outlines of the endpoints' trees, in the controller's form.

use rackweave_controller::index::{Inner, TreeOutline};
use rackweave_endpoint::btree::OutlineNode;
use rackweave_wire::fabric::tree::ROOT;
use std::collections::HashMap;

/// The upper levels of several trees.
pub(super) struct Outlines {
    /// By server.
    pub trees: Vec<TreeOutline>,
    /// Of the same trees: the epoch of every tree node that was visited or pointed to.
    epochs: Vec<HashMap<u32, u32>>,
}

impl Outlines {
    /// Outlines of trees, each with its server's number, its bounds, and its inner tree nodes.
    pub fn of(trees: impl Iterator<Item = (u16, (u64, u64), Vec<OutlineNode>)>) -> Self {
        let (trees, epochs) = trees
            .map(|(server, bounds, nodes)| outline(server, bounds, nodes))
            .unzip();
        Self { trees, epochs }
    }

    /// The epochs of a server's tree nodes.
    pub fn epochs(&self, server: u16) -> Option<&HashMap<u32, u32>> {
        let at = self.trees.iter().position(|tree| tree.server == server)?;
        self.epochs.get(at)
    }
}

fn outline(
    server: u16,
    (low, last): (u64, u64),
    nodes: Vec<OutlineNode>,
) -> (TreeOutline, HashMap<u32, u32>) {
    let children = nodes.iter().flat_map(|node| &node.children);
    let pointers = children.map(|(_, pointer)| *pointer);
    let pointers = pointers.chain(nodes.iter().map(OutlineNode::pointer));
    let epochs = pointers.map(|pointer| (pointer.index, pointer.epoch));
    let epochs = epochs.collect();
    let nodes = nodes.into_iter().map(|node| {
        let children = node.children.into_iter();
        Inner {
            index: node.index,
            level: node.level,
            low: node.low,
            last: node.last,
            children: children
                .map(|(low, pointer)| (low, pointer.index))
                .collect(),
        }
    });
    let outline = TreeOutline {
        server,
        root: ROOT,
        low,
        last,
        nodes: nodes.collect(),
    };
    (outline, epochs)
}
