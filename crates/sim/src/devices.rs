//! Every number about hardware that the simulator believes, each with its unit and its source.
//!
//! This is the only file with such numbers. None is ever changed to make a result match a
//! published figure: a number changes when a better source for that very number is found. Where no
//! source is known the comment says "assumed" and why.
//!
//! A source marked "unchecked" is cited from memory: the number is believed to stand there, but was
//! not looked up when it was written down. Whoever looks it up removes the mark.
//!
//! Sources, by the names used below:
//! * *zero-sided*: Jasny et al., Zero-sided RDMA, SIGMOD 2024, section 7 "Setup": four nodes with
//!   an Intel Xeon Gold 5120 at 2.2 GHz and a ConnectX-5, an Intel Tofino switch (APS Networks
//!   BF2556X-1T-A1F), 100G RoCEv2.
//! * *bluefield*: Thostrup et al., A DBMS-centric Evaluation of BlueField DPUs, ADMS 2022, table 1.
//! * *fat-btree*: Zhao et al., Fat-B+Tree: Fast B+tree Indexing with In-Network Memory, section V-A
//!   "Hardware platform".
//! * *HERD*: Kalia et al., Using RDMA Efficiently for Key-Value Services, SIGCOMM 2014. Unchecked.
//! * *ConnectX-3 news*: The Register, 6 June 2011, with Mellanox's words on the new adapter.
//! * *seamless*: the Seamless paper, section 1 and its evaluation (four SSDs of 1 TB).
//! * *pcie-bench*: Neugebauer et al., Understanding PCIe performance for end host networking,
//!   SIGCOMM 2018. Unchecked.
//! * *DCQCN*: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015.
//!   Unchecked.
//! * *ConnectX-5 brief*: Mellanox product briefs of ConnectX-5 EN and ConnectX-5 VPI.
//! * *UG1393*: Vitis Unified Software Platform Documentation: Application Acceleration Development,
//!   "HBM Configuration and Use".
//! * *Kersten*: Kersten et al., Everything You Always Wanted to Know About Compiled and Vectorized
//!   Queries But Were Afraid to Ask, VLDB 2018. Unchecked.
//! * *Volta*: Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018.
//!   Unchecked.
//! * *grid sync*: Zhang et al., A Study of Single and Multi-device Synchronization Methods in
//!   Nvidia GPUs, IPDPS 2020. Unchecked.
//! * *LX2160A*: tinymembench on a SolidRun LX2160A (Cortex-A72 at 2.0 GHz, 1 MiB of L2 for each
//!   pair, 8 MiB of L3, DDR4), in the results of ThomasKaiser/sbc-bench, results/4ju5.txt. It
//!   stands for the BlueField-2, which has the same cores, pairs and L2, and of whose measurement
//!   by the same program bluefield prints only the picture (figure 8).
//! * *pcie-lat*: andre-richter/pcie-lat, issue 4: what a Microsemi switch tells of itself.
//! * *Shuhai*: Wang et al., Shuhai: Benchmarking High Bandwidth Memory on FPGAs, FCCM 2020.
//!   Unchecked.

use rackweave_base::Duration;

// ---- Ethernet ----------------------------------------------------------------------------------

/// Bits per second of a link. Source: zero-sided, 100G RoCEv2.
pub const LINK_BITS_PER_SECOND: u64 = 100_000_000_000;

/// Bytes before each packet: preamble 7 and start delimiter 1. Source: IEEE 802.3, clause 3.
pub const ETHERNET_PREAMBLE_BYTES: u64 = 8;

/// Bytes of the frame check sequence. Source: IEEE 802.3, clause 3.
pub const ETHERNET_CHECK_BYTES: u64 = 4;

/// Bytes of silence after each packet, on average. Source: IEEE 802.3, clause 4 (96 bit times).
pub const ETHERNET_GAP_BYTES: u64 = 12;

/// The least bytes of a packet, frame check sequence included. Source: IEEE 802.3, clause 4.
pub const ETHERNET_PACKET_BYTES_MIN: u64 = 64;

/// Metres of cable between a node and the switch. Assumed: a passive copper cable within a rack.
pub const CABLE_METRES: u64 = 2;

/// Signal delay of one metre of cable. Source: about two thirds of the speed of light in copper
/// and in fibre alike, the 5 ns that cable data sheets give.
pub const CABLE_DELAY_PER_METRE: Duration = Duration::from_nanos(5);

// ---- Switch ------------------------------------------------------------------------------------

