//! Two directly connected NICs, on which tests of the baselines' state machines run.

use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Psn, Qpn, Rng};
use rackweave_endpoint::messaging::KeyedAddress;
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    Access, CqId, Mtu, Peer, QpCapabilities, QpModify, ReceiveSide, Region, SendSide, Verbs,
};
use std::net::Ipv4Addr;

/// Both NICs.
pub struct TwoNics {
    pub nics: [Nic; 2],
    memory: Memory,
    now: Instant,
}

/// A test's resources at one of them.
pub struct NicEnd {
    pub region: Region,
    pub qpn: Qpn,
    pub cq: CqId,
}

impl NicEnd {
    /// The address and key of the region for a peer.
    pub fn keyed(&self) -> KeyedAddress {
        KeyedAddress {
            address: self.region.address,
            rkey: self.region.rkey,
        }
    }
}

fn address(node: usize) -> (Ipv4Addr, MacAddr) {
    let number = node as u8 + 1;
    let ip = Ipv4Addr::new(10, 0, 0, number);
    (ip, MacAddr([2, 0, 0, 0, 0, number]))
}

impl TwoNics {
    pub fn new(seed: u64) -> Self {
        let memory = Memory::new(16 << 20);
        let mut rng = Rng::new(seed);
        let nics = [0, 1].map(|node| {
            let (ip, mac) = address(node);
            let config = NicConfig {
                qps_max: 16,
                cqs_max: 16,
                regions_max: 16,
                ..NicConfig::new(ip, mac)
            };
            let rng = rng.fork(&format!("nic {node}"));
            Nic::new(config, memory.clone(), Pool::new(1024), KeyRng::seeded(rng))
        });
        Self {
            nics,
            memory,
            now: Instant::from_nanos(1_000_000),
        }
    }

    /// A region of `bytes` bytes at each, and a queue pair that connects them.
    pub fn pair(&mut self, bytes: usize, sends: u32) -> [NicEnd; 2] {
        let made = [0, 1].map(|node| {
            let nic = &mut self.nics[node];
            let block = self.memory.allocate(bytes).expect("there is memory");
            let pd = nic.create_pd();
            let region = nic.register(pd, block, Access::all()).expect("it fits");
            let cq = nic.create_cq(sends).expect("it fits");
            let capabilities = QpCapabilities {
                send_max: sends,
                receive_max: 1,
                segments_max: 1,
            };
            let qpn = nic.create_qp(pd, cq, cq, capabilities).expect("it fits");
            NicEnd { region, qpn, cq }
        });
        for (near, far) in [(0, 1), (1, 0)] {
            let (ip, mac) = address(far);
            let steps = [
                QpModify::Init,
                QpModify::ReadyToReceive(ReceiveSide {
                    peer: Peer {
                        mac,
                        ip,
                        qpn: made[far].qpn,
                    },
                    psn: Psn::new(0),
                    mtu: Mtu::B1024,
                    access: Access::REMOTE_WRITE,
                    reads_in_flight_max: 1,
                    rnr_wait: Duration::ZERO,
                }),
                QpModify::ReadyToSend(SendSide {
                    psn: Psn::new(0),
                    timeout: Duration::from_millis(1),
                    retries: 7,
                    rnr_retries: 0,
                    reads_in_flight_max: 1,
                }),
            ];
            for step in steps {
                let nic = &mut self.nics[near];
                nic.modify_qp(made[near].qpn, step).expect("it is allowed");
            }
        }
        made
    }

    /// Carries packets in both directions until there are none.
    pub fn settle(&mut self) {
        loop {
            let mut any = false;
            for (near, far) in [(0, 1), (1, 0)] {
                while let Some(packet) = self.nics[near].poll_transmit(self.now) {
                    self.nics[far].handle_packet(self.now, packet);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }
}
