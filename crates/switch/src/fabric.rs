//! The surroundings of the pipeline: ports, egress queues, recirculation, timers, digests, taps.

use crate::counters::{Counters, DropReason};
use rackweave_base::{BitSet, Duration, Instant, Packet, PortId, Timers};
use std::collections::VecDeque;

/// The direction in which a packet crosses a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into the switch.
    Ingress,
    /// Out of the switch.
    Egress,
}

/// Receives every packet that crosses a port, for captures. If the packet is dropped, `dropped` is
/// the reason.
pub trait Tap: Send {
    /// A packet crossed `port`.
    fn packet(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&'static str>,
    );
}

/// The size of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Ports.
    pub ports: u16,
    /// Packets that one port's egress queue holds.
    pub egress_packets: usize,
    /// Tasks in recirculation at a time.
    pub recirculation_tasks: usize,
    /// Duration of one recirculation.
    pub recirculation_latency: Duration,
    /// Number of queued digests from which on hints are dropped.
    pub digests: usize,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ports: 8,
            egress_packets: 1024,
            recirculation_tasks: 16 * 1024,
            recirculation_latency: Duration::ZERO,
            digests: 1024,
        }
    }
}

/// Everything around the pipeline.
pub(crate) struct Fabric<T, D> {
    pub(crate) config: SwitchConfig,
    pub(crate) ports: Vec<VecDeque<Packet>>,
    /// Number of packets in all of them.
    queued: usize,
    /// Those that are not empty.
    pub(crate) occupied: BitSet,
    pub(crate) groups: Vec<Vec<(PortId, u16)>>,
    pub(crate) recirculation: VecDeque<(Instant, T)>,
    pub(crate) timers: Timers,
    pub(crate) digests: VecDeque<D>,
    pub(crate) counters: Counters,
    pub(crate) tap: Option<Box<dyn Tap>>,
}

impl<T, D> Fabric<T, D> {
    pub(crate) fn new(config: SwitchConfig, generator_keys: usize) -> Self {
        let queue = || VecDeque::with_capacity(config.egress_packets);
        Self {
            config,
            ports: (0..config.ports).map(|_| queue()).collect(),
            queued: 0,
            occupied: BitSet::new(usize::from(config.ports)),
            groups: Vec::new(),
            recirculation: VecDeque::with_capacity(config.recirculation_tasks),
            timers: Timers::new(generator_keys),
            digests: VecDeque::with_capacity(config.digests),
            counters: Counters::default(),
            tap: None,
        }
    }

    #[inline]
    pub(crate) fn egress(&mut self, now: Instant, port: PortId, packet: Packet) {
        let reason = match self.ports.get(usize::from(port.0)) {
            Some(queue) if queue.len() < self.config.egress_packets => None,
            Some(_) => Some(DropReason::EgressFull),
            None => Some(DropReason::NoPort),
        };
        if let Some(reason) = reason {
            return self.drop(now, port, Direction::Egress, reason, &packet);
        }
        self.counters.packets_out += u64::from(packet.fragments());
        if let Some(tap) = &mut self.tap {
            tap.packet(now, port, Direction::Egress, &packet, None);
        }
        self.ports[usize::from(port.0)].push_back(packet);
        self.occupied.insert(usize::from(port.0));
        self.queued += 1;
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, port: PortId) -> Option<Packet> {
        let queue = self.ports.get_mut(usize::from(port.0))?;
        let packet = queue.pop_front()?;
        if queue.is_empty() {
            self.occupied.remove(usize::from(port.0));
        }
        self.queued -= 1;
        Some(packet)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    #[cold]
    pub(crate) fn drop(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        reason: DropReason,
        packet: &Packet,
    ) {
        self.counters.drop(reason);
        if let Some(tap) = &mut self.tap {
            tap.packet(now, port, direction, packet, Some(reason.name()));
        }
    }

    pub(crate) fn recirculate(&mut self, now: Instant, task: T) {
        assert!(
            self.recirculation.len() < self.config.recirculation_tasks,
            "more tasks in recirculation than the program's design allows"
        );
        self.counters.recirculations += 1;
        self.recirculation
            .push_back((now + self.config.recirculation_latency, task));
    }

    /// Queues a digest. It is never lost, since nothing would raise it again. There are as many
    /// different digests as table entries. Once many are queued, a digest that is already queued is
    /// not added again, so packets from peers cannot make the queue grow without bound.
    pub(crate) fn digest(&mut self, digest: D)
    where
        D: PartialEq,
    {
        if self.digests.len() < self.config.digests || !self.digests.contains(&digest) {
            self.digests.push_back(digest);
        }
    }

    /// Queues a digest that may be lost: it is raised again if its cause lasts.
    pub(crate) fn hint(&mut self, digest: D) {
        if self.digests.len() < self.config.digests {
            self.digests.push_back(digest);
        }
    }
}