/// From the last bit of a packet in to its first bit out, one pass through the pipeline, queues
/// empty. Assumed: half a microsecond, with no measurement at hand. Franco et al. (A comprehensive
/// latency profiling study of the Tofino P4 programmable ASIC-based hardware, Computer
/// Communications 2024) measure it; their figure for 100 Gbit/s should replace this one.
pub const SWITCH_PIPELINE_LATENCY: Duration = Duration::from_nanos(500);

/// From the end of one pass of a recirculated packet to the next. Assumed equal to one pass through
/// the pipeline: a recirculated packet takes the same parsers, stages and traffic manager, and no
/// cable.
pub const SWITCH_RECIRCULATION_LATENCY: Duration = SWITCH_PIPELINE_LATENCY;

/// Bytes that may wait in front of one port. Assumed: Tofino shares 22 MB (unchecked) among all
/// ports with dynamic thresholds; 1 MiB is somewhat more than the even share of one of 32 ports
/// (0.7 MB), as a dynamic threshold gives a single congested port.
pub const SWITCH_PORT_QUEUE_BYTES: usize = 1 << 20;

/// Queue length above which packets may be marked. Source: DCQCN, section 5 (Kmin), set for
/// 40 Gbit/s and not scaled here.
pub const ECN_MARK_BYTES_MIN: usize = 5_000;

/// Queue length above which every packet is marked. Source: DCQCN, section 5 (Kmax).
pub const ECN_MARK_BYTES_MAX: usize = 200_000;

/// Marking probability just below that length. Source: DCQCN, section 5 (Pmax, 1 %).
pub const ECN_MARK_PROBABILITY_MAX: f64 = 0.01;

/// From a digest in the pipeline to the controller that reads it. Assumed: a DMA to the switch's
/// CPU and a wake-up of a user-space process there; no published figure for this switch.
pub const SWITCH_DIGEST_LATENCY: Duration = Duration::from_micros(100);

// ---- NIC: ConnectX-5 ---------------------------------------------------------------------------

/// The least time between two packets of one direction. Source: ConnectX-5 brief, up to 200 million
/// messages per second (unchecked).
pub const NIC_MESSAGE_INTERVAL_PICOS: u64 = 5_000;

/// From the doorbell to the first bit of a packet whose bytes came with the doorbell. Source:
/// ConnectX-5 EN brief, "sub-600 ns latency" one way; the even split over both ends is assumed.
pub const NIC_TRANSMIT_LATENCY: Duration = Duration::from_nanos(300);

/// From the last bit of a packet to its bytes being visible in memory. The other half of the above.
pub const NIC_RECEIVE_LATENCY: Duration = Duration::from_nanos(300);

/// Payload bytes up to which a posted message travels inside its work request and needs no read
/// from memory. Source: bluefield, section 4.2.2 (236 bytes, on by default).
pub const NIC_INLINE_BYTES_MAX: usize = 236;

/// A read from host memory by a PCIe device, there and back. Source: pcie-bench, section 6: median
/// 547 ns for 64 bytes on a Xeon E5 (NFP6000-HSW).
pub const PCIE_READ_LATENCY: Duration = Duration::from_nanos(547);

/// Bits per second that transactions of PCIe 3.0 x16 share: 16 lanes of 8 GT/s in 128b/130b code,
/// less what the data link layer takes. Source: pcie-bench, section 3, 57.88 Gbit/s for x8, twice.
pub const PCIE_BITS_PER_SECOND: u64 = 115_760_000_000;

/// Payload bytes of one PCIe transaction. Source: pcie-bench, section 3: 256 is the usual maximum
/// payload size.
pub const PCIE_TRANSACTION_BYTES: u64 = 256;

/// Header bytes of one PCIe memory write with 64-bit addresses: framing 2, data link 6, transaction
/// header 16. Source: pcie-bench, section 3.
pub const PCIE_TRANSACTION_OVERHEAD_BYTES: u64 = 24;

// ---- Host CPU: Intel Xeon Gold 5120 ------------------------------------------------------------

/// Cores of one socket. Source: Intel ARK, Xeon Gold 5120 (unchecked).
pub const HOST_CORES: u16 = 14;

/// Base clock in hertz. Source: zero-sided.
pub const HOST_HERTZ: u64 = 2_200_000_000;

/// A load that misses every cache. Source: AnandTech 11544 (2017), lmbench random load on
/// Skylake-SP, 89-91 ns.
pub const HOST_MEMORY_LATENCY: Duration = Duration::from_nanos(90);

