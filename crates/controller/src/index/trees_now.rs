//! The value of a plan in trees that have changed since it was made.
//!
//! Keys of the right half of a tree node that has been split are still led to it; from there a
//! reader takes one step to the right for each tree node that is now in between.

use super::outline::TreeOutline;
use super::plan::IndexPlan;
use super::weights::KeyWeights;
use std::collections::BTreeMap;

/// The tree nodes of each level of a server's tree, leaves included, by their least keys.
struct Levels {
    /// By level, ascending.
    lows: Vec<Vec<u64>>,
    /// By index: the level, as far as known.
    level_of: BTreeMap<u32, u8>,
    low: u64,
    last: u64,
}

/// The current levels of all servers' trees.
pub(super) struct LevelsNow(BTreeMap<u16, Levels>);

impl LevelsNow {
    pub(super) fn new(trees: &[TreeOutline]) -> Self {
        Self(
            trees
                .iter()
                .map(|it| (it.server, Levels::new(it)))
                .collect(),
        )
    }

    /// READs per query until a leaf has been read, averaged over the weights of keys that have a
    /// server. Zero if no weights are known. Without a plan all queries begin at the root.
    pub(super) fn reads(&self, plan: Option<&IndexPlan>, weights: &KeyWeights) -> f64 {
        let (mut reads, mut all) = (0.0, 0.0);
        for tree in self.0.values() {
            let weight = weights.of(tree.low, tree.last);
            all += weight;
            if plan.is_none() {
                reads += weight * tree.lows.len() as f64;
            }
        }
        for lead in plan.map_or(&[][..], |plan| &plan.leads) {
            let Some(tree) = self.0.get(&lead.server) else {
                continue;
            };
            let range = (lead.low.max(tree.low), lead.last.min(tree.last));
            let level = tree.level_of.get(&lead.node).copied().unwrap_or(lead.level);
            reads += tree.reads(level, range, weights);
        }
        if all > 0.0 { reads / all } else { 0.0 }
    }
}

impl Levels {
    fn new(tree: &TreeOutline) -> Self {
        let height = tree
            .nodes
            .iter()
            .map(|inner| inner.level)
            .max()
            .unwrap_or(0);
        let mut lows = vec![Vec::new(); usize::from(height) + 1];
        lows[usize::from(height)].push(tree.low);
        let mut level_of = BTreeMap::from([(tree.root, height)]);
        for inner in &tree.nodes {
            level_of.insert(inner.index, inner.level);
            let below = usize::from(inner.level).saturating_sub(1);
            lows[below].extend(inner.children.iter().map(|&(low, _)| low));
        }
        for lows in &mut lows {
            lows.sort_unstable();
            lows.dedup();
        }
        Self {
            lows,
            level_of,
            low: tree.low,
            last: tree.last,
        }
    }

    /// Weighted READs for the keys of a range that are led to a tree node of the given level, in
    /// which the least of them is.
    fn reads(&self, level: u8, (low, last): (u64, u64), weights: &KeyWeights) -> f64 {
        let down = f64::from(level) + 1.0;
        let lows = self.lows.get(usize::from(level)).map_or(&[][..], |it| it);
        // Each tree node that begins further to the right costs one more step for all keys from
        // there.
        let steps = &lows[lows.partition_point(|&it| it <= low)..];
        let steps = steps.iter().take_while(|&&it| it <= last);
        let right: f64 = steps.map(|&from| weights.of(from, last)).sum();
        weights.of(low, last) * down + right
    }
}
