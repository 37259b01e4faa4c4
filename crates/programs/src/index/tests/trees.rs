//! Random trees: the switch must give the result of a plain search. Also the loading of trees.

use super::*;
use crate::index::entries::SLICES;
use rackweave_base::Rng;

/// A tree node for a plain search.
struct Plain {
    last: u64,
    node: u32,
    /// In ascending order.
    children: Vec<Plain>,
}

/// The slice tables for disjoint ranges in ascending order, built in the simplest way.
pub(super) fn fat_root(ranges: &[(u64, u64, FatRange)]) -> FatRoot {
    let mut root = FatRoot {
        ranges: ranges.iter().map(|range| range.2).collect(),
        ..FatRoot::default()
    };
    let mut tables = [1; SLICES];
    fill(&mut root, &mut tables, ranges, (0, 0, 0));
    root
}

/// Fills the table of a stage for keys from `base` on.
fn fill(
    root: &mut FatRoot,
    tables: &mut [u16; SLICES],
    ranges: &[(u64, u64, FatRange)],
    (stage, table, base): (usize, u16, u64),
) {
    let size = 1_u128 << (48 - 16 * stage);
    let base = u128::from(base);
    let mut slice = 0_u128;
    while slice < 1 << 16 {
        let start = base + slice * size;
        let end = start + size - 1;
        let at = ranges.partition_point(|range| u128::from(range.1) < start);
        let Some(&(low, last, _)) = ranges.get(at) else {
            return;
        };
        let (low, last) = (u128::from(low), u128::from(last));
        if low > end {
            slice = (low - base) / size;
            continue;
        }
        let mut entry = SliceEntry {
            table,
            first: slice as u16,
            last: slice as u16,
            next: Next::Range(at as u16),
        };
        if low <= start && end <= last {
            let slices = ((last + 1 - base) / size).min(1 << 16);
            entry.last = (slices - 1) as u16;
            slice = slices;
        } else {
            let next = tables[stage + 1];
            tables[stage + 1] += 1;
            entry.next = Next::Table(next);
            fill(root, tables, ranges, (stage + 1, next, start as u64));
            slice += 1;
        }
        root.stages[stage].push(entry);
    }
}

impl Plain {
    /// A random tree of up to `levels` levels below this tree node, for keys `low..=last`.
    fn random(rng: &mut Rng, names: &mut u32, levels: usize, (low, last): (u64, u64)) -> Self {
        *names += 1;
        let node = *names;
        let mut lasts: Vec<u64> = Vec::new();
        if levels > 0 && rng.chance(0.8) {
            for _ in 0..rng.below(16) {
                lasts.push(key_between(rng, low, last));
            }
            lasts.push(last);
            lasts.sort_unstable();
            lasts.dedup();
        }
        let mut from = low;
        let mut children = Vec::new();
        for end in lasts {
            children.push(Plain::random(rng, names, levels - 1, (from, end)));
            from = end.wrapping_add(1);
        }
        Self {
            last,
            node,
            children,
        }
    }

    /// The tree node for `key` and how many levels it is below this one.
    fn search(&self, key: u64) -> (u32, usize) {
        match self.children.iter().find(|child| key <= child.last) {
            None => (self.node, 0),
            Some(child) => {
                let (node, depth) = child.search(key);
                (node, depth + 1)
            }
        }
    }

    /// Puts it and its descendants into `layers`, if it has children and there is a layer; returns
    /// the entry that leads to it.
    fn place(&self, layers: &mut [Vec<RegularNode>]) -> Child {
        let Some((layer, below)) = layers.split_first_mut() else {
            return child(self.node, NO_SLOT);
        };
        if self.children.is_empty() {
            return child(self.node, NO_SLOT);
        }
        let mut node = RegularNode {
            pivots: [u64::MAX; BRANCHES],
            children: [Child::NONE; BRANCHES],
        };
        for (at, child) in self.children.iter().enumerate() {
            node.pivots[at] = child.last;
            node.children[at] = child.place(below);
        }
        layer.push(node);
        child(self.node, (layer.len() - 1) as u16)
    }
}