/// A load that hits the last level cache, where DMA places bytes. Source: AnandTech 11544,
/// 25-27 ns.
pub const HOST_CACHE_LATENCY: Duration = Duration::from_nanos(27);

/// Bytes per second of one socket's memory: six channels of DDR4-2400.
/// Source: Intel ARK (unchecked).
pub const HOST_MEMORY_BYTES_PER_SECOND: u64 = 115_200_000_000;

/// Cache lines that one core has under way to or from memory: the entries of the queue behind its
/// second level cache. Source: Intel optimisation manual, Skylake, 16 (unchecked).
pub const HOST_LINES_IN_FLIGHT: u64 = 16;

/// Bytes of a cache line. Source: Intel optimisation manual (unchecked).
pub const HOST_LINE_BYTES: u64 = 64;

/// Posting one work request: building it and ringing the doorbell. Assumed: about 220 cycles, most
/// of them for the doorbell's store to the device; no figure for this CPU at hand.
pub const HOST_POST_COST: Duration = Duration::from_nanos(100);

/// Taking one completion from a completion queue. Assumed: one load from the last level cache,
/// where the NIC put the entry, and as much again to decode it and to advance the queue.
pub const HOST_POLL_COST: Duration = Duration::from_nanos(54);

/// From a word being visible in memory to a core that spins on it having seen it: the miss itself
/// and on average half a round of the loop, which takes one miss too.
pub const HOST_SPIN_LATENCY: Duration = Duration::from_nanos(40);

/// Cycles to hash a key, to find its destination and to append the tuple to a write-combining
/// buffer. Assumed: the hash is two multiplications and three shift-and-xor steps (about 10 cycles
/// of latency, half of it hidden by the next tuple), then one multiplication, a load of the
/// buffer's fill and two stores; about 14 cycles without a miss.
pub const HOST_PARTITION_CYCLES: u64 = 14;

/// Cycles to take one tuple out of a buffer and add it up. Assumed.
pub const HOST_CONSUME_CYCLES: u64 = 4;

/// Cycles of a load that hits the first level cache: a word that nobody has written since the last
/// look. Source: Intel optimisation manual, Skylake, 4 to 5 cycles (unchecked).
pub const HOST_UNCHANGED_CYCLES: u64 = 5;

/// Cycles of an operation on a page in a buffer pool, beside the misses below and the bytes that it
/// looks at: drawing a key, hashing the page's number, the latch, the bookkeeping of the operation.
/// Assumed: a guess of the size of a short function of some hundred instructions with two atomic
/// operations; nothing was measured or published for it.
pub const HOST_PAGE_OPERATION_CYCLES: u64 = 300;

/// Loads of such an operation that miss every cache. Assumed: the entry of the pool's table, and
/// the header of the buffer frame.
pub const HOST_PAGE_OPERATION_MISSES: u64 = 2;

// ---- DPU: NVIDIA BlueField-2 -------------------------------------------------------------------

/// Cores (ARM Cortex-A72). Source: bluefield.
pub const DPU_CORES: u16 = 8;

/// Clock in hertz. Source: bluefield.
pub const DPU_HERTZ: u64 = 2_500_000_000;

/// A load that misses every cache. Source: LX2160A, 128.3 ns over 64 MiB on huge pages beyond a
/// first level hit, less what its caches catch of that. Bluefield, section 4.2.3, finds it
/// "substantially higher" than the host's and shows the numbers in a figure only.
pub const DPU_MEMORY_LATENCY: Duration = Duration::from_nanos(143);

/// A load that hits the last level cache. Source: LX2160A, 31.8 ns over 4 MiB beyond a first level
/// hit, a quarter of it from the second level; 36.4 ns over 8 MiB says the same.
pub const DPU_CACHE_LATENCY: Duration = Duration::from_nanos(42);

/// Bytes per second of memory: one channel of DDR4-3200. Source: bluefield.
pub const DPU_MEMORY_BYTES_PER_SECOND: u64 = 25_600_000_000;

/// Posting one work request. Assumed: twice the host's, for a core that retires half as much per
/// cycle.
pub const DPU_POST_COST: Duration = Duration::from_nanos(200);

/// Taking one completion. Assumed like [`HOST_POLL_COST`]: two loads from the last level cache.
pub const DPU_POLL_COST: Duration = Duration::from_nanos(84);

/// As [`HOST_SPIN_LATENCY`]: one and a half loads from the last level cache.
pub const DPU_SPIN_LATENCY: Duration = Duration::from_nanos(63);

