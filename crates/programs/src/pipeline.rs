//! The path of a packet.
//!
//! 1. A packet at a guarded port without the addresses of the host there is dropped.
//! 2. An ARP request for a host is answered.
//! 3. A packet whose Ethernet target is not the switch is forwarded; if it is a query, the index
//!    advances it first.
//! 4. A packet for the switch's Ethernet address but another IP address is routed.
//! 5. A packet for the switch belongs to a lane of the transfer engine: a fragment becomes part of
//!    a WRITE and leaves; an acknowledgement or a word ends here and becomes an event.
//! 6. A packet on a lane of the page directory is a request for a page, or part of an exchange
//!    between an NVMe target and a node about one.
//! 7. A packet on a lane of the sequencers is a fetch-and-add that requests numbers.
//! 8. An event recirculates to the program that owns the lane: the flows or the page directory.

use crate::arp::Arp;
use crate::flows::{FlowConfig, FlowDigest, FlowTask, Flows};
use crate::forward::Forward;
use crate::guard::Guard;
use crate::index::{Index, IndexConfig};
use crate::pages::{PageDigest, PageTask, Pages, PagesConfig};
use crate::sequencer::{SequencerConfig, SequencerDigest, Sequencers};
use rackweave_base::{MacAddr, Memory, Packet, PortId};
use rackweave_switch::transfer::{Engine, EngineConfig, EngineEvent, EngineTask, Sort};
use rackweave_switch::{DropReason, Ledger, Pass, Program};
use rackweave_wire::fabric::query;
use rackweave_wire::{View, arp, ethernet};
use std::net::Ipv4Addr;

/// The sizes of all programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineConfig {
    /// The switch's IP address.
    pub ip: Ipv4Addr,
    /// The transfer engine.
    pub engine: EngineConfig,
    /// The flows.
    pub flows: FlowConfig,
    /// The page directory.
    pub pages: PagesConfig,
    /// The sequencers.
    pub sequencer: SequencerConfig,
    /// The index.
    pub index: IndexConfig,
    /// Capacity for Ethernet addresses in forwarding, IP addresses in ARP, and ports in the guard
    /// and the index: each host may have a port of its own.
    pub hosts: usize,
    /// Capacity for prefixes in forwarding.
    pub routes: usize,
}

/// A recirculated task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// For the transfer engine.
    Engine(EngineTask),
    /// From the transfer engine, for the program that owns the lane.
    Event(EngineEvent),
    /// For the flows.
    Flow(FlowTask),
    /// For the page directory.
    Page(PageTask),
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

impl From<PageTask> for Task {
    fn from(task: PageTask) -> Self {
        Task::Page(task)
    }
}

impl From<FlowTask> for Task {
    fn from(task: FlowTask) -> Self {
        Task::Flow(task)
    }
}

/// A report of the switch to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digest {
    /// A report about flows.
    Flow(FlowDigest),
    /// A report about pages.
    Page(PageDigest),
    /// A report about sequencers.
    Sequencer(SequencerDigest),
}

impl From<FlowDigest> for Digest {
    fn from(digest: FlowDigest) -> Self {
        Digest::Flow(digest)
    }
}

impl From<SequencerDigest> for Digest {
    fn from(digest: SequencerDigest) -> Self {
        Digest::Sequencer(digest)
    }
}

impl From<PageDigest> for Digest {
    fn from(digest: PageDigest) -> Self {
        Digest::Page(digest)
    }
}

/// All programs of the switch.
pub struct Pipeline {
    ip: Ipv4Addr,
    /// The permitted sources at each port.
    pub guard: Guard,
    /// ARP answers for the hosts.
    pub arp: Arp,
    /// Plain forwarding.
    pub forward: Forward,
    /// Transfers and word operations.
    pub engine: Engine,
    /// Zero-sided flows.
    pub flows: Flows,
    /// Locations and latches of pages.
    pub pages: Pages,
    /// Number sequences.
    pub sequencers: Sequencers,
    /// The upper levels of trees.
    pub index: Index,
}

