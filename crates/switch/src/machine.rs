//! The machine: ports, egress queues, recirculation, the packet generator, digests.
//!
//! Sans-IO: packets enter through [`Switch::handle_packet`] and leave through
//! [`Switch::poll_transmit`]; time is passed as an argument. The latency of a recirculation is
//! configuration, so that a simulated switch has the latency of hardware and an embedded one has
//! none.

use crate::budget::{Budget, BudgetError, Ledger};
use crate::counters::Counters;
use crate::fabric::{Direction, Fabric, SwitchConfig, Tap};
use crate::pass::Pass;
use rackweave_base::{Instant, MacAddr, Packet, PortId};
use std::collections::VecDeque;

/// A program: what the switch does with packets.
pub trait Program: Sized {
    /// The small header that a recirculated packet carries.
    type Task: Copy;
    /// A message from the program to the controller.
    type Digest: PartialEq;

    /// Enters every table and register array in the ledger.
    fn declare(&self, ledger: &mut Ledger);
    /// Number of packet generator entries that the program uses; every key is below it.
    fn generator_keys(&self) -> usize;
    /// Handles a packet that arrived.
    fn packet(
        &mut self,
        pass: &mut Pass<'_, Self::Task, Self::Digest>,
        port: PortId,
        packet: Packet,
    );
    /// Handles one pass of a recirculated task.
    fn task(&mut self, pass: &mut Pass<'_, Self::Task, Self::Digest>, task: Self::Task);
    /// Whether the entries that a recirculating task refers to are still in the tables. A task for
    /// which they are not must have no effect in its pass either.
    fn is_alive(&self, _task: &Self::Task) -> bool {
        true
    }
    /// The port by which this program forwards packets for a host, if it does and does nothing else
    /// with them.
    fn port_of(&self, _host: MacAddr) -> Option<PortId> {
        None
    }
    /// Handles a packet that the packet generator sent for `key`.
    fn generated(&mut self, pass: &mut Pass<'_, Self::Task, Self::Digest>, key: u32);
}

/// A switch that runs a program.
pub struct Switch<P: Program> {
    program: P,
    fabric: Fabric<P::Task, P::Digest>,
    budget: Budget,
}

impl<P: Program> Switch<P> {
    /// Loads `program`.
    ///
    /// # Errors
    /// If it does not fit `budget`.
    pub fn load(program: P, budget: Budget, config: SwitchConfig) -> Result<Self, BudgetError> {
        let mut ledger = Ledger::default();
        program.declare(&mut ledger);
        budget.check(&ledger)?;
        let fabric = Fabric::new(config, program.generator_keys());
        Ok(Self {
            program,
            fabric,
            budget,
        })
    }

    /// Restarts with `program`, without any state that packets left behind. Counters and the tap
    /// are kept; multicast groups are removed.
    ///
    /// # Errors
    /// If the program does not fit the budget; then nothing changes.
    pub fn restart(&mut self, program: P) -> Result<(), BudgetError> {
        let mut fresh = Self::load(program, self.budget, self.fabric.config)?;
        fresh.fabric.counters = self.fabric.counters.clone();
        fresh.fabric.tap = self.fabric.tap.take();
        *self = fresh;
        Ok(())
    }

    /// Handles a packet that arrived on `port`.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, port: PortId, packet: Packet) {
        self.fabric.counters.packets_in += u64::from(packet.fragments());
        if let Some(tap) = &mut self.fabric.tap {
            tap.packet(now, port, Direction::Ingress, &packet, None);
        }
        let mut pass = Pass::new(now, &mut self.fabric);
        self.program.packet(&mut pass, port, packet);
        self.run_tasks(now);
    }

    /// Advances time: runs the passes of tasks whose recirculation has ended and of generated
    /// packets.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.fabric.timers.pop_expired(now) {
            let mut pass = Pass::new(now, &mut self.fabric);
            self.program.generated(&mut pass, key);
        }
        self.run_tasks(now);
    }

    /// Runs one pass for a task of the control plane.
    pub fn inject(&mut self, now: Instant, task: P::Task) {
        self.fabric.recirculate(now, task);
        self.run_tasks(now);
    }

    /// Drops the recirculating tasks whose entries the control plane has removed from the tables,
    /// and returns them. Work that they were to do for other operations falls to the control plane.
    /// A hardware control plane would instead wait the few passes that such tasks take to end
    /// without effect. After this call, numbers may be reused.
    pub fn purge(&mut self) -> Vec<P::Task> {
        self.purge_if(|_, _| false)
    }

    /// As [`Self::purge`], and also drops the tasks for which `is_over` is true.
    pub fn purge_if(&mut self, is_over: impl Fn(&P, &P::Task) -> bool) -> Vec<P::Task> {
        let program = &self.program;
        let mut dropped = Vec::new();
        self.fabric.recirculation.retain(|(_, task)| {
            let stays = program.is_alive(task) && !is_over(program, task);
            if !stays {
                dropped.push(*task);
            }
            stays
        });
        dropped
    }

    #[inline]
    fn run_tasks(&mut self, now: Instant) {
        while let Some(&(ready, task)) = self.fabric.recirculation.front() {
            if ready > now {
                return;
            }
            self.fabric.recirculation.pop_front();
            let mut pass = Pass::new(now, &mut self.fabric);
            self.program.task(&mut pass, task);
        }
    }

    /// The next packet for `port`.
    #[inline]
    pub fn poll_transmit(&mut self, port: PortId) -> Option<Packet> {
        self.fabric.poll_transmit(port)
    }

    /// Number of packets in all egress queues.
    #[inline]
    pub fn queued(&self) -> usize {
        self.fabric.queued()
    }

    /// The first port from `from` on whose egress queue is not empty.
    #[inline]
    pub fn next_queued(&self, from: PortId) -> Option<PortId> {
        let port = self.fabric.occupied.next(usize::from(from.0))?;
        Some(PortId(port as u16))
    }

    /// How many ports there are.
    pub fn ports(&self) -> u16 {
        self.fabric.config.ports
    }

    /// Number of packets in the egress queue of `port`.
    pub fn egress_len(&self, port: PortId) -> usize {
        self.fabric
            .ports
            .get(usize::from(port.0))
            .map_or(0, VecDeque::len)
    }

    /// When [`Switch::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let task = self.fabric.recirculation.front().map(|&(ready, _)| ready);
        match (task, self.fabric.timers.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The oldest digest for the controller.
    pub fn poll_digest(&mut self) -> Option<P::Digest> {
        self.fabric.digests.pop_front()
    }

    /// Whether a digest for the controller is queued.
    pub fn has_digest(&self) -> bool {
        !self.fabric.digests.is_empty()
    }

    /// The program's tables and registers, for the control plane.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// The program's tables and registers, for the control plane to change.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }

    /// Sets the copies of multicast group `group`: the port that each copy leaves by, and the
    /// number that identifies it to egress stages.
    pub fn set_group(&mut self, group: u16, copies: Vec<(PortId, u16)>) {
        let index = usize::from(group);
        if self.fabric.groups.len() <= index {
            self.fabric.groups.resize(index + 1, Vec::new());
        }
        self.fabric.groups[index] = copies;
    }

    /// Passes every packet from now on to `tap`.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) {
        self.fabric.tap = tap;
    }

    /// Whether packets are passed to a tap.
    pub fn is_tapped(&self) -> bool {
        self.fabric.tap.is_some()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.fabric.counters
    }

    /// The budget that the program was checked against.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The resources that the program uses.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        self.program.declare(&mut ledger);
        ledger
    }

    /// Upper bound on the bytes that queues and registers of this switch use.
    pub fn bytes_max(&self) -> usize {
        let config = self.fabric.config;
        let ledger = self.ledger();
        usize::from(config.ports) * config.egress_packets * Packet::BYTES
            + config.recirculation_tasks * size_of::<(Instant, P::Task)>()
            + ledger.bytes_registers()
            + ledger.bytes_tables()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