/// A read of the DPU's own memory by its NIC, there and back. Source: bluefield, section 4.2.2: a
/// message that is not inlined leaves the DPU 0.4 us sooner than the host behind the same card.
pub const DPU_READ_LATENCY: Duration =
    Duration::from_nanos(CARD_HOST_READ_LATENCY.as_nanos() - CARD_HOST_DISTANCE.as_nanos());

/// Bits per second of one port. Source: bluefield (two ports of 25 Gbit/s).
pub const DPU_LINK_BITS_PER_SECOND: u64 = 25_000_000_000;

// ---- BlueField-2 as a card: host and DPU behind one ConnectX-6 ---------------------------------

/// Ports of the card. Each thread uses one of them (bluefield, section 4.1.1: at least two threads,
/// "since we use both available interfaces"). Source: bluefield, table 1.
pub const CARD_PORTS: u16 = 2;

/// The least picoseconds between two packets of one direction, of the whole card. Source:
/// ConnectX-6 Dx brief, up to 215 million messages per second (unchecked).
pub const CARD_MESSAGE_INTERVAL_PICOS: u64 = 4_651;

/// From the card's eSwitch having a packet to the function that it is for having it. Assumed to be
/// part of the NIC's latency: bluefield, section 3, finds no overhead of the offloaded rules.
pub const CARD_ESWITCH_LATENCY: Duration = Duration::ZERO;

/// Bits per second between the eSwitch and a function. Assumed: within a chip packets are not
/// serialised once more. A terabit per second comes close: 16 ns for 2 KiB.
pub const CARD_ESWITCH_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// One crossing of a PCIe switch, as stands between the ConnectX, the host and the DPU's cores
/// (bluefield, section 2.2 and figure 1). Source: pcie-lat, 85 to 140 ns; the middle.
pub const PCIE_SWITCH_LATENCY: Duration = Duration::from_nanos(112);

/// A read of the host's memory by the card, there and back: that of an ordinary adapter and twice
/// the card's PCIe switch.
pub const CARD_HOST_READ_LATENCY: Duration =
    Duration::from_nanos(PCIE_READ_LATENCY.as_nanos() + 2 * PCIE_SWITCH_LATENCY.as_nanos());

/// How much farther from the ConnectX the host's memory is than the DPU's, there and back. Source:
/// bluefield, section 4.2.2, 0.4 us.
pub const CARD_HOST_DISTANCE: Duration = Duration::from_nanos(400);

/// One way of that: what a doorbell or a write that the host's CPU waits for crosses.
pub const CARD_HOST_DISTANCE_ONE_WAY: Duration =
    Duration::from_nanos(CARD_HOST_DISTANCE.as_nanos() / 2);

/// As [`NIC_TRANSMIT_LATENCY`], from a doorbell of the DPU's cores: there is the card's PCIe switch
/// on the way and not the host's distance.
pub const CARD_TRANSMIT_LATENCY: Duration = Duration::from_nanos(
    NIC_TRANSMIT_LATENCY.as_nanos() + PCIE_SWITCH_LATENCY.as_nanos()
        - CARD_HOST_DISTANCE_ONE_WAY.as_nanos(),
);

/// As [`NIC_RECEIVE_LATENCY`], to the DPU's memory.
pub const CARD_RECEIVE_LATENCY: Duration = Duration::from_nanos(
    NIC_RECEIVE_LATENCY.as_nanos() + PCIE_SWITCH_LATENCY.as_nanos()
        - CARD_HOST_DISTANCE_ONE_WAY.as_nanos(),
);

/// Bits per second that transactions of PCIe 4.0 x8 share: as those of 3.0 x16, which has half the
/// rate and twice the lanes. Source: bluefield, table 1, PCIe Host.
pub const CARD_HOST_PCIE_BITS_PER_SECOND: u64 = PCIE_BITS_PER_SECOND;

/// The same of PCIe 4.0 x16. Source: bluefield, table 1, PCIe ARM.
pub const CARD_DPU_PCIE_BITS_PER_SECOND: u64 = 2 * PCIE_BITS_PER_SECOND;

// ---- Hosts of the BlueField testbed ------------------------------------------------------------

/// Base clock of the storage node's Xeon Gold 6326 in hertz. Source: bluefield, table 2.
pub const STORAGE_HERTZ: u64 = 2_900_000_000;

/// Threads of the storage node's host that serve, each on a core of its own. Source: bluefield,
/// section 4; the DPU has as many cores.
pub const STORAGE_THREADS: u16 = 8;

/// Threads of the compute node, a Xeon Gold 5220, each on a core of its own. Source: bluefield,
/// section 4. Its cores are taken for those of [`HOST_HERTZ`], whose clock and generation it has.
pub const COMPUTE_THREADS: u16 = 16;

