//! Admission of nodes, and authentication of packets.

use super::*;
use messages::{NodeHello, NodeReply, NodeRequest, PURPOSE_NODE};
use rackweave_control::{Connection, Introduction};

#[test]
fn with_keys_only_those_of_the_rack_come_in() {
    let mut rack = Rack::new("keys", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().security = SecurityKind::Tls;
    let keys = rack.config.hosted().keys();
    let error = rack.node("a").err().expect("no keys yet").to_string();
    assert!(error.contains("rackweave keygen"), "{error}");
    let names = ["a", "b", OPERATOR_NAME, rackweave_control::CONTROLLER_NAME];
    rackweave_control::keys::keygen(&keys, &names).unwrap();
    rack.run(|_| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        client.wait_for_nodes(Time::from_secs(10)).unwrap();
        run_flow(&mut client, 100);
        // The keys of another rack.
        let mut other = rack.config.clone();
        let foreign = rack.folder.join("foreign");
        rackweave_control::keys::keygen(&foreign, &names).unwrap();
        other.hosted.as_mut().unwrap().keys = Some(foreign);
        let error = HostedRack::connect(&other)
            .err()
            .expect("a wrong key")
            .to_string();
        assert!(error.contains("key"), "{error}");
        assert!(client.status().is_ok(), "nobody else is disturbed");
    });
}

