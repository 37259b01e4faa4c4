//! Three NICs whose packets arrive at once: what a hostile peer writes arrives before the next
//! step, so that the harness knows the victim's memory.

use crate::fixture::{self, Host};
use crate::rack;
use rackweave_base::{Duration, Instant, Memory, Rng};
use rackweave_endpoint::messaging::{MessagingConfig, NodeTerms};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::Mtu;
use rackweave_wire::{Headers, Opcode};

/// The node whose nodes are judged.
pub const VICTIM: usize = 0;
/// The node that writes arbitrary data.
pub const HOSTILE: usize = 1;
/// A node that follows the protocol.
pub const HONEST: usize = 2;

/// Maximum rounds until NICs must run out of packets.
const ROUNDS_MAX: usize = 10_000;

pub struct Network {
    pub now: Instant,
    pub memory: Memory,
    pub nics: [Nic; 3],
    /// The hostile node's acknowledgements are lost.
    pub mute: bool,
}

/// The terms of the node at a node.
pub fn terms(node: usize, config: &MessagingConfig) -> NodeTerms {
    let Host { mac, ip } = rack::host(node);
    NodeTerms::new(config, 7, ip, mac, Mtu::B1024)
}

impl Network {
    pub fn new() -> Self {
        let memory = Memory::new(8 << 20);
        let nics = [VICTIM, HOSTILE, HONEST].map(|node| {
            let Host { mac, ip } = rack::host(node);
            let config = NicConfig {
                qps_max: 16,
                cqs_max: 16,
                regions_max: 16,
                ..NicConfig::new(ip, mac)
            };
            fixture::nic(config, &memory, 256, Rng::new(node as u64))
        });
        Self {
            now: Instant::from_nanos(1_000_000),
            memory,
            nics,
            mute: false,
        }
    }

    /// Delivers what the NICs send until none has a packet left.
    ///
    /// # Panics
    /// If they never stop sending.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut any = false;
            for node in [VICTIM, HOSTILE, HONEST] {
                while let Some(packet) = self.nics[node].poll_transmit(self.now) {
                    any = true;
                    let headers = Headers::of(&packet).expect("what is sent is well-formed");
                    let is_lost =
                        node == HOSTILE && self.mute && headers.bth.opcode == Opcode::Acknowledge;
                    let to = usize::from(headers.ipv4.target.octets()[3]) - 1;
                    if !is_lost {
                        self.nics[to].handle_packet(self.now, packet);
                    }
                }
            }
            if !any {
                return;
            }
        }
        panic!("the NICs do not come to rest");
    }

    /// Advances to the next timer of a NIC or among `timers`, but not beyond the limit. False if
    /// there is none.
    pub fn advance(&mut self, limit: Instant, timers: impl IntoIterator<Item = Instant>) -> bool {
        let nics = self.nics.iter().filter_map(Nic::poll_timeout);
        let next = nics.chain(timers).min().filter(|&next| next <= limit);
        let Some(next) = next else {
            return false;
        };
        // A timer that is due and does nothing must not stop the time.
        let moved = self.now + Duration::from_nanos(1);
        self.now = next.max(moved);
        for nic in &mut self.nics {
            nic.handle_timeout(self.now);
        }
        true
    }
}
