//! CPU time that a core spends on tuples: hashing, copying, reading words that a NIC has written.
//!
//! It is the same for every compared system, so that they differ only in their additional work:
//! posting, polling, footers, credit.

use rackweave_base::Duration;
use rackweave_sim::{CpuModel, devices, stream_time};

/// A core that processes tuples of one size.
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
mod tests {
    use super::*;

    #[test]
    fn a_tuple_costs_cycles_and_memory() {
        let cost = TupleCost::new(&CpuModel::default(), 16);
        // 1000 tuples: 14 000 cycles at 2.2 GHz and 32 000 bytes.
        assert_eq!(cost.partition(1000), Duration::from_nanos(6364 + 2813));
        assert!(cost.consume(1000) < cost.partition(1000));
    }
}
