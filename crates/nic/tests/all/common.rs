//! Two NICs joined by a channel that a test programs, under a virtual clock.

use rackweave_base::packet::Pool;
use rackweave_base::{Block, Duration, Instant, KeyRng, MacAddr, Memory, Packet, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig, Reach};
use rackweave_verbs::{
    Access, Completion, CompletionStatus, CqId, Mtu, Operation, PdId, Peer, QpCapabilities,
    QpModify, ReceiveRequest, ReceiveSide, Region, SendSide, Verbs, WorkRequest,
};
use rackweave_wire::Headers;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub const LATENCY: Duration = Duration::from_micros(1);
pub const REGION_LEN: usize = 1 << 20;
pub const ALL_ACCESS: Access = Access::all();

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    A,
    B,
}
pub use Side::{A, B};

impl Side {
    pub fn other(self) -> Side {
        match self {
            A => B,
            B => A,
        }
    }
}

/// What the channel does with a packet.
#[derive(Clone, Debug)]
pub enum Fate {
    Deliver,
    Drop,
    /// Delivered now and again after the time given.
    Duplicate(Duration),
    Delay(Duration),
    /// Another packet instead.
    Replace(Box<Packet>),
}

/// A NIC with one connected queue pair and one region.
pub struct Node {
    pub nic: Nic,
    pub config: NicConfig,
    pub pd: PdId,
    pub cq: CqId,
    pub qpn: Qpn,
    pub block: Block,
    pub region: Region,
}

/// The options of a pair.
#[derive(Clone)]
pub struct Setup {
    pub mtu: Mtu,
    pub psn_a: u32,
    pub psn_b: u32,
    pub access: Access,
    pub reads_in_flight: u8,
    pub timeout: Duration,
    pub retries: u8,
    pub rnr_retries: u8,
    pub rnr_wait: Duration,
    pub capabilities: QpCapabilities,
    pub pool: usize,
    pub region_len: usize,
    pub region_access: Access,
    /// Changes the configuration of both NICs.
    pub config: fn(&mut NicConfig),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: Mtu::B1024,
            psn_a: 0x10_0000,
            psn_b: 0x20_0000,
            access: ALL_ACCESS,
            reads_in_flight: 4,
            timeout: Duration::from_micros(100),
            retries: 7,
            rnr_retries: 6,
            rnr_wait: Duration::from_micros(20),
            capabilities: QpCapabilities::default(),
            pool: 1024,
            region_len: REGION_LEN,
            region_access: ALL_ACCESS,
            config: |_| {},
        }
    }
}

pub type Filter = Box<dyn FnMut(Side, &Headers, &Packet) -> Fate>;

/// Whether the NIC of one side reaches that of the other now.
pub type Reaches = Box<dyn FnMut(Side) -> Reach>;

/// Two nodes and the channel between them.
pub struct Pair {
    pub memory: Memory,
    pub a: Node,
    pub b: Node,
    pub now: Instant,
    pub filter: Filter,
    /// Every packet sent: time, sender, headers and payload length.
    pub trace: Vec<(Instant, Side, Headers, usize)>,
    /// Whether requests cut through.
    pub cut_through: Option<Reaches>,
    flight: BTreeMap<(Instant, u64), (Side, Packet)>,
    sent: u64,
}

