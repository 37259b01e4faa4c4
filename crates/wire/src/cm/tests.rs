//! Messages laid out by hand from the tables of 12.6, and round trips of random ones.

use super::*;
use proptest::prelude::*;
use rackweave_base::{Psn, Qpn};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn request() -> Req {
    let address = |last| gid(Ipv4Addr::new(10, 78, 0, last).into());
    Req {
        local_id: 0x0102_0304,
        service_id: service_id(7174),
        ca_guid: 0x5054_00ff_fe77_0001,
        qkey: 0,
        qpn: Qpn(0x11),
        responder_resources: 16,
        initiator_depth: 8,
        remote_response_timeout: 20,
        transport: 0,
        flow_control: true,
        psn: Psn::new(0xab_cdef),
        local_response_timeout: 19,
        retries: 7,
        pkey: 0xffff,
        mtu: 3,
        rnr_retries: 6,
        cm_retries: 15,
        srq: false,
        path: Path {
            local_lid: 0xffff,
            remote_lid: 0xffff,
            local_gid: address(1),
            remote_gid: address(2),
            flow_label: 0x12345,
            rate: 2,
            traffic_class: 0,
            hop_limit: 64,
            service_level: 3,
            subnet_local: false,
            ack_timeout: 17,
        },
        private: [0x5a; REQ_PRIVATE],
    }
}

#[test]
fn a_request_as_the_table_lays_it_out() {
    let mad = Mad {
        transaction: 0x1122_3344_5566_7788,
        message: Message::Req(request()),
    };
    let bytes = mad.emit();
    #[rustfmt::skip]
    let expected = [
        // MAD: version, class, class version, method; status; transaction; attribute
        1, 7, 2, 3, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        0, 0x10, 0, 0, 0, 0, 0, 0,
        1, 2, 3, 4, 0, 0, 0, 0, // local id
        0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x06, // service: RDMA CM, TCP, port 7174
        0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 1, // GUID
        0, 0, 0, 0, 0, 0, 0, 0, // reserved, Q_Key
        0, 0, 0x11, 16, 0, 0, 0, 8, // queue pair, responder resources; EEC, initiator depth
        0, 0, 0, 20 << 3 | 1, // remote EEC, response timeout, transport, flow control
        0xab, 0xcd, 0xef, 19 << 3 | 7, // PSN, response timeout, retries
        0xff, 0xff, 3 << 4 | 6, 15 << 4, // partition; MTU, RNR retries; CM retries
        0xff, 0xff, 0xff, 0xff, // LIDs
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 78, 0, 1, // GIDs
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 78, 0, 2,
        0x12, 0x34, 0x50, 2, 0, 64, 3 << 4, 17 << 3,
    ];
    assert_eq!(bytes[..expected.len()], expected);
    let private = HEADER_LEN + 140;
    assert!(bytes[expected.len()..private].iter().all(|&byte| byte == 0));
    assert_eq!(bytes[private..], [0x5a; REQ_PRIVATE]);
    assert_eq!(Mad::parse(&bytes), Ok(mad));
}

#[test]
fn other_datagrams_are_refused_by_name() {
    let mad = Mad {
        transaction: 1,
        message: Message::Req(request()),
    };
    let refused = |at: usize, value: u8| {
        let mut bytes = mad.emit();
        bytes[at] = value;
        Mad::parse(&bytes).unwrap_err()
    };
    assert_eq!(refused(0, 2), CmError::BaseVersion(2));
    assert_eq!(refused(1, 3), CmError::Class(3));
    assert_eq!(refused(2, 1), CmError::ClassVersion(1));
    assert_eq!(refused(3, 1), CmError::Method(1));
    assert_eq!(refused(17, 0x17), CmError::Attribute(0x17));
    assert_eq!(Mad::parse(&[1; 255]), Err(CmError::Length(255)));
}

#[test]
fn services_and_addresses() {
    assert_eq!(service_id(4420), 0x0106_1144);
    assert_eq!(service_port(0x0106_1144), Some(4420));
    assert_eq!(service_port(0x0111_1144), None, "a UDP port");
    let v4 = IpAddresses {
        source_port: 0x1234,
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        target: Ipv4Addr::new(10, 0, 0, 2).into(),
    };
    let bytes = v4.emit();
    assert_eq!(bytes[..4], [0, 0x40, 0x12, 0x34]);
    assert_eq!(bytes[16..20], [10, 0, 0, 1]);
    assert_eq!(bytes[32..36], [10, 0, 0, 2]);
    assert_eq!(IpAddresses::parse(&bytes), Some(v4));
    let v6 = IpAddresses {
        source: Ipv6Addr::LOCALHOST.into(),
        target: "fe80::2".parse().unwrap(),
        ..v4
    };
    assert_eq!(IpAddresses::parse(&v6.emit()), Some(v6));
    for address in [v4.source, v6.target] {
        assert_eq!(gid_address(gid(address)), address);
    }
    for (at, value) in [(0, 0x10), (1, 0x50)] {
        let mut bytes = bytes;
        bytes[at] = value;
        assert_eq!(IpAddresses::parse(&bytes), None);
    }
    assert_eq!(IpAddresses::parse(&bytes[..35]), None);
}

#[test]
fn reasons_are_told_in_words() {
    let text = RejectReason::INVALID_SERVICE.to_string();
    assert_eq!(text, "nobody listens there (reason 8)");
    assert_eq!(RejectReason(99).to_string(), "reason 99");
}

proptest! {
    /// What is parsed from any bytes is a fixpoint of emitting and parsing.
    #[test]
    fn messages_go_both_ways(
        attribute in REQ..=DREP,
        transaction: u64,
        body in proptest::collection::vec(any::<u8>(), MAD_LEN - HEADER_LEN),
    ) {
        let mut bytes = [0; MAD_LEN];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[8..16].copy_from_slice(&transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
        bytes[HEADER_LEN..].copy_from_slice(&body);
        let mad = Mad::parse(&bytes).unwrap();
        prop_assert_eq!(mad.transaction, transaction);
        prop_assert_eq!(Mad::parse(&mad.emit()), Ok(mad));
    }

    #[test]
    fn gids_are_those_of_their_addresses(gid in any::<[u8; 16]>()) {
        let address: IpAddr = gid_address(gid);
        prop_assert_eq!(super::gid(address), gid);
    }
}
