//! Nodes with soft NICs, joined by a network that may lose, double and delay packets.

use crate::rpc::{
    Client, ClientConfig, RpcError, Server, ServerConfig, Service, Status, Ticket, Writer,
};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, MacAddr, Memory, Packet, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{Access, Mtu, Peer, QpModify, ReceiveSide, SendSide, Verbs};
use rackweave_wire::Headers;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const LATENCY: Duration = Duration::from_micros(1);
/// The node that the server is on.
pub const SERVER: usize = 0;

/// Answers with the request, reversed.
pub const ECHO: u16 = 1;
/// Answers with as many bytes as the request, a 32-bit number, says.
pub const SIZED: u16 = 2;
/// Answers with a status of its own and two bytes.
pub const REFUSE: u16 = 3;
/// What [`REFUSE`] is answered with.
pub const REFUSAL: Status = Status(77);

/// A service that keeps books.
#[derive(Default)]
pub struct Books {
    /// Client and content of all that was carried out.
    pub served: Vec<(u32, Vec<u8>)>,
    /// Clients that are gone.
    pub left: Vec<u32>,
}

impl Service for Books {
    fn serve(
        &mut self,
        _now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        self.served.push((client, request.to_vec()));
        match method {
            ECHO => {
                reply.push(request);
                reply.written().reverse();
                Status::OK
            }
            SIZED => {
                let Ok(length) = request.try_into().map(u32::from_le_bytes) else {
                    return Status::MALFORMED;
                };
                for at in 0..length {
                    reply.push(&[at as u8]);
                }
                Status::OK
            }
            REFUSE => {
                reply.push(b"no");
                REFUSAL
            }
            _ => Status::UNKNOWN_METHOD,
        }
    }

    fn left(&mut self, client: u32) {
        self.left.push(client);
    }
}

/// How bad the network is, each as a probability.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    pub delay: f64,
}

/// The end of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub ticket: Ticket,
    pub result: Result<Vec<u8>, RpcError>,
    pub bytes: Vec<u8>,
}

/// A client and what came back.
pub struct Seat {
    pub node: usize,
    pub client: Client,
    pub ends: Vec<End>,
}

pub struct Rig {
    pub now: Instant,
    pub memory: Memory,
    pub nics: Vec<Nic>,
    pub server: Option<Server>,
    pub books: Books,
    pub seats: Vec<Seat>,
    pub faults: Faults,
    /// Whether the server is polled.
    pub awake: bool,
    /// Nodes whose packets all vanish.
    pub dead: Vec<usize>,
    pub rng: Rng,
    flight: BTreeMap<(Instant, u64), (usize, Packet)>,
    packets: u64,
}

fn nic_config(node: usize) -> NicConfig {
    let number = node as u8 + 1;
    NicConfig {
        qps_max: 64,
        cqs_max: 32,
        regions_max: 64,
        ..NicConfig::new(
            Ipv4Addr::new(10, 0, 0, number),
            MacAddr([2, 0, 0, 0, 0, number]),
        )
    }
}

/// Small sizes, so that limits are soon met.
pub fn small_server() -> ServerConfig {
    ServerConfig {
        clients_max: 4,
        receives: 8,
        payload_max: 3000,
        send_buffers: 8,
        ..ServerConfig::new(0xabc)
    }
}

pub fn small_client() -> ClientConfig {
    ClientConfig {
        window: 32,
        payload_max: 3000,
        send_buffers: 8,
        timeout: Duration::ZERO,
        ..ClientConfig::default()
    }
}

impl Rig {
    /// A server on node 0, and other nodes. Everything random comes from `seed`.
    pub fn new(nodes: usize, seed: u64, config: ServerConfig) -> Self {
        let memory = Memory::new(256 << 20);
        let mut rng = Rng::new(seed);
        let nics = (0..=nodes)
            .map(|node| {
                let rng = rng.fork(&format!("nic {node}"));
                Nic::new(nic_config(node), memory.clone(), Pool::new(4096), rng)
            })
            .collect();
        let mut rig = Self {
            now: Instant::from_nanos(1_000_000),
            memory,
            nics,
            server: None,
            books: Books::default(),
            seats: Vec::new(),
            faults: Faults::default(),
            awake: true,
            dead: Vec::new(),
            rng: rng.fork("network"),
            flight: BTreeMap::new(),
            packets: 0,
        };
        rig.start(config);
        rig
    }

    /// One client on a node of its own.
    pub fn pair(client: ClientConfig, server: ServerConfig) -> Self {
        let mut rig = Self::new(1, 1, server);
        rig.join(1, client);
        rig
    }

    pub fn start(&mut self, config: ServerConfig) {
        let nic = &mut self.nics[SERVER];
        let pd = nic.create_pd();
        self.server = Some(Server::new(nic, &self.memory, pd, config).unwrap());
    }

