//! The congestion notification packet of RoCEv2 (InfiniBand specification 1.4, annex A17.9.3).
//!
//! A receiver that sees packets marked "congestion experienced" sends it to their sender. After the
//! BTH, which has BECN set and PSN 0, there are sixteen reserved bytes, which count as header here.

use crate::{Bth, Ecn, Ethernet, Extension, Headers, Ipv4, Opcode, Udp};
use rackweave_base::{Psn, Qpn};

/// Reserved bytes after the BTH.
pub const LEN: usize = 16;

/// The notification to the sender of a marked packet. `sender_qp` is the queue pair that sent the
/// packet: the packet's header has only the target queue pair.
pub fn answer(marked: &Headers, sender_qp: Qpn) -> Headers {
    let ethernet = Ethernet {
        target: marked.ethernet.source,
        source: marked.ethernet.target,
        vlan: marked.ethernet.vlan,
    };
    let ipv4 = Ipv4 {
        dscp: marked.ipv4.dscp,
        // A mark on the notification would tell nothing about the sender's path.
        ecn: Ecn::NotCapable,
        ..Ipv4::new(marked.ipv4.target, marked.ipv4.source)
    };
    let bth = Bth {
        becn: true,
        pkey: marked.bth.pkey,
        ..Bth::new(Opcode::CongestionNotification, sender_qp, Psn::new(0))
    };
    let udp = Udp::new(marked.udp.source_port);
    Headers {
        ethernet,
        ipv4,
        udp,
        bth,
        extension: Extension::Cnp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::MacAddr;
    use rackweave_base::packet::{HEADER_MAX, Payload};
    use std::net::Ipv4Addr;

    #[test]
    fn it_goes_back_to_the_sender() {
        let (near, far) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let marked = Headers {
            ethernet: Ethernet::new(far, near),
            ipv4: Ipv4 {
                ecn: Ecn::CongestionExperienced,
                ..Ipv4::new(Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1))
            },
            udp: Udp::new(0xc001),
            bth: Bth::new(Opcode::SendOnly, Qpn(7), Psn::new(99)),
            extension: Extension::None,
        };
        let cnp = answer(&marked, Qpn(9));
        assert_eq!(cnp.to_string(), "CNP qp 0x9 psn 0 becn 10.0.0.1 > 10.0.0.2");
        let mut bytes = [0xee; HEADER_MAX];
        let len = cnp.emit(&mut bytes, 0);
        // Ethernet 14, IPv4 20, UDP 8, BTH 12, reserved 16; the total length includes the ICRC.
        assert_eq!(len, 70);
        assert_eq!(bytes[16..18], 60_u16.to_be_bytes());
        assert_eq!(
            bytes[42..54],
            [0x81, 0, 0xff, 0xff, 0x40, 0, 0, 9, 0, 0, 0, 0]
        );
        assert_eq!(bytes[54..70], [0; 16]);
        let packet = cnp.packet(Payload::Empty);
        assert_eq!(Headers::of(&packet), Ok(cnp));
    }
}
