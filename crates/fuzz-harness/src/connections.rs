//! A NIC whose program and whose peer do anything with the connection manager.

use crate::fixture::{Host, Seeds, host, nic};
use crate::input::Input;
use rackweave_base::{Duration, Instant, Memory, Packet, Payload, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    ConnectAttributes, ConnectionEvent, ConnectionId, ConnectionManager, QpCapabilities, QpModify,
    QpState, Verbs,
};
use rackweave_wire::arp::ArpFrame;
use rackweave_wire::cm::{HEADER_LEN, IpAddresses, MAD_LEN, Mad, Message, service_id};
use rackweave_wire::deth::QKEY_MANAGEMENT;
use rackweave_wire::{Bth, Deth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp, icrc};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

const OURS: Host = host(1);
const PEER: Host = host(2);
const PORT: u16 = 7174;

/// Connections end within this time, whatever the peer says: an MRA extends a wait to a minute.
const END: Duration = Duration::from_secs(600);

/// A NIC, its program and its peer.
struct Fixture {
    nic: Nic,
    memory: Memory,
    now: Instant,
    qps: [Qpn; 3],
    /// The NIC's numbers of connections, as its messages have shown them to the peer.
    seen: Vec<u32>,
    requested: Vec<ConnectionId>,
    /// Connections that this side has asked for or accepted, and those that have not ended.
    begun: BTreeMap<ConnectionId, Qpn>,
    established: BTreeSet<ConnectionId>,
}

/// Runs steps of a program and messages of a peer.
///
/// # Panics
/// If a connection does not end, or a queue pair is ready without one.
pub fn connections(data: &[u8]) {
    let mut fixture = Fixture::new();
    let mut input = Input::new(data);
    for _ in 0..200 {
        if fixture.step(&mut input).is_none() {
            break;
        }
        fixture.settle();
    }
    fixture.end();
}

impl Fixture {
    fn new() -> Self {
        let memory = Memory::new(0);
        let config = NicConfig::new(OURS.ip, OURS.mac);
        let mut nic = nic(config, &memory, 64, Rng::new(1));
        let pd = nic.create_pd();
        let cq = nic.create_cq(64).expect("the first one");
        let mut qp = || nic.create_qp(pd, cq, cq, QpCapabilities::default());
        let qps = [(); 3].map(|()| qp().expect("one of the first"));
        nic.listen(PORT, 4).expect("nobody else does");
        Self {
            nic,
            memory,
            now: Instant::ZERO,
            qps,
            seen: vec![0],
            requested: Vec::new(),
            begun: BTreeMap::new(),
            established: BTreeSet::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let attributes = ConnectAttributes::default();
        match input.below(8)? {
            0 => {
                let qpn = self.qps[input.below(3)?];
                let to = SocketAddrV4::new(PEER.ip, PORT);
                let asked = self.nic.connect(qpn, to, &attributes, b"ask");
                self.begun.extend(asked.map(|id| (id, qpn)));
            }
            1 => {
                let qpn = self.qps[input.below(3)?];
                if let Some(&id) = self.requested.last()
                    && self.nic.accept(id, qpn, &attributes, &[]).is_ok()
                {
                    self.begun.insert(id, qpn);
                }
            }
            2 => {
                if let Some(id) = self.requested.pop() {
                    let _ = self.nic.reject(id, &[]);
                }
            }
            3 => {
                let at = input.below(256)?;
                if let Some(&id) = self.established.iter().cycle().nth(at) {
                    self.nic.disconnect(id).expect("it is established");
                }
            }
            4 => {
                let qpn = self.qps[input.below(3)?];
                self.nic.modify_qp(qpn, QpModify::Reset).expect("it exists");
            }
            5 => {
                let wait = Duration::from_millis(50 * u64::from(input.byte()?));
                self.now += wait;
                self.nic.handle_timeout(self.now);
            }
            6 => {
                let bytes = self.message(input)?;
                self.arrive(&bytes);
            }
            _ => {
                let len = input.byte()?.into();
                let bytes = input.bytes(len).to_vec();
                self.arrive(&bytes);
            }
        }
        Some(())
    }

    /// A message of the peer, with numbers of connections that it may have seen.
    fn message(&self, input: &mut Input<'_>) -> Option<[u8; MAD_LEN]> {
        let attribute = 0x10 + input.below(7)? as u8;
        let own = u32::from(input.byte()? & 3) + 1;
        let theirs = self.seen[input.below(256)? % self.seen.len()];
        let mut bytes = [0; MAD_LEN];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[17] = attribute;
        let body = &mut bytes[HEADER_LEN..];
        body[..4].copy_from_slice(&own.to_be_bytes());
        if attribute == 0x10 {
            body[8..16].copy_from_slice(&service_id(PORT).to_be_bytes());
            body[34] = input.byte()? & 3;
            body[50] = 3 << 4;
            let addresses = IpAddresses {
                source_port: 1,
                source: PEER.ip.into(),
                target: OURS.ip.into(),
            };
            body[140..][..IpAddresses::LEN].copy_from_slice(&addresses.emit());
        } else {
            body[4..8].copy_from_slice(&theirs.to_be_bytes());
            body[8] = input.byte()?;
            body[9] = input.byte()?;
        }
        // Any further field has any value.
        let (at, value) = (usize::from(input.byte()?), input.byte()?);
        if let Some(byte) = body.get_mut(at).filter(|_| at > 16) {
            *byte = value;
        }
        Some(bytes)
    }

    fn arrive(&mut self, bytes: &[u8]) {
        let headers = Headers {
            ethernet: Ethernet::new(PEER.mac, OURS.mac),
            ipv4: Ipv4::new(PEER.ip, OURS.ip),
            udp: Udp::new(0xc001),
            bth: Bth::new(Opcode::DatagramSend, Qpn(1), Psn::new(0)),
            extension: Extension::Deth(Deth {
                qkey: QKEY_MANAGEMENT,
                source_qp: Qpn(1),
            }),
        };
        let mut packet = headers.packet(Payload::copied(bytes));
        assert!(icrc::seal(&mut packet, &self.memory));
        self.nic.handle_packet(self.now, packet);
    }

    /// Takes what the NIC sends and reports.
    fn settle(&mut self) {
        while let Some(packet) = self.nic.poll_transmit(self.now) {
            self.sent(&packet);
        }
        while let Some(event) = self.nic.poll_connection() {
            self.reported(&event);
        }
        for qpn in self.qps {
            let is_ready = self.nic.qp_state(qpn) == Some(QpState::ReadyToSend);
            let is_begun = self.begun.values().any(|&of| of == qpn);
            assert!(!is_ready || is_begun, "{qpn} has no connection");
        }
    }

    fn sent(&mut self, packet: &Packet) {
        if let Ok(frame) = ArpFrame::of(packet) {
            if frame.arp.target_ip == PEER.ip {
                self.nic
                    .handle_packet(self.now, frame.reply(PEER.mac).packet());
            }
            return;
        }
        let headers = Headers::of(packet).expect("what the NIC sends is valid");
        assert_eq!(headers.ipv4.target, PEER.ip);
        let bytes = packet.payload.to_vec(&self.memory).expect("it is owned");
        let id = match Mad::parse(&bytes).expect("a message").message {
            Message::Req(message) => message.local_id,
            Message::Mra(message) => message.local_id,
            Message::Rej(message) => message.local_id,
            Message::Rep(message) => message.local_id,
            Message::Rtu(message) => message.local_id,
            Message::Dreq(message) => message.local_id,
            Message::Drep(message) => message.local_id,
        };
        if !self.seen.contains(&id) {
            self.seen.push(id);
        }
    }

    fn reported(&mut self, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Requested { id, .. } => self.requested.push(*id),
            ConnectionEvent::Established { id, .. } => {
                assert!(self.begun.contains_key(id), "{event:?}");
                assert!(self.established.insert(*id), "{event:?} again");
            }
            ConnectionEvent::Disconnected { id } => {
                assert!(
                    self.established.remove(id),
                    "{event:?} without a connection"
                );
            }
            ConnectionEvent::Rejected { id, .. }
            | ConnectionEvent::Unreachable { id }
            | ConnectionEvent::Closed { id } => {
                assert!(!self.established.contains(id), "{event:?}");
                assert!(
                    self.begun.remove(id).is_some(),
                    "{event:?} of a connection that has ended"
                );
            }
        }
    }

