//! Both ends of a node's link: how they are made and connected.

use super::HostedError;
use super::messages::{NodeReply, NodeRequest, NodeWelcome};
use super::runtime::Runtime;
use crate::config::{FaultSection, LinkKind, RackConfig, SwitchPlace};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, KeyRng, Memory, NodeId, Packet, Rng};
use rackweave_control::{CONTROLLER_NAME, Connection, ControlError};
use rackweave_link::packet_socket::PacketSocket;
use rackweave_link::shared_memory::{Handover, SharedMemory, handover};
use rackweave_link::udp::{Hub, HubConfig, PeerRule, Port, SealKeys, UdpError};
use rackweave_link::unix::UnixDatagram;
use rackweave_link::{Fault, Link, Properties};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration as Time;

/// Time limit for the other side to hand over its memory.
pub(super) const HANDOVER_LIMIT: Time = Time::from_secs(2);

/// How long a node waits for a token before it reports that none has arrived.
pub(super) const CHALLENGE_LIMIT: Time = Time::from_millis(100);

/// Bytes of Ethernet payload on links that have no limit of their own.
const MTU: usize = rackweave_link::in_process::MTU;

/// The inputs from which a node makes its end of a link.
pub(super) struct NodePlacement<'a> {
    pub config: &'a RackConfig,
    pub node: NodeId,
    /// Where the switch's process runs.
    pub switch: &'a SwitchPlace,
    pub runtime: &'a Runtime,
    pub memory: &'a Memory,
    pub pool: &'a Pool,
}

/// A node's end of its link.
pub(super) struct NodeEnd {
    kind: LinkKind,
    /// `None` until the switch has handed it over.
    link: Option<Box<dyn Link>>,
    /// Its socket, if packets travel in UDP.
    hub: Option<Hub>,
}

/// The sockets of a Unix datagram link: the node's and the switch's.
fn unix_paths(place: &NodePlacement<'_>) -> (PathBuf, PathBuf) {
    let path = |end: &str| place.runtime.path(&format!("{}.{end}", place.name()));
    (path("node"), path(place.switch.socket))
}

fn trouble(kind: LinkKind, node: &str, problem: impl ToString) -> HostedError {
    HostedError::Link {
        kind: kind.name(),
        node: node.into(),
        problem: problem.to_string(),
    }
}

impl NodePlacement<'_> {
    fn name(&self) -> &str {
        &self.config.node[usize::from(self.node.0)].name
    }
}

impl NodeEnd {
    /// Makes the node's end, as far as is possible without the switch.
    pub fn open(place: &NodePlacement<'_>) -> Result<Self, HostedError> {
        let hosted = place.config.hosted();
        let node = &place.config.node[usize::from(place.node.0)];
        let kind = node.link_kind(&hosted);
        let (mut link, mut hub) = (None, None);
        match kind {
            LinkKind::SharedMemory => {}
            LinkKind::Udp => {
                let switch = place.switch.udp;
                let any = if switch.ip().is_loopback() {
                    SocketAddr::new(switch.ip(), 0)
                } else if switch.is_ipv4() {
                    SocketAddr::from(([0, 0, 0, 0], 0))
                } else {
                    SocketAddr::from(([0u16; 8], 0))
                };
                let config = HubConfig {
                    bind: node.udp.unwrap_or(any),
                    vni: hosted.vni,
                    mtu: MTU,
                };
                let bound = Hub::bind(config, place.memory.clone(), place.pool.clone());
                hub = Some(bound.map_err(|error| trouble(kind, &node.name, error))?);
            }
            LinkKind::Unix | LinkKind::Packet => {
                let paths = unix_paths(place);
                link = Some(open_alone(place, kind, paths, node.interface.as_deref())?);
            }
        }
        Ok(Self { kind, link, hub })
    }

