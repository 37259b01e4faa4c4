//! Scans on processing units: CPU, GPU, FPGA.

use super::constant::constants;
use super::*;

constants! {
    // ---- Scans and aggregations on processing units ------------------------------------------
    group "Scans and aggregations on processing units";

    /// Cycles of one core for one row of TPC-H query 1 in compiled code. Source: Kersten, table 1
    /// (Typer, 34 cycles per row at one thread on a Skylake-X).
    #[listed("cycles", Unchecked, &[ZeroSided])]
    pub const HOST_Q1_CYCLES_PER_ROW: u64 = 34;

    // ---- GPU: NVIDIA V100 --------------------------------------------------------------------
    group "GPU: NVIDIA V100";

    /// Bytes per second of the GPU's memory. Source: NVIDIA V100 product brief, 900 GB/s of HBM2
    /// (unchecked).
    #[listed("B/s", Unchecked, &[ZeroSided])]
    pub const GPU_MEMORY_BYTES_PER_SECOND: u64 = 900_000_000_000;

    /// Bytes that a GPU's memory moves for one access to a random place. Source: NVIDIA's CUDA
    /// programming guide, sectors of 32 bytes (unchecked).
    #[listed("B", Unchecked, &[ZeroSided])]
    pub const GPU_SECTOR_BYTES: u64 = 32;

    /// Accesses to a hash table to insert one tuple: a slot is read and written. Assumed: tables
    /// are half full, so that neighbouring slots of a collision share a sector.
    #[listed("", Assumed, &[ZeroSided])]
    pub const GPU_BUILD_ACCESSES: u64 = 2;

    /// Accesses to a hash table to look up one tuple. Assumed as above.
    #[listed("", Assumed, &[ZeroSided])]
    pub const GPU_PROBE_ACCESSES: u64 = 1;

    /// Number of times that a byte crosses the GPU's memory between the NIC and a kernel: written
    /// once by the NIC through GPUDirect, read once by the kernel.
    #[listed("", Derived, &[ZeroSided])]
    pub const GPU_MEMORY_PASSES: u64 = 2;

    /// From one thread block seeing a batch to all blocks having aggregated its last row, in
    /// addition to the bytes' time: one synchronisation of the whole grid in a persistent kernel.
    /// Source: grid sync (about 1.5 us with one block on each of the V100's 80 multiprocessors).
    #[listed("ns", Unchecked, &[ZeroSided])]
    pub const GPU_BATCH_LATENCY: Duration = Duration::from_nanos(1_500);

    /// A load of a thread that misses the GPU's second level cache. Source: Volta (375 cycles at
    /// 1.38 GHz).
    #[listed("ns", Unchecked, &[ZeroSided])]
    pub const GPU_LOAD_LATENCY: Duration = Duration::from_nanos(272);

    /// As [`HOST_SPIN_LATENCY`], for one thread that spins on a volatile word: one and a half
    /// loads.
    #[listed("ns", Derived, &[ZeroSided])]
    pub const GPU_SPIN_LATENCY: Duration = Duration::from_nanos(408);

    // ---- FPGA: AMD Xilinx Alveo U55C ---------------------------------------------------------
    group "FPGA: AMD Xilinx Alveo U55C";

    /// Clock of the kernel in hertz. Source: the default of the Alveo platforms' kernel clock, 300
    /// MHz (unchecked). The clock of the testbed's kernel is not stated.
    #[listed("Hz", Unchecked, &[ZeroSided])]
    pub const FPGA_KERNEL_HERTZ: u64 = 300_000_000;

    /// Bytes that a kernel takes per cycle through one port. Source: the widest AXI port of a Vitis
    /// kernel, 512 bits (unchecked). It is assumed that Q1's pipeline takes a word in every cycle.
    #[listed("B", Assumed, &[ZeroSided])]
    pub const FPGA_PORT_BYTES: u64 = 64;

    /// Bytes per second of one of the 32 pseudo channels of HBM. Source: UG1393, 14.375 GB/s, 460
    /// GB/s together.
    #[listed("B/s", Checked, &[ZeroSided])]
    pub const FPGA_CHANNEL_BYTES_PER_SECOND: u64 = 14_375_000_000;

    /// Pseudo channels that hold a ring. Source: UG1393: one is 512 MB of contiguous addresses on a
    /// U55C, and addresses are not interleaved between them, so a ring of some MiB is within one.
    #[listed("channels", Checked, &[ZeroSided])]
    pub const FPGA_RING_CHANNELS: u64 = 1;

    /// Number of times that a byte crosses its pseudo channel. Assumed: written once by the NIC
    /// through the PCIe BAR, read once by the kernel, both with the same share of the channel.
    #[listed("", Assumed, &[ZeroSided])]
    pub const FPGA_CHANNEL_PASSES: u64 = 2;

    /// A load by the kernel from HBM. Source: Shuhai (about 130 ns for a page miss).
    #[listed("ns", Unchecked, &[ZeroSided])]
    pub const FPGA_LOAD_LATENCY: Duration = Duration::from_nanos(130);

    /// From a batch being seen to its first row entering the pipeline, and the depth of the
    /// pipeline. Assumed: one load from HBM and 64 stages, an estimate for a multiplier, two
    /// 128-bit additions and a lookup of the group, at the kernel's clock.
    #[listed("ns", Assumed, &[ZeroSided])]
    pub const FPGA_BATCH_LATENCY: Duration = Duration::from_nanos(130 + 64 * 10 / 3);

    /// As [`HOST_SPIN_LATENCY`]: one and a half loads.
    #[listed("ns", Derived, &[ZeroSided])]
    pub const FPGA_SPIN_LATENCY: Duration = Duration::from_nanos(195);
}
