//! Links over UDP with VXLAN framing (RFC 7348): between machines, and to any other VXLAN endpoint,
//! such as a Linux vxlan device.
//!
//! A [`Hub`] is one socket for many ports of a switch, each a link to another peer; a node's end is
//! a hub with one port. A datagram that is corrupt, is from an unknown sender, or has another
//! network identifier is dropped and counted by reason.
//!
//! The inner packets need a path whose MTU exceeds theirs by 50 bytes (70 over IPv6), as tunnel
//! endpoints must not fragment (RFC 7348 4.3): datagrams are sent with "do not fragment", and a
//! peer on a path with too small an MTU is refused if the system knows that MTU.
//!
//! Packets may be [sealed](Hub::sealed_port). Without that, a sender that can spoof a port's
//! address can send packets as that port.
//!
//! Packets that a port sends between [`cork`](crate::Link::cork) and
//! [`uncork`](crate::Link::uncork) are passed to the system in few calls. Those of one length are
//! one message, which the system splits into datagrams on the way (UDP_SEGMENT), or not at all if
//! the peer is on the same machine and lets datagrams be merged (UDP_GRO), as a hub does.
//!
//! Several threads may poll ports: a thread that receives a datagram puts it into the inbox of its
//! port. But a thread that *sleeps* on a port must also poll all other ports of its hub, because
//! one socket wakes them all.

#[cfg(test)]
mod batch_tests;
mod challenge;
mod error;
mod path;
mod port;
mod seal;
mod system;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vxlan_device_tests;

pub use challenge::Token;
pub use error::UdpError;
pub use port::Port;
pub use seal::{SEAL_LEN, SealKeys};

use crate::bytes::{ETHERNET_MAX, ReceiveCounters};
use crate::outbox::SendCounters;
use path::{overhead, path_mtu, prepare};
use rackweave_base::packet::Pool;
use rackweave_base::{Memory, Packet};
use rackweave_wire::vxlan::{self, Vxlan, VxlanError};
use seal::{Opener, Unsealed};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use system::{Received, Receiver};

/// Number of datagrams from which on no more are read from the socket at once.
const BATCH: usize = 64;

/// Maximum packets queued for a port that is not polled.
const INBOX_MAX: usize = 1024;

/// The largest Ethernet payload: a UDP datagram over IPv4 has at most 65507 bytes.
const MTU_MAX: usize = 65_507 - vxlan::LEN - ETHERNET_MAX - SEAL_LEN;

/// The configuration of a hub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HubConfig {
    /// The address and port of the socket. Port 0 lets the system choose.
    pub bind: SocketAddr,
    /// The VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// Maximum Ethernet payload in bytes of an inner packet.
    pub mtu: usize,
}

/// How the datagrams of a peer are recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerRule {
    /// Those from its address and UDP port: another hub.
    Exact,
    /// Those from its address with any port, except those of a peer with an exact rule. Other VXLAN
    /// endpoints choose the port by a hash of the inner packet (RFC 7348 section 5).
    AnyPort,
}

/// Event counts of a socket, for all its ports together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpCounters {
    /// Counts of packets sent.
    pub send: SendCounters,
    /// Counts of packets from peers with a valid VXLAN header.
    pub receive: ReceiveCounters,
    /// Datagrams dropped because the sender is not a peer.
    pub strangers: u64,
    /// Datagrams of peers dropped because they end within the VXLAN header.
    pub truncated: u64,
    /// Datagrams of peers dropped because their VXLAN header has no network identifier.
    pub no_vni: u64,
    /// Datagrams of peers dropped because they have another network identifier.
    pub wrong_vni: u64,
    /// Datagrams dropped because they are not sealed with the port's key.
    pub forged: u64,
    /// Datagrams dropped because they repeat an earlier one.
    pub replayed: u64,
    /// Packets dropped because their port was not polled for too long.
    pub inbox_full: u64,
    /// Datagrams that the system dropped: its buffer was full, because no port was polled for too
    /// long, or their checksum was wrong.
    pub system_drops: u64,
}

/// One socket, shared by the links to many peers. Clones are handles to the same one; it closes
/// when the last of them and of its ports is dropped.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: UdpSocket,
    local: SocketAddr,
    vxlan: Vxlan,
    mtu: usize,
    memory: Memory,
    pool: Pool,
    state: Mutex<State>,
}

