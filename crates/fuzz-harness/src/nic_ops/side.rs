//! One side: a NIC, its memory, and what its owner has asked for.

use crate::packets::Host;
use rackweave_base::packet::Pool;
use rackweave_base::{Block, Duration, KeyRng, MacAddr, Memory, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    Access, CqId, Mtu, Peer, QpCapabilities, QpModify, ReceiveSide, Region, SendSide, Verbs,
};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Requests of one side at most.
pub(super) const REQUESTS_MAX: usize = 60;
/// Bytes of a request's place.
pub(super) const PLACE: usize = 4096;
/// Where the places of requests lie: results of the requester's own, then what it WRITEs at the
/// peer, then what receives take in, then the word that all FetchAdds go to.
pub(super) const RESULTS: usize = 0;
pub(super) const WRITTEN: usize = RESULTS + REQUESTS_MAX * PLACE;
pub(super) const RECEIVED: usize = WRITTEN + REQUESTS_MAX * PLACE;
pub(super) const WORD: usize = RECEIVED + REQUESTS_MAX * PLACE;
pub(super) const REGION_LEN: usize = WORD + 64;

/// What a request does, and what success means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Send,
    Write,
    Read,
    Add,
}

pub(super) struct Request {
    pub(super) kind: Kind,
    /// Where in the source's pattern the bytes come from, and how many.
    pub(super) offset: usize,
    pub(super) len: usize,
}

pub(super) struct Side {
    pub(super) nic: Nic,
    pub(super) host: Host,
    pub(super) qpn: Qpn,
    pub(super) send_cq: CqId,
    pub(super) receive_cq: CqId,
    /// Bytes that nobody changes; all data comes from here.
    pub(super) source: Region,
    pub(super) target: Region,
    pub(super) guard: Block,
    pub(super) requests: Vec<Request>,
    /// Requests not complete, oldest first.
    pub(super) open: VecDeque<usize>,
    pub(super) receives_posted: usize,
    pub(super) receives_completed: usize,
    /// SENDs to this side in the order posted, and which comes next.
    pub(super) messages: Vec<(usize, usize)>,
    pub(super) adds_posted: u64,
    pub(super) adds_succeeded: u64,
    pub(super) broken: bool,
}

impl Side {
    pub(super) fn new(memory: &Memory, number: u8, setup: u8) -> Self {
        let host = Host {
            mac: MacAddr([2, 0, 0, 0, 0, number]),
            ip: Ipv4Addr::new(10, 0, 0, number),
        };
        let config = NicConfig {
            qps_max: 2,
            cqs_max: 2,
            regions_max: 4,
            ack_every: [1, 16, u32::MAX][usize::from(setup >> 6) % 3],
            window_packets: if setup & 0x20 == 0 { 128 } else { 3 },
            ..NicConfig::new(host.ip, host.mac)
        };
        let pool = Pool::new(if setup & 0x10 == 0 { 256 } else { 3 });
        let mut nic = Nic::new(
            config,
            memory.clone(),
            pool,
            KeyRng::seeded(Rng::new(u64::from(number))),
        );
        let pd = nic.create_pd();
        let [send_cq, receive_cq] = [0; 2].map(|_| nic.create_cq(512).expect("capacity"));
        let qpn = nic
            .create_qp(pd, send_cq, receive_cq, QpCapabilities::default())
            .expect("capacity");
        let mut region = |len, access| {
            let block = memory.allocate(len).expect("capacity");
            nic.register(pd, block, access).expect("capacity")
        };
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

    pub(super) fn connect(&mut self, peer: Peer, setup: u8, psns: (u32, u32)) {
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
        for modify in [
            QpModify::Init,
            QpModify::ReadyToReceive(receive),
            QpModify::ReadyToSend(send),
        ] {
            self.nic
                .modify_qp(self.qpn, modify)
                .expect("a legal transition");
        }
    }

    pub(super) fn peer(&self) -> Peer {
        Peer {
            mac: self.host.mac,
            ip: self.host.ip,
            qpn: self.qpn,
        }
    }

    pub(super) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.target.block.read(offset, &mut bytes);
        bytes
    }
}

/// What a side's source holds: no two windows of both are alike.
pub(super) fn pattern(side: u8) -> Vec<u8> {
    (0..2 * PLACE)
        .map(|at| {
            (at as u32)
                .wrapping_mul(0x9e37_79b1)
                .rotate_left(8 * u32::from(side)) as u8
        })
        .collect()
}
