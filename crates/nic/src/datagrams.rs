//! Plain UDP datagrams: ports with their received datagrams, and datagrams to be sent.
//!
//! Created when the first port is bound. From then on the NIC has its own [`Neighbours`]: it
//! resolves the Ethernet addresses that it sends datagrams to, and answers requests for its own.

use crate::shared::Core;
use crate::{DropReason, NeighbourConfig, NeighbourEvent, Neighbours, Nic, NicConfig, Resolution};
use rackweave_base::packet::INLINE_MAX;
use rackweave_base::{Duration, Instant, MacAddr, Packet, Payload};
use rackweave_verbs::{BindError, DatagramError, Datagrams};
use rackweave_wire::udp::ROCE_PORT;
use rackweave_wire::{Datagram, Ecn, Ethernet, Ipv4, ParseError, arp};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;

/// The first of the dynamic ports (RFC 6335 6).
const FREE_PORTS: u16 = 49152;

/// Neighbours that a NIC sends datagrams to.
const NEIGHBOURS_MAX: usize = 256;

/// Time after which an ARP request is repeated: hosts of a rack answer within microseconds, RFC
/// 1122 2.3.2.1 specifies a second for networks of any kind.
const ASK_INTERVAL: Duration = Duration::from_millis(1);

/// Number of ARP requests for one neighbour.
const ASK_TRIES: u8 = 8;

/// The state of a NIC for datagrams.
pub(crate) struct Ports {
    neighbours: Neighbours,
    /// Neighbours whose addresses are known; a map, because [`Neighbours`] searches a list.
    known: HashMap<Ipv4Addr, MacAddr>,
    ports: BTreeMap<u16, VecDeque<(Datagram, Packet)>>,
    /// Datagrams ready to be sent.
    outgoing: VecDeque<Packet>,
    /// Datagrams that wait for their receivers' addresses, in the order of sending.
    waiting: VecDeque<(Ipv4Addr, Packet)>,
    /// Where the search for a free port starts.
    next_port: u16,
    /// The bytes that a checksum is computed over.
    scratch: Vec<u8>,
}

/// Total bytes with `ports` ports bound.
pub(crate) fn bytes(config: &NicConfig, ports: usize) -> usize {
    let queue = config.datagram_queue_max as usize;
    let neighbours = NEIGHBOURS_MAX * 4 * size_of::<(Ipv4Addr, MacAddr, Instant)>();
    ports * queue * size_of::<(Datagram, Packet)>()
        + queue * size_of::<(Ipv4Addr, Packet)>()
        + neighbours
        + size_of::<Ports>()
}

impl Ports {
    pub fn new(config: &NicConfig) -> Self {
        let neighbours = NeighbourConfig {
            neighbours_max: NEIGHBOURS_MAX,
            tries: ASK_TRIES,
            interval: ASK_INTERVAL,
            ..NeighbourConfig::new(config.ip, config.mac)
        };
        Self {
            neighbours: Neighbours::new(neighbours),
            known: HashMap::with_capacity(NEIGHBOURS_MAX),
            ports: BTreeMap::new(),
            outgoing: VecDeque::new(),
            waiting: VecDeque::new(),
            next_port: FREE_PORTS,
            scratch: Vec::new(),
        }
    }

    /// Number of bound ports.
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// Handles a packet that is not RoCEv2. Returns true if it was ARP or a datagram, even if it
    /// was dropped.
    pub fn handle_packet(&mut self, now: Instant, core: &mut Core, packet: &mut Packet) -> bool {
        if arp::is_arp(packet.header()) {
            self.neighbours.handle_packet(now, packet);
            self.settle(core);
            return true;
        }
        let Ok(datagram) = Datagram::of(packet) else {
            return false;
        };
        if let Err(reason) = self.take(core, datagram, packet) {
            core.counters.count_drop(reason);
        }
        true
    }