/// Bytes per second of one socket of the storage node: eight channels of DDR4-3200. Source:
/// bluefield, table 2, 16 DIMMs in two sockets; Intel ARK for the channels (unchecked).
pub const STORAGE_MEMORY_BYTES_PER_SECOND: u64 = 204_800_000_000;

/// Bytes of first level data cache, second level cache, last level cache as a core of the storage
/// node sees them. Source: bluefield, table 2: 24 MB per socket, and one socket is used. Section
/// 4.2.3 speaks of 48 MiB, which is both sockets together.
pub const STORAGE_CACHE_BYTES: [u64; 3] = [48 << 10, 1280 << 10, 24 << 20];

/// The same of the compute node. Source: bluefield, table 2.
pub const COMPUTE_CACHE_BYTES: [u64; 3] = [32 << 10, 1 << 20, 25_344 << 10];

/// Cycles of a load that hits the first and the second level. Source: Intel optimisation manual,
/// Ice Lake (unchecked). The last level and memory are taken for those of [`HOST_CACHE_LATENCY`]
/// and [`HOST_MEMORY_LATENCY`]: the mesh and the kind of memory are alike, and no measurement of a
/// Xeon Gold 6326 was found.
pub const STORAGE_CACHE_CYCLES: [u64; 2] = [5, 14];

/// Entries of the first and the second translation buffer for pages of 4 KiB. Source: Intel
/// optimisation manual, Ice Lake, 64 and 2048 (unchecked).
pub const STORAGE_TLB_ENTRIES: [u64; 2] = [64, 2048];

/// Bytes of the DPU's caches as a core sees them. Source: bluefield, table 1. A second level is
/// shared by two cores, which use the same tree, so that each finds all of it.
pub const DPU_CACHE_BYTES: [u64; 3] = [32 << 10, 1 << 20, 6 << 20];

/// Cycles of a load that hits the first and the second level. Source of the first: ARM Cortex-A72
/// software optimisation guide (unchecked); of the second: LX2160A, 6.2 ns beyond the first over
/// 256 KiB, of which the first level has an eighth.
pub const DPU_CACHE_CYCLES: [u64; 2] = [4, 18];

/// Entries of the two translation buffers. Source: ARM Cortex-A72 technical reference manual, 32
/// and 1024.
pub const DPU_TLB_ENTRIES: [u64; 2] = [32, 1024];

/// Cycles of a hit in the second translation buffer. Source: LX2160A, 3.3 ns more over 1 MiB than
/// with huge pages; on Ice Lake it is 7 as well (Intel optimisation manual, unchecked).
pub const TLB_SECOND_CYCLES: u64 = 7;

/// Cycles of a page walk beside the load of the last table entry: those above are in the walker's
/// own caches. Source: LX2160A, 18.3 ns more over 64 MiB than with huge pages, less one load from
/// the second level that holds the tables. Assumed for Ice Lake, too.
pub const TLB_WALK_CYCLES: u64 = 20;

/// Bytes of a page. Source: bluefield, section 4.2.3: no huge pages.
pub const PAGE_BYTES: u64 = 4096;

/// How many cycles a Cortex-A72 takes for what takes a Xeon one, loads apart. Assumed, as in
/// [`DPU_POST_COST`]: it retires half as much per cycle.
pub const DPU_CYCLES_PER_HOST_CYCLE: u64 = 2;

// ---- Testbeds of Fat-B+Tree --------------------------------------------------------------------

/// Bits per second of every cable. Source: fat-btree, 40 Gbit/s.
pub const FAT_BTREE_LINK_BITS_PER_SECOND: u64 = 40_000_000_000;

/// Clock of the hosts of its RDMA testbed in hertz. Source: fat-btree. The CPU is not named; its
/// cores are taken for those of [`HOST_HERTZ`] but for the clock, and its memory, too.
pub const FAT_BTREE_RDMA_HERTZ: u64 = 4_200_000_000;

/// Clock of the hosts of its Ethernet testbed in hertz. Source: fat-btree; taken as the above.
pub const FAT_BTREE_ETHERNET_HERTZ: u64 = 2_100_000_000;

/// Half of the way of a message through two ConnectX-3, as [`NIC_TRANSMIT_LATENCY`] is of that
/// through two ConnectX-5. Source: ConnectX-3 news, "sub-microsecond latency" at 40 Gbit/s Ethernet
/// with RDMA; the whole microsecond and the even split are assumed.
pub const CONNECTX_3_LATENCY: Duration = Duration::from_nanos(500);

