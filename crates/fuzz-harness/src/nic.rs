//! One NIC that gets packets of its peer, of other nodes, and of unknown senders.

use crate::fixture::{self, Host, bytes_of, host};
use crate::input::Input;
use crate::packets::{self, RequestTarget, Way};
use rackweave_base::{Block, Duration, Instant, Memory, Packet, Psn, Qpn, Rkey, Rng};
use rackweave_nic::{Dcqcn, Nic, NicConfig};
use rackweave_verbs::{
    Access, Completion, CqId, Mtu, Operation, Peer, QpCapabilities, QpModify, QpState,
    ReceiveRequest, ReceiveSide, Region, SendSide, Verbs, WorkRequest,
};
use rackweave_wire::{Headers, Opcode, Verdict, icrc};

const OPEN_LEN: usize = 16 * 1024;
const CLOSED_LEN: usize = 4096;
const PSN_OF_PEER: u32 = Psn::SPACE - 20;
const PSN_OF_NIC: u32 = Psn::SPACE - 10;
/// Maximum packets that one event may cause: a READ of everything accessible, at the smallest MTU,
/// as often as READs may be in flight, and retransmitted requests.
const ANSWERS_MAX: usize = 4096;

const NIC: Host = host(1);
const PEER: Host = host(2);
const STRANGER: Host = host(3);

struct Fuzzed {
    memory: Memory,
    nic: Nic,
    now: Instant,
    cq: CqId,
    qpn: Qpn,
    /// Connected to the other node, without any permission.
    other_qpn: Qpn,
    open: Region,
    /// Blocks that no packet may change, with their content.
    closed: Vec<Block>,
    places: Vec<RequestTarget>,
    /// The PSN expected of the peer's next request.
    cursor: Psn,
    posted: u64,
    completed: u64,
}

/// Reads `data` as a sequence of steps: packets of all kinds, passing time, posted work.
///
/// # Panics
/// If the NIC is wrong.
pub fn nic(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(setup) = input.byte() else { return };
    let mut fuzzed = Fuzzed::new(setup);
    while fuzzed.step(&mut input).is_some() {
        fuzzed.take_answers();
        fuzzed.take_completions();
        fuzzed.check_closed();
    }
}

fn connect(nic: &mut Nic, qpn: Qpn, peer: (Host, Qpn), mtu: Mtu, access: Access) {
    let receive = ReceiveSide {
        peer: Peer {
            mac: peer.0.mac,
            ip: peer.0.ip,
            qpn: peer.1,
        },
        psn: Psn::new(PSN_OF_PEER),
        mtu,
        access,
        reads_in_flight_max: 4,
        rnr_wait: Duration::from_micros(20),
    };
    let send = SendSide {
        psn: Psn::new(PSN_OF_NIC),
        timeout: Duration::from_micros(100),
        retries: 3,
        rnr_retries: 3,
        reads_in_flight_max: 4,
    };
    fixture::connect(nic, qpn, receive, send);
}

