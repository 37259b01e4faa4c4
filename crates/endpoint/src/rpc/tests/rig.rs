//! A server and clients, on a network that may lose, duplicate and delay packets.

use crate::rpc::{
    Client, ClientConfig, RpcError, Server, ServerConfig, Service, Status, Ticket, Writer,
};
use crate::test_network::{Network, nic_config};
use rackweave_base::{Duration, Instant, Psn, Qpn};
use rackweave_verbs::{Access, Mtu, Peer, QpModify, ReceiveSide, SendSide, Verbs};

pub use crate::test_network::Faults;
/// The server's node.
pub const SERVER: usize = 0;

/// Replies with the request, reversed.
pub const ECHO: u16 = 1;
/// Replies with as many bytes as the request, a 32-bit number, says.
pub const SIZED: u16 = 2;
/// Replies with a status of its own and two bytes.
pub const REFUSE: u16 = 3;
/// Defers its reply, the request, until [`Recorder::answers`].
pub const DEFER: u16 = 4;
/// The status of replies to [`REFUSE`].
pub const REFUSAL: Status = Status(77);

/// A service that records its requests.
#[derive(Default)]
pub struct Recorder {
    /// Client and content of all executed requests.
    pub served: Vec<(u32, Vec<u8>)>,
    /// Clients that have left.
    pub left: Vec<u32>,
    /// Whether deferred requests are replied to.
    pub answers: bool,
    /// Deferred requests, by number.
    pub deferred: Vec<Vec<u8>>,
    /// How often they were continued.
    pub resumed: u64,
}

impl Service for Recorder {
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
            DEFER => {
                reply.push(b"not sent");
                self.deferred.push(request.to_vec());
                reply.defer(self.deferred.len() as u64 - 1)
            }
            _ => Status::UNKNOWN_METHOD,
        }
    }

    fn resume(
        &mut self,
        _now: Instant,
        _client: u32,
        number: u64,
        reply: &mut Writer<'_>,
    ) -> Status {
        self.resumed += 1;
        if !self.answers {
            return reply.defer(number);
        }
        reply.push(&self.deferred[number as usize]);
        Status::OK
    }

    fn left(&mut self, client: u32) {
        self.left.push(client);
    }
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub ticket: Ticket,
    pub result: Result<Vec<u8>, RpcError>,
    pub bytes: Vec<u8>,
}

/// A client and its results.
pub struct TestClient {
    pub node: usize,
    pub client: Client,
    pub ends: Vec<End>,
}

pub struct Rig {
    pub network: Network,
    pub server: Option<Server>,
    pub recorder: Recorder,
    pub clients: Vec<TestClient>,
    /// The server's queue pairs, in the order of their acceptance.
    pub accepted: Vec<Qpn>,
    /// Whether the server is polled.
    pub awake: bool,
}

/// Small sizes, so that limits are reached soon.
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
    /// A server on node 0, and other nodes. All randomness comes from `seed`.
    pub fn new(nodes: usize, seed: u64, config: ServerConfig) -> Self {
        let mut rig = Self {
            network: Network::new(nodes + 1, seed),
            server: None,
            recorder: Recorder::default(),
            clients: Vec::new(),
            accepted: Vec::new(),
            awake: true,
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
        let Network { nics, memory, .. } = &mut self.network;
        let pd = nics[SERVER].create_pd();
        self.server = Some(Server::new(&mut nics[SERVER], memory, pd, config).unwrap());
    }

    pub fn server(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    /// A connected client on `node`.
    pub fn join(&mut self, node: usize, config: ClientConfig) -> usize {
        let Network { nics, memory, .. } = &mut self.network;
        let pd = nics[node].create_pd();
        let client = Client::new(&mut nics[node], memory, pd, config).unwrap();
        let qpn = client.qpn();
        self.accept(node, qpn);
        self.clients.push(TestClient {
            node,
            client,
            ends: Vec::new(),
        });
        self.clients.len() - 1
    }

    /// Makes the server accept a connection from a queue pair. Returns the server's queue pair.
    pub fn accept(&mut self, node: usize, qpn: Qpn) -> Qpn {
        let server = self.server.as_mut().unwrap();
        let far = server.accept(&mut self.network.nics[SERVER]).unwrap();
        self.connect((node, qpn), (SERVER, far));
        self.accepted.push(far);
        let server = self.server.as_mut().unwrap();
        server
            .connected(&mut self.network.nics[SERVER], far)
            .unwrap();
        far
    }

    pub fn connect(&mut self, a: (usize, Qpn), b: (usize, Qpn)) {
        for ((node, qpn), (peer, peer_qpn)) in [(a, b), (b, a)] {
            let (nic, peer) = (&mut self.network.nics[node], nic_config(peer));
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
        self.clients[0].client.begin_with(method, request)
    }

    /// Begins a request of client 0 and waits for its result; no other may be pending.
    pub fn call(&mut self, method: u16, request: &[u8]) -> Result<Vec<u8>, RpcError> {
        let ticket = self.begin(method, request)?;
        self.settle();
        let ends = core::mem::take(&mut self.clients[0].ends);
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].ticket, ticket);
        ends[0].result.clone()
    }

    pub fn poll_clients(&mut self) {
        for client in &mut self.clients {
            let nic = &mut self.network.nics[client.node];
            while let Some(reply) = client.client.poll(self.network.now, nic) {
                let result = reply.result.map(<[u8]>::to_vec);
                let (ticket, bytes) = (reply.ticket, reply.bytes.to_vec());
                client.ends.push(End {
                    ticket,
                    result,
                    bytes,
                });
            }
        }
    }

    pub fn poll_server(&mut self) {
        if let (Some(server), true) = (&mut self.server, self.awake) {
            let nic = &mut self.network.nics[SERVER];
            while server.poll(self.network.now, nic, &mut self.recorder) {}
        }
    }

    /// Processes everything that is due, and advances the time to the next event. False if there is
    /// none.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::FAR_FUTURE)
    }

    /// As [`Self::step`], but not beyond `limit`.
    fn step_until(&mut self, limit: Instant) -> bool {
        self.poll_clients();
        self.poll_server();
        let clients = self
            .clients
            .iter()
            .map(|client| client.client.poll_timeout());
        self.network.advance(limit, clients.flatten())
    }

    /// Runs until nothing is pending.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest; now {:?}", self.network.now);
    }

    /// Runs for a duration.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.network.now + time;
        while self.network.now < end && self.step_until(end) {}
        self.network.now = self.network.now.max(end);
    }

    /// A counter of a node's NIC.
    pub fn nic_counter(&self, node: usize, name: &str) -> u64 {
        let found = self.network.nics[node]
            .counters()
            .iter()
            .find(|&(n, _)| n == name);
        found.expect("there is such a counter").1
    }

    /// The nonzero counters of client 0.
    pub fn client_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.clients[0].client.counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }

    /// The nonzero counters of the server.
    pub fn server_counters(&mut self) -> Vec<(&'static str, u64)> {
        let counters = self.server().counters().list();
        counters.filter(|&(_, count)| count > 0).collect()
    }
}
