//! Requests from node to node without packets: where that is possible, and how a thread reaches the
//! other node.
//!
//! A thread that has one node tries to lock the other one, and never waits for it with the lock of
//! the first. Two threads that want each other's nodes do not fail for ever: the one with the lower
//! node tries for longer.

use super::Shared;
use crate::build::Kind;
use crate::config::{RackConfig, choices};
use crate::linked::LinkedSwitches;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_controller::{NodeAddress, Topology};
use rackweave_nic::{CutThrough, Nic, Reach};

/// The work of cut-through in one call: some tens of microseconds of copying.
const LIMIT: u32 = 512;

/// Attempts to lock a node with a higher number: the other thread gives up after one, and what it
/// does before takes a few tenths of a microsecond, unless it copies much.
const TRIES: u32 = 64;

/// By node, whether the switches forward what is for it, and nobody looks at packets.
pub(super) struct PlainPaths {
    is_plain: Box<[AtomicBool]>,
    addresses: Vec<(NodeId, NodeAddress)>,
    is_allowed: bool,
}

impl PlainPaths {
    pub fn new(config: &RackConfig, addresses: Vec<(NodeId, NodeAddress)>) -> Self {
        Self {
            is_plain: addresses.iter().map(|_| AtomicBool::new(false)).collect(),
            addresses,
            is_allowed: choices::cut_through(config, Kind::Embedded).value,
        }
    }

    /// Looks at the tables of the switches, after they may have changed.
    pub fn look(&self, switches: &LinkedSwitches, topology: &Topology) {
        for (plain, (node, address)) in self.is_plain.iter().zip(&self.addresses) {
            let is_plain = switches.0.iter().enumerate().all(|(at, linked)| {
                let port = linked.switch.program().forward.port_of(address.mac);
                !linked.switch.is_tapped() && port == topology.port_towards(at, *node)
            });
            plain.store(self.is_allowed && is_plain, Ordering::Release);
        }
    }

    fn is_plain(&self, node: usize) -> bool {
        let plain = self.is_plain.get(node);
        plain.is_some_and(|plain| plain.load(Ordering::Acquire))
    }
}

impl Shared {
    /// Executes what may be executed at the NICs of other nodes. The caller has locked `node`.
    pub(super) fn cut_through(&self, node: usize, nic: &mut Nic) -> CutThrough {
        nic.set_cut_through(self.paths.is_plain(node));
        let done = nic.cut_through(LIMIT, |peer, act| {
            let at = usize::from(peer);
            if !self.paths.is_plain(at) {
                return Reach::Unreachable;
            }
            let tries = if node < at { TRIES } else { 1 };
            for _ in 0..tries {
                let Some(mut other) = self.nodes[at].try_lock() else {
                    core::hint::spin_loop();
                    continue;
                };
                if other.dead {
                    return Reach::Unreachable;
                }
                act(&mut other.nic);
                if other.target.is_some() {
                    // It may have a command now.
                    self.agenda.ring_node(at);
                }
                drop(other);
                self.waiting.note(at);
                return Reach::Reached;
            }
            Reach::Busy
        });
        if done.work > 0 {
            self.waiting.note(node);
        }
        done
    }
}
