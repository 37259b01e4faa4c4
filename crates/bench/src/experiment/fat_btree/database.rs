//! The experiments' database: its keys, their values, and their popularity.

use crate::harness::prelude::*;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_wire::fabric::tree::Layout;
use rackweave_workload::ycsb::{Scatter, Zipf};

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

#[cfg(test)]
mod tests;
