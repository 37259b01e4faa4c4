//! Foreign hosts: machines beside the rack with a RoCEv2 NIC of their own. No process of the rack
//! runs there, so each has its port from the start of the switch to its end.
//!
//! The packets of a foreign host in UDP come from its address and any port: a VXLAN device derives
//! the port from the inner packet (RFC 7348, section 5). They bear no code. As from any node, only
//! those with its own inner addresses are taken (`rackweave_programs::guard`).

use super::SwitchCore;
use crate::address::Address;
use crate::build::RackError;
use crate::config::{HostConfig, RackConfig};
use crate::hosted::HostedError;
use crate::hosted::messages::{Counters, HostStatus};
use crate::hosted::ports;
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet};
use rackweave_link::packet_socket::PacketSocket;
use rackweave_link::udp::{Hub, PeerRule};
use rackweave_link::{Link, Properties, rdma_mtu};
use rackweave_verbs::Mtu;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The port of a foreign host.
pub(super) struct HostPort {
    mtu: Mtu,
    traffic: Arc<Traffic>,
}

/// Counts at a port, by direction.
#[derive(Default)]
struct Traffic {
    inbound: Count,
    outbound: Count,
}

#[derive(Default)]
struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// A link whose packets are counted.
struct Counted {
    link: Box<dyn Link>,
    traffic: Arc<Traffic>,
}

/// The ports of all foreign hosts, and their links.
pub(super) type HostPorts = (Vec<HostPort>, Vec<Box<dyn Link>>);

/// Opens the links to all foreign hosts.
///
/// # Errors
/// If an address cannot be reached from the switch's, an interface cannot be opened, or the path
/// carries no RDMA packet.
pub(super) fn open(
    config: &RackConfig,
    hub: Option<&Hub>,
    memory: &Memory,
    pool: &Pool,
) -> Result<HostPorts, HostedError> {
    let mut opened = HostPorts::default();
    for host in &config.host {
        let trouble = |problem: String| HostedError::Link {
            kind: host.link_kind().name(),
            node: host.name.clone(),
            problem,
        };
        let link = open_link(host, hub, memory, pool).map_err(trouble)?;
        let carried = link.properties().mtu;
        let mtu = rdma_mtu(carried).and_then(Mtu::from_bytes);
        let too_small = || trouble(format!("an MTU of {carried} carries no RDMA packet"));
        let mtu = mtu.ok_or_else(too_small)?;
        let link = ports::with_faults(link, config.faults, memory)?;
        let traffic = Arc::<Traffic>::default();
        let counted = Counted {
            link,
            traffic: traffic.clone(),
        };
        opened.0.push(HostPort { mtu, traffic });
        opened.1.push(Box::new(counted));
    }
    Ok(opened)
}

fn open_link(
    host: &HostConfig,
    hub: Option<&Hub>,
    memory: &Memory,
    pool: &Pool,
) -> Result<Box<dyn Link>, String> {
    if let Some(at) = host.udp {
        let hub = hub.ok_or("the switch has no UDP socket")?;
        let port = hub.port(at, PeerRule::AnyPort);
        return Ok(Box::new(port.map_err(|error| error.to_string())?));
    }
    let interface = host.switch_interface.as_deref().unwrap_or_default();
    let link = PacketSocket::open(interface, memory.clone(), pool.clone());
    Ok(Box::new(link.map_err(|error| error.to_string())?))
}

impl SwitchCore {
    /// Enters all foreign hosts in the switch's tables, and opens their ports.
    ///
    /// # Errors
    /// If the tables are too small.
    pub(super) fn enter_hosts(&self, links: Vec<Box<dyn Link>>) -> Result<(), HostedError> {
        for (at, link) in links.into_iter().enumerate() {
            let (id, address) = Address::of_host(&self.config, at);
            // The port's guard is installed before the port opens.
            self.control(|fabric, site| fabric.install_host(site, id))
                .map_err(RackError::from)?;
            self.pump
                .relink(|machine| machine.plug(address.port, Some(link)));
        }
        Ok(())
    }

    /// The state of all foreign hosts.
    pub(super) fn host_statuses(&self) -> Vec<HostStatus> {
        let config = &self.config;
        let status = |(at, (host, port)): (usize, (&HostConfig, &HostPort))| HostStatus {
            name: host.name.clone(),
            mac: host.mac.to_string(),
            ip: host.ip,
            port: Address::of_host(config, at).1.port.0,
            link: host.link_kind(),
            at: host.reached_at(),
            mtu: port.mtu.bytes(),
            counters: port.traffic.counters(),
        };
        let ports = config.host.iter().zip(&self.hosts);
        ports.enumerate().map(status).collect()
    }

    /// The MTU of the link to a foreign host.
    pub(super) fn mtu_to_host(&self, name: &str) -> Option<Mtu> {
        let at = self.config.host.iter().position(|host| host.name == name)?;
        self.hosts.get(at).map(|port| port.mtu)
    }
}

impl Traffic {
    fn counters(&self) -> Counters {
        let Self { inbound, outbound } = self;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("packets_in", count(&inbound.packets)),
            ("bytes_in", count(&inbound.bytes)),
            ("packets_out", count(&outbound.packets)),
            ("bytes_out", count(&outbound.bytes)),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into()
    }
}

impl Count {
    fn add(&self, (packets, bytes): (u32, u64)) {
        self.packets.fetch_add(packets.into(), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The number of packets, and their bytes from the Ethernet header to the ICRC.
fn sizes(packet: &Packet) -> (u32, u64) {
    (packet.fragments(), packet.wire_len_total())
}

impl Link for Counted {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let sizes = sizes(&packet);
        self.link.send(now, packet)?;
        self.traffic.outbound.add(sizes);
        Ok(())
    }

    fn cork(&mut self) {
        self.link.cork();
    }

    fn uncork(&mut self, now: Instant) {
        self.link.uncork(now);
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.link.receive(now)?;
        self.traffic.inbound.add(sizes(&packet));
        Some(packet)
    }

    fn free(&self) -> usize {
        self.link.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    fn properties(&self) -> Properties {
        self.link.properties()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.wake_fd()
    }

    fn asks_system(&self) -> bool {
        self.link.asks_system()
    }

    fn prepare_sleep(&mut self) -> bool {
        self.link.prepare_sleep()
    }

    fn end_sleep(&mut self) {
        self.link.end_sleep();
    }

    fn is_peer_gone(&self) -> bool {
        self.link.is_peer_gone()
    }
}
