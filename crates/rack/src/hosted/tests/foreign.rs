//! Foreign hosts. The test is one: with this project's NIC behind a VXLAN endpoint that, like a
//! Linux device, sends from several ports.

use super::listeners::tunnelled;
use super::*;
use crate::config::HostConfig;
use crate::{Address, ForeignEnd, ForeignHost, Node, Rack as Joined};
use rackweave_base::packet::Pool;
use rackweave_base::{KeyRng, MacAddr, Memory, Psn, Qpn};
use rackweave_controller::NodeAddress;
use rackweave_controller::connect::PairAttributes;
use rackweave_link::Link;
use rackweave_link::udp::{Hub, HubConfig, PeerRule, Port};
use rackweave_nic::{NeighbourConfig, Neighbours, Nic, NicConfig, Resolution};
use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CompletionStatus, CqId, Mtu, Operation, Peer,
    QpCapabilities, ReceiveRequest, Region, Verbs, WorkRequest,
};
use std::net::Ipv4Addr;
use std::sync::Mutex;

const MAC: MacAddr = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);

/// Bytes of a message: several packets, and the last one is not full.
const LEN: usize = 5000;

/// Offset of the Ethernet type in a VXLAN datagram.
const ETHERTYPE_AT: usize = 8 + 12;

/// A rack beside which is the host `linux0`.
fn rack_beside_host(name: &str, link: LinkKind) -> Rack {
    let mut rack = Rack::new(name, link);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    rack.config.host.push(HostConfig {
        name: "linux0".into(),
        mac: MAC,
        ip: IP,
        udp: Some(free.local_addr().unwrap()),
        switch_interface: None,
        authenticate: None,
    });
    rack
}

/// The foreign host.
struct PlayedHost {
    nic: Nic,
    neighbours: Neighbours,
    memory: Memory,
    receiving: Port,
    sending: Vec<Port>,
    sent: usize,
    epoch: Instant,
}

impl PlayedHost {
    fn new(config: &RackConfig) -> Self {
        let (hosted, memory) = (config.hosted(), Memory::new(1 << 20));
        let hub = |bind| {
            let config = HubConfig {
                bind,
                vni: hosted.vni,
                mtu: 9000,
            };
            let hub = Hub::bind(config, memory.clone(), Pool::new(64)).unwrap();
            hub.port(hosted.udp, PeerRule::Exact).unwrap()
        };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let nic = NicConfig::new(IP, MAC);
        Self {
            nic: Nic::new(nic, memory.clone(), Pool::new(64), KeyRng::system()),
            neighbours: Neighbours::new(NeighbourConfig::new(IP, MAC)),
            receiving: hub(config.host[0].udp.unwrap()),
            sending: vec![hub(any), hub(any), hub(any)],
            memory,
            sent: 0,
            epoch: Instant::now(),
        }
    }

    fn run(&mut self) {
        let nanos = self.epoch.elapsed().as_nanos() as u64;
        let now = rackweave_base::Instant::from_nanos(nanos);
        while let Some(packet) = self.receiving.receive(now) {
            if !self.neighbours.handle_packet(now, &packet) {
                self.nic.handle_packet(now, packet);
            }
        }
        self.neighbours.handle_timeout(now);
        self.nic.handle_timeout(now);
        let next = |host: &mut Self| {
            let arp = host.neighbours.poll_transmit(now);
            arp.or_else(|| host.nic.poll_transmit(now))
        };
        while let Some(packet) = next(self) {
            let ports = self.sending.len();
            self.sent += 1;
            self.sending[self.sent % ports].send(now, packet).unwrap();
        }
    }

    /// Runs it on a thread while `act` uses it.
    fn with(self, act: impl FnOnce(&Mutex<Self>)) {
        let host = Mutex::new(self);
        let run = |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                host.lock().unwrap().run();
                std::thread::sleep(Time::from_micros(100));
            }
        };
        while_running(run, || act(&host));
    }
}

/// The Ethernet address that ARP gives a host for `ip`.
fn resolve(host: &Mutex<PlayedHost>, ip: Ipv4Addr) -> MacAddr {
    let mut found = None;
    eventually("ARP is answered", || {
        if let Resolution::Known(mac) = host.lock().unwrap().neighbours.resolve(ip) {
            found = Some(mac);
        }
        found.is_some()
    });
    found.unwrap()
}

/// Calls a function with the verbs of one end.
type Act<'a> = &'a dyn Fn(&mut dyn FnMut(&mut dyn Verbs));

/// A queue pair and a region: the first half for what others write, the second one for its own.
struct End<'a> {
    act: Act<'a>,
    region: Region,
    cq: CqId,
    qpn: Qpn,
}