fn ip_of(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

impl Node {
    fn new(memory: &Memory, number: u8, setup: &Setup) -> Self {
        let ip = ip_of(number);
        let mut config = NicConfig {
            qps_max: 16,
            cqs_max: 16,
            regions_max: 16,
            cut_through_peers: [1, 2].map(|at| (at != number).then(|| ip_of(at))).into(),
            ..NicConfig::new(ip, MacAddr([2, 0, 0, 0, 0, number]))
        };
        (setup.config)(&mut config);
        let pool = Pool::new(setup.pool);
        let rng = Rng::new(u64::from(number));
        let mut nic = Nic::new(config.clone(), memory.clone(), pool, KeyRng::seeded(rng));
        let pd = nic.create_pd();
        let cq = nic.create_cq(4096).unwrap();
        let qpn = nic.create_qp(pd, cq, cq, setup.capabilities).unwrap();
        let block = memory.allocate(setup.region_len).unwrap();
        let region = nic
            .register(pd, block.clone(), setup.region_access)
            .unwrap();
        Self {
            nic,
            config,
            pd,
            cq,
            qpn,
            block,
            region,
        }
    }

    pub fn peer(&self) -> Peer {
        Peer {
            mac: self.config.mac,
            ip: self.config.ip,
            qpn: self.qpn,
        }
    }

    pub fn receive_side(setup: &Setup, peer: Peer, psn: u32) -> ReceiveSide {
        ReceiveSide {
            peer,
            psn: Psn::new(psn),
            mtu: setup.mtu,
            access: setup.access,
            reads_in_flight_max: setup.reads_in_flight,
            rnr_wait: setup.rnr_wait,
        }
    }

    pub fn send_side(setup: &Setup, psn: u32) -> SendSide {
        SendSide {
            psn: Psn::new(psn),
            timeout: setup.timeout,
            retries: setup.retries,
            rnr_retries: setup.rnr_retries,
            reads_in_flight_max: setup.reads_in_flight,
        }
    }

    pub fn connect(&mut self, setup: &Setup, peer: Peer, psn: u32, peer_psn: u32) {
        let (nic, qpn) = (&mut self.nic, self.qpn);
        nic.modify_qp(qpn, QpModify::Init).unwrap();
        let receive = Self::receive_side(setup, peer, peer_psn);
        nic.modify_qp(qpn, QpModify::ReadyToReceive(receive))
            .unwrap();
        nic.modify_qp(qpn, QpModify::ReadyToSend(Self::send_side(setup, psn)))
            .unwrap();
    }

    /// Posts a request with one segment of the region.
    pub fn post(&mut self, id: u64, operation: Operation, offset: u64, len: u32) {
        let segment = self.region.segment(offset, len);
        self.nic
            .post_send(self.qpn, WorkRequest::new(id, operation, &[segment]))
            .unwrap();
    }

    /// Posts a receive with one segment of the region.
    pub fn post_receive(&mut self, id: u64, offset: u64, len: u32) {
        let segment = self.region.segment(offset, len);
        self.nic
            .post_receive(self.qpn, ReceiveRequest::new(id, &[segment]))
            .unwrap();
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.nic.poll_cq(self.cq, usize::MAX, &mut completions);
        completions
    }

    /// Ids and statuses of all completions so far.
    pub fn statuses(&mut self) -> Vec<(u64, CompletionStatus)> {
        self.completions()
            .iter()
            .map(|c| (c.id, c.status))
            .collect()
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.block.read(offset, &mut bytes);
        bytes
    }

    /// A counter by its name.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.nic.counters().iter().find(|&(n, _)| n == name);
        found.map_or(0, |(_, count)| count)
    }

    /// All counters that are not zero, except for those of packets and their bytes.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.nic.counters().iter();
        counters
            .filter(|&(n, count)| count > 0 && !n.ends_with("_pkts") && !n.ends_with("x_bytes"))
            .collect()
    }
}

/// Bytes that identify their position: no two windows of them are equal.
pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let mut rng = Rng::new(salt);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}

impl Pair {
    pub fn new() -> Self {
        Self::with(&Setup::default())
    }

    pub fn with(setup: &Setup) -> Self {
        let memory = Memory::new(64 << 20);
        let mut a = Node::new(&memory, 1, setup);
        let mut b = Node::new(&memory, 2, setup);
        a.connect(setup, b.peer(), setup.psn_a, setup.psn_b);
        b.connect(setup, a.peer(), setup.psn_b, setup.psn_a);
        Self {
            memory,
            a,
            b,
            now: Instant::from_nanos(1_000_000),
            filter: Box::new(|_, _, _| Fate::Deliver),
            trace: Vec::new(),
            cut_through: None,
            flight: BTreeMap::new(),
            sent: 0,
        }
    }

    pub fn node(&mut self, side: Side) -> &mut Node {
        match side {
            A => &mut self.a,
            B => &mut self.b,
        }
    }