    fn take(
        &mut self,
        core: &mut Core,
        datagram: Datagram,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        if datagram.ipv4.target != core.config.ip {
            return Err(DropReason::NotForUs);
        }
        let limit = core.config.datagram_queue_max as usize;
        let queue = self.ports.get_mut(&datagram.target_port);
        let queue = queue.ok_or(DropReason::PortUnbound)?;
        if queue.len() == limit {
            return Err(DropReason::DatagramQueueFull);
        }
        if matches!(packet.payload, Payload::Region(_)) {
            // By the time the datagram is received, the region may have other contents.
            let bytes = packet.payload.to_vec(&core.memory);
            packet.payload = Payload::copied(&bytes.ok_or(DropReason::PayloadGone)?);
        }
        if datagram.checksum != 0 {
            let whole = datagram.read(packet, &core.memory, &mut self.scratch);
            if !whole || !datagram.checksum_is_right(packet, &self.scratch) {
                let name = ParseError::BadUdpChecksum.reason();
                core.counters.count_malformed(name);
                return Ok(());
            }
        }
        core.counters.rcvd_datagrams += 1;
        let packet = core::mem::replace(packet, Packet::with_payload(Payload::Empty));
        queue.push_back((datagram, packet));
        Ok(())
    }

    /// Handles the results of ARP requests.
    fn settle(&mut self, core: &mut Core) {
        while let Some(event) = self.neighbours.poll_event() {
            match event {
                NeighbourEvent::Learned(ip, mac) => {
                    // A neighbour known only from its own request is not resolved unless a datagram
                    // is sent to it.
                    if self.waiting.iter().any(|(to, _)| *to == ip) {
                        self.neighbours.resolve(ip);
                        self.known.insert(ip, mac);
                        self.release(ip, mac);
                    }
                }
                NeighbourEvent::Unanswered(ip) => {
                    let before = self.waiting.len();
                    self.waiting.retain(|(to, _)| *to != ip);
                    for _ in self.waiting.len()..before {
                        core.counters.count_drop(DropReason::NoNeighbour);
                    }
                }
            }
        }
    }

    /// Moves the datagrams that wait for the address of `ip` to the send queue.
    fn release(&mut self, ip: Ipv4Addr, mac: MacAddr) {
        for (to, mut packet) in core::mem::take(&mut self.waiting) {
            if to == ip {
                // A packet begins with the Ethernet target.
                packet.header_mut()[..mac.0.len()].copy_from_slice(&mac.0);
                self.outgoing.push_back(packet);
            } else {
                self.waiting.push_back((to, packet));
            }
        }
    }