impl<'a> End<'a> {
    fn new(memory: &Memory, act: Act<'a>) -> Self {
        let mut made = None;
        act(&mut |verbs| {
            let pd = verbs.create_pd();
            let block = memory.allocate(2 * LEN).unwrap();
            let region = verbs.register(pd, block, Access::all()).unwrap();
            let cq = verbs.create_cq(16).unwrap();
            let qpn = verbs.create_qp(pd, cq, cq, QpCapabilities::default());
            made = Some((region, cq, qpn.unwrap()));
        });
        let (region, cq, qpn) = made.unwrap();
        Self {
            act,
            region,
            cq,
            qpn,
        }
    }

    fn fill(&self, half: usize, byte: u8) {
        self.region.block.write(half * LEN, &[byte; LEN]);
    }

    #[track_caller]
    fn expect(&self, half: usize, byte: u8) {
        let mut found = [0; LEN];
        self.region.block.read(half * LEN, &mut found);
        assert!(found == [byte; LEN], "{} instead of {byte}", found[0]);
    }

    fn receive(&self) {
        let request = ReceiveRequest::new(9, &[self.region.segment(0, LEN as u32)]);
        (self.act)(&mut |verbs| verbs.post_receive(self.qpn, request).unwrap());
    }

    fn post(&self, operation: Operation) {
        let own = self.region.segment(LEN as u64, LEN as u32);
        let request = WorkRequest::new(1, operation, &[own]);
        (self.act)(&mut |verbs| verbs.post_send(self.qpn, request).unwrap());
    }

    #[track_caller]
    fn poll(&self, opcode: CompletionOpcode) {
        let mut found: Vec<Completion> = Vec::new();
        eventually("a completion", || {
            (self.act)(&mut |verbs| _ = verbs.poll_cq(self.cq, 1, &mut found));
            !found.is_empty()
        });
        let [done] = &found[..] else {
            panic!("{found:?}")
        };
        let expected = (opcode, CompletionStatus::Success);
        assert_eq!((done.opcode, done.status), expected);
    }

    /// WRITE, READ and SEND, with this end as requester.
    fn requests_of(&self, other: &Self) {
        let (address, rkey) = (other.region.address, other.region.rkey);
        self.fill(1, 0x11);
        self.post(Operation::Write {
            address,
            rkey,
            immediate: None,
        });
        self.poll(CompletionOpcode::Write);
        other.expect(0, 0x11);

        other.fill(0, 0x22);
        self.post(Operation::Read { address, rkey });
        self.poll(CompletionOpcode::Read);
        self.expect(1, 0x22);

        self.fill(1, 0x33);
        other.receive();
        self.post(Operation::Send { immediate: None });
        self.poll(CompletionOpcode::Send);
        other.poll(CompletionOpcode::Receive);
        other.expect(0, 0x33);
    }
}

/// Connects a program's node and the host, and has each request everything of the other.
fn exchange(rack: &Joined, node: &Node, host: &Mutex<PlayedHost>) {
    let foreign = rack.foreign_host("linux0").unwrap();
    let gid = "::ffff:10.77.1.1".parse().unwrap();
    assert_eq!((foreign.mac, foreign.gid()), (MAC, gid));
    assert_eq!(foreign.mtu, Mtu::B4096);
    let memory = host.lock().unwrap().memory.clone();
    let act_here = |act: &mut dyn FnMut(&mut dyn Verbs)| node.with(|verbs| act(verbs));
    let act_there = |act: &mut dyn FnMut(&mut dyn Verbs)| act(&mut host.lock().unwrap().nic);
    let here = End::new(rack.memory(), &act_here);
    let there = End::new(&memory, &act_there);
    connect(&foreign, node, host, (here.qpn, there.qpn));
    here.requests_of(&there);
    there.requests_of(&here);
}

fn connect(
    foreign: &ForeignHost,
    node: &Node,
    host: &Mutex<PlayedHost>,
    (here, there): (Qpn, Qpn),
) {
    let attributes = PairAttributes {
        mtu: Mtu::B1024,
        rnr_retries: 7,
        ..PairAttributes::default()
    };
    let (psn, their_psn) = (Psn::new(0xff_fffe), Psn::new(77));
    let end = |qpn, psn| ForeignEnd { qpn, psn };
    let connected = foreign.connect(node, end(here, psn), end(there, their_psn), &attributes);
    connected.unwrap();
    let peer = Peer {
        mac: resolve(host, node.ip()),
        ip: node.ip(),
        qpn: here,
    };
    assert_eq!(peer.mac, Address::of_node(node.id()).mac);
    for step in attributes.steps(peer, their_psn, psn) {
        host.lock().unwrap().nic.modify_qp(there, step).unwrap();
    }
}

fn status(client: &mut HostedRack) -> HostStatus {
    client.status().unwrap().hosts.remove(0)
}