    /// Drops the packets with the indices in `drop`, counted from zero among those sent by `side`
    /// for which `matches` holds.
    pub fn drop_nth(
        &mut self,
        side: Side,
        matches: impl Fn(&Headers) -> bool + 'static,
        drop: &'static [usize],
    ) {
        let mut seen = 0;
        self.filter = Box::new(move |from, headers, _| {
            if from != side || !matches(headers) {
                return Fate::Deliver;
            }
            seen += 1;
            if drop.contains(&(seen - 1)) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
    }

    /// Puts a packet on the channel towards `to`.
    pub fn inject(&mut self, to: Side, packet: Packet) {
        self.inject_at(to, packet, self.now + LATENCY);
    }

    fn inject_at(&mut self, to: Side, packet: Packet, at: Instant) {
        self.sent += 1;
        self.flight.insert((at, self.sent), (to, packet));
    }

    /// Has both NICs cut through whenever `reaches` says so.
    pub fn set_cut_through(&mut self, reaches: impl FnMut(Side) -> Reach + 'static) {
        self.cut_through = Some(Box::new(reaches));
        self.a.nic.set_cut_through(true);
        self.b.nic.set_cut_through(true);
    }

    /// Executes what can cut through from `side`, and returns whether anything waits.
    pub fn cut_through(&mut self, side: Side, limit: u32) -> bool {
        let Some(reaches) = &mut self.cut_through else {
            return false;
        };
        let (from, to) = match side {
            A => (&mut self.a.nic, &mut self.b.nic),
            B => (&mut self.b.nic, &mut self.a.nic),
        };
        let done = from.cut_through(limit, |peer, act| {
            assert_eq!(peer, side.other() as u16);
            let reach = reaches(side);
            if reach == Reach::Reached {
                act(to);
            }
            reach
        });
        done.waits
    }

    fn transmit(&mut self) {
        for side in [A, B] {
            let now = self.now;
            self.cut_through(side, u32::MAX);
            while let Some(packet) = self.node(side).nic.poll_transmit(now) {
                let headers = Headers::of(&packet).expect("what is sent is well-formed");
                self.trace.push((now, side, headers, packet.payload.len()));
                let at = now + LATENCY;
                match (self.filter)(side, &headers, &packet) {
                    Fate::Deliver => self.inject_at(side.other(), packet, at),
                    Fate::Drop => {}
                    Fate::Duplicate(later) => {
                        self.inject_at(side.other(), packet.clone(), at + later);
                        self.inject_at(side.other(), packet, at);
                    }
                    Fate::Delay(later) => self.inject_at(side.other(), packet, at + later),
                    Fate::Replace(other) => self.inject_at(side.other(), *other, at),
                }
            }
        }
    }

    /// Sends all pending packets and advances to the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::FAR_FUTURE)
    }

    /// As `step`, but not beyond `limit`.
    fn step_until(&mut self, limit: Instant) -> bool {
        self.transmit();
        let arrival = self.flight.first_key_value().map(|((at, _), _)| *at);
        let timers = [self.a.nic.poll_timeout(), self.b.nic.poll_timeout()];
        let Some(next) = timers.into_iter().flatten().chain(arrival).min() else {
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
            let now = self.now;
            self.node(to).nic.handle_packet(now, packet);
        }
        let now = self.now;
        self.a.nic.handle_timeout(now);
        self.b.nic.handle_timeout(now);
        true
    }

    /// Runs until there are no more events.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    /// Runs for a time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            if !self.step_until(end) {
                self.now = end;
            }
        }
    }

    /// The packets sent by `side`, one line each: opcode, PSN relative to `base`, contents.
    pub fn sent_by(&self, side: Side, base: u32) -> Vec<String> {
        let of_side = self.trace.iter().filter(|(_, from, ..)| *from == side);
        of_side
            .map(|(_, _, headers, len)| describe(headers, *len, base))
            .collect()
    }
}

/// A packet in one line.
pub fn describe(headers: &Headers, len: usize, base: u32) -> String {
    use rackweave_wire::{Extension, Syndrome};
    let psn = headers.bth.psn.distance_from(Psn::new(base));
    let opcode = headers.bth.opcode;
    let mut line = format!("{opcode} {psn}");
    match headers.extension {
        Extension::Aeth(aeth) => match aeth.syndrome {
            Syndrome::Ack { .. } => {}
            Syndrome::ReceiverNotReady { timer } => line += &format!(" RNR {timer}"),
            Syndrome::Nak(code) => line += &format!(" {code:?}"),
        },
        Extension::Reth(reth) | Extension::RethImmediate(reth, _) => {
            line += &format!(" of {}", reth.length);
        }
        _ => {}
    }
    if len > 0 {
        line += &format!(" [{len}]");
    }
    if headers.bth.ack_request {
        line += " !";
    }
    line
}

pub fn write_to(region: &Region, offset: u64) -> Operation {
    Operation::Write {
        address: region.address + offset,
        rkey: region.rkey,
        immediate: None,
    }
}

pub fn read_from(region: &Region, offset: u64) -> Operation {
    Operation::Read {
        address: region.address + offset,
        rkey: region.rkey,
    }
}

pub fn fetch_add(region: &Region, offset: u64, add: u64) -> Operation {
    Operation::FetchAdd {
        address: region.address + offset,
        rkey: region.rkey,
        add,
    }
}

pub fn compare_swap(region: &Region, offset: u64, compare: u64, swap: u64) -> Operation {
    let address = region.address + offset;
    Operation::CompareSwap {
        address,
        rkey: region.rkey,
        compare,
        swap,
    }
}

pub const SEND: Operation = Operation::Send { immediate: None };
