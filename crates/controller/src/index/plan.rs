//! The contents of the switches: the fat root, and below it layer by layer the tree nodes that most
//! queries pass (fat-btree, sections III-B and III-C).
//!
//! An entry leads to a tree node by its index. It is correct as long as that tree node exists and
//! its least key is not greater than those led there, however the tree changes: a reader whose key
//! is to the right of the node that it has read moves right. So the caller has the servers *pin* a
//! plan's [targets](IndexPlan::targets) before loading it, and leaves out what they could not pin
//! ([`IndexPlan::without`]).

use super::fat_root;
use super::leads::{Lead, PlanEntry};
use super::outline::{Forest, Spot, TreeOutline};
use super::ranges::range_tables;
use super::weights::KeyWeights;
use super::{Forecast, NOBODY};
use rackweave_programs::index::entries::{
    BRANCHES, Child, DEPTHS, FatRange, FatRoot, NO_SLOT, NODES_MAX, ROOT, RegularNode,
};
use serde::{Deserialize, Serialize};

/// Maximum number of layers that a query walks: more depths cannot be distinguished in a query.
pub const LAYERS_MAX: usize = DEPTHS - 2;

/// The capacity for a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanLimits {
    /// Ranges of the fat root.
    pub ranges: usize,
    /// Maximum tree nodes of each layer.
    pub nodes_per_layer: usize,
    /// Maximum layers below the fat root.
    pub layers: usize,
}

/// A tree node that an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// Its server.
    pub server: u16,
    /// Its index.
    pub node: u32,
    /// The least key that is led there. The tree node's own least key must not be greater.
    pub low: u64,
}

/// Why no plan could be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// The fat root has fewer ranges than there are trees and gaps between them.
    #[error(
        "the servers' trees and the gaps between them are {needs} ranges, and the fat root has \
         room for {has}; raise its ranges"
    )]
    TooFewRanges {
        /// Ranges needed.
        needs: usize,
        /// Ranges available.
        has: usize,
    },
    /// A limit is larger than any switch supports.
    #[error("{what}: {number} are asked for, at most {most} can be")]
    TooMany {
        /// The limit's name.
        what: &'static str,
        /// The requested number.
        number: usize,
        /// The maximum.
        most: usize,
    },
    /// Two servers own the same key.
    #[error("servers {left} and {right} both have key {key:#x}; outlines of one map are needed")]
    Overlap {
        /// The first server.
        left: u16,
        /// The second server.
        right: u16,
        /// A key that both own.
        key: u64,
    },
    /// A server's outline contradicts itself.
    #[error("the outline of server {server}'s tree is wrong at tree node {node}: {what}")]
    BadOutline {
        /// The server.
        server: u16,
        /// The tree node.
        node: u32,
        /// The contradiction.
        what: &'static str,
    },
    /// The reserved number that means no server.
    #[error("{NOBODY} is no server's number: it stands for keys that nobody has")]
    ReservedServer,
}

/// A tree node in a layer, with the plan's data besides its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    pub server: u16,
    pub level: u8,
    pub low: u64,
    /// The target of its entries without a better one, and its level: the node itself, or its
    /// nearest pinned ancestor.
    pub own: (u32, u8),
    /// Number of children that keys lead to.
    pub used: usize,
}

/// The size of a plan, and what it leaves out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanSummary {
    /// Ranges of the fat root.
    pub ranges: usize,
    /// Entries of each stage of the fat root.
    pub entries: Vec<usize>,
    /// Range tables of each stage.
    pub tables: Vec<usize>,
    /// Tree nodes of each layer.
    pub nodes: Vec<usize>,
    /// Tree nodes that the fat root had no free ranges for.
    pub left_out: usize,
    /// Tree nodes that have more children than a switch can distinguish; walks end at them.
    pub too_wide: usize,
}

/// A plan: the switches' knowledge of the servers' trees.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexPlan {
    /// The fat root.
    pub fat_root: FatRoot,
    /// The layers below it; the first is layer 1.
    pub layers: Vec<Vec<RegularNode>>,
    /// The least key of each range of the fat root; `levels` has the level of its target.
    pub(super) lows: Vec<u64>,
    pub(super) levels: Vec<u8>,
    /// Parallel to `layers`.
    pub(super) held: Vec<Vec<Held>>,
    /// The target of each key; together all keys, ascending.
    pub(super) leads: Vec<Lead>,
    /// The servers with the roots of their trees and the levels of these.
    pub(super) roots: Vec<(u16, u32, u8)>,
    left_out: usize,
    too_wide: usize,
}

