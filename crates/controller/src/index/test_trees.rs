//! Trees for the tests, and a reference implementation of the switch's walk.

use super::NOBODY;
use super::leads::Led;
use super::outline::{Inner, TreeOutline};
use super::plan::IndexPlan;
use rackweave_base::Rng;
use rackweave_programs::index::entries::{BRANCHES, NO_SLOT, Next, ROOT};

/// A tree node of a generated tree.
#[derive(Clone, Debug)]
pub(super) struct TestNode {
    pub index: u32,
    pub level: u8,
    pub low: u64,
    pub last: u64,
    pub parent: Option<u32>,
    pub children: Vec<(u64, u32)>,
}

pub(super) struct TestTree {
    pub server: u16,
    /// The root first.
    pub nodes: Vec<TestNode>,
}

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub fan_out: usize,
    /// All inner tree nodes have `fan_out` children.
    pub full: bool,
    /// Number of levels above the leaves.
    pub levels: u8,
}

/// A random tree over a range of keys.
pub(super) fn tree(server: u16, range: (u64, u64), shape: Shape, rng: &mut Rng) -> TestTree {
    let mut tree = TestTree {
        server,
        nodes: Vec::new(),
    };
    tree.nodes.push(TestNode {
        index: ROOT,
        level: shape.levels,
        low: range.0,
        last: range.1,
        parent: None,
        children: Vec::new(),
    });
    let mut at = 0;
    while at < tree.nodes.len() {
        tree.grow(at, shape, rng);
        at += 1;
    }
    tree
}

impl TestTree {
    /// Gives the tree node at `at` its children.
    fn grow(&mut self, at: usize, shape: Shape, rng: &mut Rng) {
        let TestNode {
            index,
            level,
            low,
            last,
            ..
        } = self.nodes[at];
        if level == 0 {
            return;
        }
        let most = shape.fan_out as u64;
        let wanted = if shape.full {
            most
        } else {
            rng.between(1, most)
        };
        let span = last - low;
        let mut lows = vec![low];
        for _ in 0..64 {
            if lows.len() as u64 == wanted || lows.len() as u64 > span {
                break;
            }
            let one = low + 1 + rng.below(span);
            if !lows.contains(&one) {
                lows.push(one);
            }
        }
        lows.sort_unstable();
        for (child, &low) in lows.iter().enumerate() {
            let next = self.nodes.len() as u32 + 1;
            self.nodes[at].children.push((low, next));
            self.nodes.push(TestNode {
                index: next,
                level: level - 1,
                low,
                last: lows.get(child + 1).map_or(last, |&next| next - 1),
                parent: Some(index),
                children: Vec::new(),
            });
        }
    }

    pub(super) fn has(&self, key: u64) -> bool {
        (self.nodes[0].low..=self.nodes[0].last).contains(&key)
    }

    /// All tree nodes that have the key, from the root down: found by checking every one.
    pub(super) fn way(&self, key: u64) -> Vec<u32> {
        let has = |node: &&TestNode| (node.low..=node.last).contains(&key);
        let mut way: Vec<_> = self.nodes.iter().filter(has).collect();
        way.sort_by_key(|node| core::cmp::Reverse(node.level));
        way.iter().map(|node| node.index).collect()
    }

    pub(super) fn outline(&self) -> TreeOutline {
        let root = &self.nodes[0];
        let inner = self.nodes.iter().filter(|node| node.level > 0);
        TreeOutline {
            server: self.server,
            root: root.index,
            low: root.low,
            last: root.last,
            nodes: inner
                .map(|node| Inner {
                    index: node.index,
                    level: node.level,
                    low: node.low,
                    last: node.last,
                    children: node.children.clone(),
                })
                .collect(),
        }
    }
}

/// Where the entries of a plan lead a key.
pub(super) fn read_plan(plan: &IndexPlan, key: u64) -> Led {
    let mut number = 0;
    for (stage, entries) in plan.fat_root.stages.iter().enumerate() {
        let slice = (key >> (48 - 16 * stage)) as u16;
        let hit = entries
            .iter()
            .find(|it| it.table == number && (it.first..=it.last).contains(&slice));
        match hit.map(|hit| hit.next) {
            Some(Next::Table(table)) => number = table,
            Some(Next::Range(range)) => {
                number = range;
                break;
            }
            None => break,
        }
    }
    let range = plan.fat_root.ranges[usize::from(number)];
    let (mut child, mut depth) = (range.child, usize::from(range.server != NOBODY));
    for layer in &plan.layers {
        if child.slot == NO_SLOT {
            break;
        }
        let node = &layer[usize::from(child.slot)];
        let branch = node.pivots.iter().filter(|&&pivot| key > pivot).count();
        if branch == BRANCHES || node.children[branch].node == 0 {
            break;
        }
        child = node.children[branch];
        depth += 1;
    }
    Led {
        server: range.server,
        node: child.node,
        depth,
    }
}