/// State shared by the ports. The lock is held for a batch at most.
#[derive(Debug)]
struct State {
    /// The inboxes of all ports, by the numbers that the ports have.
    inboxes: Vec<Option<Inbox>>,
    numbers: HashMap<Key, usize>,
    receiver: Receiver,
    /// Number of times that the socket was found empty.
    emptied: u64,
    counters: UdpCounters,
}

/// Packets received for a port.
#[derive(Debug, Default)]
struct Inbox {
    packets: VecDeque<Packet>,
    /// Present if only sealed packets are accepted.
    opener: Option<Opener>,
}

/// How a peer's datagrams are recognised. Addresses are in their native form, not IPv4 in IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    Exact(IpAddr, u16),
    AnyPort(IpAddr),
}

/// The keys by which a sender may be known, the one that counts first.
fn keys_of(sender: SocketAddr) -> [Key; 2] {
    let ip = sender.ip().to_canonical();
    [Key::Exact(ip, sender.port()), Key::AnyPort(ip)]
}

impl Hub {
    /// Binds the socket. `memory` resolves payloads to send, `pool` holds received ones.
    ///
    /// # Errors
    /// If the address cannot be bound, the MTU cannot be carried or the network identifier has
    /// more than 24 bits.
    pub fn bind(config: HubConfig, memory: Memory, pool: Pool) -> Result<Self, UdpError> {
        let HubConfig { bind, vni, mtu } = config;
        let vxlan = Vxlan::new(vni).ok_or(UdpError::BadVni { vni })?;
        if crate::rdma_mtu(mtu).is_none() || mtu > MTU_MAX {
            return Err(UdpError::BadMtu { mtu });
        }
        let bind_error = |source| UdpError::Bind {
            address: bind,
            source,
        };
        let socket = UdpSocket::bind(bind).map_err(bind_error)?;
        socket.set_nonblocking(true).map_err(bind_error)?;
        prepare(&socket);
        Ok(Self(Arc::new(Shared {
            local: socket.local_addr().map_err(bind_error)?,
            socket,
            vxlan,
            mtu,
            memory,
            pool,
            state: Mutex::new(State {
                inboxes: Vec::new(),
                numbers: HashMap::new(),
                receiver: Receiver::new(),
                emptied: 0,
                counters: UdpCounters::default(),
            }),
        })))
    }

    /// The link to `peer`; all packets sent on it go there. Its MTU is that of the hub, or what the
    /// path to the peer carries inside VXLAN, if that is less. The link lasts until it is dropped;
    /// then the peer is unknown until a new port for it is created.
    ///
    /// # Errors
    /// If the address cannot be a peer of this hub, has a port already, or the path to it carries
    /// no RDMA packet at all.
    pub fn port(&self, peer: SocketAddr, rule: PeerRule) -> Result<Port, UdpError> {
        self.open(peer, rule, None)
    }

    /// As [`Self::port`], for a peer that seals its packets and to which all packets are sealed.
    /// Its MTU is smaller by [`SEAL_LEN`].
    ///
    /// # Errors
    /// As [`Self::port`].
    pub fn sealed_port(
        &self,
        peer: SocketAddr,
        rule: PeerRule,
        keys: &SealKeys,
    ) -> Result<Port, UdpError> {
        self.open(peer, rule, Some(keys))
    }

    fn open(
        &self,
        peer: SocketAddr,
        rule: PeerRule,
        keys: Option<&SealKeys>,
    ) -> Result<Port, UdpError> {
        let to = self.peer(peer)?;
        let mtu = self.mtu_to(peer)? - keys.map_or(0, |_| SEAL_LEN);
        if crate::rdma_mtu(mtu).is_none() {
            return Err(UdpError::BadMtu { mtu });
        }
        let ip = peer.ip().to_canonical();
        let key = match rule {
            PeerRule::Exact => Key::Exact(ip, peer.port()),
            PeerRule::AnyPort => Key::AnyPort(ip),
        };
        let mut state = self.0.lock();
        let free = state.inboxes.iter().position(Option::is_none);
        let number = free.unwrap_or(state.inboxes.len());
        match state.numbers.entry(key) {
            Entry::Occupied(_) => return Err(UdpError::PeerTaken { peer }),
            Entry::Vacant(vacant) => _ = vacant.insert(number),
        }
        let inbox = Inbox {
            packets: VecDeque::new(),
            opener: keys.map(Opener::new),
        };
        // Not before: `Hub::hear_challenge` expects each datagram alone.
        system::merge_received(&self.0.socket);
        if number == state.inboxes.len() {
            state.inboxes.push(None);
        }
        state.inboxes[number] = Some(inbox);
        drop(state);
        Ok(Port::new(self.0.clone(), to, (key, number), mtu, keys))
    }