impl Fuzzed {
    fn new(setup: u8) -> Self {
        let memory = Memory::new(1 << 20);
        let config = NicConfig {
            qps_max: 8,
            cqs_max: 4,
            regions_max: 16,
            ack_every: if setup & 1 == 0 { 16 } else { 1 },
            congestion: (setup & 2 != 0).then(|| Dcqcn::new(100_000_000_000)),
            ..NicConfig::new(NIC.ip, NIC.mac)
        };
        // A small pool makes READ responses wait for buffers.
        let buffers = if setup & 4 == 0 { 64 } else { 2 };
        let mut nic = fixture::nic(config, &memory, buffers, Rng::new(setup.into()));
        let (pd, other_pd) = (nic.create_pd(), nic.create_pd());
        let cq = nic.create_cq(256).expect("capacity");
        let mut allocate = |len, pd, access| {
            let region = fixture::region(&mut nic, &memory, pd, len, access);
            region.block.write(0, &pattern(len));
            region
        };
        let open = allocate(OPEN_LEN, pd, Access::all());
        let regions = [
            allocate(CLOSED_LEN, pd, Access::REMOTE_READ),
            allocate(CLOSED_LEN, pd, Access::LOCAL_WRITE),
            allocate(CLOSED_LEN, pd, Access::empty()),
            allocate(CLOSED_LEN, other_pd, Access::all()),
        ];
        let places = regions.iter().chain([&open, &open, &open]);
        let mut places: Vec<_> = places.rev().map(RequestTarget::of).collect();
        let (address, rkey) = (open.address, Rkey(0));
        places.push(RequestTarget { address, rkey });
        let mut qp = |capabilities| nic.create_qp(pd, cq, cq, capabilities).expect("capacity");
        let qpn = qp(QpCapabilities::default());
        let other_qpn = qp(QpCapabilities::default());
        let mtu = Mtu::ALL[usize::from(setup >> 3) % 5];
        connect(&mut nic, qpn, (PEER, Qpn(0x77)), mtu, Access::all());
        let stranger = (STRANGER, Qpn(0x78));
        connect(&mut nic, other_qpn, stranger, mtu, Access::empty());
        if setup & 0x80 != 0 {
            nic.read_by_reference(qpn);
        }
        Self {
            memory,
            nic,
            now: Instant::from_nanos(1_000),
            cq,
            qpn,
            other_qpn,
            open,
            closed: regions.into_iter().map(|region| region.block).collect(),
            places,
            cursor: Psn::new(PSN_OF_PEER),
            posted: 0,
            completed: 0,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let (source, target_qp) = match control >> 4 & 7 {
            0..=4 => (PEER, self.qpn),
            5 => (STRANGER, self.qpn),
            6 => (STRANGER, self.other_qpn),
            _ => (PEER, Qpn(u32::from(input.half()?))),
        };
        let way = Way {
            source,
            target: NIC,
            target_qp,
        };
        let mut packet = match control & 15 {
            0..=7 => {
                let cursor = &mut self.cursor;
                way.build(input, &self.places, |opcode, near| {
                    psn(cursor, opcode, near)
                })?
            }
            8 | 9 => {
                let len = usize::from(input.half()?);
                match way.mend(input.bytes(len)) {
                    Some(packet) => packet,
                    None => return Some(()),
                }
            }
            10 => {
                let len = usize::from(input.half()?);
                let packet = packets::raw(input.bytes(len));
                self.nic.handle_packet(self.now, packet);
                return Some(());
            }
            11 | 12 => return self.post(input),
            13 => return self.modify(input),
            _ => {
                self.now += Duration::from_nanos(u64::from(input.half()?) * 16);
                self.nic.handle_timeout(self.now);
                return Some(());
            }
        };
        if control & 0x80 == 0 {
            packets::seal(&mut packet, &self.memory);
        }
        let welcome = (source.ip == PEER.ip && target_qp == self.qpn)
            || (source.ip == STRANGER.ip && target_qp == self.other_qpn);
        if welcome {
            self.nic.handle_packet(self.now, packet);
        } else {
            self.handle_stranger(packet);
        }
        Some(())
    }

    /// A packet that is not from the queue pair's peer changes only a counter of drops.
    fn handle_stranger(&mut self, packet: Packet) {
        let before = self.nic.counters().clone();
        let open = bytes_of(&self.open.block);
        let states = [self.qpn, self.other_qpn].map(|qpn| self.nic.qp_state(qpn));
        self.nic.handle_packet(self.now, packet);
        let after = self.nic.counters();
        assert_eq!(after.drops_total(), before.drops_total() + 1);
        let counts = |name: &str| {
            !name.starts_with("drop_") && !["rcvd_pkts", "rdma_rx_bytes"].contains(&name)
        };
        let pairs = before.iter().zip(after.iter());
        let changed = pairs.filter(|(before, now)| before != now && counts(now.0));
        let changed: Vec<_> = changed.collect();
        // The reason of a malformed packet is counted under its own name.
        assert!(changed.len() <= 1, "a stranger changed {changed:?}");
        assert_eq!(bytes_of(&self.open.block), open);
        let states_now = [self.qpn, self.other_qpn].map(|qpn| self.nic.qp_state(qpn));
        assert_eq!(states_now, states);
        let answer = self.nic.poll_transmit(self.now);
        assert!(answer.is_none(), "a stranger got an answer");
    }

    fn post(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (kind, offset, len) = (input.below(6)?, input.half()?, input.half()?);
        let segment = self.open.segment(u64::from(offset), u32::from(len));
        let (address, rkey) = (0x1000, Rkey(1));
        let operation = match kind {
            0 => Operation::Send { immediate: None },
            1 => Operation::Write {
                address,
                rkey,
                immediate: Some(u32::from(len)),
            },
            2 => Operation::Read { address, rkey },
            3 => Operation::FetchAdd {
                address,
                rkey,
                add: 1,
            },
            _ => {
                let request = ReceiveRequest::new(self.posted, &[segment]);
                self.posted += u64::from(self.nic.post_receive(self.qpn, request).is_ok());
                return Some(());
            }
        };
        let segment = match kind {
            3 => self.open.segment(u64::from(offset), 8),
            _ => segment,
        };
        let request = WorkRequest::new(self.posted, operation, &[segment]);
        self.posted += u64::from(self.nic.post_send(self.qpn, request).is_ok());
        Some(())
    }

    /// The owner drains, resumes, breaks or reconnects the queue pair.
    fn modify(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.below(4)? {
            0 => _ = self.nic.modify_qp(self.qpn, QpModify::Drain),
            1 => _ = self.nic.modify_qp(self.qpn, QpModify::Resume),
            2 => _ = self.nic.modify_qp(self.qpn, QpModify::Error),
            _ => {
                let _ = self.nic.modify_qp(self.qpn, QpModify::Reset);
                let mtu = Mtu::ALL[input.below(5)?];
                let peer = (PEER, Qpn(0x77));
                connect(&mut self.nic, self.qpn, peer, mtu, Access::all());
                self.cursor = Psn::new(PSN_OF_PEER);
                // Posted requests are discarded.
                self.take_completions();
                self.completed = self.posted;
            }
        }
        Some(())
    }

    /// Everything that the NIC sends is well-formed, sealed, and bounded in number.
    fn take_answers(&mut self) {
        let mut answers = 0;
        while let Some(packet) = self.nic.poll_transmit(self.now) {
            answers += 1;
            assert!(answers <= ANSWERS_MAX, "answers without end");
            let headers = Headers::of(&packet).expect("what is sent is well-formed");
            assert_eq!(headers.ipv4.source, NIC.ip);
            assert!([PEER.ip, STRANGER.ip].contains(&headers.ipv4.target));
            assert_eq!(icrc::verify(&packet, &self.memory), Verdict::Right);
        }
        while self.nic.poll_event().is_some() {}
    }

    fn take_completions(&mut self) {
        let mut completions: Vec<Completion> = Vec::new();
        self.nic.poll_cq(self.cq, usize::MAX, &mut completions);
        self.completed += completions.len() as u64;
        let possible = self.completed <= self.posted;
        assert!(possible, "more is completed than was posted");
        assert!(self.nic.qp_state(self.qpn) != Some(QpState::Reset));
    }

    fn check_closed(&self) {
        for (at, block) in self.closed.iter().enumerate() {
            let expected = pattern(block.len());
            assert_eq!(bytes_of(block), expected, "closed region {at} has changed");
        }
    }
}

/// A PSN near the next one. A request exactly at the next one advances it.
fn psn(cursor: &mut Psn, opcode: Opcode, near: i8) -> Psn {
    if !opcode.is_request() {
        return Psn::new(PSN_OF_NIC).add(near as u32 & 0x3f);
    }
    let psn = *cursor;
    if near == 0 {
        *cursor = psn.add(1);
        return psn;
    }
    match near {
        0.. => psn.add(near.unsigned_abs().into()),
        _ => psn.sub(near.unsigned_abs().into()),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}