/// Makes a plan for the servers' trees that is as good for `weights` as the limits allow. Without
/// any weights upper levels go first; [`KeyWeights::from_counts`] over all keys means a uniform
/// load.
///
/// # Errors
/// If an outline contradicts itself, two overlap, or the limits are too small or too large.
pub fn plan(
    trees: &[TreeOutline],
    weights: &KeyWeights,
    limits: &PlanLimits,
) -> Result<IndexPlan, PlanError> {
    limits.check()?;
    let forest = Forest::new(trees, weights)?;
    let choice = fat_root::choose(&forest, limits.ranges)?;
    let lows: Vec<u64> = choice.spots.iter().map(|spot| spot.low).collect();
    let server = |spot: &Spot| spot.tree.map_or(NOBODY, |tree| trees[tree].server);
    let ranges = choice.spots.iter().map(|spot| FatRange {
        server: server(spot),
        child: leaf(spot),
    });
    let roots = forest.roots()?;
    let roots = roots.iter().filter(|root| root.tree.is_some());
    let mut plan = IndexPlan {
        fat_root: FatRoot {
            stages: range_tables(&lows),
            ranges: ranges.collect(),
        },
        layers: Vec::new(),
        lows,
        levels: choice.spots.iter().map(|spot| spot.level).collect(),
        held: Vec::new(),
        leads: Vec::new(),
        roots: roots
            .map(|root| (server(root), root.node, root.level))
            .collect(),
        left_out: choice.left_out,
        too_wide: 0,
    };
    let places = (0..).map(PlanEntry::Range);
    let mut above: Vec<(PlanEntry, Spot)> = places.zip(choice.spots).collect();
    for _ in 0..limits.layers {
        let below = plan.add_layer(&forest, &above, limits.nodes_per_layer);
        if below.is_empty() {
            break;
        }
        above = below;
    }
    plan.find_leads();
    Ok(plan)
}

impl PlanLimits {
    fn check(&self) -> Result<(), PlanError> {
        for (what, number, most) in [
            ("ranges of the fat root", self.ranges, usize::from(u16::MAX)),
            (
                "tree nodes in a layer",
                self.nodes_per_layer,
                usize::from(NODES_MAX),
            ),
            ("layers", self.layers, LAYERS_MAX),
        ] {
            if number > most {
                return Err(PlanError::TooMany { what, number, most });
            }
        }
        Ok(())
    }
}

/// The entry for a spot at which walks end.
fn leaf(spot: &Spot) -> Child {
    Child {
        node: spot.node,
        slot: NO_SLOT,
    }
}

