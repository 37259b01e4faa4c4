//! Nodes with soft NICs, connected by a network that may lose, duplicate and delay packets: the
//! environment of endpoint tests.

use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Packet, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_wire::{Headers, Opcode};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const LATENCY: Duration = Duration::from_micros(1);

/// Faults of the network, each as a probability.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    pub delay: f64,
}

pub struct Network {
    pub now: Instant,
    pub memory: Memory,
    pub nics: Vec<Nic>,
    pub faults: Faults,
    /// Nodes whose packets are all dropped.
    pub dead: Vec<usize>,
    /// Nodes whose acknowledgements are all dropped.
    pub mute: Vec<usize>,
    pub rng: Rng,
    flight: BTreeMap<(Instant, u64), (usize, Packet)>,
    packets: u64,
}

/// The NIC of a node.
pub fn nic_config(node: usize) -> NicConfig {
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

impl Network {
    /// All randomness comes from `seed`.
    pub fn new(nodes: usize, seed: u64) -> Self {
        let memory = Memory::new(256 << 20);
        let mut rng = Rng::new(seed);
        let nics = (0..nodes)
            .map(|node| {
                let rng = rng.fork(&format!("nic {node}"));
                Nic::new(
                    nic_config(node),
                    memory.clone(),
                    Pool::new(4096),
                    KeyRng::seeded(rng),
                )
            })
            .collect();
        Self {
            now: Instant::from_nanos(1_000_000),
            memory,
            nics,
            faults: Faults::default(),
            dead: Vec::new(),
            mute: Vec::new(),
            rng: rng.fork("network"),
            flight: BTreeMap::new(),
            packets: 0,
        }
    }

    /// Takes the packets that the NICs send.
    pub fn transmit(&mut self) {
        for node in 0..self.nics.len() {
            while let Some(packet) = self.nics[node].poll_transmit(self.now) {
                let headers = Headers::of(&packet).expect("what is sent is well-formed");
                let acknowledges = headers.bth.opcode == Opcode::Acknowledge;
                let is_lost = acknowledges && self.mute.contains(&node);
                if !self.dead.contains(&node) && !is_lost {
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

    /// Advances to the next event, which may be one of `timers`, but not beyond `limit`. False if
    /// there is none.
    pub fn advance(&mut self, limit: Instant, timers: impl Iterator<Item = Instant>) -> bool {
        self.transmit();
        let arrival = self.flight.first_key_value().map(|((at, _), _)| *at);
        let nics = self.nics.iter().filter_map(Nic::poll_timeout);
        let Some(next) = nics.chain(timers).chain(arrival).min() else {
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
}