    /// Bytes of Ethernet payload that it carries, if known before the switch is asked.
    pub fn mtu(&self, place: &NodePlacement<'_>) -> Result<Option<usize>, HostedError> {
        if let Some(hub) = &self.hub {
            let mtu = hub.mtu_to(place.switch.udp);
            return mtu
                .map(Some)
                .map_err(|p| trouble(self.kind, place.name(), p));
        }
        Ok(self.link.as_ref().map(|link| link.properties().mtu))
    }

    /// The source address of its packets, if they travel in UDP.
    pub fn udp(&self) -> Option<SocketAddr> {
        self.hub.as_ref().map(Hub::local_addr)
    }

    /// Proves to the switch that this end has its claimed address, if packets travel in UDP.
    fn prove(
        &self,
        place: &NodePlacement<'_>,
        connection: &mut Connection,
    ) -> Result<(), HostedError> {
        let Some(hub) = &self.hub else {
            return Ok(());
        };
        let switch = place.switch.udp;
        loop {
            match connection.receive::<NodeRequest>(HANDOVER_LIMIT)? {
                Some(NodeRequest::Prove) => {}
                Some(_) => return Err(HostedError::BadAnswer),
                // It may have been stopped, or be about to end.
                None => {
                    let peer = CONTROLLER_NAME.to_owned();
                    let what = "to admit this node";
                    return Err(ControlError::TimedOut { peer, what }.into());
                }
            }
            let heard = hub.hear_challenge(switch, CHALLENGE_LIMIT);
            let heard = heard.map_err(|p| trouble(self.kind, place.name(), p))?;
            connection.send(&NodeReply::Token(heard))?;
            if heard.is_some() {
                return Ok(());
            }
        }
    }

    /// Fetches what the switch makes. Returns the channel on which descriptors of other nodes'
    /// memory will arrive.
    pub fn complete(
        &mut self,
        place: &NodePlacement<'_>,
        welcome: &mut NodeWelcome,
        connection: &mut Connection,
    ) -> Result<Option<UnixStream>, HostedError> {
        self.prove(place, connection)?;
        if let Some(hub) = &self.hub {
            let keys = welcome.seal.take().map(SealKeys::from);
            let port = udp_port(hub, place.switch.udp, keys.as_ref());
            let port = port.map_err(|p| trouble(self.kind, place.name(), p))?;
            self.link = Some(Box::new(port));
        }
        if self.link.is_some() {
            return Ok(None);
        }
        let (channel, link) =
            attach(place, &welcome.token).map_err(|p| trouble(self.kind, place.name(), p))?;
        self.link = Some(link);
        Ok(Some(channel))
    }

    /// The link.
    ///
    /// # Panics
    /// If it is not complete.
    pub fn into_link(self) -> Box<dyn Link> {
        self.link.expect("the link is complete")
    }
}

/// The link to `peer`, sealed if there are keys.
pub(super) fn udp_port(
    hub: &Hub,
    peer: SocketAddr,
    keys: Option<&SealKeys>,
) -> Result<Port, UdpError> {
    match keys {
        Some(keys) => hub.sealed_port(peer, PeerRule::Exact, keys),
        None => hub.port(peer, PeerRule::Exact),
    }
}

/// Limits the wait for the other side of a handover to [`HANDOVER_LIMIT`].
pub(super) fn limit(channel: &UnixStream) -> std::io::Result<()> {
    channel.set_read_timeout(Some(HANDOVER_LIMIT))?;
    channel.set_write_timeout(Some(HANDOVER_LIMIT))
}