impl Pipeline {
    /// The programs with empty tables.
    pub fn new(config: &PipelineConfig, memory: Memory) -> Self {
        let engine = Engine::new(config.engine, memory);
        let flows = Flows::new(config.flows, config.engine.lanes);
        let first_key = engine.generator_keys() + flows.generator_keys();
        let pages = Pages::new(config.pages, config.engine.lanes, first_key as u32);
        Self {
            ip: config.ip,
            guard: Guard::new(config.hosts),
            arp: Arp::new(config.engine.mac, config.ip, config.hosts),
            forward: Forward::new(config.engine.mac, config.hosts, config.routes),
            engine: if pages.is_present() {
                engine.with_header_checks()
            } else {
                engine
            },
            flows,
            pages,
            sequencers: Sequencers::new(config.sequencer, config.engine.lanes),
            index: Index::new(config.index, config.hosts),
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
        self.pages.declare(ledger);
        self.sequencers.declare(ledger);
        self.index.declare(ledger);
    }

    fn generator_keys(&self) -> usize {
        let pages = self.pages.generator_keys();
        self.engine.generator_keys() + self.flows.generator_keys() + pages
    }

    fn port_of(&self, host: MacAddr) -> Option<PortId> {
        self.forward.port_of(host)
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
            if self.index.is_present()
                && let Some(kind) = query::sort(packet.header())
            {
                let by = (&self.forward, &self.engine);
                return self.index.packet(pass, by, (port, kind), packet);
            }
            return self.forward.packet(pass, port, packet);
        }
        let view = match View::of(&packet) {
            Ok(view) => view,
            Err(_) => return pass.drop(port, DropReason::Malformed, &packet),
        };
        if view.target() != self.ip {
            return self.forward.packet(pass, port, packet);
        }
        match self.engine.sort(port, &view) {
            Sort::Fragment(response) => self.engine.fragment(pass, port, response, packet),
            Sort::Lane(lane) => {
                let headers = view.headers();
                self.engine.packet(pass, (port, lane), &headers, &packet);
            }
            Sort::Program(lane) => {
                let headers = view.headers();
                if let Some(channel) = self.sequencers.channel(lane) {
                    let from = (port, lane, channel);
                    let sequencers = &mut self.sequencers;
                    return sequencers.packet(pass, &self.engine, from, &headers, &packet);
                }
                let at = (port, lane);
                self.pages.packet(pass, &self.engine, at, &headers, packet);
            }
            Sort::Drop(reason) => pass.drop(port, reason, &packet),
        }
    }

    #[inline]
    fn task(&mut self, pass: &mut Pass<'_, Task, Digest>, task: Task) {
        match task {
            Task::Engine(task) => self.engine.task(pass, task),
            Task::Event(event) if self.pages.role(event.lane()).is_some() => {
                self.pages.event(pass, event);
            }
            Task::Event(event) => self.flows.event(pass, event),
            Task::Flow(task) => self.flows.task(pass, task),
            Task::Page(task) => self.pages.task(pass, &self.engine, task),
        }
    }

    fn is_alive(&self, task: &Task) -> bool {
        match task {
            Task::Engine(task) => self.engine.is_alive(task),
            Task::Event(event) => self.engine.lane(event.lane()).is_some(),
            Task::Flow(task) => self.flows.is_alive(task),
            Task::Page(task) => self.pages.is_alive(task),
        }
    }

    fn generated(&mut self, pass: &mut Pass<'_, Task, Digest>, key: u32) {
        let engine_keys = self.engine.generator_keys() as u32;
        let Some(key) = key.checked_sub(engine_keys) else {
            return self.engine.generated(pass, key);
        };
        match key.checked_sub(self.flows.generator_keys() as u32) {
            None => self.flows.generated(pass, key),
            Some(queue) => self.pages.generated(pass, &self.engine, queue),
        }
    }
}
