//! What the system is asked for a hub's socket, and what it knows of the path to a peer.

use rackweave_wire::vxlan;
use rackweave_wire::{ethernet, ipv4, udp};
use rustix::net::sockopt;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Requested size of the socket's send and receive buffers in bytes.
const SOCKET_BYTES: usize = 4 << 20;

/// Requests large buffers and no fragmentation from the system. It may grant smaller buffers.
pub(super) fn prepare(socket: &UdpSocket) {
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BYTES).is_err() {
        let _less = sockopt::set_socket_recv_buffer_size(socket, SOCKET_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BYTES).is_err() {
        let _less = sockopt::set_socket_send_buffer_size(socket, SOCKET_BYTES);
    }
    // Each call fails only on a socket of the other family; IPv6 sockets may carry both.
    let _other = sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::DO);
    let _other = sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::DO);
}

/// Bytes around an inner packet's Ethernet payload on the path to `ip`.
pub(super) fn overhead(ip: IpAddr) -> usize {
    let outer = if ip.is_ipv4() { ipv4::LEN } else { 40 };
    outer + udp::LEN + vxlan::LEN + ethernet::LEN
}

/// The path MTU to `peer` as the system currently knows it; `None` if it knows no route.
pub(super) fn path_mtu(peer: SocketAddr) -> Option<usize> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let probe = UdpSocket::bind(any).ok()?;
    probe.connect(peer).ok()?;
    let mtu = match peer {
        SocketAddr::V4(_) => sockopt::ip_mtu(&probe),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&probe),
    };
    mtu.ok().map(|mtu| mtu as usize)
}