/// A key that is often near another one, or near a boundary of slices.
fn key_between(rng: &mut Rng, low: u64, last: u64) -> u64 {
    let key = match rng.below(4) {
        0 => low.saturating_add(rng.below(4)),
        1 => last.saturating_sub(rng.below(4)),
        2 => (low & !0 << (16 * rng.below(4))).wrapping_add(rng.below(4)),
        _ => rng.between(low, last),
    };
    key.clamp(low, last)
}

/// Disjoint random ranges with trees in them; gaps between some.
fn forest(rng: &mut Rng, names: &mut u32, count: u64) -> Vec<(u64, Plain, u16)> {
    let mut bounds = vec![0, u64::MAX];
    for _ in 0..count {
        let near = *rng.pick(&bounds);
        let bit = 1_u64 << rng.below(64);
        let bound = match rng.below(4) {
            0 => near.saturating_add(1),
            1 => bit.wrapping_sub(rng.below(2)),
            2 => rng.next_u64(),
            _ => near ^ bit,
        };
        bounds.push(bound);
    }
    bounds.sort_unstable();
    bounds.dedup();
    let mut forest = Vec::new();
    let mut low = 0;
    for last in bounds {
        if rng.chance(0.85) {
            let tree = Plain::random(rng, names, 3, (low, last));
            forest.push((low, tree, rng.below(2) as u16));
        }
        low = last.wrapping_add(1);
    }
    forest
}

#[test]
fn the_switch_answers_what_a_plain_search_does() {
    for seed in 0..60 {
        let rng = &mut Rng::new(seed);
        let mut names = 1;
        let count = 1 + rng.below(60);
        let forest = forest(rng, &mut names, count);
        let mut layers = [Vec::new(), Vec::new()];
        let ranges: Vec<_> = forest
            .iter()
            .map(|(low, tree, server)| {
                let server = *server;
                let child = tree.place(&mut layers);
                (*low, tree.last, FatRange { server, child })
            })
            .collect();
        let root = fat_root(&ranges);
        let mut rig = Rig::new(IndexConfig {
            layers: 2,
            nodes: 4096,
            ..SMALL
        });
        rig.register();
        let bank = (seed % 2) as usize;
        rig.index().load_fat_root(bank, &root).unwrap();
        for (layer, nodes) in (1..).zip(&layers) {
            let nodes = &nodes[..nodes.len().min(4096)];
            rig.index().load_nodes(bank, layer, 0, nodes).unwrap();
        }
        rig.index().set_active(Some(bank)).unwrap();
        for _ in 0..300 {
            let key = match forest.is_empty() {
                false if rng.chance(0.8) => {
                    let (low, tree, _) = rng.pick(&forest);
                    key_between(rng, *low, tree.last)
                }
                _ => rng.next_u64(),
            };
            let host = if rng.chance(0.5) {
                SERVER
            } else {
                OTHER_SERVER
            };
            let server = u16::from(host - SERVER);
            let expect = forest
                .iter()
                .find(|(low, tree, _)| (*low..=tree.last).contains(&key))
                .filter(|(_, _, of)| *of == server)
                .map_or(1, |(_, tree, _)| two_layers(tree, key));
            assert_eq!(
                rig.ask(host, key),
                Some(expect.into()),
                "seed {seed}, key {key:#x}"
            );
        }
        let counters = rig.counters();
        let all: u64 = counters.by_depth.iter().sum();
        assert_eq!((all, counters.beyond, counters.not_loaded), (300, 0, 0));
    }
}

/// The tree node that a search reaches within the fat root and two layers.
fn two_layers(tree: &Plain, key: u64) -> u32 {
    let (mut at, (node, depth)) = (tree, tree.search(key));
    if depth <= 2 {
        return node;
    }
    for _ in 0..2 {
        let child = at.children.iter().find(|child| key <= child.last);
        at = child.expect("it is deeper than that");
    }
    at.node
}