/// The least picoseconds between two packets of one direction of a ConnectX-3. Source: HERD, 35
/// million small WRITEs per second.
pub const CONNECTX_3_MESSAGE_INTERVAL_PICOS: u64 = 28_571;

/// Bits per second that transactions of PCIe 3.0 x8, a ConnectX-3's, share: half of
/// [`PCIE_BITS_PER_SECOND`].
pub const CONNECTX_3_PCIE_BITS_PER_SECOND: u64 = PCIE_BITS_PER_SECOND / 2;

/// Clients' threads of the Ethernet testbed at most. Source: fat-btree, section V-C.
pub const FAT_BTREE_CLIENTS: u16 = 16;

/// Threads of each memory server of the Ethernet testbed. Assumed, since the paper does not tell:
/// one, as its throughput grows with clients up to a few hundred thousand requests per second of
/// four servers.
pub const FAT_BTREE_SERVER_THREADS: u16 = 1;

// ---- Work of an index and of RPC, in cycles of a Xeon beside the loads --------------------------

/// One step of a binary search without branches, as `endpoint::btree` has it: address, comparison,
/// conditional move. Assumed, one cycle for each and one for the loop.
pub const SEARCH_STEP_CYCLES: u64 = 4;

/// Entering and leaving a tree node: latch, level, number of entries and fences before, the latch
/// again after. Assumed, 20 instructions in a chain of about as many cycles.
pub const TREE_NODE_CYCLES: u64 = 20;

/// Beginning and ending an operation on a tree: calls, arguments, result. Assumed.
pub const TREE_OPERATION_CYCLES: u64 = 50;

/// What an update of a leaf costs beside finding it: two atomic operations on the latch's line,
/// which is there, of 18 cycles each (Agner Fog's instruction tables, unchecked), and the stores of
/// value and check with the check's arithmetic, assumed 24.
pub const TREE_UPDATE_CYCLES: u64 = 60;

/// Verifying one entry of a tree node that a READ has brought: two products of 128 bits, one of 64
/// and some exclusive ors, which overlap from entry to entry. Assumed, an entry in four cycles.
pub const TREE_CHECK_ENTRY_CYCLES: u64 = 4;

/// Verifying a word of a record: a product of 128 bits that waits for the one before it, and two
/// exclusive ors. Source: Intel optimisation manual, 4 and 1 cycles (unchecked).
pub const RECORD_CHECK_WORD_CYCLES: u64 = 6;

/// Building one work request of up to 64 bytes, inlined. Assumed: of the 220 cycles of
/// [`HOST_POST_COST`] the smaller part; the doorbell has the rest.
pub const WORK_REQUEST_CYCLES: u64 = 60;

/// Ringing a doorbell: a fence and a store to the device. Once for all requests of a batch to one
/// queue pair (bluefield, section 4: doorbell batching).
pub const DOORBELL_CYCLES: u64 = 160;

/// Posting one receive request: an address in a ring; the doorbell record is in memory. Assumed.
pub const RECEIVE_REQUEST_CYCLES: u64 = 30;

/// Decoding and dispatching a request, or matching a reply with its request. Assumed.
pub const RPC_DISPATCH_CYCLES: u64 = 50;

/// An atomic operation on a word that all server threads increment. Source: the line comes from
/// another core's cache, which is taken for a load from the last level, and the operation itself,
/// 18 cycles (Agner Fog's instruction tables, unchecked).
pub const ATOMIC_CYCLES: u64 = 18;

/// How full the tree nodes of a tree are that grew by inserting keys in random order: ln 2. Source:
/// Yao, On random 2-3 trees, 1978, and bluefield, section 4.1.1: between 16 and 32 MB for 1 M keys.
pub const TREE_FILL: f64 = core::f64::consts::LN_2;

// ---- SSD: Samsung PM1733 -----------------------------------------------------------------------

/// Bytes per second when reading. Source: Samsung PM1733 (U.2), 6400 MB/s.
pub const SSD_READ_BYTES_PER_SECOND: u64 = 6_400_000_000;

/// Bytes per second when writing. Source: Samsung PM1733, 3800 MB/s.
pub const SSD_WRITE_BYTES_PER_SECOND: u64 = 3_800_000_000;

/// Reads of 4 KiB per second. Source: Samsung PM1733, 1 450 000.
pub const SSD_READS_PER_SECOND: u64 = 1_450_000;

