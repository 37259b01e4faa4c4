//! The cost for a server's core of a walk down its tree, by the number of levels visited.
//!
//! As `rackweave_sim::TreeCost`, but for a tree that was loaded in order, whose inner nodes have
//! other limits than its leaves, and for keys of different popularity: the tree nodes of a level
//! fall into bands by popularity, each twice as large as the preceding one, and caches hold what is
//! used most.

use super::database::Database;
use super::rdma::Shape;
use crate::harness::prelude::*;
use rackweave_sim::{Area, CacheModel, TreeLevel, TreeShape};
use rackweave_wire::fabric::tree::{Layout, RECORD_HEADER_WORDS, UNIT};

/// The share of a tree node that loading fills.
const FILL: f64 = 0.9;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WalkCost {
    /// Time to find a record, by the number of levels visited, from one (the leaf) to all.
    by_levels: Vec<Duration>,
    update: Duration,
}

/// The share of queries that the most popular records get, for this number of records and skew.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Hot {
    records: f64,
    skew: f64,
}

impl Hot {
    /// The sum of `rank^-skew` over the first `count` ranks, by the Euler–Maclaurin formula.
    fn weight(self, count: f64) -> f64 {
        let (skew, end) = (self.skew, count.max(1.0));
        let integral = match (1.0 - skew).abs() < 1e-9 {
            true => end.ln(),
            false => (end.powf(1.0 - skew) - 1.0) / (1.0 - skew),
        };
        let ends = (1.0 + end.powf(-skew)) / 2.0;
        integral + ends + skew / 12.0 * (1.0 - end.powf(-skew - 1.0))
    }

    /// The share of all queries that goes to the `hottest` of `places` that all have as many
    /// records. Popular records are in places of their own, since they are scattered; other records
    /// are spread over all places.
    fn share(self, hottest: f64, places: f64) -> f64 {
        let popular = self.weight(hottest) / self.weight(self.records);
        (popular + (1.0 - popular) * hottest / places).min(1.0)
    }

    /// The bands of an area that is divided into `places`.
    fn bands(self, area: Area, places: f64) -> Vec<Area> {
        let mut bands = Vec::new();
        let (mut before, mut asked, mut size) = (0.0, 0.0, 1.0);
        while before < places {
            let is_last = before + 2.0 * size >= places;
            let end = if is_last { places } else { before + size };
            let until = if is_last {
                1.0
            } else {
                self.share(end, places)
            };
            let (part, share) = ((end - before) / places, (until - asked).max(0.0));
            bands.push(Area {
                bytes: area.bytes * part,
                lines: area.lines * share,
                pages: area.pages * part,
                pages_touched: area.pages_touched * share,
            });
            (before, asked, size) = (end, until, size * 2.0);
        }
        bands
    }
}

impl WalkCost {
    /// Costs for a server with one in `servers` of the records of `database`, in a tree of `shape`
    /// that was loaded in order, requested with this skew.
    pub fn new(
        (database, servers): (&Database, u64),
        (node_bytes, fan_out): Shape,
        skew: f64,
        caches: &CacheModel,
    ) -> Self {
        let records = (database.keys / servers) as f64;
        let hot = Hot { records, skew };
        let shape = TreeShape::grown(database.keys, node_bytes);
        let capacity = Layout::new(node_bytes).map_or(2, Layout::capacity) as f64;
        let filled = |most: f64| (most * FILL).floor().max(2.0);
        let children = filled(match fan_out {
            0 => capacity,
            fan_out => f64::from(fan_out),
        });
        let record_bytes = RECORD_HEADER_WORDS as f64 * 8.0 + f64::from(database.value_bytes);
        let record = Area {
            bytes: records * (record_bytes / UNIT as f64).ceil() * UNIT as f64,
            lines: (record_bytes / UNIT as f64).ceil(),
            pages: (records * record_bytes / devices::PAGE_BYTES as f64).ceil(),
            pages_touched: 1.0,
        };
        let mut areas = hot.bands(record, records);
        let mut nanos = caches.work(devices::TREE_OPERATION_CYCLES as f64);
        let (mut below, mut each) = (records, filled(capacity));
        let mut by_levels = Vec::new();
        loop {
            let nodes = (below / each).ceil().max(1.0);
            let level = TreeLevel {
                nodes,
                entries: below / nodes,
            };
            let area = shape.area(&level);
            let steps = level.entries.max(1.0).log2().ceil() + 1.0;
            nanos += caches.work(devices::TREE_NODE_CYCLES as f64);
            nanos += caches.work(steps * devices::SEARCH_STEP_CYCLES as f64);
            nanos += (steps + 2.0 - area.lines).max(0.0) * caches.latency_ns[0];
            areas.extend(hot.bands(area, nodes));
            let whole = nanos + caches.loads(&areas).nanos;
            by_levels.push(Duration::from_nanos(whole.ceil() as u64));
            if nodes <= 1.0 {
                break;
            }
            (below, each) = (nodes, children);
        }
        let update = caches.work(devices::TREE_UPDATE_CYCLES as f64);
        Self {
            by_levels,
            update: Duration::from_nanos(update.ceil() as u64),
        }
    }

    /// Time to find a record from a tree node on this level, where 1 is a leaf; from the root, if
    /// the tree has fewer levels.
    pub fn lookup(&self, levels: u64) -> Duration {
        let last = self.by_levels.len() - 1;
        let at = usize::try_from(levels).unwrap_or(last).clamp(1, last + 1);
        self.by_levels[at - 1]
    }

    /// Time to change a record, from the root on.
    pub fn update(&self) -> Duration {
        self.lookup(u64::MAX) + self.update
    }
}

#[cfg(test)]
mod tests;