#[test]
fn a_bank_is_filled_while_the_other_one_serves() {
    let mut rig = Rig::new(SMALL);
    rig.lead();
    let still = |rig: &mut Rig| assert_eq!(rig.ask(SERVER, 150), Some(101));
    rig.index().load_nodes(1, 1, 5, &[small_node(900)]).unwrap();
    still(&mut rig);
    rig.index().load_fat_root(1, &small_fat_root(7)).unwrap();
    still(&mut rig);
    rig.index().load_nodes(1, 1, 7, &[small_node(200)]).unwrap();
    still(&mut rig);
    rig.index().set_active(Some(1)).unwrap();
    assert_eq!(rig.ask(SERVER, 150), Some(201));
    rig.index().clear(0).unwrap();
    assert_eq!(rig.ask(SERVER, 150), Some(201));
    rig.index().set_active(Some(0)).unwrap();
    assert_eq!(rig.ask(SERVER, 150), Some(1), "it was cleared");
    assert_eq!(rig.index().active(), Some(0));
}

#[test]
fn an_active_bank_is_not_loaded() {
    let mut rig = Rig::new(SMALL);
    let index = rig.index();
    index.set_active(Some(1)).unwrap();
    let root = small_fat_root(5);
    assert_eq!(index.load_fat_root(1, &root), Err(LoadError::Active(1)));
    let node = [small_node(1)];
    assert_eq!(index.load_nodes(1, 1, 0, &node), Err(LoadError::Active(1)));
    assert_eq!(index.clear(1), Err(LoadError::Active(1)));
    assert_eq!(index.clear(2), Err(LoadError::NoBank(2)));
    assert_eq!(index.set_active(Some(2)), Err(LoadError::NoBank(2)));
    assert_eq!(index.active(), Some(1));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let mut rig = Rig::new(SMALL);
    let index = rig.index();
    let error = |got: Result<(), LoadError>| got.unwrap_err().to_string();
    let node = small_node(1);
    assert_eq!(
        error(index.load_nodes(0, 2, 0, &[node])),
        "layer 2 is not in this switch, which has 1 layers from 1 on"
    );
    assert_eq!(
        error(index.load_nodes(0, 1, 63, &[node, node])),
        "table index.pivots is full: it holds 64 entries"
    );
    assert!(index.load_nodes(0, 1, NO_SLOT, &[node]).is_err());
    let mut falls = node;
    falls.pivots[2] = 150;
    assert_eq!(
        error(index.load_nodes(0, 1, 3, &[node, falls])),
        "the pivots of the tree node for slot 4 do not ascend at child 2"
    );
    let mut root = small_fat_root(5);
    root.ranges.pop();
    let dangling = error(index.load_fat_root(0, &root));
    assert!(dangling.contains("leads to Range(1)"), "{dangling}");
    let mut root = small_fat_root(5);
    root.stages[3][0].next = Next::Table(1);
    let dangling = error(index.load_fat_root(0, &root));
    assert!(dangling.contains("stage 3"), "{dangling}");
    let mut root = small_fat_root(5);
    let again = root.stages[0][0];
    root.stages[0].push(again);
    let overlap = error(index.load_fat_root(0, &root));
    assert!(overlap.contains("overlaps"), "{overlap}");
    let mut root = small_fat_root(5);
    root.ranges.resize(65, root.ranges[0]);
    assert_eq!(
        error(index.load_fat_root(0, &root)),
        "table index.ranges is full: it holds 64 entries"
    );
    let mut root = small_fat_root(5);
    let entry = root.stages[1][0];
    root.stages[1].resize(129, entry);
    assert_eq!(
        error(index.load_fat_root(0, &root)),
        "table index.slice_1 is full: it holds 128 entries"
    );
    // Nothing of the refused load has stayed.
    rig.register();
    rig.index().set_active(Some(0)).unwrap();
    assert_eq!(rig.ask(SERVER, 5), Some(1));
    assert_eq!(rig.counters().no_range, 1);
}