/// Writes of 4 KiB per second, sustained. Source: Samsung PM1733, 260 000.
pub const SSD_WRITES_PER_SECOND: u64 = 260_000;

/// Accesses under way at a time in the flash. Source: the two above, by Little's law: reads per
/// second times 70 us.
pub const SSD_UNITS: usize = 100;

/// Bytes that one flash unit reads or writes at a time. Assumed: the usual page of 3D flash.
pub const SSD_UNIT_BYTES: u32 = 16 * 1024;

/// Latency of a read in nanoseconds, by rank in ten-thousandths. Source of the median: seamless,
/// section 1 (70 us). The spread is assumed: 99 % within one and a half, all within six times the
/// median.
pub const SSD_READ_LATENCY: [(u32, u64); 6] = [
    (0, 55_000),
    (5_000, 70_000),
    (9_000, 82_000),
    (9_900, 105_000),
    (9_990, 180_000),
    (10_000, 420_000),
];

/// Latency of a write, which ends in the drive's protected buffer, in nanoseconds, by rank in
/// ten-thousandths. Assumed: no source for this drive; the order of magnitude of buffered writes.
pub const SSD_WRITE_LATENCY: [(u32, u64); 5] = [
    (0, 12_000),
    (5_000, 18_000),
    (9_000, 25_000),
    (9_900, 45_000),
    (10_000, 200_000),
];

// ---- Scans and aggregations on processing units ------------------------------------------------

/// Cycles of one core for one row of TPC-H query 1 in compiled code. Source: Kersten, table 1
/// (Typer, 34 cycles per row at one thread on a Skylake-X).
pub const HOST_Q1_CYCLES_PER_ROW: u64 = 34;

// ---- GPU: NVIDIA V100 --------------------------------------------------------------------------

/// Bytes per second of the GPU's memory. Source: NVIDIA V100 product brief, 900 GB/s of HBM2
/// (unchecked).
pub const GPU_MEMORY_BYTES_PER_SECOND: u64 = 900_000_000_000;

/// Bytes that a GPU's memory moves for one access to a random place. Source: NVIDIA's CUDA
/// programming guide, sectors of 32 bytes (unchecked).
pub const GPU_SECTOR_BYTES: u64 = 32;

/// Accesses to a hash table to enter one tuple: a slot is read and written. Assumed: tables are
/// half full, so that neighbouring slots of a collision share a sector.
pub const GPU_BUILD_ACCESSES: u64 = 2;

/// Accesses to a hash table to look one tuple up. Assumed as above.
pub const GPU_PROBE_ACCESSES: u64 = 1;

/// Times that a byte crosses the GPU's memory on its way from the NIC into a kernel: written once
/// by the NIC through GPUDirect, read once by the kernel.
pub const GPU_MEMORY_PASSES: u64 = 2;

/// From a batch that one thread block has seen to its last row being aggregated by all blocks, on
/// top of the bytes' time: one synchronisation of the whole grid in a persistent kernel.
/// Source: grid sync (about 1.5 us with one block on each of the V100's 80 multiprocessors).
pub const GPU_BATCH_LATENCY: Duration = Duration::from_nanos(1_500);

/// A load of a thread that misses the GPU's second level cache. Source: Volta (375 cycles at
/// 1.38 GHz).
pub const GPU_LOAD_LATENCY: Duration = Duration::from_nanos(272);

/// As [`HOST_SPIN_LATENCY`], for one thread that spins on a volatile word: one and a half loads.
pub const GPU_SPIN_LATENCY: Duration = Duration::from_nanos(408);

// ---- FPGA: AMD Xilinx Alveo U55C ---------------------------------------------------------------

/// Clock of the kernel in hertz. Source: the default of the Alveo platforms' kernel clock, 300 MHz
/// (unchecked). What the testbed's kernel ran at is not told.
pub const FPGA_KERNEL_HERTZ: u64 = 300_000_000;

/// Bytes that a kernel takes per cycle through one port. Source: the widest AXI port of a Vitis
/// kernel, 512 bits (unchecked). That Q1's pipeline takes a word in every cycle is assumed.
pub const FPGA_PORT_BYTES: u64 = 64;

/// Bytes per second of one of the 32 pseudo channels of HBM. Source: UG1393, 14.375 GB/s, 460 GB/s
/// together.
pub const FPGA_CHANNEL_BYTES_PER_SECOND: u64 = 14_375_000_000;

/// Pseudo channels that hold a ring. Source: UG1393: one is 512 MB of neighbouring addresses on a
/// U55C, and addresses are not interleaved between them, so a ring of some MiB lies within one.
pub const FPGA_RING_CHANNELS: u64 = 1;

