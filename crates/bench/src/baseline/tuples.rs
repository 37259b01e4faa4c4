//! Tuples in which every byte can be checked.
//!
//! A tuple begins with its key; the words after it follow from the key, so that a consumer can
//! check all of them without knowing the sender. Keys are spread by a bijection over the numbers of
//! the tuples, so that their sum shows whether each arrived once.
//!
//! The CPU time that a core spends on tuples ([`TupleCost`]) is the same for every compared system,
//! so that they differ only in their additional work: posting, polling, footers, credit.

use crate::harness::prelude::*;
use rackweave_endpoint::flow::hash_key;

/// The golden ratio in 64 bits: neighbouring words of a tuple differ by it.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Writes the tuple of `key` into `bytes`, a multiple of eight and at least eight long.
pub fn write(key: u64, bytes: &mut [u8]) {
    let mut word = key;
    for chunk in bytes.as_chunks_mut::<8>().0 {
        *chunk = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
}

/// The key of a tuple, if all its bytes are right.
pub fn read(bytes: &[u8]) -> Option<u64> {
    let words = bytes.as_chunks::<8>().0;
    let key = u64::from_le_bytes(*words.first()?);
    let mut word = key;
    let is_right = words.iter().all(|chunk| {
        let is_same = u64::from_le_bytes(*chunk) == word;
        word = word.wrapping_add(STEP);
        is_same
    });
    is_right.then_some(key)
}

/// The key of the tuple with this number. No two numbers have the same.
pub fn key_of(number: u64) -> u64 {
    hash_key(number.wrapping_add(1))
}

/// Writes the tuple with this number and returns its key.
pub fn make(number: u64, bytes: &mut [u8]) -> u64 {
    let key = key_of(number);
    write(key, bytes);
    key
}

/// The destination of a key, of `count`, as the partitioner of a flow computes it.
pub fn destination(key: u64, count: usize) -> usize {
    ((u128::from(hash_key(key)) * count as u128) >> 64) as usize
}

/// What a consumer has received.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    pub tuples: u64,
    /// The sum of their keys.
    pub keys: u64,
    /// Tuples with a wrong byte, or that belong to another destination.
    pub wrong: u64,
}

impl Tally {
    /// Adds tuples of `size` bytes that arrived at destination `own` of `count`.
    pub fn add(&mut self, tuples: &[u8], size: usize, own: usize, count: usize) -> u64 {
        let before = self.tuples;
        for tuple in tuples.chunks_exact(size) {
            self.tuples += 1;
            match read(tuple) {
                Some(key) if destination(key, count) == own => {
                    self.keys = self.keys.wrapping_add(key);
                }
                _ => self.wrong += 1,
            }
        }
        self.tuples - before
    }

    /// The sum of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            tuples: self.tuples + other.tuples,
            keys: self.keys.wrapping_add(other.keys),
            wrong: self.wrong + other.wrong,
        }
    }

    /// The tally of the tuples numbered from 0 to `count` when each has arrived once.
    pub fn expected(count: u64) -> Self {
        Self {
            tuples: count,
            keys: (0..count).fold(0, |sum: u64, number| sum.wrapping_add(key_of(number))),
            wrong: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TupleCost {
    cpu: CpuModel,
    tuple_size: u64,
}

impl TupleCost {
    /// The cost of tuples of `tuple_size` bytes on `cpu`.
    pub fn new(cpu: &CpuModel, tuple_size: usize) -> Self {
        Self {
            cpu: *cpu,
            tuple_size: tuple_size as u64,
        }
    }

    /// Reads `count` tuples of a table and partitions them: the bytes cross the core's path to
    /// memory twice, in from the table and out by a non-temporal store of a full line.
    pub fn partition(&self, count: u64) -> Duration {
        self.cpu.cycles(devices::HOST_PARTITION_CYCLES * count)
            + stream_time(&self.cpu, 2 * self.tuple_size * count)
    }

    /// Takes `count` tuples out of a buffer and sums them up.
    pub fn consume(&self, count: u64) -> Duration {
        self.cpu.cycles(devices::HOST_CONSUME_CYCLES * count)
            + stream_time(&self.cpu, self.tuple_size * count)
    }
}

/// Reads a word that has not changed.
pub fn unchanged(cpu: &CpuModel) -> Duration {
    cpu.cycles(devices::HOST_UNCHANGED_CYCLES)
}

#[cfg(test)]
mod tests;