#[test]
fn whose_key_is_revoked_is_cut_off_and_nobody_else() {
    let mut rack = Rack::new("revoked", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().security = SecurityKind::Tls;
    let keys = rack.config.hosted().keys();
    let names = ["a", "b", OPERATOR_NAME, rackweave_control::CONTROLLER_NAME];
    rackweave_control::keys::keygen(&keys, &names).unwrap();
    let switch = rack.switch();
    let run = |stop: &AtomicBool| switch.run(stop, &|event| println!("switch: {event:?}"));
    while_running(run, || {
        while_running(run_node(&rack, "a"), || {
            let node = rack.node("b").unwrap();
            let run =
                move |stop: &AtomicBool| drop(node.run(stop, &|event| println!("b: {event:?}")));
            while_running(run, || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                assert!(switch.read_keys().unwrap().is_empty());
                rackweave_control::keys::revoke(&keys, "b").unwrap();
                assert_eq!(switch.read_keys().unwrap(), ["b"]);
                let joined = |client: &mut HostedRack| {
                    let nodes = client.status().unwrap().nodes;
                    nodes.iter().map(|node| node.joined).collect::<Vec<_>>()
                };
                eventually("b has gone", || joined(&mut client) == [true, false]);
                // With invalid files nothing changes.
                std::fs::write(keys.join("revoked"), "nonsense").unwrap();
                assert!(switch.read_keys().is_err());
                assert_eq!(joined(&mut client), [true, false]);
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_name_is_taken_once_and_a_foreign_configuration_refused() {
    let rack = Rack::new("names", LinkKind::Unix);
    rack.run(|stop| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        client.wait_for_nodes(Time::from_secs(10)).unwrap();
        // Its socket is taken too, which is detected first.
        let error = rack.node("a").unwrap().run(stop, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        let error = rack.node("other").err().expect("no such node");
        assert!(error.to_string().contains("a, b"), "{error}");
        let mut other = rack.config.clone();
        other.nic.mtu = 1024;
        let error = HostedRack::connect(&other)
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains("rack.toml"), "{error}");
    });
}

/// A packet of an acknowledgement in VXLAN, with `source` as its claimed source.
pub(super) fn tunnelled(source: rackweave_controller::NodeAddress, vni: u32) -> Vec<u8> {
    use rackweave_base::{Memory, Payload, Psn, Qpn};
    use rackweave_wire::{
        Aeth, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Syndrome, Udp, Vxlan, icrc,
    };
    let switch = crate::Address::SWITCH;
    let headers = Headers {
        ethernet: Ethernet::new(source.mac, switch.mac),
        ipv4: Ipv4::new(source.ip, switch.ip),
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::Acknowledge, Qpn(0x10001), Psn::new(7)),
        extension: Extension::Aeth(Aeth {
            syndrome: Syndrome::Ack { credits: 31 },
            msn: 0,
        }),
    };
    let memory = Memory::new(1 << 16);
    let mut packet = headers.packet(Payload::Empty);
    assert!(icrc::seal(&mut packet, &memory));
    let mut bytes = Vxlan::new(vni).unwrap().emit().to_vec();
    assert!(packet.serialise(&memory, &mut bytes));
    bytes
}

/// Joins as node b, claiming that its packets come from `udp`.
fn join_at(rack: &Rack, udp: SocketAddr) -> Connection {
    let hello = NodeHello {
        cables: Vec::new(),
        imports: Vec::new(),
        link: LinkKind::Udp,
        mtu: Some(9000),
        udp: Some(udp),
        pid: 0,
        incarnation: 1,
        memory: 1,
    };
    let introduction = Introduction {
        purpose: PURPOSE_NODE.into(),
        rack: format!("{:016x}", rack.config.agreement()),
        body: serde_json::to_value(hello).unwrap(),
    };
    let security = Security::Plain { name: "b".into() };
    let control = rack.config.hosted().control;
    let made = Connection::connect(control, &security, introduction, Time::from_secs(5));
    made.unwrap().0
}

/// Replies to the request for a token.
fn prove(connection: &mut Connection, token: [u8; 16]) {
    let asked = connection.receive(Time::from_secs(10)).unwrap();
    assert!(matches!(asked, Some(NodeRequest::Prove)), "{asked:?}");
    connection.send(&NodeReply::Token(Some(token))).unwrap();
}

/// The token that arrives at a socket: the end of the datagram.
fn token_at(socket: &UdpSocket) -> [u8; 16] {
    let mut datagram = [0; 100];
    socket.set_read_timeout(Some(Time::from_secs(10))).unwrap();
    let len = socket.recv(&mut datagram).unwrap();
    datagram[len - 16..len].try_into().unwrap()
}

#[test]
fn a_claimed_address_has_to_be_proven() {
    let rack = Rack::new("claims", LinkKind::Udp);
    while_running(run_switch(&rack), || {
        // The address that node b claims: so far it belongs to another, silent socket.
        let victim = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = victim.local_addr().unwrap();
        for guess in [[0; 16], [0xff; 16]] {
            let mut liar = join_at(&rack, at);
            prove(&mut liar, guess);
            let cut = liar.receive::<NodeRequest>(Time::from_secs(10));
            assert!(cut.is_err(), "{cut:?}");
        }
        // With the right token it is admitted.
        let mut connection = join_at(&rack, at);
        let (first, second) = (token_at(&victim), token_at(&victim));
        assert_ne!(first, second, "each has a token of its own");
        prove(&mut connection, token_at(&victim));
        let pinged = connection
            .receive::<NodeRequest>(Time::from_secs(10))
            .unwrap();
        assert!(matches!(pinged, Some(NodeRequest::Ping)), "{pinged:?}");
        let mut client = HostedRack::connect(&rack.config).unwrap();
        assert_eq!(client.status().unwrap().refused["udp_unproven"], 2);
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_flow_runs_over_packets_that_are_authenticated() {
    let mut rack = Rack::new("sealed", LinkKind::Udp);
    rack.config.hosted.as_mut().unwrap().authenticate = Some(true);
    rack.run(|_| {
        let mut client = HostedRack::connect(&rack.config).unwrap();
        client.wait_for_nodes(Time::from_secs(10)).unwrap();
        run_flow(&mut client, 1000);
        let refused = client.status().unwrap().refused;
        assert_eq!((refused["udp_forged"], refused["udp_replayed"]), (0, 0));
    });
}

#[test]
fn strangers_and_impostors_on_udp_are_dropped_and_counted() {
    let rack = Rack::new("impostors", LinkKind::Udp);
    let hosted = rack.config.hosted();
    while_running(run_switch(&rack), || {
        while_running(run_node(&rack, "a"), || {
            // Node b forges packets.
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut connection = join_at(&rack, socket.local_addr().unwrap());
            prove(&mut connection, token_at(&socket));
            let lie = move |stop: &AtomicBool| {
                while !stop.load(Ordering::Relaxed) {
                    let asked = connection.receive::<NodeRequest>(Time::from_millis(20));
                    if let Some(NodeRequest::Ping) = asked.unwrap() {
                        let pong = NodeReply::Pong {
                            leaving: false,
                            page_alarm: false,
                            wanted: Vec::new(),
                        };
                        connection.send(&pong).unwrap();
                    }
                }
            };
            while_running(lie, || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                client.wait_for_nodes(Time::from_secs(10)).unwrap();
                let address = |node| crate::Address::of_node(NodeId(node));
                let (own, other) = (address(1), address(0));
                let half = rackweave_controller::NodeAddress {
                    mac: own.mac,
                    ..other
                };
                let mut sent = |packet: &[u8], counter: &str| {
                    socket.send_to(packet, hosted.udp).unwrap();
                    eventually(counter, || {
                        let status = client.status().unwrap();
                        let counted = status.switch_counters.get(counter);
                        counted.or(status.refused.get(counter)) == Some(&1)
                    });
                };
                sent(&tunnelled(other, hosted.vni), "drop_foreign_source_mac");
                sent(&tunnelled(half, hosted.vni), "drop_foreign_source_ip");
                // With its own addresses its packet reaches the lanes, where it has none.
                sent(&tunnelled(own, hosted.vni), "drop_unknown_qp");
                sent(&tunnelled(own, hosted.vni + 1), "udp_wrong_vni");
                sent(b"short", "udp_truncated");
                let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                stranger
                    .send_to(&tunnelled(own, hosted.vni), hosted.udp)
                    .unwrap();
                eventually("a stranger is counted", || {
                    client.status().unwrap().refused["udp_strangers"] == 1
                });
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
