//! The timing of a NIC around its state machine: message rate, latency in each direction, and the
//! PCIe link to the memory of its node.

use crate::{LinkModel, devices, picos, wire_link};
use rackweave_base::{Duration, Instant, Packet};

/// The speed of a NIC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NicModel {
    /// Minimum picoseconds between two packets of one direction.
    pub message_interval_picos: u64,
    /// From the doorbell, or from the packet being answered, to the first bit out.
    pub transmit_latency: Duration,
    /// From the last bit of a packet to its bytes being in memory.
    pub receive_latency: Duration,
    /// Maximum payload bytes of a posted message that is sent without reading memory.
    pub inline_bytes_max: usize,
    /// Extra time of a packet of a posted work request: how much farther away the posting CPU is
    /// than `transmit_latency` assumes.
    pub doorbell_latency: Duration,
    /// Extra time of a packet if a CPU waits for its bytes or its completion.
    pub delivery_latency: Duration,
    /// A round-trip read from the node's memory. An atomic holds its word for this long.
    pub memory_read_latency: Duration,
    /// Bits per second between NIC and memory, in each direction.
    pub pcie_bits_per_second: u64,
    /// Payload bytes of one PCIe transaction.
    pub pcie_transaction_bytes: u64,
    /// Bytes that each PCIe transaction adds.
    pub pcie_overhead_bytes: u64,
}

/// A NIC's two pipelines.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NicPipelines {
    /// When the next packet may be taken from the machine, in picoseconds.
    transmit_free: u64,
    /// When the last packet taken enters the link: packets do not overtake.
    transmit_last: Instant,
    /// When the receive pipeline has space for the next packet, in picoseconds.
    receive_free: u64,
}

impl Default for NicModel {
    /// The ConnectX-5 of the testbed.
    fn default() -> Self {
        Self {
            message_interval_picos: devices::NIC_MESSAGE_INTERVAL_PICOS,
            transmit_latency: devices::NIC_TRANSMIT_LATENCY,
            receive_latency: devices::NIC_RECEIVE_LATENCY,
            inline_bytes_max: devices::NIC_INLINE_BYTES_MAX,
            doorbell_latency: Duration::ZERO,
            delivery_latency: Duration::ZERO,
            memory_read_latency: devices::PCIE_READ_LATENCY,
            pcie_bits_per_second: devices::PCIE_BITS_PER_SECOND,
            pcie_transaction_bytes: devices::PCIE_TRANSACTION_BYTES,
            pcie_overhead_bytes: devices::PCIE_TRANSACTION_OVERHEAD_BYTES,
        }
    }
}

impl NicModel {
    /// A model whose rates are all above zero.
    pub(crate) fn clamped(self) -> Self {
        Self {
            pcie_bits_per_second: self.pcie_bits_per_second.max(1),
            pcie_transaction_bytes: self.pcie_transaction_bytes.max(1),
            ..self
        }
    }

    /// Picoseconds for which `payload` bytes occupy the PCIe link.
    #[inline]
    pub fn pcie_occupancy(&self, payload: usize) -> u64 {
        let payload = payload as u64;
        let transactions = payload.div_ceil(self.pcie_transaction_bytes);
        let bytes = payload + transactions * self.pcie_overhead_bytes;
        picos::transfer(bytes, self.pcie_bits_per_second)
    }

    /// Time of a packet in the transmit pipeline.
    #[inline]
    pub fn transmit_latency(&self, packet: &Packet) -> Duration {
        let mut latency = self.transmit_latency;
        if self.reads_memory(packet) {
            latency += self.memory_read_latency;
        }
        if !answers(packet) {
            latency += self.doorbell_latency;
        }
        latency
    }

    /// Time of a packet in the receive pipeline.
    #[inline]
    pub fn receive_latency(&self, packet: &Packet) -> Duration {
        if asks_for_memory(packet) {
            self.receive_latency
        } else {
            self.receive_latency + self.delivery_latency
        }
    }

    /// READ responses and atomic answers come from memory, and so do payloads too large for their
    /// work request.
    fn reads_memory(&self, packet: &Packet) -> bool {
        const READ_RESPONSES: std::ops::RangeInclusive<u8> = 0x0d..=0x10;
        const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
        let payload = wire_link::carried(packet);
        match wire_link::opcode(packet.header()) {
            Some(ATOMIC_ACKNOWLEDGE) => true,
            Some(opcode) if READ_RESPONSES.contains(&opcode) => payload > 0,
            _ => payload > self.inline_bytes_max,
        }
    }
}

/// Whether a NIC makes this packet in answer to another.
fn answers(packet: &Packet) -> bool {
    const RESPONSES: std::ops::RangeInclusive<u8> = 0x0d..=0x12;
    wire_link::opcode(packet.header()).is_some_and(|opcode| RESPONSES.contains(&opcode))
}

/// Whether a packet is a READ or an atomic, which no CPU is notified of.
fn asks_for_memory(packet: &Packet) -> bool {
    matches!(wire_link::opcode(packet.header()), Some(0x0c | 0x13 | 0x14))
}

impl NicPipelines {
    /// When the next packet may be taken, if later than `now`.
    #[inline]
    pub(crate) fn transmit_wait(&self, now: Instant) -> Option<Instant> {
        (self.transmit_free > picos::since_start(now)).then(|| picos::instant(self.transmit_free))
    }

