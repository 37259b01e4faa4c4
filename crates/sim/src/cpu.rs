//! The CPU of a node: the costs of its cores, and how their time was spent.

use crate::devices;
use rackweave_base::{Duration, Instant};
use std::collections::VecDeque;

/// A CPU's constants. The cost of a row or a byte is defined by the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuModel {
    /// Cores, at least one.
    pub cores: u16,
    /// Clock in hertz.
    pub hertz: u64,
    /// A load that misses every cache.
    pub memory_latency: Duration,
    /// A load that hits the last level cache.
    pub cache_latency: Duration,
    /// Bytes per second of all cores together.
    pub memory_bytes_per_second: u64,
    /// Posting one work request.
    pub post_cost: Duration,
    /// Taking one completion.
    pub poll_cost: Duration,
    /// From a word being in memory to a spinning core seeing it.
    pub spin_latency: Duration,
}

/// What a core spends its time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    /// The actual work of the program.
    Compute,
    /// Moving data: posting, polling, copying.
    Communication,
}

/// Time spent by the cores of a node so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuReport {
    /// The actual work.
    pub compute: Duration,
    /// Moving data.
    pub communication: Duration,
    /// Spinning on memory for a packet that had not arrived.
    pub waiting: Duration,
}

impl CpuReport {
    /// Time spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let span = |now: Duration, then: Duration| {
            Duration::from_nanos(now.as_nanos().saturating_sub(then.as_nanos()))
        };
        Self {
            compute: span(self.compute, earlier.compute),
            communication: span(self.communication, earlier.communication),
            waiting: span(self.waiting, earlier.waiting),
        }
    }

    pub(crate) fn charge(&mut self, category: Category, time: Duration) {
        match category {
            Category::Compute => self.compute += time,
            Category::Communication => self.communication += time,
        }
    }
}

/// One core. Actors take turns on it, one step each.
#[derive(Clone, Default, Debug)]
pub(crate) struct Core {
    pub(crate) busy_until: Instant,
    /// Actors waiting for it, in order.
    pub(crate) ready: VecDeque<u32>,
    /// Whether its next free time is in the event queue.
    pub(crate) entered: bool,
}

impl Default for CpuModel {
    /// The Xeon Gold 5120 of the testbed.
    fn default() -> Self {
        Self {
            cores: devices::HOST_CORES,
            hertz: devices::HOST_HERTZ,
            memory_latency: devices::HOST_MEMORY_LATENCY,
            cache_latency: devices::HOST_CACHE_LATENCY,
            memory_bytes_per_second: devices::HOST_MEMORY_BYTES_PER_SECOND,
            post_cost: devices::HOST_POST_COST,
            poll_cost: devices::HOST_POLL_COST,
            spin_latency: devices::HOST_SPIN_LATENCY,
        }
    }
}

impl CpuModel {
    /// The CPU of a BlueField-2.
    pub fn bluefield_2() -> Self {
        Self {
            cores: devices::DPU_CORES,
            hertz: devices::DPU_HERTZ,
            memory_latency: devices::DPU_MEMORY_LATENCY,
            cache_latency: devices::DPU_CACHE_LATENCY,
            memory_bytes_per_second: devices::DPU_MEMORY_BYTES_PER_SECOND,
            post_cost: devices::DPU_POST_COST,
            poll_cost: devices::DPU_POLL_COST,
            spin_latency: devices::DPU_SPIN_LATENCY,
        }
    }

    /// Duration of `count` cycles, rounded up to whole nanoseconds.
    pub fn cycles(&self, count: u64) -> Duration {
        let nanos = u128::from(count) * 1_000_000_000;
        Duration::from_nanos(nanos.div_ceil(u128::from(self.hertz.max(1))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_rounded_up() {
        let cpu = CpuModel::default();
        assert_eq!(cpu.cycles(22), Duration::from_nanos(10));
        assert_eq!(cpu.cycles(1), Duration::from_nanos(1));
        assert_eq!(CpuModel::bluefield_2().cycles(5), Duration::from_nanos(2));
    }
}