impl IndexPlan {
    /// Adds a layer with the heaviest of the tree nodes that the layer above leads to; returns what
    /// the new layer leads to.
    fn add_layer(
        &mut self,
        forest: &Forest<'_>,
        above: &[(PlanEntry, Spot)],
        capacity: usize,
    ) -> Vec<(PlanEntry, Spot)> {
        let mut order: Vec<usize> = (0..above.len()).collect();
        let spot = |at: usize| &above[at].1;
        order.sort_by(|&a, &b| spot(b).weight.total_cmp(&spot(a).weight));
        let mut chosen = Vec::new();
        for at in order {
            let mut children = forest.children(spot(at));
            // Keys beyond all children stay at this node without an entry.
            children.pop_if(|last| last.node == spot(at).node);
            if children.is_empty() {
                continue;
            }
            if children.len() > BRANCHES {
                self.too_wide += 1;
            } else if chosen.len() < capacity {
                chosen.push((at, children));
            }
        }
        // Neighbours in the tree are neighbours in the table.
        chosen.sort_unstable_by_key(|&(at, _)| spot(at).low);
        let layer = self.layers.len() as u8 + 1;
        let (mut nodes, mut held, mut below) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, (at, children)) in (0u16..).zip(chosen) {
            let (place, spot) = above[at];
            self.child_at(place).slot = slot;
            nodes.push(regular(&children));
            held.push(Held {
                server: spot.tree.map_or(NOBODY, |tree| forest.trees[tree].server),
                level: spot.level,
                low: spot.low,
                own: (spot.node, spot.level),
                used: children.len(),
            });
            let places = (0u8..).map(|child| PlanEntry::Child { layer, slot, child });
            below.extend(places.zip(children));
        }
        if !nodes.is_empty() {
            self.layers.push(nodes);
            self.held.push(held);
        }
        below
    }

    /// The entry at a place.
    pub(super) fn child_at(&mut self, place: PlanEntry) -> &mut Child {
        match place {
            PlanEntry::Range(range) => &mut self.fat_root.ranges[usize::from(range)].child,
            PlanEntry::Child { layer, slot, child } => {
                let layer = &mut self.layers[usize::from(layer) - 1];
                &mut layer[usize::from(slot)].children[usize::from(child)]
            }
        }
    }

    /// All tree nodes that entries lead to, except the roots, which exist permanently. Ascending,
    /// each once.
    pub fn targets(&self) -> Vec<Target> {
        let ranges = self.fat_root.ranges.iter().zip(&self.lows);
        let ranges = ranges.map(|(range, &low)| (range.server, range.child.node, low));
        let nodes = self.layers.iter().flatten();
        let nodes = nodes.zip(self.held.iter().flatten());
        let children = nodes.flat_map(|(node, held)| {
            let pivots = node.pivots.iter().map(|pivot| pivot.saturating_add(1));
            let lows = [held.low].into_iter().chain(pivots);
            let children = node.children.iter().zip(lows).take(held.used);
            children.map(|(child, low)| (held.server, child.node, low))
        });
        let mut targets: Vec<Target> = ranges
            .chain(children)
            .filter(|&(server, node, _)| server != NOBODY && self.root(server).0 != node)
            .map(|(server, node, low)| Target { server, node, low })
            .collect();
        targets.sort_unstable();
        // Of a tree node with several ranges the least key is kept.
        targets.dedup_by_key(|target| (target.server, target.node));
        targets
    }

    /// The root of a server's tree and its level.
    pub(super) fn root(&self, server: u16) -> (u32, u8) {
        let at = self.roots.iter().find(|root| root.0 == server);
        at.map_or((ROOT, 0), |&(_, node, level)| (node, level))
    }

    /// The same plan without some of its targets: entries that led there lead to the nearest
    /// remaining ancestor. Walks continue from there through the layers below.
    pub fn without(mut self, failed: &[Target]) -> Self {
        let mut failed: Vec<(u16, u32)> = failed.iter().map(|t| (t.server, t.node)).collect();
        failed.sort_unstable();
        let is_gone = |server, node| failed.binary_search(&(server, node)).is_ok();
        // By slot of the next layer: the replacement target of the tree node itself.
        let mut own: Vec<(u16, (u32, u8))> = Vec::new();
        for at in 0..self.fat_root.ranges.len() {
            let FatRange { server, child } = self.fat_root.ranges[at];
            if is_gone(server, child.node) {
                let root = self.root(server);
                self.fat_root.ranges[at].child.node = root.0;
                self.levels[at] = root.1;
                own.push((child.slot, root));
            }
        }
        for (nodes, held) in self.layers.iter_mut().zip(&mut self.held) {
            for (slot, own) in own.drain(..).filter(|own| own.0 != NO_SLOT) {
                held[usize::from(slot)].own = own;
            }
            for (node, held) in nodes.iter_mut().zip(held) {
                for child in &mut node.children[..held.used] {
                    if is_gone(held.server, child.node) {
                        child.node = held.own.0;
                        own.push((child.slot, held.own));
                    }
                }
            }
        }
        self.find_leads();
        self
    }

    /// The size of the plan.
    pub fn summary(&self) -> PlanSummary {
        let stages = &self.fat_root.stages;
        let tables = stages.iter().map(|entries| {
            let same_table = entries.chunk_by(|a, b| a.table == b.table);
            same_table.count()
        });
        PlanSummary {
            ranges: self.fat_root.ranges.len(),
            entries: stages.iter().map(Vec::len).collect(),
            tables: tables.collect(),
            nodes: self.layers.iter().map(Vec::len).collect(),
            left_out: self.left_out,
            too_wide: self.too_wide,
        }
    }

    /// How far queries with these weights of keys would be led.
    pub fn forecast(&self, weights: &KeyWeights) -> Forecast {
        Forecast::new(&self.leads, weights)
    }
}

/// The entries of a tree node with these children.
fn regular(children: &[Spot]) -> RegularNode {
    let none = Child {
        node: 0,
        slot: NO_SLOT,
    };
    let mut node = RegularNode {
        pivots: [u64::MAX; BRANCHES],
        children: [none; BRANCHES],
    };
    let entries = node.pivots.iter_mut().zip(&mut node.children);
    for (child, (pivot, entry)) in children.iter().zip(entries) {
        (*pivot, *entry) = (child.last, leaf(child));
    }
    node
}
