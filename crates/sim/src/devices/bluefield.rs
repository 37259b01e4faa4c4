//! The BlueField-2, alone and as a card, and the hosts of its testbed.

use super::constant::constants;
use super::*;

constants! {
    // ---- DPU: NVIDIA BlueField-2 -------------------------------------------------------------
    group "DPU: NVIDIA BlueField-2";

    /// Cores (ARM Cortex-A72). Source: bluefield.
    #[listed("cores", Checked, &[Bluefield])]
    pub const DPU_CORES: u16 = 8;

    /// Clock in hertz. Source: bluefield.
    #[listed("Hz", Checked, &[Bluefield])]
    pub const DPU_HERTZ: u64 = 2_500_000_000;

    /// A load that misses every cache. Source: LX2160A, 128.3 ns over 64 MiB on huge pages beyond a
    /// first level hit, less what its caches catch of that. Bluefield, section 4.2.3, finds it
    /// "substantially higher" than the host's and shows the numbers in a figure only.
    #[listed("ns", Checked, &[Bluefield])]
    pub const DPU_MEMORY_LATENCY: Duration = Duration::from_nanos(143);

    /// A load that hits the last level cache. Source: LX2160A, 31.8 ns over 4 MiB beyond a first
    /// level hit, a quarter of it from the second level; 36.4 ns over 8 MiB says the same.
    #[listed("ns", Checked, &[Bluefield])]
    pub const DPU_CACHE_LATENCY: Duration = Duration::from_nanos(42);

    /// Bytes per second of memory: one channel of DDR4-3200. Source: bluefield.
    #[listed("B/s", Checked, &[Bluefield])]
    pub const DPU_MEMORY_BYTES_PER_SECOND: u64 = 25_600_000_000;

    /// Posting one work request. Assumed: twice the host's, for a core that retires half as many
    /// instructions per cycle.
    #[listed("ns", Assumed, &[Bluefield])]
    pub const DPU_POST_COST: Duration = Duration::from_nanos(200);

    /// Taking one completion. Assumed as for [`HOST_POLL_COST`]: two loads from the last level
    /// cache.
    #[listed("ns", Assumed, &[Bluefield])]
    pub const DPU_POLL_COST: Duration = Duration::from_nanos(84);

    /// As [`HOST_SPIN_LATENCY`]: one and a half loads from the last level cache.
    #[listed("ns", Derived, &[Bluefield])]
    pub const DPU_SPIN_LATENCY: Duration = Duration::from_nanos(63);

    /// A round-trip read of the DPU's own memory by its NIC. Source: bluefield, section 4.2.2: a
    /// message that is not inlined leaves the DPU 0.4 us earlier than the host behind the same
    /// card.
    #[listed("ns", Checked, &[Bluefield])]
    pub const DPU_READ_LATENCY: Duration = Duration::from_nanos(
        CARD_HOST_READ_LATENCY.as_nanos() - CARD_HOST_DISTANCE.as_nanos(),
    );

    /// Bits per second of one port. Source: bluefield (two ports of 25 Gbit/s).
    #[listed("bit/s", Checked, &[Bluefield])]
    pub const DPU_LINK_BITS_PER_SECOND: u64 = 25_000_000_000;

    // ---- BlueField-2 as a card: host and DPU behind one ConnectX-6 ---------------------------
    group "BlueField-2 as a card: host and DPU behind one ConnectX-6";

    /// Ports of the card. Each thread uses one of them (bluefield, section 4.1.1: at least two
    /// threads, "since we use both available interfaces"). Source: bluefield, table 1.
    #[listed("ports", Checked, &[Bluefield])]
    pub const CARD_PORTS: u16 = 2;

    /// Minimum picoseconds between two packets of one direction, of the whole card. Source:
    /// ConnectX-6 Dx brief, up to 215 million messages per second (unchecked).
    #[listed("ps", Unchecked, &[Bluefield])]
    pub const CARD_MESSAGE_INTERVAL_PICOS: u64 = 4_651;

    /// From the card's eSwitch to the destination function of a packet. Assumed to be part of the
    /// NIC's latency: bluefield, section 3, finds no overhead of the offloaded rules.
    #[listed("ns", Assumed, &[Bluefield])]
    pub const CARD_ESWITCH_LATENCY: Duration = Duration::ZERO;

    /// Bits per second between the eSwitch and a function. Assumed: within a chip packets are not
    /// serialised once more. A terabit per second approximates that: 16 ns for 2 KiB.
    #[listed("bit/s", Assumed, &[Bluefield, Communication])]
    pub const CARD_ESWITCH_BITS_PER_SECOND: u64 = 1_000_000_000_000;

    /// One crossing of a PCIe switch, such as the one between the ConnectX, the host and the DPU's
    /// cores (bluefield, section 2.2 and figure 1). Source: pcie-lat, 85 to 140 ns; the middle.
    #[listed("ns", Checked, &[Bluefield])]
    pub const PCIE_SWITCH_LATENCY: Duration = Duration::from_nanos(112);

    /// A round-trip read of the host's memory by the card: that of an ordinary adapter plus twice
    /// the card's PCIe switch.
    #[listed("ns", Derived, &[Bluefield])]
    pub const CARD_HOST_READ_LATENCY: Duration = Duration::from_nanos(
        PCIE_READ_LATENCY.as_nanos() + 2 * PCIE_SWITCH_LATENCY.as_nanos(),
    );

    /// Extra round-trip distance from the ConnectX to the host's memory, compared to the DPU's.
    /// Source: bluefield, section 4.2.2, 0.4 us.
    #[listed("ns", Checked, &[Bluefield])]
    pub const CARD_HOST_DISTANCE: Duration = Duration::from_nanos(400);

    /// One way of that distance, which a doorbell, or a write that the host's CPU waits for,
    /// crosses.
    #[listed("ns", Derived, &[Bluefield])]
    pub const CARD_HOST_DISTANCE_ONE_WAY: Duration =
        Duration::from_nanos(CARD_HOST_DISTANCE.as_nanos() / 2);

    /// As [`NIC_TRANSMIT_LATENCY`], from a doorbell of the DPU's cores: the path includes the
    /// card's PCIe switch, but not the host's distance.
    #[listed("ns", Derived, &[Bluefield])]
    pub const CARD_TRANSMIT_LATENCY: Duration = Duration::from_nanos(
        NIC_TRANSMIT_LATENCY.as_nanos() + PCIE_SWITCH_LATENCY.as_nanos()
            - CARD_HOST_DISTANCE_ONE_WAY.as_nanos(),
    );

    /// As [`NIC_RECEIVE_LATENCY`], to the DPU's memory.
    #[listed("ns", Derived, &[Bluefield])]
    pub const CARD_RECEIVE_LATENCY: Duration = Duration::from_nanos(
        NIC_RECEIVE_LATENCY.as_nanos() + PCIE_SWITCH_LATENCY.as_nanos()
            - CARD_HOST_DISTANCE_ONE_WAY.as_nanos(),
    );

    /// Bits per second shared by transactions of PCIe 4.0 x8: as for 3.0 x16, which has half the
    /// rate and twice the lanes. Source: bluefield, table 1, PCIe Host.
    #[listed("bit/s", Checked, &[Bluefield])]
    pub const CARD_HOST_PCIE_BITS_PER_SECOND: u64 = PCIE_BITS_PER_SECOND;

    /// The same for PCIe 4.0 x16. Source: bluefield, table 1, PCIe ARM.
    #[listed("bit/s", Checked, &[Bluefield])]
    pub const CARD_DPU_PCIE_BITS_PER_SECOND: u64 = 2 * PCIE_BITS_PER_SECOND;

    // ---- Hosts of the BlueField testbed ------------------------------------------------------
    group "Hosts of the BlueField testbed";

    /// Base clock of the storage node's Xeon Gold 6326 in hertz. Source: bluefield, table 2.
    #[listed("Hz", Checked, &[Bluefield])]
    pub const STORAGE_HERTZ: u64 = 2_900_000_000;

    /// Server threads of the storage node's host, each on a core of its own. Source: bluefield,
    /// section 4; the DPU has as many cores.
    #[listed("threads", Checked, &[Bluefield])]
    pub const STORAGE_THREADS: u16 = 8;

    /// Threads of the compute node, a Xeon Gold 5220, each on a core of its own. Source: bluefield,
    /// section 4. Its cores are modelled as those of [`HOST_HERTZ`], whose clock and generation it
    /// has.
    #[listed("threads", Checked, &[Bluefield])]
    pub const COMPUTE_THREADS: u16 = 16;

    /// Bytes per second of one socket of the storage node: eight channels of DDR4-3200. Source:
    /// bluefield, table 2, 16 DIMMs in two sockets; Intel ARK for the channels (unchecked).
    #[listed("B/s", Unchecked, &[Bluefield])]
    pub const STORAGE_MEMORY_BYTES_PER_SECOND: u64 = 204_800_000_000;

    /// Bytes of first level data cache, second level cache, last level cache as a core of the
    /// storage node sees them. Source: bluefield, table 2: 24 MB per socket, and one socket is
    /// used. Section 4.2.3 mentions 48 MiB, which is both sockets together.
    #[listed("B", Checked, &[Bluefield])]
    pub const STORAGE_CACHE_BYTES: [u64; 3] = [48 << 10, 1280 << 10, 24 << 20];

    /// The same for the compute node. Source: bluefield, table 2.
    #[listed("B", Checked, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const COMPUTE_CACHE_BYTES: [u64; 3] = [32 << 10, 1 << 20, 25_344 << 10];

    /// Cycles of a load that hits the first and the second level. Source: Intel optimisation
    /// manual, Ice Lake (unchecked). The last level and memory are modelled by
    /// [`HOST_CACHE_LATENCY`] and [`HOST_MEMORY_LATENCY`]: the mesh and the kind of memory are
    /// similar, and no measurement of a Xeon Gold 6326 was found.
    #[listed("cycles", Unchecked, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const STORAGE_CACHE_CYCLES: [u64; 2] = [5, 14];

    /// Entries of the first and the second translation buffer for pages of 4 KiB. Source: Intel
    /// optimisation manual, Ice Lake, 64 and 2048 (unchecked).
    #[listed("entries", Unchecked, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const STORAGE_TLB_ENTRIES: [u64; 2] = [64, 2048];

    /// Bytes of the DPU's caches as a core sees them. Source: bluefield, table 1. A second level is
    /// shared by two cores, which use the same tree, so that each finds all of it.
    #[listed("B", Checked, &[Bluefield])]
    pub const DPU_CACHE_BYTES: [u64; 3] = [32 << 10, 1 << 20, 6 << 20];

    /// Cycles of a load that hits the first and the second level. Source of the first: ARM
    /// Cortex-A72 software optimisation guide (unchecked); of the second: LX2160A, 6.2 ns beyond
    /// the first over 256 KiB, of which the first level has an eighth.
    #[listed("cycles", Unchecked, &[Bluefield])]
    pub const DPU_CACHE_CYCLES: [u64; 2] = [4, 18];

    /// Entries of the two translation buffers. Source: ARM Cortex-A72 technical reference manual,
    /// 32 and 1024.
    #[listed("entries", Checked, &[Bluefield])]
    pub const DPU_TLB_ENTRIES: [u64; 2] = [32, 1024];

    /// Cycles of a hit in the second translation buffer. Source: LX2160A, 3.3 ns more over 1 MiB
    /// than with huge pages; on Ice Lake it is 7 as well (Intel optimisation manual, unchecked).
    #[listed("cycles", Unchecked, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const TLB_SECOND_CYCLES: u64 = 7;

    /// Cycles of a page walk, besides the load of the last table entry: upper entries are in the
    /// walker's own caches. Source: LX2160A, 18.3 ns more over 64 MiB than with huge pages, less
    /// one load from the second level that holds the tables. Assumed for Ice Lake, too.
    #[listed("cycles", Assumed, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const TLB_WALK_CYCLES: u64 = 20;

    /// Bytes of a page. Source: bluefield, section 4.2.3: no huge pages.
    #[listed("B", Checked, &[Bluefield, FatBtreeRdma, FatBtreeEthernet])]
    pub const PAGE_BYTES: u64 = 4096;

    /// Cycles that a Cortex-A72 takes for one Xeon cycle of work, loads apart. Assumed, as in
    /// [`DPU_POST_COST`]: it retires half as many instructions per cycle.
    #[listed("", Assumed, &[Bluefield])]
    pub const DPU_CYCLES_PER_HOST_CYCLE: u64 = 2;
}
