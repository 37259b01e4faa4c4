//! The NIC: dispatches received packets to queue pairs and collects packets to send from them.

use crate::cables::CableId;
use crate::cm;
use crate::cq::CqTable;
use crate::datagrams::{self, Ports};
use crate::egress::{Egress, EgressQueue};
use crate::qp::{Emission, Qp};
use crate::received::{Network, Received};
use crate::shared::{Core, Timer};
use crate::table::QpTable;
use crate::{Counters, DropReason, NicConfig, region_table};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Packet, Qpn};
use rackweave_verbs::QpEvent;
use rackweave_wire::{Ecn, Opcode, ParseError, Verdict, View, icrc};

/// Time after which a packet that found no buffer is retried, without any other event.
const STALL_WAIT: Duration = Duration::from_micros(1);

/// The partition key of all packets, without its top bit, which means "full member".
const PARTITION: u16 = 0x7fff;

/// A soft NIC.
pub struct Nic {
    pub(crate) qps: QpTable,
    pub(crate) core: Core,
    pub(crate) keys: KeyRng,
    pub(crate) pds: u32,
    /// Time of the next retry for packets that found no buffer.
    stalled_until: Option<Instant>,
    /// State for datagrams, once a port has been bound.
    pub(crate) ports: Option<Box<Ports>>,
    /// The connection manager, once it was used.
    pub(crate) cm: Option<Box<cm::Machine>>,
    /// Whether a datagram is sent before a request, if both are ready.
    datagram_first: bool,
}

/// Bytes of the tables whose size does not depend on the objects created in them.
pub(crate) fn bytes_fixed(config: &NicConfig) -> usize {
    let per_qp = QpTable::bytes_per_slot()
        + Egress::bytes_per_qp()
        + Timer::ALL.len() * (size_of::<(Instant, u32)>() + size_of::<u32>())
        + 2 * size_of::<QpEvent>();
    size_of::<Nic>()
        + config.qps_max as usize * per_qp
        + config.cqs_max as usize * (CqTable::bytes_per_slot() + size_of::<QpEvent>())
}

impl Nic {
    /// A NIC with empty tables. Values of `config` that are out of range are clamped.
    pub fn new(config: NicConfig, memory: Memory, pool: Pool, keys: KeyRng) -> Self {
        let config = config.clamped();
        Self {
            qps: QpTable::new(config.qps_max),
            core: Core::new(config, memory, pool),
            keys,
            pds: 0,
            stalled_until: None,
            ports: None,
            cm: None,
            datagram_first: false,
        }
    }

    /// Handles a packet that arrived.
    pub fn handle_packet(&mut self, now: Instant, mut packet: Packet) {
        self.core.counters.rcvd_pkts += u64::from(packet.fragments());
        self.core.counters.rdma_rx_bytes += packet.wire_len_total();
        let (network, headers) = match View::of(&packet) {
            Ok(view) => (Network::of(&view), Received::of(&view)),
            Err(error) => return self.handle_other(now, packet, error),
        };
        if let Err(reason) = self.dispatch(now, network, &headers, &mut packet) {
            self.core.counters.count_drop(reason);
        }
        self.settle_overflows();
    }

    /// Handles a packet that is not RoCEv2; `error` is the reason.
    #[cold]
    fn handle_other(&mut self, now: Instant, mut packet: Packet, error: ParseError) {
        let core = &mut self.core;
        // Direct cables carry packets of queue pairs alone.
        let is_direct = core.cables.from != CableId::SWITCH;
        let ports = self.ports.as_mut().filter(|_| !is_direct);
        if !ports.is_some_and(|ports| ports.handle_packet(now, core, &mut packet)) {
            core.counters.count_malformed(error.reason());
        }
    }

    #[inline]
    fn dispatch(
        &mut self,
        now: Instant,
        network: Network,
        headers: &Received,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        let Self { qps, core, .. } = self;
        if network.target != core.config.ip {
            return Err(DropReason::NotForUs);
        }
        if headers.bth.pkey & PARTITION != PARTITION {
            return Err(DropReason::BadPartition);
        }
        let Some(qp) = qps.get_mut(headers.bth.target_qp) else {
            return self.dispatch_management(now, network, headers, packet);
        };
        if !qp.receives() {
            return Err(DropReason::BadState);
        }
        let source = network.source;
        if source != qp.connection.peer_ip || !core.cables.admits(source) {
            return Err(DropReason::NotFromPeer);
        }
        if core.config.check && !check_is_right(core, packet) {
            core.counters.rx_icrc_encapsulated += 1;
            return Err(DropReason::BadIcrc);
        }
        let opcode = headers.bth.opcode;
        let notification = opcode == Opcode::CongestionNotification;
        if network.ecn == Ecn::CongestionExperienced && !notification {
            qp.note_mark(core, now);
        }
        let result = if opcode.is_request() {
            qp.responder.cable = core.cables.from;
            qp.handle_request(core, headers, packet)
        } else if notification {
            qp.handle_notification(core, now)
        } else if opcode.is_response() {
            qp.handle_response(core, headers, packet, now)
        } else {
            Err(DropReason::WrongService)
        };
        qp.wake(core);
        result
    }

