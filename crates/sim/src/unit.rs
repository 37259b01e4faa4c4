//! Processing units: how fast a CPU, a GPU or an FPGA scans and aggregates data in its memory.
//!
//! A model limits a unit by the numbers of its data sheet: the rate at which its cores or its
//! pipeline process rows, and the rate of the memory that holds the rows. The slower one applies.
//! Zero-sided RDMA (section 7) describes none of the testbed's units in more detail, and no number
//! here was fitted to its figures.

use crate::{CpuModel, devices};
use rackweave_base::Duration;

/// The cost of a query, independent of the unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitWork {
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Cycles of one CPU core per row.
    pub core_cycles_per_row: u64,
}

impl UnitWork {
    /// TPC-H's query 1 over rows of `row_bytes` bytes.
    pub fn q1(row_bytes: u64) -> Self {
        Self {
            row_bytes: row_bytes.max(1),
            core_cycles_per_row: devices::HOST_Q1_CYCLES_PER_ROW,
        }
    }
}

/// A processing unit at one kind of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitModel {
    /// Its name in figures.
    pub name: String,
    /// Bytes per second that its cores or its pipeline process.
    pub compute_bytes_per_second: u64,
    /// Bytes per second that its memory delivers.
    pub memory_bytes_per_second: u64,
    /// Cost of each batch besides its bytes: passing it to the unit's parts, filling a pipeline.
    pub batch_latency: Duration,
    /// From a word being in its memory to the unit seeing it.
    pub spin_latency: Duration,
}

impl UnitModel {
    /// `cores` cores of a Xeon Gold 5120. A batch is processed by one core and costs one poll of
    /// the ring.
    pub fn cpu(cores: u16, work: UnitWork) -> Self {
        let cores = cores.clamp(1, devices::HOST_CORES);
        // Each core has its share of the socket's memory bandwidth; bytes that DMA wrote are read
        // once.
        let memory = devices::HOST_MEMORY_BYTES_PER_SECOND / u64::from(devices::HOST_CORES);
        Self {
            name: "CPU".into(),
            compute_bytes_per_second: u64::from(cores) * devices::HOST_HERTZ * work.row_bytes
                / work.core_cycles_per_row.max(1),
            memory_bytes_per_second: u64::from(cores) * memory,
            batch_latency: devices::HOST_CACHE_LATENCY,
            spin_latency: devices::HOST_SPIN_LATENCY,
        }
    }

    /// An NVIDIA V100 with a persistent kernel. Its 80 multiprocessors are assumed to keep up with
    /// its memory in a scan with few groups, so only the memory limits it.
    pub fn gpu_v100() -> Self {
        let memory = devices::GPU_MEMORY_BYTES_PER_SECOND / devices::GPU_MEMORY_PASSES;
        Self {
            name: "GPU".into(),
            compute_bytes_per_second: memory,
            memory_bytes_per_second: memory,
            batch_latency: devices::GPU_BATCH_LATENCY,
            spin_latency: devices::GPU_SPIN_LATENCY,
        }
    }

    /// An Alveo U55C with one pipeline (assumed) and its ring in one channel of its HBM, into which
    /// the NIC writes through the PCIe BAR (zero-sided RDMA, sections 3.2 and 7.3).
    pub fn fpga_u55c() -> Self {
        Self {
            name: "FPGA".into(),
            compute_bytes_per_second: devices::FPGA_KERNEL_HERTZ * devices::FPGA_PORT_BYTES,
            memory_bytes_per_second: devices::FPGA_RING_CHANNELS
                * devices::FPGA_CHANNEL_BYTES_PER_SECOND
                / devices::FPGA_CHANNEL_PASSES,
            batch_latency: devices::FPGA_BATCH_LATENCY,
            spin_latency: devices::FPGA_SPIN_LATENCY,
        }
    }

    /// Sustained bytes per second, with batches so large that their latency is negligible.
    pub fn bytes_per_second(&self) -> u64 {
        self.compute_bytes_per_second
            .min(self.memory_bytes_per_second)
            .max(1)
    }

    /// Duration of a batch of `bytes` bytes, in whole nanoseconds rounded up.
    pub fn batch_time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let nanos = nanos.div_ceil(u128::from(self.bytes_per_second()));
        self.batch_latency + Duration::from_nanos(nanos as u64)
    }
}

/// Time that one core takes to stream `bytes` bytes to or from memory, in whole nanoseconds rounded
/// up: by Little's law its lines in flight arrive once per memory latency.
pub fn stream_time(cpu: &CpuModel, bytes: u64) -> Duration {
    let under_way = devices::HOST_LINES_IN_FLIGHT * devices::HOST_LINE_BYTES;
    let nanos = u128::from(bytes) * u128::from(cpu.memory_latency.as_nanos());
    Duration::from_nanos(nanos.div_ceil(u128::from(under_way)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_as_fast_as_the_slower_of_its_parts() {
        let mut unit = UnitModel {
            name: "unit".into(),
            compute_bytes_per_second: 3_000_000_000,
            memory_bytes_per_second: 2_000_000_000,
            batch_latency: Duration::from_nanos(100),
            spin_latency: Duration::ZERO,
        };
        assert_eq!(unit.batch_time(64), Duration::from_nanos(132));
        unit.memory_bytes_per_second = 4_000_000_000;
        assert_eq!(
            unit.batch_time(64),
            Duration::from_nanos(122),
            "a part of a nanosecond counts as a whole one"
        );
        assert_eq!(unit.batch_time(0), unit.batch_latency);
        unit.compute_bytes_per_second = 0;
        assert_eq!(unit.bytes_per_second(), 1, "a unit that stands still ends");
    }

    #[test]
    fn a_core_streams_its_lines_under_way_per_latency() {
        let cpu = CpuModel::default();
        assert_eq!(stream_time(&cpu, 1024), cpu.memory_latency);
        assert_eq!(
            stream_time(&cpu, 1025),
            cpu.memory_latency + Duration::from_nanos(1)
        );
        assert_eq!(stream_time(&cpu, 0), Duration::ZERO);
    }

    #[test]
    fn cores_add_up_until_there_are_no_more() {
        let work = UnitWork::q1(64);
        let rate = |cores| UnitModel::cpu(cores, work).bytes_per_second();
        assert!(rate(2).abs_diff(2 * rate(1)) <= 1);
        assert_eq!(rate(devices::HOST_CORES), rate(u16::MAX));
        assert_eq!(rate(0), rate(1));
        // Wider rows take as many cycles, so the rate in bytes grows until memory limits it.
        let wide = UnitModel::cpu(1, UnitWork::q1(1024));
        assert_eq!(wide.bytes_per_second(), wide.memory_bytes_per_second);
    }
}
