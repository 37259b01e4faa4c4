//! The cost of an operation on a B+tree to a core: levels, binary searches, caches.
//!
//! A pure function of the tree's shape and of [`CacheModel`]: each level is an [`Area`], and a
//! search of a tree node loads its header and one line for each halving except the last ones, which
//! fall on one line. Nothing is estimated: the search has no branches that depend on keys.

use crate::devices;
use crate::{Area, CacheModel, Loads};
use rackweave_base::Duration;

/// The shape of a B+tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TreeShape {
    /// Number of keys.
    pub keys: u64,
    /// Bytes of a tree node.
    pub node_bytes: u64,
    /// Bytes before the entries of a tree node.
    pub header_bytes: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// The fraction of a tree node in use, on average.
    pub fill: f64,
}

/// One level of such a tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TreeLevel {
    /// Number of tree nodes.
    pub nodes: f64,
    /// Entries of each.
    pub entries: f64,
}

/// The cost of tree operations to one core of a certain kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TreeCost {
    /// A lookup that finds its key.
    pub lookup: Duration,
    /// An update of a value in place.
    pub update: Duration,
    /// The loads of either.
    pub loads: Loads,
    /// Number of levels, including the leaves.
    pub levels: u32,
}

impl TreeShape {
    /// A tree of `keys` keys with values of eight bytes in tree nodes of `node_bytes`, grown at
    /// random. The layout is that of `rackweave_wire::fabric::tree`.
    pub fn grown(keys: u64, node_bytes: u32) -> Self {
        Self {
            keys,
            node_bytes: u64::from(node_bytes),
            header_bytes: 64,
            entry_bytes: 16,
            fill: devices::TREE_FILL,
        }
    }

    /// Entries of a tree node in use.
    pub fn entries(&self) -> f64 {
        let usable = self.node_bytes.saturating_sub(self.header_bytes) / self.entry_bytes.max(1);
        (usable as f64 * self.fill).max(2.0)
    }

    /// The levels, the root first.
    pub fn levels(&self) -> Vec<TreeLevel> {
        let most = self.entries();
        let mut below = self.keys.max(1) as f64;
        let mut levels = Vec::new();
        loop {
            let nodes = (below / most).ceil().max(1.0);
            levels.push(TreeLevel {
                nodes,
                entries: below / nodes,
            });
            if nodes <= 1.0 {
                levels.reverse();
                return levels;
            }
            below = nodes;
        }
    }

    /// Bytes of all tree nodes.
    pub fn bytes(&self) -> f64 {
        let nodes: f64 = self.levels().iter().map(|level| level.nodes).sum();
        nodes * self.node_bytes as f64
    }

    /// The memory of a level, and the lines that a search loads from it.
    pub fn area(&self, level: &TreeLevel) -> Area {
        let page = devices::PAGE_BYTES as f64;
        let used = self.header_bytes as f64 + level.entries * self.entry_bytes as f64;
        Area {
            bytes: level.nodes * used,
            lines: 1.0 + self.lines_searched(level.entries),
            pages: (level.nodes * self.node_bytes as f64 / page).ceil(),
            // A tree node is no larger than a page and does not straddle two.
            pages_touched: (self.node_bytes as f64 / page).ceil(),
        }
    }

    /// Lines that a binary search over `entries` entries loads.
    fn lines_searched(&self, entries: f64) -> f64 {
        let per_line = (devices::HOST_LINE_BYTES / self.entry_bytes.max(1)).max(1);
        // The last halvings and the comparison after them fall on one line.
        let on_the_last = f64::from(per_line.ilog2());
        (halvings(entries) - on_the_last + 1.0).max(1.0)
    }
}

/// How often a search halves `entries` entries until one is left; that one is compared once more.
fn halvings(entries: f64) -> f64 {
    entries.max(1.0).log2().ceil()
}

