//! The host's CPU of most testbeds.

use super::constant::constants;
use super::*;

constants! {
    // ---- Host CPU: Intel Xeon Gold 5120 ------------------------------------------------------
    group "Host CPU: Intel Xeon Gold 5120";

    /// Cores of one socket. Source: Intel ARK, Xeon Gold 5120 (unchecked).
    #[listed("cores", Unchecked, &[ZeroSided, Seamless, Communication])]
    pub const HOST_CORES: u16 = 14;

    /// Base clock in hertz. Source: zero-sided.
    #[listed("Hz", Checked, &[ZeroSided, Seamless, Bluefield])]
    pub const HOST_HERTZ: u64 = 2_200_000_000;

    /// A load that misses every cache. Source: AnandTech 11544 (2017), lmbench random load on
    /// Skylake-SP, 89-91 ns.
    #[listed("ns", Checked, EVERY)]
    pub const HOST_MEMORY_LATENCY: Duration = Duration::from_nanos(90);

    /// A load that hits the last level cache, where DMA places bytes. Source: AnandTech 11544,
    /// 25-27 ns.
    #[listed("ns", Checked, EVERY)]
    pub const HOST_CACHE_LATENCY: Duration = Duration::from_nanos(27);

    /// Bytes per second of one socket's memory: six channels of DDR4-2400. Source: Intel ARK
    /// (unchecked).
    #[listed("B/s", Unchecked, EVERY)]
    pub const HOST_MEMORY_BYTES_PER_SECOND: u64 = 115_200_000_000;

    /// Cache lines that one core has in flight to or from memory: the entries of the queue behind
    /// its second level cache. Source: Intel optimisation manual, Skylake, 16 (unchecked).
    #[listed("lines", Unchecked, EVERY)]
    pub const HOST_LINES_IN_FLIGHT: u64 = 16;

    /// Bytes of a cache line. Source: Intel optimisation manual (unchecked).
    #[listed("B", Unchecked, EVERY)]
    pub const HOST_LINE_BYTES: u64 = 64;

    /// Posting one work request: building it and ringing the doorbell. Assumed: about 220 cycles,
    /// most of them for the doorbell's store to the device; no figure for this CPU is available.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, Bluefield])]
    pub const HOST_POST_COST: Duration = Duration::from_nanos(100);

    /// Taking one completion from a completion queue. Assumed: one load from the last level cache,
    /// where the NIC put the entry, and as much again to decode it and to advance the queue.
    #[listed("ns", Assumed, EVERY)]
    pub const HOST_POLL_COST: Duration = Duration::from_nanos(54);

    /// From a word being visible in memory to a spinning core seeing it: the miss itself and on
    /// average half an iteration of the loop, which takes one miss too.
    #[listed("ns", Derived, EVERY)]
    pub const HOST_SPIN_LATENCY: Duration = Duration::from_nanos(40);

    /// Cycles to hash a key, find its destination and append the tuple to a write-combining buffer.
    /// Assumed: the hash is two multiplications and three shift-and-xor steps (about 10 cycles of
    /// latency, half of it hidden by the next tuple), then one multiplication, a load of the
    /// buffer's fill and two stores; about 14 cycles without a miss.
    #[listed("cycles", Assumed, &[ZeroSided])]
    pub const HOST_PARTITION_CYCLES: u64 = 14;

    /// Cycles to take one tuple out of a buffer and aggregate it. Assumed.
    #[listed("cycles", Assumed, &[ZeroSided])]
    pub const HOST_CONSUME_CYCLES: u64 = 4;

    /// Cycles of a load that hits the first level cache: a word that has not been written since the
    /// last load. Source: Intel optimisation manual, Skylake, 4 to 5 cycles (unchecked).
    #[listed("cycles", Unchecked, &[ZeroSided, Communication])]
    pub const HOST_UNCHANGED_CYCLES: u64 = 5;

    /// Cycles of an operation on a page in a buffer pool, besides the misses below and the bytes
    /// that it accesses: drawing a key, hashing the page's number, the latch, the bookkeeping of
    /// the operation. Assumed: an estimate for a short function of some hundred instructions with
    /// two atomic operations; nothing was measured or published for it.
    #[listed("cycles", Assumed, &[Seamless])]
    pub const HOST_PAGE_OPERATION_CYCLES: u64 = 300;

    /// Loads of such an operation that miss every cache. Assumed: the entry of the pool's table,
    /// and the header of the buffer frame.
    #[listed("loads", Assumed, &[Seamless])]
    pub const HOST_PAGE_OPERATION_MISSES: u64 = 2;
}