/// Passes this node's memory to the switch, and gets the rings from it.
fn attach(place: &NodePlacement<'_>, token: &str) -> Result<(UnixStream, Box<dyn Link>), String> {
    let path = place.runtime.handover(place.switch.socket);
    let channel = UnixStream::connect(&path).map_err(|error| {
        format!(
            "{}: {error}; shared memory needs the switch on this machine and the same \
             hosted.directory",
            path.display()
        )
    })?;
    let text = |error: &dyn std::fmt::Display| error.to_string();
    limit(&channel).map_err(|e| text(&e))?;
    let own = place
        .memory
        .descriptor()
        .ok_or("this memory is not shared")?;
    handover::send(&channel, token.as_bytes(), &[own]).map_err(|e| text(&e))?;
    let (_, fds) = handover::receive(&channel).map_err(|e| text(&e))?;
    let fds = <[OwnedFd; 3]>::try_from(fds).map_err(|_| "the switch handed no link over")?;
    let handover = Handover::from_descriptors(fds);
    let link = SharedMemory::attach(handover, place.memory.clone(), place.pool.clone());
    Ok((channel, Box::new(link.map_err(|e| text(&e))?)))
}

/// An end that is made without the other one: of sockets at these paths, its own first, or on this
/// interface.
fn open_alone(
    place: &NodePlacement<'_>,
    kind: LinkKind,
    (own, peer): (PathBuf, PathBuf),
    interface: Option<&str>,
) -> Result<Box<dyn Link>, HostedError> {
    let (memory, pool) = (place.memory.clone(), place.pool.clone());
    let link: Result<Box<dyn Link>, String> = match kind {
        LinkKind::Packet => PacketSocket::open(interface.unwrap_or_default(), memory, pool)
            .map(|link| Box::new(link) as Box<dyn Link>)
            .map_err(|error| error.to_string()),
        _ => UnixDatagram::bind(&own, &peer, MTU, memory, pool)
            .map(|link| Box::new(link) as Box<dyn Link>)
            .map_err(|error| error.to_string()),
    };
    link.map_err(|problem| trouble(kind, place.name(), problem))
}

/// The switch's end of a node's link by Unix datagrams or packets, which is made before the node is
/// admitted.
pub(super) fn open_switch_end(place: &NodePlacement<'_>) -> Result<Box<dyn Link>, HostedError> {
    let node = &place.config.node[usize::from(place.node.0)];
    let kind = node.link_kind(&place.config.hosted());
    let (peer, own) = unix_paths(place);
    open_alone(place, kind, (own, peer), node.switch_interface.as_deref())
}

/// The switch's end of a shared-memory link, whose other end is sent on `channel`.
pub(super) fn share(
    place: &NodePlacement<'_>,
    channel: &UnixStream,
) -> Result<Box<dyn Link>, HostedError> {
    let failed = |problem: String| trouble(LinkKind::SharedMemory, place.name(), problem);
    let capacity = place.config.link.packets as usize;
    let made = SharedMemory::create(capacity, place.memory.clone(), place.pool.clone());
    let (link, handover) = made.map_err(|error| failed(error.to_string()))?;
    let sent = handover::send(channel, b"link", &handover.descriptors());
    sent.map_err(|error| failed(error.to_string()))?;
    Ok(Box::new(link))
}

/// A node's end of its link, or the switch's, with its configured faults.
pub(super) fn with_faults(
    link: Box<dyn Link>,
    faults: FaultSection,
    memory: &Memory,
) -> Result<Box<dyn Link>, HostedError> {
    if !faults.any() {
        return Ok(link);
    }
    let rng = Rng::new(KeyRng::system().next_u64());
    let fault = Fault::new(link, faults.to_links(), rng, memory.clone());
    Ok(Box::new(fault.map_err(crate::build::RackError::from)?))
}

/// A port with no cable: what is sent is lost.
pub(super) struct Unplugged;

impl Link for Unplugged {
    fn send(&mut self, _now: Instant, packet: Packet) -> Result<(), Packet> {
        drop(packet);
        Ok(())
    }

    fn receive(&mut self, _now: Instant) -> Option<Packet> {
        None
    }

    fn free(&self) -> usize {
        usize::MAX
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_peer_gone(&self) -> bool {
        true
    }

    fn properties(&self) -> Properties {
        Properties {
            mtu: MTU,
            lossless: false,
            check_needed: false,
        }
    }
}