    /// The next packet to send, if there is one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let mut packet = None;
        self.core.cables.to = CableId::SWITCH;
        if self.ports.is_none() {
            self.emit(now, &mut packet);
        } else {
            self.emit_both(now, &mut packet);
        }
        if let Some(packet) = &packet {
            self.core.counters.sent_pkts += u64::from(packet.fragments());
            self.core.counters.rdma_tx_bytes += packet.wire_len_total();
        }
        self.settle_overflows();
        packet
    }

    /// Whether [`Nic::poll_transmit`] may return a packet.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.core.egress.any() || self.ports.is_some()
    }

    /// Writes the next packet to `out` when there may be datagrams: datagrams and packets of queue
    /// pairs alternate, after acknowledgements.
    fn emit_both(&mut self, now: Instant, out: &mut Option<Packet>) {
        self.send_messages(now);
        let Some(ports) = &mut self.ports else {
            return;
        };
        let acknowledges = self.core.egress.waiting(EgressQueue::Control) > 0;
        if self.datagram_first && !acknowledges {
            self.datagram_first = false;
            *out = ports.poll_transmit(now);
        }
        if out.is_none() {
            self.datagram_first = true;
            self.emit(now, out);
        }
        if out.is_none()
            && let Some(ports) = &mut self.ports
        {
            *out = ports.poll_transmit(now);
        }
    }

    /// Writes the next packet to `out`: the packet is built in place, since moving it costs as much
    /// as building it.
    #[inline]
    fn emit(&mut self, now: Instant, out: &mut Option<Packet>) {
        let Self { qps, core, .. } = self;
        while let Some(index) = core.egress.next(EgressQueue::Control) {
            let qp = qps
                .at(index)
                .expect("queue pairs leave the rings before they go");
            if qp.poll_control(core, out) == Emission::Packet {
                return;
            }
        }
        self.stalled_until = None;
        for _ in 0..core.egress.waiting(EgressQueue::Bulk) {
            let Some(index) = core.egress.next(EgressQueue::Bulk) else {
                break;
            };
            let qp = qps
                .at(index)
                .expect("queue pairs leave the rings before they go");
            match qp.poll_bulk(core, now, out) {
                Emission::Packet => return,
                Emission::Idle => {}
                Emission::Waits => core.egress.wake(EgressQueue::Bulk, index),
                Emission::Stalled => {
                    core.egress.wake(EgressQueue::Bulk, index);
                    self.stalled_until = Some(now + STALL_WAIT);
                }
            }
        }
    }

    /// The latest time at which [`Nic::handle_timeout`] and then [`Nic::poll_transmit`] must be
    /// called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.core.timers.next();
        let ports = self.ports.as_ref().and_then(|ports| ports.poll_timeout());
        let cm = self.cm.as_ref().and_then(|cm| cm.poll_timeout());
        [timer, self.stalled_until, ports, cm]
            .into_iter()
            .flatten()
            .min()
    }

    /// Advances time: handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.core.timers.pop_expired(now) {
            let (index, timer) = Timer::of_key(key);
            if let Some(qp) = self.qps.at(index) {
                qp.handle_timer(&mut self.core, timer, now);
            }
        }
        if let Some(ports) = &mut self.ports {
            ports.handle_timeout(now, &mut self.core);
        }
        self.handle_connection_timeouts(now);
        self.settle_overflows();
    }

    /// The next asynchronous event.
    pub fn poll_event(&mut self) -> Option<QpEvent> {
        self.core.events.pop_front()
    }

    /// Whether it answers and asks ARP requests itself: it has sent or received datagrams or
    /// messages of the connection manager.
    pub fn speaks_arp(&self) -> bool {
        self.ports.is_some()
    }

    /// Its address on the link.
    pub fn mac(&self) -> MacAddr {
        self.core.config.mac
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Lets READ responses of this queue pair refer to the region instead of copying from it.
    /// Responses of up to 32 bytes are copied all the same; for an aligned word that is one atomic
    /// load. The owner of the region promises that nothing changes the bytes until they are stored
    /// at the peer; in return, the peer's requests behind a READ are not held back. Returns false
    /// if the number is unknown.
    pub fn set_read_by_reference(&mut self, qpn: Qpn, on: bool) -> bool {
        match self.qps.get_mut(qpn) {
            Some(qp) => {
                qp.responder.by_reference = on;
                true
            }
            None => false,
        }
    }

    /// Leaves the copying of READ responses of more than 32 bytes to the caller that takes the
    /// packets: those responses carry a reference, for models of NICs that read memory piece by
    /// piece. The caller copies the bytes and renews the ICRC before it passes another request of
    /// the same peer to this NIC. While a request is held back behind a READ, the NIC copies by
    /// itself.
    pub fn defer_reads(&mut self, on: bool) {
        self.core.reads_deferred = on;
    }

    /// The rate in bits per second that congestion control has reduced this queue pair to, if it
    /// has.
    pub fn rate_limit(&self, qpn: Qpn) -> Option<u64> {
        self.qps.get(qpn)?.rate.rate()
    }

    /// Upper bound on the bytes that the tables and queues use for the objects created so far.
    pub fn bytes_overhead(&self) -> usize {
        bytes_fixed(&self.core.config)
            + region_table::bytes(self.core.config.regions_max)
            + self.core.cqs.bytes()
            + self.qps.iter().map(Qp::bytes).sum::<usize>()
            + self
                .ports
                .as_ref()
                .map_or(0, |ports| datagrams::bytes(&self.core.config, ports.len()))
    }

    /// Fails the queue pairs of completion queues that have overflowed. Flushing them may overflow
    /// others; each queue overflows once.
    #[inline]
    pub(crate) fn settle_overflows(&mut self) {
        while let Some(cq) = self.core.cqs.take_overflow() {
            self.core.report(QpEvent::CqOverflow(cq));
            for qp in self.qps.iter_mut() {
                if qp.send_cq == cq || qp.receive_cq == cq {
                    qp.enter_error(&mut self.core);
                }
            }
        }
    }
}

pub(crate) fn check_is_right(core: &Core, packet: &Packet) -> bool {
    planted(Canary::NicSkipsIcrc) || icrc::verify(packet, &core.memory) == Verdict::Right
}