    /// The next packet to send: an ARP request or reply, or a datagram.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let asked = self.neighbours.poll_transmit(now);
        asked.or_else(|| self.outgoing.pop_front())
    }

    /// The time to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.neighbours.poll_timeout()
    }

    /// Advances time: handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, core: &mut Core) {
        self.neighbours.handle_timeout(now);
        self.settle(core);
    }

    fn free_port(&mut self) -> Option<u16> {
        for _ in FREE_PORTS..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FREE_PORTS);
            if !self.ports.contains_key(&port) {
                return Some(port);
            }
        }
        None
    }

    fn send(
        &mut self,
        core: &mut Core,
        port: u16,
        (ip, to_port): (Ipv4Addr, u16),
        bytes: &[u8],
    ) -> Result<(), DatagramError> {
        if !self.ports.contains_key(&port) {
            return Err(DatagramError::NotBound(port));
        }
        if self.is_full(core) {
            return Err(DatagramError::Full);
        }
        let Some(mac) = self.resolve(core, ip) else {
            return Ok(());
        };
        let identification = core.identification.wrapping_add(1);
        let target = mac.unwrap_or(MacAddr([0; 6]));
        let datagram = Datagram {
            ethernet: Ethernet::new(core.config.mac, target),
            ipv4: Ipv4 {
                ecn: Ecn::NotCapable,
                identification,
                ..Ipv4::new(core.config.ip, ip)
            },
            source_port: port,
            target_port: to_port,
            checksum: 0,
            carried: bytes.len(),
        };
        let pool = &core.pool;
        let keep = |rest: &[u8]| match rest.len() {
            0..=INLINE_MAX => Some(Payload::inline(rest)),
            len => {
                let buffer = pool.take(len, |space| {
                    space.copy_from_slice(rest);
                    true
                });
                buffer.map(Payload::Pooled)
            }
        };
        let packet = datagram.packet(bytes, keep).ok_or(DatagramError::Full)?;
        core.identification = identification;
        core.counters.sent_datagrams += 1;
        self.push(ip, mac, packet);
        Ok(())
    }

    /// Whether no further packet can wait to be sent.
    pub fn is_full(&self, core: &Core) -> bool {
        let limit = core.config.datagram_queue_max as usize;
        self.outgoing.len() + self.waiting.len() >= limit
    }

    /// The Ethernet address of a neighbour; `Some(None)` if it is being asked for. Returns `None`
    /// if no more can be asked for: what was to be sent is counted as dropped.
    pub fn resolve(&mut self, core: &mut Core, ip: Ipv4Addr) -> Option<Option<MacAddr>> {
        if let Some(&mac) = self.known.get(&ip) {
            return Some(Some(mac));
        }
        match self.neighbours.resolve(ip) {
            Resolution::Known(mac) => {
                self.known.insert(ip, mac);
                Some(Some(mac))
            }
            Resolution::Asked => Some(None),
            Resolution::Full => {
                core.counters.count_drop(DropReason::NoNeighbour);
                None
            }
        }
    }

    /// Sends a packet to a neighbour, once its address is known; until then the packet has any
    /// target address.
    pub fn push(&mut self, ip: Ipv4Addr, mac: Option<MacAddr>, packet: Packet) {
        match mac {
            Some(_) => self.outgoing.push_back(packet),
            None => self.waiting.push_back((ip, packet)),
        }
    }
}

impl Datagrams for Nic {
    fn bind(&mut self, port: u16) -> Result<u16, BindError> {
        if port == ROCE_PORT {
            return Err(BindError::Reserved(port));
        }
        let config = &self.core.config;
        let limit = config.datagram_ports_max;
        let ports = self.ports.get_or_insert_with(|| Ports::new(config).into());
        if ports.ports.contains_key(&port) {
            return Err(BindError::Taken(port));
        }
        let too_many = BindError::TooMany { limit };
        if ports.len() >= limit as usize {
            return Err(too_many);
        }
        let port = match port {
            0 => ports.free_port().ok_or(too_many)?,
            port => port,
        };
        ports.ports.insert(port, VecDeque::new());
        Ok(port)
    }

    fn unbind(&mut self, port: u16) -> bool {
        let ports = self.ports.as_mut();
        ports.is_some_and(|ports| ports.ports.remove(&port).is_some())
    }

    fn datagram_max(&self) -> usize {
        self.core.config.datagram_max as usize
    }

    fn send(&mut self, port: u16, to: (Ipv4Addr, u16), bytes: &[u8]) -> Result<(), DatagramError> {
        let (len, limit) = (bytes.len(), self.datagram_max());
        if len > limit {
            return Err(DatagramError::TooLarge { len, limit });
        }
        match &mut self.ports {
            Some(ports) => ports.send(&mut self.core, port, to, bytes),
            None => Err(DatagramError::NotBound(port)),
        }
    }

    fn receive(&mut self, port: u16, bytes: &mut Vec<u8>) -> Option<(Ipv4Addr, u16)> {
        let queue = self.ports.as_mut()?.ports.get_mut(&port)?;
        let (datagram, packet) = queue.pop_front()?;
        let whole = datagram.read(&packet, &self.core.memory, bytes);
        debug_assert!(whole, "what refers to a region was copied when it came");
        Some((datagram.ipv4.source, datagram.source_port))
    }
}