#[test]
fn a_program_and_a_foreign_host_reach_each_other() {
    let rack = rack_beside_host("foreign", LinkKind::SharedMemory);
    while_running(run_switch(&rack), || {
        let joined = Joined::join_as(&rack.config, &["a"]).unwrap();
        let node = joined.node("a").unwrap();
        let mut client = HostedRack::connect(&rack.config).unwrap();
        let before = status(&mut client);
        assert_eq!(
            (before.port, before.mtu, before.link),
            (2, 4096, LinkKind::Udp)
        );
        assert!(before.counters.values().all(|&count| count == 0));
        let host = PlayedHost::new(&rack.config);
        host.with(|host| exchange(&joined, &node, host));
        let after = status(&mut client).counters;
        // Each way a WRITE, a READ response and a SEND of five packets.
        assert!(
            after["packets_in"] >= 15 && after["bytes_in"] > 15_000,
            "{after:?}"
        );
        assert!(
            after["packets_out"] >= 15 && after["bytes_out"] > 15_000,
            "{after:?}"
        );
        let error = joined.foreign_host("linux1").unwrap_err().to_string();
        let says = "no foreign host \"linux1\": the configuration has linux0";
        assert_eq!(error, says);
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// Nodes keep their codes, and the host has none.
#[test]
fn a_foreign_host_may_be_exempt_from_codes() {
    let mut rack = rack_beside_host("foreign-codes", LinkKind::Udp);
    rack.config.hosted.as_mut().unwrap().authenticate = Some(true);
    let error = rack.config.check().unwrap_err().to_string();
    assert!(error.contains("authenticate = false"), "{error}");
    rack.config.host[0].authenticate = Some(false);
    while_running(run_switch(&rack), || {
        let joined = Joined::join_as(&rack.config, &["b"]).unwrap();
        let node = joined.node("b").unwrap();
        let host = PlayedHost::new(&rack.config);
        host.with(|host| exchange(&joined, &node, host));
        let mut client = HostedRack::connect(&rack.config).unwrap();
        let refused = client.status().unwrap().refused;
        assert_eq!((refused["udp_forged"], refused["udp_strangers"]), (0, 0));
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_foreign_host_sends_only_as_itself() {
    let rack = rack_beside_host("foreign-spoofs", LinkKind::SharedMemory);
    let hosted = rack.config.hosted();
    while_running(run_switch(&rack), || {
        let _joined = Joined::join_as(&rack.config, &["a"]).unwrap();
        let mut client = HostedRack::connect(&rack.config).unwrap();
        let node = Address::of_node(NodeId(0));
        let own = NodeAddress {
            mac: MAC,
            ip: IP,
            port: node.port,
        };
        let as_node = NodeAddress { ip: node.ip, ..own };
        let mut sent = |from: &str, packet: &[u8], counter: &str| {
            let socket = UdpSocket::bind(from).unwrap();
            socket.send_to(packet, hosted.udp).unwrap();
            eventually(counter, || {
                let status = client.status().unwrap();
                let counted = status.switch_counters.get(counter);
                counted.or(status.refused.get(counter)) == Some(&1)
            });
        };
        // Its packets come from any port of its address, and of no other one.
        let own = tunnelled(own, hosted.vni);
        sent("127.0.0.1:0", &own, "drop_unknown_qp");
        sent("127.0.0.2:0", &own, "udp_strangers");
        sent(
            "127.0.0.1:0",
            &tunnelled(node, hosted.vni),
            "drop_foreign_source_mac",
        );
        sent(
            "127.0.0.1:0",
            &tunnelled(as_node, hosted.vni),
            "drop_foreign_source_ip",
        );
        // IPv6 (RFC 8200), whose source the guard does not check.
        let mut other = own.clone();
        other[ETHERTYPE_AT..ETHERTYPE_AT + 2].copy_from_slice(&[0x86, 0xdd]);
        sent("127.0.0.1:0", &other, "drop_foreign_protocol");
        assert_eq!(status(&mut client).counters["packets_in"], 4);
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// No process of a foreign host joins, so it depends on none: it is there before and after.
#[test]
fn a_foreign_host_is_there_whenever_the_switch_is() {
    let rack = rack_beside_host("foreign-restart", LinkKind::SharedMemory);
    PlayedHost::new(&rack.config).with(|host| {
        for _ in 0..2 {
            while_running(run_switch(&rack), || {
                host.lock().unwrap().neighbours.forget(Address::SWITCH.ip);
                assert_eq!(resolve(host, Address::SWITCH.ip), Address::SWITCH.mac);
                let mut client = HostedRack::connect(&rack.config).unwrap();
                let error = client.wait_for_nodes(Time::ZERO).unwrap_err().to_string();
                assert_eq!(
                    error,
                    "a, b did not join; start them with `rackweave node NAME`"
                );
            });
        }
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}