impl TreeCost {
    /// The cost of operations on such a tree to a core with `caches`, with keys drawn uniformly.
    pub fn new(shape: &TreeShape, caches: &CacheModel) -> Self {
        let levels = shape.levels();
        let areas: Vec<Area> = levels.iter().map(|level| shape.area(level)).collect();
        let loads = caches.loads(&areas);
        let mut nanos = loads.nanos + caches.work(devices::TREE_OPERATION_CYCLES as f64);
        for (level, area) in levels.iter().zip(&areas) {
            let steps = halvings(level.entries) + 1.0;
            nanos += caches.work(devices::TREE_NODE_CYCLES as f64);
            nanos += caches.work(steps * devices::SEARCH_STEP_CYCLES as f64);
            // Steps on a line that is already loaded, and the second read of the latch.
            let again = steps + 2.0 - area.lines;
            nanos += again.max(0.0) * caches.latency_ns[0];
        }
        let update = nanos + caches.work(devices::TREE_UPDATE_CYCLES as f64);
        let whole = |nanos: f64| Duration::from_nanos(nanos.ceil() as u64);
        Self {
            lookup: whole(nanos),
            update: whole(update),
            loads,
            levels: levels.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_halves_until_one_entry_is_left() {
        let given = [1.0, 2.0, 3.0, 4.0, 5.0, 128.0, 129.0];
        let expect = [0.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0];
        assert_eq!(given.map(halvings), expect);
    }

    #[test]
    fn a_tree_has_as_many_levels_as_its_keys_need() {
        let full = |keys, node_bytes| TreeShape {
            header_bytes: 0,
            fill: 1.0,
            ..TreeShape::grown(keys, node_bytes)
        };
        // Bluefield, section 5.2: with 256 M keys a fanout of 32 gives six levels, 128 four.
        assert_eq!(full(256_000_000, 512).levels().len(), 6);
        assert_eq!(full(256_000_000, 2048).levels().len(), 4);
        assert_eq!(full(1, 512).levels().len(), 1);
        assert_eq!(full(33, 512).levels().len(), 2);
        let levels = TreeShape::grown(1_000_000, 4096).levels();
        let keys = levels.last().expect("there are leaves");
        assert!((keys.nodes * keys.entries - 1e6).abs() < 1e-3);
        let bytes = TreeShape::grown(1_000_000, 4096).bytes() / 1e6;
        assert!((16.0..32.0).contains(&bytes), "{bytes} MB for 1 M keys");
    }

    #[test]
    fn a_search_loads_a_line_for_each_step_but_the_last() {
        let shape = TreeShape::grown(1, 4096);
        assert_eq!(shape.lines_searched(1.0), 1.0);
        assert_eq!(shape.lines_searched(3.0), 1.0, "four entries are a line");
        assert_eq!(shape.lines_searched(250.0), 7.0);
    }

    #[test]
    fn larger_trees_and_slower_cores_cost_more() {
        let (host, dpu) = (CacheModel::xeon_6326(), CacheModel::bluefield_2());
        let mut last = Duration::ZERO;
        for keys in [1_000, 100_000, 1_000_000, 16_000_000, 256_000_000] {
            let shape = TreeShape::grown(keys, 4096);
            let (near, far) = (TreeCost::new(&shape, &host), TreeCost::new(&shape, &dpu));
            assert!(near.lookup > last && far.lookup > near.lookup, "{keys}");
            assert!(near.update > near.lookup && near.levels == far.levels);
            last = near.lookup;
        }
    }

    #[test]
    fn a_small_tree_lies_in_the_caches_and_a_large_one_in_memory() {
        let host = CacheModel::xeon_6326();
        let served = |keys| {
            TreeCost::new(&TreeShape::grown(keys, 4096), &host)
                .loads
                .served
        };
        let small = served(100_000);
        assert!(small[3] < 1e-9, "{small:?}");
        let large = served(256_000_000);
        assert!(
            large[3] > 7.0,
            "the leaf's lines come from memory: {large:?}"
        );
    }
}
