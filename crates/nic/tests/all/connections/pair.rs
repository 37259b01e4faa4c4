//! Two NICs whose programs use the connection manager, and the network between them.

use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Packet, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    ConnectAttributes, ConnectionEvent, ConnectionId, ConnectionManager, CqId, QpCapabilities,
    QpState, Region, Verbs,
};
use rackweave_wire::Headers;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

pub const PORT: u16 = 7174;

pub fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// A NIC with a queue pair, and what was reported of its connections.
pub struct Node {
    pub nic: Nic,
    pub cq: CqId,
    pub qpn: Qpn,
    pub region: Region,
    pub events: Vec<ConnectionEvent>,
}

impl Node {
    pub fn new(number: u8, memory: &Memory, seed: u64) -> Self {
        let config = NicConfig::new(ip(number), MacAddr([2, 0, 0, 0, 0, number]));
        let keys = KeyRng::seeded(Rng::new(seed + u64::from(number)));
        let mut nic = Nic::new(config, memory.clone(), Pool::new(64), keys);
        let pd = nic.create_pd();
        let cq = nic.create_cq(64).unwrap();
        let capabilities = QpCapabilities::default();
        let qpn = nic.create_qp(pd, cq, cq, capabilities).unwrap();
        let block = memory.allocate(4096).unwrap();
        let region = nic
            .register(pd, block, rackweave_verbs::Access::all())
            .unwrap();
        Self {
            nic,
            cq,
            qpn,
            region,
            events: Vec::new(),
        }
    }

    pub fn connect(&mut self, to: u8) -> ConnectionId {
        let to = SocketAddrV4::new(ip(to), PORT);
        let attributes = ConnectAttributes::default();
        self.nic
            .connect(self.qpn, to, &attributes, b"hello")
            .unwrap()
    }

    /// The connection of the last request.
    pub fn requested(&self) -> Option<ConnectionId> {
        self.events.iter().rev().find_map(|event| match event {
            ConnectionEvent::Requested { id, .. } => Some(*id),
            _ => None,
        })
    }

    pub fn accept(&mut self) {
        let id = self.requested().expect("a request");
        let attributes = ConnectAttributes::default();
        self.nic
            .accept(id, self.qpn, &attributes, b"welcome")
            .unwrap();
    }

    pub fn state(&self) -> QpState {
        self.nic.qp_state(self.qpn).unwrap()
    }

    pub fn last(&self) -> &ConnectionEvent {
        self.events.last().expect("an event")
    }
}

/// Two nodes, and a network that loses, repeats and delays.
pub struct Pair {
    pub a: Node,
    pub b: Node,
    pub now: Instant,
    pub rng: Rng,
    pub loss: f64,
    pub repeat: f64,
    pub delay_max: Duration,
    /// Loses the packets for which it returns true.
    pub lose: fn(&Headers) -> bool,
    pub flight: BTreeMap<(Instant, u64), (bool, Packet)>,
    pub sent: u64,
    pub memory: Memory,
}

impl Pair {
    pub fn new(seed: u64) -> Self {
        let memory = Memory::new(1 << 20);
        let (a, b) = (Node::new(1, &memory, seed), Node::new(2, &memory, seed));
        Self {
            a,
            b,
            now: Instant::ZERO,
            rng: Rng::new(seed),
            loss: 0.0,
            repeat: 0.0,
            delay_max: Duration::from_nanos(1),
            lose: |_| false,
            flight: BTreeMap::new(),
            sent: 0,
            memory,
        }
    }

    pub fn fly(&mut self, to_b: bool, packet: Packet) {
        let delay = Duration::from_nanos(1 + self.rng.below(self.delay_max.as_nanos()));
        self.sent += 1;
        self.flight
            .insert((self.now + delay, self.sent), (to_b, packet));
    }

    pub fn transmit(&mut self) {
        for to_b in [true, false] {
            loop {
                let node = if to_b { &mut self.a } else { &mut self.b };
                let Some(packet) = node.nic.poll_transmit(self.now) else {
                    break;
                };
                let lost = Headers::of(&packet).is_ok_and(|headers| (self.lose)(&headers));
                if lost || self.rng.chance(self.loss) {
                    continue;
                }
                if self.rng.chance(self.repeat) {
                    self.fly(to_b, packet.clone());
                }
                self.fly(to_b, packet);
            }
        }
    }

    pub fn collect(&mut self) {
        for node in [&mut self.a, &mut self.b] {
            while let Some(event) = node.nic.poll_connection() {
                node.events.push(event);
            }
        }
    }

    /// The next moment: a packet arrives, or a deadline passes. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.transmit();
        self.collect();
        let timers = [self.a.nic.poll_timeout(), self.b.nic.poll_timeout()];
        let arrival = self.flight.first_key_value().map(|((at, _), _)| *at);
        let next = timers.into_iter().chain([arrival]).flatten().min();
        let Some(next) = next else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flight.first_entry()
            && entry.key().0 <= self.now
        {
            let (to_b, packet) = entry.remove();
            let node = if to_b { &mut self.b } else { &mut self.a };
            node.nic.handle_packet(self.now, packet);
        }
        for node in [&mut self.a, &mut self.b] {
            node.nic.handle_timeout(self.now);
        }
        self.transmit();
        self.collect();
        true
    }

    /// Steps until `done`; fails if nothing more happens, or after a minute of virtual time.
    pub fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = self.now + Duration::from_secs(60);
        self.collect();
        while !done(self) {
            assert!(
                self.step() && self.now < end,
                "{what}: {:?} {:?}",
                self.a.events,
                self.b.events
            );
        }
    }

    pub fn connected(seed: u64) -> Self {
        let mut pair = Self::new(seed);
        pair.b.nic.listen(PORT, 1).unwrap();
        pair.a.connect(2);
        pair.until("a request", |pair| pair.b.requested().is_some());
        pair.b.accept();
        pair.until("established", |pair| pair.is_established());
        pair
    }

    pub fn is_established(&self) -> bool {
        [&self.a, &self.b].into_iter().all(|node| {
            let mut events = node.events.iter();
            events.any(|event| matches!(event, ConnectionEvent::Established { .. }))
        })
    }
}

pub fn established(events: &[ConnectionEvent]) -> Option<(ConnectionId, &[u8])> {
    events.iter().find_map(|event| match event {
        ConnectionEvent::Established { id, private } => Some((*id, &private[..])),
        _ => None,
    })
}
