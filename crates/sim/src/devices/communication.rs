//! The testbed of the communication tier.

use super::constant::constants;
use super::*;

constants! {
    group "Testbed of the communication tier";

    // Two hosts with a ConnectX-4 VPI each, 100 Gbit/s InfiniBand, a Xeon Gold 6130 and a "Xeon
    // Gold 5130" (communication-tier, section 4). Intel lists no Xeon Gold 5130; the stated peak
    // frequency is that of the 5120, and both CPUs are Skylake-SP, like that of [`HOST_HERTZ`].

    /// Bits per second of the cable. Source: communication-tier, section 4; EDR: four lanes of
    /// 25.78125 Gbit/s in 64b/66b code (ConnectX-4 VPI user manual). Here its packets are RoCEv2:
    /// the overhead of Ethernet, IP and UDP is 66 bytes, that of InfiniBand's link layer 10.
    #[listed("bit/s", Checked, &[Communication])]
    pub const EDR_BITS_PER_SECOND: u64 = 100_000_000_000;

    /// Minimum picoseconds between two packets of one direction of a ConnectX-4. Source: ConnectX-4
    /// VPI product brief, 150 million messages per second (unchecked).
    #[listed("ps", Unchecked, &[Communication])]
    pub const CONNECTX_4_MESSAGE_INTERVAL_PICOS: u64 = 6_667;

    /// Half of a message's latency through two ConnectX-4, as [`NIC_TRANSMIT_LATENCY`] is for two
    /// ConnectX-5. Source: Mellanox's announcement of ConnectX-4 in 2014, 0.7 us (unchecked); the
    /// even split is assumed.
    #[listed("ns", Assumed, &[Communication])]
    pub const CONNECTX_4_LATENCY: Duration = Duration::from_nanos(350);

    /// Clock of the two hosts in hertz: the sending one, then the receiving one. Source:
    /// communication-tier, section 4, peak frequencies. Which host sends is assumed: storage nodes
    /// compute less.
    #[listed("Hz", Assumed, &[Communication])]
    pub const COMMUNICATION_HERTZ: [u64; 2] = [3_200_000_000, 3_700_000_000];

    /// Cores of one socket of the host with fewer cores, used for both: no test has that many
    /// threads. Source: as [`HOST_CORES`].
    #[listed("cores", Unchecked, &[Communication])]
    pub const COMMUNICATION_CORES: u16 = HOST_CORES;

    /// Bytes of the second and of the last level cache as a core sees them. Source: Intel ARK, Xeon
    /// Gold 6130, 1 MiB per core and 22 MB (unchecked). The other host is modelled the same.
    #[listed("B", Unchecked, &[Communication])]
    pub const COMMUNICATION_CACHE_BYTES: [u64; 2] = [1 << 20, 22 << 20];

    /// Bytes per second that one core reads from memory and writes to it, both together. Source:
    /// AnandTech 11544 (2017), STREAM triad with one thread on Skylake-SP with DDR4-2666, "only 12
    /// GB/s". A byte copied from memory to memory is read once and written once.
    #[listed("B/s", Checked, &[Communication])]
    pub const CORE_MEMORY_BYTES_PER_SECOND: u64 = 12_000_000_000;

    /// Sustained bytes per cycle that a core reads from its second level cache or writes to it.
    /// Source: Intel optimisation manual, Skylake server, maximum 64 and about 48 sustained
    /// (unchecked).
    #[listed("B/cycle", Unchecked, &[Communication])]
    pub const SECOND_LEVEL_BYTES_PER_CYCLE: u64 = 48;

    /// Bytes of the last level cache into which a device's writes may go, 2 of its 11 ways. Source:
    /// Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020, section 2 (unchecked).
    /// Earlier device writes are in memory.
    #[listed("B", Unchecked, &[Communication])]
    pub const DEVICE_CACHE_BYTES: u64 = (22 << 20) * 2 / 11;

    /// Starting a thread and joining it. Source: Lawrence Livermore's POSIX threads tutorial, 50
    /// 000 in 0.9 s on a Xeon E5-2670.
    #[listed("ns", Checked, &[Communication])]
    pub const THREAD_START: Duration = Duration::from_micros(18);
}
