//! One side: a NIC, its memory, and the requests of its owner.

use crate::fixture::{self, Host};
use rackweave_base::{Block, Duration, Memory, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    Access, CqId, Mtu, Peer, QpCapabilities, ReceiveSide, Region, SendSide, Verbs,
};
use std::collections::VecDeque;

/// Maximum requests of one side.
pub const REQUESTS_MAX: usize = 60;
/// Bytes of a request's range.
pub const PLACE: usize = 4096;
/// Offsets of the requests' ranges: results of the requester's own, then what it WRITEs at the
/// peer, then what receives take in, then the word that all FetchAdds go to.
pub const RESULTS: usize = 0;
pub const WRITTEN: usize = RESULTS + REQUESTS_MAX * PLACE;
pub const RECEIVED: usize = WRITTEN + REQUESTS_MAX * PLACE;
pub const WORD: usize = RECEIVED + REQUESTS_MAX * PLACE;
pub const REGION_LEN: usize = WORD + 64;

/// The kind of a request, with what success means.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Send,
    Write,
    Read,
    Add,
}

pub struct Request {
    pub kind: Kind,
    /// Offset of the bytes in the source's pattern, and their number.
    pub offset: usize,
    pub len: usize,
}

pub struct Side {
    pub nic: Nic,
    pub host: Host,
    pub qpn: Qpn,
    pub send_cq: CqId,
    pub receive_cq: CqId,
    /// Bytes that never change; all data comes from here.
    pub source: Region,
    pub target: Region,
    pub guard: Block,
    pub requests: Vec<Request>,
    /// Incomplete requests, oldest first.
    pub open: VecDeque<usize>,
    pub receives_posted: usize,
    pub receives_completed: usize,
    /// SENDs to this side in the order posted, and the index of the next one.
    pub messages: Vec<(usize, usize)>,
    pub adds_posted: u64,
    pub adds_succeeded: u64,
    pub broken: bool,
}

impl Side {
    pub fn new(memory: &Memory, number: u8, setup: u8) -> Self {
        let host = fixture::host(number);
        let config = NicConfig {
            qps_max: 2,
            cqs_max: 2,
            regions_max: 4,
            ack_every: [1, 16, u32::MAX][usize::from(setup >> 6) % 3],
            window_packets: if setup & 0x20 == 0 { 128 } else { 3 },
            ..NicConfig::new(host.ip, host.mac)
        };
        let buffers = if setup & 0x10 == 0 { 256 } else { 3 };
        let mut nic = fixture::nic(config, memory, buffers, Rng::new(number.into()));
        let pd = nic.create_pd();
        let [send_cq, receive_cq] = [0; 2].map(|_| nic.create_cq(512).expect("capacity"));
        let qpn = nic.create_qp(pd, send_cq, receive_cq, QpCapabilities::default());
        let qpn = qpn.expect("capacity");
        let mut region = |len, access| fixture::region(&mut nic, memory, pd, len, access);
        let source = region(2 * PLACE, Access::REMOTE_READ);
        source.block.write(0, &pattern(number));
        let target = region(REGION_LEN, Access::all());
        Self {
            nic,
            host,
            qpn,
            send_cq,
            receive_cq,
            source,
            target,
            guard: memory.allocate(PLACE).expect("capacity"),
            requests: Vec::new(),
            open: VecDeque::new(),
            receives_posted: 0,
            receives_completed: 0,
            messages: Vec::new(),
            adds_posted: 0,
            adds_succeeded: 0,
            broken: false,
        }
    }

    pub fn connect(&mut self, peer: Peer, setup: u8, psns: (u32, u32)) {
        let receive = ReceiveSide {
            peer,
            psn: Psn::new(psns.1),
            mtu: Mtu::ALL[usize::from(setup & 7) % 5],
            access: Access::all(),
            reads_in_flight_max: 1 + (setup >> 3 & 1) * 7,
            rnr_wait: Duration::from_micros(20),
        };
        let send = SendSide {
            psn: Psn::new(psns.0),
            timeout: Duration::from_micros(50),
            retries: 7,
            rnr_retries: 5,
            reads_in_flight_max: 1 + (setup >> 3 & 1) * 7,
        };
        fixture::connect(&mut self.nic, self.qpn, receive, send);
    }

    pub fn peer(&self) -> Peer {
        Peer {
            mac: self.host.mac,
            ip: self.host.ip,
            qpn: self.qpn,
        }
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        self.target.block.bytes(offset, len).to_vec()
    }
}

/// The content of a side's source: no two windows of both sides are alike.
pub fn pattern(side: u8) -> Vec<u8> {
    let scattered = (0..2 * PLACE as u32).map(|at| at.wrapping_mul(0x9e37_79b1));
    let turned = scattered.map(|word| word.rotate_left(8 * u32::from(side)) as u8);
    turned.collect()
}