    /// The MTU of a port to `peer` that is not sealed.
    ///
    /// # Errors
    /// If the address cannot be a peer of this hub, or the path to it carries no RDMA packet at
    /// all.
    pub fn mtu_to(&self, peer: SocketAddr) -> Result<usize, UdpError> {
        self.peer(peer)?;
        let ip = peer.ip().to_canonical();
        let mut mtu = self.0.mtu;
        if let Some(path) = path_mtu(SocketAddr::new(ip, peer.port())) {
            mtu = mtu.min(path.saturating_sub(overhead(ip)));
            if crate::rdma_mtu(mtu).is_none() {
                let needed = crate::MTU_MIN + overhead(ip);
                return Err(UdpError::PathMtu { peer, path, needed });
            }
        }
        Ok(mtu)
    }

    /// The address and port of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// The event counts.
    pub fn counters(&self) -> UdpCounters {
        let counters = self.0.lock().counters;
        UdpCounters {
            system_drops: u64::from(system::system_drops(&self.0.socket)),
            ..counters
        }
    }

    /// The peer's address in the form of the socket's address family, if it can be a peer.
    fn peer(&self, peer: SocketAddr) -> Result<SocketAddr, UdpError> {
        let ip = peer.ip().to_canonical();
        if ip.is_unspecified() || ip.is_multicast() || peer.port() == 0 {
            return Err(UdpError::BadPeer { peer });
        }
        match (self.0.local, peer) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                Ok((v4.ip().to_ipv6_mapped(), v4.port()).into())
            }
            (SocketAddr::V4(local), SocketAddr::V6(v6)) => match v6.ip().to_ipv4_mapped() {
                Some(ip) => Ok((ip, v6.port()).into()),
                None => Err(UdpError::OtherFamily {
                    peer,
                    local: local.into(),
                }),
            },
            _ => Ok(peer),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Reads a batch of datagrams from the socket and puts each into the inbox of its port.
    fn pull(&self, state: &mut State) {
        let State {
            inboxes,
            numbers,
            receiver,
            counters,
            emptied,
        } = state;
        let mut read = 0;
        while read < BATCH {
            let more = receiver.receive(&self.socket, |received| {
                let keys = keys_of(received.from);
                let number = keys.iter().find_map(|key| numbers.get(key));
                let inbox = number.and_then(|&number| inboxes[number].as_mut());
                read += self.deliver(inbox, counters, received);
            });
            match more {
                Ok(true) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => read += 1,
                // An unconnected socket has no lasting error other than an empty queue.
                Ok(false) | Err(_) => {
                    *emptied += 1;
                    return;
                }
            }
        }
    }

    /// Delivers each datagram of a message to the inbox of its sender's port, if there is one, or
    /// counts the reason for dropping it. Returns their number.
    fn deliver(
        &self,
        mut inbox: Option<&mut Inbox>,
        counters: &mut UdpCounters,
        received: &Received<'_>,
    ) -> usize {
        let mut count = 0;
        for datagram in received.datagrams() {
            match &mut inbox {
                Some(inbox) => self.deliver_to(inbox, counters, datagram),
                None => counters.strangers += 1,
            }
            count += 1;
        }
        count
    }

    fn deliver_to(&self, inbox: &mut Inbox, counters: &mut UdpCounters, datagram: &[u8]) {
        let frame = match Vxlan::parse(datagram) {
            Ok((header, frame)) if header == self.vxlan => frame,
            Ok(_) => return counters.wrong_vni += 1,
            Err(VxlanError::Truncated) => return counters.truncated += 1,
            Err(VxlanError::NoVni) => return counters.no_vni += 1,
        };
        let frame = match inbox.opener.as_mut().map(|opener| opener.open(frame)) {
            None => frame,
            Some(Ok(packet)) => packet,
            Some(Err(Unsealed::Forged)) => return counters.forged += 1,
            Some(Err(Unsealed::Replayed)) => return counters.replayed += 1,
        };
        if inbox.packets.len() >= INBOX_MAX {
            return counters.inbox_full += 1;
        }
        inbox
            .packets
            .extend(counters.receive.take(frame, self.mtu, &self.pool));
    }
}