    /// Records that a packet was taken from the state machine at `now`; returns when it enters the
    /// link.
    ///
    /// The pipeline takes packets at the pace of its slowest part: engine, PCIe or link.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        packet: &Packet,
        model: &NicModel,
        link: &LinkModel,
    ) -> Instant {
        let slowest = model
            .message_interval_picos
            .max(model.pcie_occupancy(wire_link::carried(packet)))
            .max(link.occupancy(packet.wire_len()));
        self.transmit_free = start(self.transmit_free, now) + slowest;
        self.transmit_last = self.transmit_last.max(now + model.transmit_latency(packet));
        self.transmit_last
    }

    /// Records that a packet's last bit arrived at `now`; returns when it is to be handled.
    #[inline]
    pub(crate) fn receive(&mut self, now: Instant, packet: &Packet, model: &NicModel) -> Instant {
        let begin = start(self.receive_free, now);
        let slowest = model
            .message_interval_picos
            .max(model.pcie_occupancy(wire_link::carried(packet)));
        self.receive_free = begin + slowest;
        picos::instant(begin + picos::of(model.receive_latency(packet)))
    }
}

/// When a pipeline that becomes free at `free` starts on a packet available at `now`. A pipeline
/// that became free within the last nanosecond was only waiting for the clock, whose resolution is
/// no finer.
#[inline]
fn start(free: u64, now: Instant) -> u64 {
    let now = picos::since_start(now);
    if now.saturating_sub(free) < 1000 {
        free
    } else {
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Payload;

    fn packet(opcode: u8, payload: usize) -> Packet {
        let mut header = [0; 54];
        header[12] = 8;
        header[14] = 0x45;
        header[36..38].copy_from_slice(&4791u16.to_be_bytes());
        header[42] = opcode;
        Packet::new(&header, Payload::copied(&vec![0; payload]))
    }

    #[test]
    fn only_what_lies_in_memory_is_read_from_there() {
        let model = NicModel::default();
        let latency = |opcode, payload| model.transmit_latency(&packet(opcode, payload)).as_nanos();
        assert_eq!(latency(0x0a, 64), 300, "a small WRITE is inlined");
        assert_eq!(latency(0x0a, 1024), 847, "a large one is not");
        assert_eq!(latency(0x10, 8), 847, "a READ response never is");
        assert_eq!(latency(0x0c, 0), 300, "a READ request has no payload");
        assert_eq!(latency(0x11, 0), 300, "nor has an acknowledgement");
        assert_eq!(latency(0x12, 0), 847, "an atomic reads its word");
    }

    #[test]
    fn only_what_a_cpu_posts_or_waits_for_takes_its_way() {
        let model = NicModel {
            doorbell_latency: Duration::from_nanos(50),
            delivery_latency: Duration::from_nanos(70),
            ..NicModel::default()
        };
        let latencies = |opcode| {
            let packet = packet(opcode, 0);
            let (out, back) = (
                model.transmit_latency(&packet),
                model.receive_latency(&packet),
            );
            (out.as_nanos(), back.as_nanos())
        };
        assert_eq!(latencies(0x04), (350, 370), "SEND");
        assert_eq!(latencies(0x0a), (350, 370), "WRITE");
        assert_eq!(latencies(0x0c), (350, 300), "READ request");
        assert_eq!(latencies(0x14), (350, 300), "fetch-and-add");
        assert_eq!(latencies(0x10), (300, 370), "READ response");
        assert_eq!(latencies(0x11), (300, 370), "acknowledgement");
        assert_eq!(latencies(0x12), (847, 370), "atomic acknowledgement");
    }

    #[test]
    fn pcie_adds_a_header_to_every_transaction() {
        let model = NicModel::default();
        assert_eq!(model.pcie_occupancy(0), 0);
        assert_eq!(model.pcie_occupancy(1), 25 * 8_000_000 / 115_760);
        assert_eq!(
            model.pcie_occupancy(4096),
            (4096 + 16 * 24) * 8_000_000 / 115_760
        );
    }

    #[test]
    fn the_transmit_pipeline_keeps_the_pace_of_the_link() {
        let (model, link) = (NicModel::default(), LinkModel::default());
        let mut pipelines = NicPipelines::default();
        let mut now = Instant::ZERO;
        for _ in 0..1000 {
            let enters = pipelines.transmit(now, &packet(0x0a, 1000), &model, &link);
            assert_eq!(enters, now + Duration::from_nanos(847));
            now = pipelines
                .transmit_wait(now)
                .expect("the link is slower than the caller");
        }
        // 1082 bytes at 80 ps, a thousand times.
        assert_eq!(now, Instant::from_nanos(86_560));
    }

    #[test]
    fn no_packet_overtakes_another() {
        let (model, link) = (NicModel::default(), LinkModel::default());
        let mut pipelines = NicPipelines::default();
        let large = pipelines.transmit(Instant::ZERO, &packet(0x0a, 4096), &model, &link);
        let later = Instant::from_nanos(335);
        assert_eq!(pipelines.transmit_wait(later), None);
        assert_eq!(
            pipelines.transmit(later, &packet(0x0c, 0), &model, &link),
            large
        );
    }

    #[test]
    fn the_receive_pipeline_takes_a_packet_per_interval() {
        let model = NicModel {
            message_interval_picos: 50_000,
            ..NicModel::default()
        };
        let mut pipelines = NicPipelines::default();
        let mut receive = |now| {
            pipelines
                .receive(Instant::from_nanos(now), &packet(0x11, 0), &model)
                .as_nanos()
        };
        assert_eq!([receive(0), receive(7), receive(500)], [300, 350, 800]);
    }
}
