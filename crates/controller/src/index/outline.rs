//! The controller's knowledge of the servers' trees, and the steps of a walk through them.

use super::plan::PlanError;
use super::weights::KeyWeights;
use rackweave_programs::index::entries::ROOT;
use std::collections::HashMap;

/// An inner tree node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inner {
    /// Its index.
    pub index: u32,
    /// Its level; leaves have level 0.
    pub level: u8,
    /// Its least key.
    pub low: u64,
    /// Its greatest key.
    pub last: u64,
    /// Its children in ascending order: the least key of each, and its index.
    pub children: Vec<(u64, u32)>,
}

/// The upper part of a server's tree. The tree nodes need not be from the same moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeOutline {
    /// The server's number.
    pub server: u16,
    /// The index of its root.
    pub root: u32,
    /// The least key of the server.
    pub low: u64,
    /// The greatest key of the server.
    pub last: u64,
    /// Inner tree nodes. A child that is not among them counts as a leaf.
    pub nodes: Vec<Inner>,
}

/// A place in a tree to which the network may lead keys: a tree node and the keys that are led
/// there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spot {
    /// The index of the tree; `None` for keys without an owner.
    pub tree: Option<usize>,
    pub node: u32,
    pub level: u8,
    /// The least key that is led there.
    pub low: u64,
    /// The greatest key that is led there.
    pub last: u64,
    pub weight: f64,
}

/// All trees, with their tree nodes by index.
pub(super) struct Forest<'a> {
    pub trees: &'a [TreeOutline],
    weights: &'a KeyWeights,
    nodes: Vec<HashMap<u32, &'a Inner>>,
}

impl<'a> Forest<'a> {
    pub fn new(trees: &'a [TreeOutline], weights: &'a KeyWeights) -> Result<Self, PlanError> {
        let nodes = trees.iter().map(|tree| {
            check(tree)?;
            let nodes = tree.nodes.iter();
            Ok(nodes.map(|inner| (inner.index, inner)).collect())
        });
        Ok(Self {
            trees,
            weights,
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }

    /// The roots, and between them the keys without an owner: together all keys, ascending.
    pub fn roots(&self) -> Result<Vec<Spot>, PlanError> {
        let mut order: Vec<usize> = (0..self.trees.len()).collect();
        order.sort_unstable_by_key(|&tree| self.trees[tree].low);
        let mut spots = Vec::with_capacity(2 * order.len() + 1);
        // The first key that is not assigned yet; `None` if all are.
        let (mut next, mut left) = (Some(0), None::<u16>);
        for tree in order {
            let outline = &self.trees[tree];
            let (low, last) = (outline.low, outline.last);
            match next {
                Some(next) if next <= low => {
                    if next < low {
                        spots.push(self.spot(None, ROOT, 0, (next, low - 1)));
                    }
                }
                _ => {
                    return Err(PlanError::Overlap {
                        left: left.unwrap_or(outline.server),
                        right: outline.server,
                        key: low,
                    });
                }
            }
            let root = self.nodes[tree].get(&outline.root);
            let level = root.map_or(0, |root| root.level);
            spots.push(self.spot(Some(tree), outline.root, level, (low, last)));
            (next, left) = (last.checked_add(1), Some(outline.server));
        }
        if let Some(next) = next {
            spots.push(self.spot(None, ROOT, 0, (next, u64::MAX)));
        }
        Ok(spots)
    }

    /// The next spots of a walk: those of the children, in ascending order, which together cover
    /// the spot's keys. Keys beyond the last child, because the tree node was split after its
    /// parent was read, stay where they are. Empty if the spot is a leaf, or if the outline's tree
    /// node does not match the spot; then it has changed meanwhile.
    pub fn children(&self, spot: &Spot) -> Vec<Spot> {
        let inner = spot.tree.and_then(|tree| self.nodes[tree].get(&spot.node));
        let fits = |inner: &&&Inner| {
            inner.level == spot.level && inner.low <= spot.low && spot.low <= inner.last
        };
        let Some(inner) = inner.filter(fits) else {
            return Vec::new();
        };
        let last = inner.last.min(spot.last);
        let mut spots = Vec::with_capacity(inner.children.len() + 1);
        for (at, &(low, node)) in inner.children.iter().enumerate() {
            let next = inner.children.get(at + 1);
            let until = next.map_or(inner.last, |&(next, _)| next - 1).min(last);
            let from = low.max(spot.low);
            if from <= until {
                spots.push(self.spot(spot.tree, node, inner.level - 1, (from, until)));
            }
        }
        if last < spot.last {
            let rest = (last + 1, spot.last);
            spots.push(self.spot(spot.tree, spot.node, inner.level, rest));
        }
        spots
    }

    fn spot(&self, tree: Option<usize>, node: u32, level: u8, (low, last): (u64, u64)) -> Spot {
        Spot {
            tree,
            node,
            level,
            low,
            last,
            weight: self.weights.of(low, last),
        }
    }
}

/// Checks that an outline is consistent in itself.
fn check(tree: &TreeOutline) -> Result<(), PlanError> {
    let bad = |node, what| {
        Err(PlanError::BadOutline {
            server: tree.server,
            node,
            what,
        })
    };
    if tree.server == super::NOBODY {
        return Err(PlanError::ReservedServer);
    }
    if tree.low > tree.last {
        return bad(tree.root, "its range ends before it begins");
    }
    for inner in &tree.nodes {
        let index = inner.index;
        let Some(&(first, _)) = inner.children.first() else {
            return bad(index, "it has no children");
        };
        if inner.level == 0 {
            return bad(index, "it is a leaf");
        }
        if inner.low > inner.last {
            return bad(index, "its range ends before it begins");
        }
        if first > inner.low {
            return bad(index, "its first child begins behind its least key");
        }
        if !inner.children.is_sorted_by(|a, b| a.0 < b.0) {
            return bad(index, "its children do not ascend");
        }
        if inner
            .children
            .last()
            .is_some_and(|&(low, _)| low > inner.last)
        {
            return bad(index, "its last child begins behind its greatest key");
        }
    }
    let mut indices: Vec<u32> = tree.nodes.iter().map(|inner| inner.index).collect();
    indices.sort_unstable();
    match indices.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bad(pair[0], "it is there twice"),
        None => Ok(()),
    }
}