/// Times that a byte crosses its pseudo channel: written once by the NIC through the PCIe BAR, read
/// once by the kernel. That both have the same share of the channel is assumed.
pub const FPGA_CHANNEL_PASSES: u64 = 2;

/// A load of the kernel from HBM. Source: Shuhai (about 130 ns for a page miss).
pub const FPGA_LOAD_LATENCY: Duration = Duration::from_nanos(130);

/// From a batch being seen to its first row entering the pipeline, and the pipeline's own depth.
/// Assumed: one load from HBM and 64 stages, which is what a multiplier, two 128-bit additions and
/// a lookup of the group come to, at the kernel's clock.
pub const FPGA_BATCH_LATENCY: Duration = Duration::from_nanos(130 + 64 * 10 / 3);

/// As [`HOST_SPIN_LATENCY`]: one and a half loads.
pub const FPGA_SPIN_LATENCY: Duration = Duration::from_nanos(195);

// ---- Testbed of the communication tier ---------------------------------------------------------
//
// Two hosts with a ConnectX-4 VPI each, 100 Gbit/s InfiniBand, a Xeon Gold 6130 and a "Xeon Gold
// 5130". Source: Geyer et al., Remote Direct Memory Access as Communication Tier for Disaggregated
// Database Systems, GvDB 2022, section 4. Intel lists no Xeon Gold 5130; the peak frequency told is
// that of the 5120, and both CPUs are Skylake-SP, as that of [`HOST_HERTZ`] is.

/// Bits per second of the cable. Source: the paper, section 4; EDR: four lanes of 25.78125 Gbit/s
/// in 64b/66b code (ConnectX-4 VPI user manual). The packets on it are RoCEv2's here: what
/// Ethernet, IP and UDP put around them is 66 bytes, what InfiniBand's link layer puts there 10.
pub const EDR_BITS_PER_SECOND: u64 = 100_000_000_000;

/// The least picoseconds between two packets of one direction of a ConnectX-4. Source: ConnectX-4
/// VPI product brief, 150 million messages per second (unchecked).
pub const CONNECTX_4_MESSAGE_INTERVAL_PICOS: u64 = 6_667;

/// Half of the way of a message through two ConnectX-4, as [`NIC_TRANSMIT_LATENCY`] is of that
/// through two ConnectX-5. Source: Mellanox's announcement of ConnectX-4 in 2014, 0.7 us
/// (unchecked); the even split is assumed.
pub const CONNECTX_4_LATENCY: Duration = Duration::from_nanos(350);

/// Clock of the two hosts in hertz, of the one that sends and of the one that receives. Source: the
/// paper, section 4, peak frequencies. Which host sends is assumed: storage units compute less.
pub const COMMUNICATION_HERTZ: [u64; 2] = [3_200_000_000, 3_700_000_000];

/// Cores of one socket of the host that has fewer of them, taken for both: no test has as many
/// threads. Source: as [`HOST_CORES`].
pub const COMMUNICATION_CORES: u16 = HOST_CORES;

/// Bytes of the second and of the last level cache as a core sees them. Source: Intel ARK, Xeon
/// Gold 6130, 1 MiB per core and 22 MB (unchecked). That of the other host is taken for it.
pub const COMMUNICATION_CACHE_BYTES: [u64; 2] = [1 << 20, 22 << 20];

/// Bytes per second that one core reads from memory and writes to it, both together. Source:
/// AnandTech 11544 (2017), STREAM triad with one thread on Skylake-SP with DDR4-2666, "only 12
/// GB/s". A byte copied from memory to memory is read once and written once.
pub const CORE_MEMORY_BYTES_PER_SECOND: u64 = 12_000_000_000;

/// Bytes per cycle that a core reads from its second level cache or writes to it in the long run.
/// Source: Intel optimisation manual, Skylake server, 64 at most and about 48 sustained
/// (unchecked).
pub const SECOND_LEVEL_BYTES_PER_CYCLE: u64 = 48;

/// Bytes of the last level cache into which a device's writes may go, 2 of its 11 ways. Source:
/// Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020, section 2 (unchecked). What a
/// device wrote before is in memory.
pub const DEVICE_CACHE_BYTES: u64 = (22 << 20) * 2 / 11;

/// Starting a thread and awaiting its end. Source: Lawrence Livermore's POSIX threads tutorial,
/// 50 000 in 0.9 s on a Xeon E5-2670.
pub const THREAD_START: Duration = Duration::from_micros(18);
