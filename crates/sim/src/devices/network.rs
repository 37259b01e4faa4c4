//! Links, the switch, the NICs of most testbeds.

use super::constant::constants;
use super::*;

constants! {
    // ---- Ethernet ----------------------------------------------------------------------------
    group "Ethernet";

    /// Bits per second of a link. Source: zero-sided, 100G RoCEv2.
    #[listed("bit/s", Checked, &[ZeroSided, Seamless])]
    pub const LINK_BITS_PER_SECOND: u64 = 100_000_000_000;

    /// Bytes before each packet: preamble 7 and start delimiter 1. Source: IEEE 802.3, clause 3.
    #[listed("B", Checked, EVERY)]
    pub const ETHERNET_PREAMBLE_BYTES: u64 = 8;

    /// Bytes of the frame check sequence. Source: IEEE 802.3, clause 3.
    #[listed("B", Checked, EVERY)]
    pub const ETHERNET_CHECK_BYTES: u64 = 4;

    /// Average idle bytes after each packet. Source: IEEE 802.3, clause 4 (96 bit times).
    #[listed("B", Checked, EVERY)]
    pub const ETHERNET_GAP_BYTES: u64 = 12;

    /// Minimum bytes of a packet, including the frame check sequence. Source: IEEE 802.3, clause 4.
    #[listed("B", Checked, EVERY)]
    pub const ETHERNET_PACKET_BYTES_MIN: u64 = 64;

    /// Metres of cable between a node and the switch. Assumed: a passive copper cable within a
    /// rack.
    #[listed("m", Assumed, EVERY)]
    pub const CABLE_METRES: u64 = 2;

    /// Signal delay of one metre of cable. Source: about two thirds of the speed of light both in
    /// copper and in fibre, the 5 ns that cable data sheets give.
    #[listed("ns", Checked, EVERY)]
    pub const CABLE_DELAY_PER_METRE: Duration = Duration::from_nanos(5);

    // ---- Switch ------------------------------------------------------------------------------
    group "Switch";

    /// From the last bit of a packet in to its first bit out, one pass through the pipeline, queues
    /// empty. Assumed: half a microsecond, without a measurement. Franco et al. (A comprehensive
    /// latency profiling study of the Tofino P4 programmable ASIC-based hardware, Computer
    /// Communications 2024) measure it; their figure for 100 Gbit/s should replace this one.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, FatBtreeRdma, FatBtreeEthernet])]
    pub const SWITCH_PIPELINE_LATENCY: Duration = Duration::from_nanos(500);

    /// From the end of one pass of a recirculated packet to the next. Assumed equal to one pass
    /// through the pipeline: a recirculated packet passes the same parsers, stages and traffic
    /// manager, but no cable.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, FatBtreeRdma, FatBtreeEthernet])]
    pub const SWITCH_RECIRCULATION_LATENCY: Duration = SWITCH_PIPELINE_LATENCY;

    /// Bytes that may wait in front of one port. Assumed: Tofino shares 22 MB (unchecked) among all
    /// ports with dynamic thresholds; 1 MiB is somewhat more than the even share of one of 32 ports
    /// (0.7 MB), as a dynamic threshold gives a single congested port.
    #[listed("B", Assumed, &[ZeroSided, Seamless])]
    pub const SWITCH_PORT_QUEUE_BYTES: usize = 1 << 20;

    /// Queue length above which packets may be marked. Source: DCQCN, section 5 (Kmin), set for 40
    /// Gbit/s and not scaled here.
    #[listed("B", Unchecked, &[ZeroSided, Seamless])]
    pub const ECN_MARK_BYTES_MIN: usize = 5_000;

    /// Queue length above which every packet is marked. Source: DCQCN, section 5 (Kmax).
    #[listed("B", Unchecked, &[ZeroSided, Seamless])]
    pub const ECN_MARK_BYTES_MAX: usize = 200_000;

    /// Marking probability just below that length. Source: DCQCN, section 5 (Pmax, 1 %).
    #[listed("", Unchecked, &[ZeroSided, Seamless])]
    pub const ECN_MARK_PROBABILITY_MAX: f64 = 0.01;

    /// From a digest in the pipeline to the controller reading it. Assumed: a DMA to the switch's
    /// CPU and a wake-up of a user-space process there; no published figure for this switch.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, FatBtreeRdma, FatBtreeEthernet])]
    pub const SWITCH_DIGEST_LATENCY: Duration = Duration::from_micros(100);

    // ---- NIC: ConnectX-5 ---------------------------------------------------------------------
    group "NIC: ConnectX-5";

    /// Minimum time between two packets of one direction. Source: ConnectX-5 brief, up to 200
    /// million messages per second (unchecked).
    #[listed("ps", Unchecked, &[ZeroSided, Seamless, Bluefield, FatBtreeRdma])]
    pub const NIC_MESSAGE_INTERVAL_PICOS: u64 = 5_000;

    /// From the doorbell to the first bit of a packet whose bytes are in the doorbell. Source:
    /// ConnectX-5 EN brief, "sub-600 ns latency" one way; the even split over both ends is assumed.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, Bluefield, FatBtreeRdma])]
    pub const NIC_TRANSMIT_LATENCY: Duration = Duration::from_nanos(300);

    /// From the last bit of a packet to its bytes being visible in memory. Source: the other half
    /// of [`NIC_TRANSMIT_LATENCY`]'s source; the even split is assumed.
    #[listed("ns", Assumed, &[ZeroSided, Seamless, Bluefield, FatBtreeRdma])]
    pub const NIC_RECEIVE_LATENCY: Duration = Duration::from_nanos(300);

    /// Maximum payload bytes of a posted message that is inlined in its work request and needs no
    /// read from memory. Source: bluefield, section 4.2.2 (236 bytes, on by default).
    #[listed("B", Checked, EVERY)]
    pub const NIC_INLINE_BYTES_MAX: usize = 236;

    /// A round-trip read from host memory by a PCIe device. Source: pcie-bench, section 6: median
    /// 547 ns for 64 bytes on a Xeon E5 (NFP6000-HSW).
    #[listed("ns", Unchecked, EVERY)]
    pub const PCIE_READ_LATENCY: Duration = Duration::from_nanos(547);

    /// Bits per second shared by transactions of PCIe 3.0 x16: 16 lanes of 8 GT/s in 128b/130b
    /// code, less the overhead of the data link layer. Source: pcie-bench, section 3, 57.88 Gbit/s
    /// for x8, twice.
    #[listed("bit/s", Unchecked, EVERY)]
    pub const PCIE_BITS_PER_SECOND: u64 = 115_760_000_000;

    /// Payload bytes of one PCIe transaction. Source: pcie-bench, section 3: 256 is the usual
    /// maximum payload size.
    #[listed("B", Unchecked, EVERY)]
    pub const PCIE_TRANSACTION_BYTES: u64 = 256;

    /// Header bytes of one PCIe memory write with 64-bit addresses: framing 2, data link 6,
    /// transaction header 16. Source: pcie-bench, section 3.
    #[listed("B", Unchecked, EVERY)]
    pub const PCIE_TRANSACTION_OVERHEAD_BYTES: u64 = 24;
}
