//! Which machines of an embedded rack have something to do: those whose doorbells ring, and those
//! whose time has come.

use super::drive::pause;
use crate::linked::arrivals::Arrivals;
use crate::locked::{LockedMachine, NEVER};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::{Instant, PortId};
use rackweave_controller::Topology;
use rackweave_link::{Doorbell, Doorbells};

pub(super) struct Agenda {
    nodes: Doorbells,
    /// By switch: a doorbell for each port, and one for the switch.
    switches: Vec<(Doorbells, usize)>,
    /// No machine is due earlier, in nanoseconds.
    due: AtomicU64,
}

/// Words of doorbells that [`Agenda::lingers`] compares; further ones linger as soon as they ring.
const COMPARED: usize = 8;

impl Agenda {
    pub fn new(nodes: usize, topology: &Topology) -> Self {
        let switch = |at| {
            let ports = usize::from(topology.ports(at));
            (Doorbells::new(ports + 1), ports)
        };
        Self {
            nodes: Doorbells::new(nodes),
            switches: (0..topology.switches()).map(switch).collect(),
            due: AtomicU64::new(NEVER),
        }
    }

    pub fn of_node(&self, node: usize) -> Doorbell {
        self.nodes.doorbell(node)
    }

    /// That of a port of a switch.
    pub fn of_port(&self, (switch, port): (usize, PortId)) -> Doorbell {
        self.switches[switch].0.doorbell(usize::from(port.0))
    }

    pub fn arrivals(&self, switch: usize) -> Arrivals {
        let (doorbells, ports) = &self.switches[switch];
        Arrivals::rung(doorbells, *ports)
    }

    #[inline]
    pub fn ring_node(&self, node: usize) {
        self.nodes.ring(node);
    }

    /// Records that a node is about to run.
    #[inline]
    pub fn take_node(&self, node: usize) {
        self.nodes.take(node);
    }

    pub fn ring_switch(&self, switch: usize) {
        let (doorbells, ports) = &self.switches[switch];
        doorbells.ring(*ports);
    }

    /// The nodes that have something to do.
    #[inline]
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        self.nodes.rung()
    }

    /// Whether a switch has something to do.
    #[inline]
    pub fn has_switches(&self) -> bool {
        self.switches.iter().any(|(doorbells, _)| doorbells.any())
    }

    /// Whether a doorbell rings that still rings after so many pauses of the core: no thread is
    /// about to take it.
    pub fn lingers(&self, pauses: u32) -> bool {
        let (mut before, mut any) = ([u64::MAX; COMPARED], 0);
        for (at, word) in self.words().enumerate() {
            any |= word;
            if let Some(before) = before.get_mut(at) {
                *before = word;
            }
        }
        if any == 0 {
            return false;
        }
        pause(pauses);
        let before = before.iter().copied().chain(core::iter::repeat(u64::MAX));
        self.words()
            .zip(before)
            .any(|(now, before)| now & before != 0)
    }

    /// Whether any doorbell rings.
    pub fn is_rung(&self) -> bool {
        self.words().any(|word| word != 0)
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let switches = self
            .switches
            .iter()
            .flat_map(|(doorbells, _)| doorbells.words());
        self.nodes.words().chain(switches)
    }

    /// Records when a machine, which the caller has locked, is due.
    #[inline]
    pub fn note_deadline<S>(&self, machine: &LockedMachine<S>, deadline: Option<Instant>) {
        // A time that was recorded before is known here, too.
        if machine.note_deadline(deadline) && machine.deadline() != NEVER {
            self.due.fetch_min(machine.deadline(), Ordering::AcqRel);
        }
    }

    /// Whether a machine may be due.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.due.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// Rings for the machines that are due.
    #[cold]
    pub fn ring_due<N, S>(
        &self,
        now: Instant,
        nodes: &[LockedMachine<N>],
        switches: &LockedMachine<S>,
    ) {
        // Times that are recorded from here on lower it again; earlier ones are seen below.
        self.due.swap(NEVER, Ordering::AcqRel);
        let mut next = NEVER;
        let mut look = |deadline: u64, ring: &dyn Fn()| {
            if deadline <= now.as_nanos() {
                ring();
            }
            next = next.min(deadline);
        };
        for (at, node) in nodes.iter().enumerate() {
            look(node.deadline(), &|| self.ring_node(at));
        }
        // At any of their ports a link may have delayed a packet.
        look(switches.deadline(), &|| {
            for (doorbells, ports) in &self.switches {
                (0..=*ports).for_each(|port| doorbells.ring(port));
            }
        });
        self.due.fetch_min(next, Ordering::AcqRel);
    }
}
