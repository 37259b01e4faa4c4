//! The experiments' database: its keys, their values, and their popularity; and the cost for a
//! server's core of a walk down its tree, by the number of levels visited.
//!
//! The cost is as `rackweave_sim::TreeCost`, but for a tree that was loaded in order, whose inner
//! nodes have other limits than its leaves, and for keys of different popularity: the tree nodes of
//! a level fall into bands by popularity, each twice as large as the preceding one, and caches hold
//! what is used most.

use super::rdma::Shape;
use crate::harness::prelude::*;
use rackweave_sim::{Area, CacheModel, TreeLevel, TreeShape};
use rackweave_wire::fabric::tree::{Layout, RECORD_HEADER_WORDS, UNIT};

/// Records of a database, with keys spread evenly over all 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Database {
    pub keys: u64,
    pub value_bytes: u32,
}

/// A value that a tree is loaded with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// The value of a key that is never requested: eight bytes, stored in the leaf.
    Word([u8; 8]),
    /// The value of a key that may be requested.
    Whole(Vec<u8>),
}

impl AsRef<[u8]> for Loaded {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Word(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

impl Database {
    /// The key of a record. All four slices of 16 bits differ between records, so that every stage
    /// of a fat root has work.
    pub fn key(&self, number: u64) -> u64 {
        number * (u64::MAX / self.keys.max(1))
    }

    /// The value of a record, for loading and for checking what was read.
    pub fn value(&self, number: u64) -> Vec<u8> {
        let mut word = Rng::new(number);
        let mut value = vec![0; self.value_bytes as usize];
        for chunk in value.chunks_mut(8) {
            chunk.copy_from_slice(&word.next_u64().to_le_bytes()[..chunk.len()]);
        }
        value
    }

    /// Records `from..to`, in the order of their keys. Those in `asked`, which is ascending, have
    /// their whole values. The others have one word each, so that leaves have the same shape and
    /// only the values' memory is saved.
    pub fn entries(
        &self,
        from: u64,
        to: u64,
        asked: &[u64],
    ) -> impl Iterator<Item = (u64, Loaded)> {
        let mut asked = asked[asked.partition_point(|&number| number < from)..].iter();
        let mut next = asked.next();
        (from..to).map(move |number| {
            let is_asked = next == Some(&number);
            if is_asked {
                next = asked.next();
            }
            let value = match is_asked {
                true => Loaded::Whole(self.value(number)),
                false => Loaded::Word(number.to_le_bytes()),
            };
            (self.key(number), value)
        })
    }

    /// A tree for `keys` of the records, loaded in order, with whole values for `records` of them
    /// and spare capacity of an eighth for changes.
    pub fn tree(&self, keys: u64, records: u64, (node_bytes, fan_out): (u32, u16)) -> TreeConfig {
        let capacity = Layout::new(node_bytes).map_or(2, Layout::capacity) as u64;
        // Loading fills tree nodes to nine tenths.
        let filled = |most: u64| (most * 9 / 10).max(2);
        let children = filled(match fan_out {
            0 => capacity,
            fan_out => u64::from(fan_out),
        });
        let mut level = keys.div_ceil(filled(capacity)).max(1);
        let mut nodes = level;
        while level > 1 {
            level = level.div_ceil(children);
            nodes += level;
        }
        let shaped = TreeConfig::for_keys(records.max(1), node_bytes, self.value_bytes);
        TreeConfig {
            tree_nodes: u32::try_from(nodes + nodes / 8 + 64).unwrap_or(u32::MAX),
            ..shaped.with_fan_out(fan_out)
        }
    }
}

/// The popularity of records: Zipfian, with the popular ones scattered among all.
#[derive(Clone, Debug)]
pub struct Popularity {
    zipf: Zipf,
    known: Scatter,
    other: Scatter,
    variation: f64,
}

impl Popularity {
    /// Zipfian with skew `theta` over the records of `database`. The share `variation` of all
    /// queries is drawn from another such distribution than the one that the network is loaded for,
    /// with other popular records.
    pub fn new(database: &Database, theta: f64, variation: f64, seed: u64) -> Result<Self> {
        let zipf = Zipf::new(database.keys, theta);
        Ok(Self {
            zipf: zipf.or_failed("the distribution of queries")?,
            known: Scatter::new(database.keys, seed),
            other: Scatter::new(database.keys, !seed),
            variation,
        })
    }

    /// A record drawn from the distribution that the network is loaded for.
    pub fn known(&self, rng: &mut Rng) -> u64 {
        self.known.apply(self.zipf.sample(rng))
    }

    pub fn asked(&self, rng: &mut Rng) -> u64 {
        match rng.chance(self.variation) {
            true => self.other.apply(self.zipf.sample(rng)),
            false => self.known(rng),
        }
    }
}

/// The numbers, ascending, without duplicates.
pub fn distinct<'a>(numbers: impl IntoIterator<Item = &'a u64>) -> Vec<u64> {
    let mut distinct: Vec<u64> = numbers.into_iter().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

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