    /// The program ends all that is left; the peer says nothing more.
    fn end(&mut self) {
        for id in core::mem::take(&mut self.requested) {
            let _ = self.nic.reject(id, &[]);
        }
        let deadline = self.now + END;
        loop {
            self.settle();
            for id in self.established.clone() {
                self.nic.disconnect(id).expect("it is established");
            }
            self.settle();
            let Some(next) = self.nic.poll_timeout() else {
                break;
            };
            assert!(next < deadline, "{:?} do not end", self.begun);
            self.now = self.now.max(next);
            self.nic.handle_timeout(self.now);
        }
        assert!(self.begun.is_empty(), "{:?} have not ended", self.begun);
    }
}

/// A connection from request to end on either side, and what may go wrong on the way.
pub fn seeds() -> Seeds {
    let message =
        |kind: u8, theirs: u8, rest: &[u8]| [&[6, kind, 0, theirs], rest, &[0, 0]].concat();
    let request = message(0, 0, &[2]);
    // From the same queue pair, with another number of the connection.
    let anew = vec![6, 0, 1, 0, 2, 0, 0];
    let plain = |kind, theirs| message(kind, theirs, &[0, 0]);
    let (accept, wait) = (vec![1, 0], vec![5, 10]);
    let seed = |name: &str, steps: &[Vec<u8>]| (name.to_owned(), steps.concat());
    vec![
        seed(
            "accepted",
            &[request.clone(), accept.clone(), plain(4, 1), plain(5, 1)],
        ),
        seed(
            "accepted-we-end",
            &[request.clone(), accept.clone(), plain(4, 1), vec![3, 0]],
        ),
        seed(
            "request-twice",
            &[
                request.clone(),
                request.clone(),
                accept.clone(),
                wait.clone(),
            ],
        ),
        seed(
            "stale",
            &[request.clone(), accept.clone(), plain(4, 1), anew.clone()],
        ),
        seed("stale-before-it-is-ready", &[request.clone(), accept, anew]),
        seed(
            "rejected",
            &[request.clone(), vec![2], request, wait.clone()],
        ),
        seed("asks", &[vec![0, 0], plain(3, 1), vec![3, 0], plain(6, 1)]),
        seed(
            "asks-for-longer",
            &[vec![0, 1], message(1, 1, &[0, 0xf8]), wait],
        ),
        seed(
            "asks-refused",
            &[vec![0, 2], plain(2, 1), vec![4, 2], vec![0, 2]],
        ),
        seed("noise", &[vec![7, 30], vec![9; 30]]),
    ]
}
