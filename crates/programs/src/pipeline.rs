//! The packet's story.
//!
//! 1. A packet that does not bear the addresses of the host behind its port goes no further, if
//!    the port is guarded.
//! 2. A question for the Ethernet address of a host is answered.
//! 3. A packet whose Ethernet target is not the switch is forwarded.
//! 4. A packet for the switch's Ethernet address but another IP address is routed.
//! 5. A packet for the switch belongs to a lane of the transfer engine: a fragment becomes part of
//!    a WRITE and leaves; an acknowledgement or a word ends here and becomes an event.
//! 6. An event recirculates to the program that owns the lane: the flows.

use crate::arp::Arp;
use crate::flows::{FlowConfig, FlowTask, Flows};
use crate::forward::Forward;
use crate::guard::Guard;
use rackweave_base::{Memory, Packet, PortId};
use rackweave_switch::transfer::{
    Engine, EngineConfig, EngineEvent, EngineTask, FailReason, Outcome,
};
use rackweave_switch::{DropReason, Ledger, Pass, Program};
use rackweave_wire::{Headers, arp, ethernet};
use std::net::Ipv4Addr;

pub use crate::flows::{ConsumerId, ThreadId, Whose};

/// The sizes of all programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineConfig {
    /// The switch's IP address.
    pub ip: Ipv4Addr,
    /// The transfer engine.
    pub engine: EngineConfig,
    /// The flows.
    pub flows: FlowConfig,
    /// Ethernet addresses known to forwarding, IP addresses known to ARP, and ports that the guard
    /// knows: each host may have a port of its own.
    pub hosts: usize,
    /// Prefixes known to forwarding.
    pub routes: usize,
}

/// What recirculates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// For the transfer engine.
    Engine(EngineTask),
    /// From the transfer engine, for the program that owns the lane.
    Event(EngineEvent),
    /// For the flows.
    Flow(FlowTask),
}

impl From<EngineTask> for Task {
    fn from(task: EngineTask) -> Self {
        Task::Engine(task)
    }
}

impl From<EngineEvent> for Task {
    fn from(event: EngineEvent) -> Self {
        Task::Event(event)
    }
}

impl From<FlowTask> for Task {
    fn from(task: FlowTask) -> Self {
        Task::Flow(task)
    }
}

/// What the switch tells the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digest {
    /// All producers of this thread have finished and its consumers have been told.
    ThreadEnded(ThreadId),
    /// The thread cannot go on, or not with this consumer.
    ThreadFailed {
        /// The thread.
        thread: ThreadId,
        /// Whose lane failed.
        whose: Whose,
        /// Why.
        reason: FailReason,
    },
    /// The consumer has said that it takes no more items.
    ConsumerLeft {
        /// Its thread.
        thread: ThreadId,
        /// The consumer.
        consumer: ConsumerId,
    },
    /// A node wrote nonsense into a ring word.
    BadRingWord {
        /// The thread.
        thread: ThreadId,
        /// Whose ring it is.
        whose: Whose,
    },
}

/// All programs of the switch.
pub struct Pipeline {
    ip: Ipv4Addr,
    /// Who may send by which port.
    pub guard: Guard,
    /// Answers for the hosts.
    pub arp: Arp,
    /// Plain forwarding.
    pub forward: Forward,
    /// Transfers and word operations.
    pub engine: Engine,
    /// Zero-sided flows.
    pub flows: Flows,
}

impl Pipeline {
    /// The programs with empty tables.
    pub fn new(config: &PipelineConfig, memory: Memory) -> Self {
        Self {
            ip: config.ip,
            guard: Guard::new(config.hosts),
            arp: Arp::new(config.engine.mac, config.ip, config.hosts),
            forward: Forward::new(config.engine.mac, config.hosts, config.routes),
            engine: Engine::new(config.engine, memory),
            flows: Flows::new(config.flows, config.engine.lanes),
        }
    }
}

impl Program for Pipeline {
    type Task = Task;
    type Digest = Digest;

    fn declare(&self, ledger: &mut Ledger) {
        self.guard.declare(ledger);
        self.arp.declare(ledger);
        self.forward.declare(ledger);
        self.engine.declare(ledger);
        self.flows.declare(ledger);
    }

    fn generator_keys(&self) -> usize {
        self.engine.generator_keys() + self.flows.generator_keys()
    }

    #[inline]
    fn packet(&mut self, pass: &mut Pass<'_, Task, Digest>, port: PortId, packet: Packet) {
        if let Some(reason) = self.guard.refusal(port, &packet) {
            return pass.drop(port, reason, &packet);
        }
        if arp::is_arp(packet.header()) {
            return self.arp.packet(pass, port, &packet);
        }
        if ethernet::target(packet.header()) != Some(self.engine.config().mac) {
            return self.forward.packet(pass, port, packet);
        }
        let headers = match Headers::of(&packet) {
            Ok(headers) => headers,
            Err(_) => return pass.drop(port, DropReason::Malformed, &packet),
        };
        if headers.ipv4.target != self.ip {
            return self.forward.packet(pass, port, packet);
        }
        if let Outcome::NotMine(packet) = self.engine.packet(pass, port, &headers, packet) {
            pass.drop(port, DropReason::UnknownQp, &packet);
        }
    }

    #[inline]
    fn task(&mut self, pass: &mut Pass<'_, Task, Digest>, task: Task) {
        match task {
            Task::Engine(task) => self.engine.task(pass, task),
            Task::Event(event) => self.flows.event(pass, event),
            Task::Flow(task) => self.flows.task(pass, task),
        }
    }

    fn is_alive(&self, task: &Task) -> bool {
        match task {
            Task::Engine(task) => self.engine.is_alive(task),
            Task::Event(event) => self.engine.lane(event.lane()).is_some(),
            Task::Flow(task) => self.flows.is_alive(task),
        }
    }

    fn generated(&mut self, pass: &mut Pass<'_, Task, Digest>, key: u32) {
        let engine_keys = self.engine.generator_keys() as u32;
        match key.checked_sub(engine_keys) {
            None => self.engine.generated(pass, key),
            Some(poll) => self.flows.generated(pass, poll),
        }
    }
}