    pub fn server(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    /// A connected client on `node`.
    pub fn join(&mut self, node: usize, config: ClientConfig) -> usize {
        let nic = &mut self.nics[node];
        let pd = nic.create_pd();
        let client = Client::new(nic, &self.memory, pd, config).unwrap();
        let qpn = client.qpn();
        let seat = Seat {
            node,
            client,
            ends: Vec::new(),
        };
        self.seats.push(seat);
        self.accept(node, qpn);
        self.seats.len() - 1
    }

    /// Has the server take a connection from a queue pair. Returns its own.
    pub fn accept(&mut self, node: usize, qpn: Qpn) -> Qpn {
        let server = self.server.as_mut().unwrap();
        let far = server.accept(&mut self.nics[SERVER]).unwrap();
        self.connect((node, qpn), (SERVER, far));
        let server = self.server.as_mut().unwrap();
        server.connected(&mut self.nics[SERVER], far).unwrap();
        far
    }

    pub fn connect(&mut self, a: (usize, Qpn), b: (usize, Qpn)) {
        for ((node, qpn), (peer, peer_qpn)) in [(a, b), (b, a)] {
            let (nic, peer) = (&mut self.nics[node], nic_config(peer));
            nic.modify_qp(qpn, QpModify::Init).unwrap();
            let receive = ReceiveSide {
                peer: Peer {
                    mac: peer.mac,
                    ip: peer.ip,
                    qpn: peer_qpn,
                },
                psn: Psn::new(0xff_fff0),
                mtu: Mtu::B1024,
                access: Access::empty(),
                reads_in_flight_max: 1,
                rnr_wait: Duration::from_micros(20),
            };
            nic.modify_qp(qpn, QpModify::ReadyToReceive(receive))
                .unwrap();
            let send = SendSide {
                psn: Psn::new(0xff_fff0),
                timeout: Duration::from_micros(100),
                retries: 7,
                rnr_retries: 6,
                reads_in_flight_max: 1,
            };
            nic.modify_qp(qpn, QpModify::ReadyToSend(send)).unwrap();
        }
    }

    /// Begins a request of client 0.
    pub fn begin(&mut self, method: u16, request: &[u8]) -> Result<Ticket, RpcError> {
        self.seats[0].client.begin_with(method, request)
    }

    /// Begins a request of client 0 and waits for its end, the only one.
    pub fn call(&mut self, method: u16, request: &[u8]) -> Result<Vec<u8>, RpcError> {
        let ticket = self.begin(method, request)?;
        self.settle();
        let ends = core::mem::take(&mut self.seats[0].ends);
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].ticket, ticket);
        ends[0].result.clone()
    }

    pub fn poll_clients(&mut self) {
        for seat in &mut self.seats {
            let nic = &mut self.nics[seat.node];
            while let Some(reply) = seat.client.poll(self.now, nic) {
                let result = reply.result.map(<[u8]>::to_vec);
                let (ticket, bytes) = (reply.ticket, reply.bytes.to_vec());
                seat.ends.push(End {
                    ticket,
                    result,
                    bytes,
                });
            }
        }
    }

    pub fn poll_server(&mut self) {
        if let (Some(server), true) = (&mut self.server, self.awake) {
            let nic = &mut self.nics[SERVER];
            while server.poll(self.now, nic, &mut self.books) {}
        }
    }

    fn transmit(&mut self) {
        for node in 0..self.nics.len() {
            while let Some(packet) = self.nics[node].poll_transmit(self.now) {
                if !self.dead.contains(&node) {
                    self.send(packet);
                }
            }
        }
    }

    fn send(&mut self, packet: Packet) {
        let headers = Headers::of(&packet).expect("what is sent is well-formed");
        let to = usize::from(headers.ipv4.target.octets()[3]) - 1;
        let Faults {
            loss,
            duplicate,
            delay,
        } = self.faults;
        let mut happens = |probability: f64| {
            let share = self.rng.next_u32() as f64 / f64::from(u32::MAX);
            share < probability
        };
        if happens(loss) {
            return;
        }
        let (twice, late) = (happens(duplicate), happens(delay));
        for copy in 0..1 + u64::from(twice) {
            let extra = Duration::from_micros(3 * copy + 5 * u64::from(late));
            self.packets += 1;
            let at = (self.now + LATENCY + extra, self.packets);
            self.flight.insert(at, (to, packet.clone()));
        }
    }

    /// Lets everything happen that can, and moves on to the next thing. False if there is none.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::FAR_FUTURE)
    }

    /// The same, but not beyond `limit`.
    fn step_until(&mut self, limit: Instant) -> bool {
        self.poll_clients();
        self.poll_server();
        self.transmit();
        let arrival = self.flight.first_key_value().map(|((at, _), _)| *at);
        let timers = self.nics.iter().map(Nic::poll_timeout);
        let clients = self.seats.iter().map(|seat| seat.client.poll_timeout());
        let Some(next) = timers.chain(clients).flatten().chain(arrival).min() else {
            return false;
        };
        if next > limit {
            return false;
        }
        self.now = self.now.max(next);
        while let Some(entry) = self.flight.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, packet) = entry.remove();
            if !self.dead.contains(&to) {
                self.nics[to].handle_packet(self.now, packet);
            }
        }
        for nic in &mut self.nics {
            nic.handle_timeout(self.now);
        }
        true
    }

    /// Runs until nothing happens any more.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest; now {:?}", self.now);
    }

    /// Runs for a time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end && self.step_until(end) {}
        self.now = self.now.max(end);
    }

    /// A counter of a node's NIC.
    pub fn nic_counter(&self, node: usize, name: &str) -> u64 {
        let found = self.nics[node].counters().iter().find(|&(n, _)| n == name);
        found.expect("there is such a counter").1
    }

    /// Counters of client 0 that are not zero.
    pub fn client_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.seats[0].client.counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }

    /// Counters of the server that are not zero.
    pub fn server_counters(&mut self) -> Vec<(&'static str, u64)> {
        let counters = self.server().counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }
}
