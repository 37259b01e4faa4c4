//! The fields that are the same in all packets of one connection.

use crate::NicConfig;
use rackweave_base::{MacAddr, Psn, Qpn};
use rackweave_verbs::{Mtu, Peer};
use rackweave_wire::{
    Bth, Ecn, Ethernet, Extension, Headers, Ipv4, Opcode, PacketFields, Template, Udp,
};
use std::net::Ipv4Addr;

/// The first of the UDP source ports that RoCEv2 uses (annex A17.4 and Linux practice).
const SOURCE_PORT_FIRST: u16 = 0xc000;

/// The two endpoints and the header fields that their packets share.
pub(crate) struct Connection {
    /// The headers of its packets.
    pub(crate) template: Template,
    /// The headers of its congestion notifications.
    pub(crate) notification: Template,
    /// Packets from any other address are dropped.
    pub(crate) peer_ip: Ipv4Addr,
    pub(crate) peer_qpn: Qpn,
    /// The number of the peer's NIC, if that may be reached by cut-through.
    pub(crate) peer_nic: Option<u16>,
    pub(crate) mtu: Mtu,
}

impl Connection {
    /// A connection that has no peer yet.
    pub(crate) fn none() -> Self {
        let nobody = Ipv4Addr::UNSPECIFIED;
        let mac = MacAddr::default();
        Self::new(
            nobody,
            mac,
            Qpn(0),
            &Peer {
                mac,
                ip: nobody,
                qpn: Qpn(0),
            },
            Mtu::default(),
        )
    }

    pub(crate) fn with_peer(config: &NicConfig, qpn: Qpn, peer: &Peer, mtu: Mtu) -> Self {
        let mut peers = config.cut_through_peers.iter();
        let number = peers.position(|&at| at == Some(peer.ip));
        Self {
            peer_nic: number.and_then(|number| u16::try_from(number).ok()),
            ..Self::new(config.ip, config.mac, qpn, peer, mtu)
        }
    }

    fn new(ip: Ipv4Addr, mac: MacAddr, qpn: Qpn, peer: &Peer, mtu: Mtu) -> Self {
        // Multi-path networks hash the source port: it is fixed for a queue pair and differs
        // between queue pairs (Fibonacci hashing of both numbers).
        let mixed =
            (u64::from(qpn.0) << 24 | u64::from(peer.qpn.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let source_port = SOURCE_PORT_FIRST | (mixed >> 50) as u16;
        let ipv4 = Ipv4 {
            ecn: Ecn::Capable0,
            ..Ipv4::new(ip, peer.ip)
        };
        let headers = Headers {
            ethernet: Ethernet::new(mac, peer.mac),
            ipv4,
            udp: Udp::new(source_port),
            bth: Bth::new(Opcode::Acknowledge, peer.qpn, Psn::new(0)),
            extension: Extension::None,
        };
        let notification = Headers {
            // A mark on it would not be about the path of the data.
            ipv4: Ipv4 {
                ecn: Ecn::NotCapable,
                ..ipv4
            },
            bth: Bth {
                becn: true,
                ..headers.bth
            },
            ..headers
        };
        Self {
            template: Template::new(&headers),
            notification: Template::new(&notification),
            peer_ip: peer.ip,
            peer_qpn: peer.qpn,
            peer_nic: None,
            mtu,
        }
    }
}

/// What a packet of a connection has apart from its [`Connection::template`].
#[inline]
pub(super) fn fields(opcode: Opcode, psn: Psn, extension: Extension) -> PacketFields {
    PacketFields {
        opcode,
        psn,
        ack_request: false,
        solicited: false,
        identification: 0,
        extension,
    }
}
