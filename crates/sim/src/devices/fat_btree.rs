//! The two testbeds of Fat-B+Tree.

use super::constant::constants;
use super::*;

constants! {
    // ---- Testbeds of Fat-B+Tree --------------------------------------------------------------
    group "Testbeds of Fat-B+Tree";

    /// Bits per second of every cable. Source: fat-btree, 40 Gbit/s.
    #[listed("bit/s", Checked, &[FatBtreeRdma, FatBtreeEthernet])]
    pub const FAT_BTREE_LINK_BITS_PER_SECOND: u64 = 40_000_000_000;

    /// Clock of the hosts of its RDMA testbed in hertz. Source: fat-btree. The CPU is not named;
    /// its cores and memory are modelled as those of [`HOST_HERTZ`], except for the clock.
    #[listed("Hz", Checked, &[FatBtreeRdma])]
    pub const FAT_BTREE_RDMA_HERTZ: u64 = 4_200_000_000;

    /// Clock of the hosts of its Ethernet testbed in hertz. Source: fat-btree; modelled as above.
    #[listed("Hz", Checked, &[FatBtreeEthernet])]
    pub const FAT_BTREE_ETHERNET_HERTZ: u64 = 2_100_000_000;

    /// Half of a message's latency through two ConnectX-3, as [`NIC_TRANSMIT_LATENCY`] is for two
    /// ConnectX-5. Source: ConnectX-3 news, "sub-microsecond latency" at 40 Gbit/s Ethernet with
    /// RDMA; the whole microsecond and the even split are assumed.
    #[listed("ns", Assumed, &[FatBtreeEthernet])]
    pub const CONNECTX_3_LATENCY: Duration = Duration::from_nanos(500);

    /// Minimum picoseconds between two packets of one direction of a ConnectX-3. Source: HERD, 35
    /// million small WRITEs per second.
    #[listed("ps", Unchecked, &[FatBtreeEthernet])]
    pub const CONNECTX_3_MESSAGE_INTERVAL_PICOS: u64 = 28_571;

    /// Bits per second shared by transactions of a ConnectX-3's PCIe 3.0 x8: half of
    /// [`PCIE_BITS_PER_SECOND`].
    #[listed("bit/s", Derived, &[FatBtreeEthernet])]
    pub const CONNECTX_3_PCIE_BITS_PER_SECOND: u64 = PCIE_BITS_PER_SECOND / 2;

    /// Maximum client threads of the Ethernet testbed. Source: fat-btree, section V-C.
    #[listed("threads", Checked, &[FatBtreeRdma, FatBtreeEthernet])]
    pub const FAT_BTREE_CLIENTS: u16 = 16;

    /// Threads of each memory server of the Ethernet testbed. Assumed, since the paper does not
    /// state it: one, as its throughput grows with clients up to a few hundred thousand requests
    /// per second with four servers.
    #[listed("threads", Assumed, &[FatBtreeEthernet])]
    pub const FAT_BTREE_SERVER_THREADS: u16 = 1;
}
