//! The world: nodes, links, switches and actors under one virtual clock.
//!
//! ```text
//! actor ─verbs─▶ NIC machine ─transmit pipeline─▶ egress queue ─wire─▶ switch machine
//!   ▲                                                                        │ pipeline latency
//!   └─spin latency─ NIC machine ◀─receive pipeline─ wire ◀─ egress queue ◀───┘
//! ```
//!
//! Every arrow that takes time is an event. A packet is taken from a NIC's machine when its
//! transmit pipeline has room, so that the machine decides as late as hardware would what to send
//! next. The switch handles a packet when its last bit has come, and what that makes the switch
//! send enters the egress queues one pipeline latency later; that keeps the order of arrivals the
//! order of register accesses. A packet that leaves a switch for another one takes a cable with an
//! egress queue like any other, and is handled there when its last bit has come.
//!
//! The memory of a node changes at the instant at which its NIC handles a packet; payloads are read
//! from the source region at that same instant, unless [`World::set_read_lines`] says that READ
//! responses are read line by line ([`ReadLines`]).

mod actor;
mod config;
mod lines;
mod node;
mod report;
mod run;
mod switches;

use crate::TraceHash;
use crate::queue::EventQueue;
use actor::ActorSlot;
use node::Node;
use rackweave_base::{Instant, Memory, NodeId, Rng};
use rackweave_link::{FaultConfig, FaultError};
use rackweave_nic::Nic;
use rackweave_switch::{Program, Switch};
use std::collections::VecDeque;
use switches::{CablePipe, SwitchSlot};

pub use actor::{Actor, ActorId, Context, Step};
pub use config::{CableModel, NodeModel, SwitchModel, SwitchPort, WorldConfig, WorldError};
pub use lines::ReadLines;
pub use report::{DirectionReport, LinkReport};

/// Why [`World::run`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The last actor is done. It is said once; running on drains what is still under way.
    Done,
    /// The time is up.
    Deadline,
    /// A control event that [`World::at`] entered.
    Control(u64),
    /// There is news for the controller: take it with [`World::poll_digest`].
    Digest,
    /// Nothing will ever happen again unless the caller changes something.
    Stalled,
}

/// What happens. Small, because packets wait elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The last bit of a packet has come from a node to the switch.
    AtSwitch(u16),
    /// The last bit of a packet has come from the switch to a node.
    AtNode(u16),
    /// The last bit of a packet has come from a switch to another: a direction of a cable.
    AtCable(u16),
    /// A packet has passed a NIC's receive pipeline.
    Receive(u16),
    /// A NIC's transmit pipeline has room.
    Transmit(u16),
    /// The bytes of a packet that a NIC sends have been read.
    Leave(u16),
    /// A NIC asked to be called.
    NicTimer(u16),
    /// A switch asked to be called.
    SwitchTimer(u16),
    /// News has reached the controller.
    Digest,
    /// An actor wants to go on.
    Step(u32),
    /// An actor's wait may be over.
    WaitOver(u32),
    /// A core is free for the next actor: node and core.
    Core(u16, u16),
    /// The caller asked to be called: an index into the tokens.
    Control(u32),
}

/// A rack in virtual time.
pub struct World<P: Program> {
    now: Instant,
    queue: EventQueue<Event>,
    events: u64,
    trace: TraceHash,
    nodes: Vec<Node>,
    switches: Vec<SwitchSlot<P>>,
    switch_model: SwitchModel,
    /// Two directions per cable between switches.
    cables: Vec<CablePipe>,
    digests: VecDeque<P::Digest>,
    actors: Vec<ActorSlot>,
    /// Actors that are not done.
    active: usize,
    /// Whether the last actor's end is still to be told.
    done_untold: bool,
    tokens: Vec<u64>,
    tokens_free: Vec<u32>,
    memory: Memory,
    read_lines: ReadLines,
    /// Draws the moments at which lines are read.
    lines_rng: Rng,
}

impl<P: Program> World<P> {
    /// A world of one switch at time zero. Node `i` has `nics[i]`.
    ///
    /// # Errors
    /// As for [`World::with_switches`].
    pub fn new(
        config: WorldConfig,
        memory: Memory,
        nics: Vec<Nic>,
        switch: Switch<P>,
    ) -> Result<Self, WorldError> {
        Self::with_switches(config, memory, nics, vec![switch])
    }

    /// A world at time zero. Node `i` has `nics[i]`; places and cables name switches by their place
    /// in `switches`.
    ///
    /// `memory` resolves payloads that a fault must copy. The switch's recirculation latency is its
    /// own configuration; [`SwitchModel::switch_config`] gives the model's.
    ///
    /// # Errors
    /// If there are not as many NICs as node models, too many nodes, nodes or cables at ports that
    /// do not exist or are taken, or the faults make no sense.
    ///
    /// # Panics
    /// Without any switch.
    pub fn with_switches(
        config: WorldConfig,
        memory: Memory,
        nics: Vec<Nic>,
        switches: Vec<Switch<P>>,
    ) -> Result<Self, WorldError> {
        assert!(!switches.is_empty(), "a world has a switch");
        let (models, given) = (config.nodes.len(), nics.len());
        if models != given {
            return Err(WorldError::Nodes {
                models,
                nics: given,
            });
        }
        if models > config::NODES_MAX {
            return Err(WorldError::TooMany { nodes: models });
        }
        let places = switches::places(&config)?;
        let switches = switches::plug(switches, &places, &config.cables)?;
        let mut rng = Rng::new(config.seed);
        // On its own, so that no other draw depends on whether lines are drawn.
        let lines_rng = Rng::new(config.seed).fork("lines");
        let nodes = config.nodes.iter().zip(places).zip(nics);
        let nodes: Result<Vec<Node>, FaultError> = nodes
            .map(|((model, place), nic)| {
                Node::new(model, place, nic, &config.faults, &mut rng, &memory)
            })
            .collect();
        let nodes = nodes?;
        let cables = switches::lay(&config.cables, &config.faults, &mut rng, &memory)?;
        Ok(Self {
            now: Instant::ZERO,
            queue: EventQueue::new(1024),
            events: 0,
            trace: TraceHash::default(),
            nodes,
            switches,
            switch_model: config.switch,
            cables,
            digests: VecDeque::new(),
            actors: Vec::new(),
            active: 0,
            done_untold: false,
            tokens: Vec::new(),
            tokens_free: Vec::new(),
            memory,
            read_lines: ReadLines::default(),
            lines_rng,
        })
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the next event happens; nothing if none ever will.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hash over every packet delivered so far: time, station, header, check value and payload
    /// length.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    /// Lets `run` return [`Stop::Control`] with `token` at `at`, or at once if that is past.
    pub fn at(&mut self, at: Instant, token: u64) {
        let index = self.tokens_free.pop().unwrap_or_else(|| {
            self.tokens.push(0);
            self.tokens.len() as u32 - 1
        });
        self.tokens[index as usize] = token;
        self.queue.push(at.max(self.now), Event::Control(index));
    }

    /// The oldest news from a switch that has reached the controller or is on its way there.
    ///
    /// The world takes all digests out of the switches; asking a switch itself yields none.
    pub fn poll_digest(&mut self) -> Option<P::Digest> {
        self.digests.pop_front()
    }

    /// The NIC of a node. None if there is no such node or it has crashed.
    pub fn nic(&self, node: NodeId) -> Option<&Nic> {
        self.nodes.get(usize::from(node.0))?.nic.as_ref()
    }

    /// The NIC of a node, to connect queue pairs or to post work. Call [`World::kick`] afterwards.
    pub fn nic_mut(&mut self, node: NodeId) -> Option<&mut Nic> {
        self.nodes.get_mut(usize::from(node.0))?.nic.as_mut()
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Kills a node: its NIC and everything in it is gone, its actors end, packets to it vanish.
    /// Packets that it had sent still travel. True if it was alive.
    pub fn crash(&mut self, node: NodeId) -> bool {
        let Some(slot) = self.nodes.get_mut(usize::from(node.0)) else {
            return false;
        };
        let was_alive = slot.nic.take().is_some();
        slot.forget();
        for index in 0..self.actors.len() {
            if self.actors[index].node == node.0 {
                self.end_actor(index);
            }
        }
        was_alive
    }

    /// Puts a new NIC into a node that has crashed. False, and nothing happens, if there is no such
    /// node or it is alive. Its actors are to be spawned anew.
    pub fn revive(&mut self, node: NodeId, nic: Nic) -> bool {
        match self.nodes.get_mut(usize::from(node.0)) {
            Some(slot) if slot.nic.is_none() => {
                let nic = slot.nic.insert(nic);
                nic.defer_reads(self.read_lines == ReadLines::AnyOrder);
                self.pump(usize::from(node.0));
                true
            }
            _ => false,
        }
    }

    /// Says how all NICs read the bytes of READ responses from now on.
    pub fn set_read_lines(&mut self, read_lines: ReadLines) {
        self.read_lines = read_lines;
        for nic in self.nodes.iter_mut().filter_map(|node| node.nic.as_mut()) {
            nic.defer_reads(read_lines == ReadLines::AnyOrder);
        }
    }

    /// Cuts (`true`) or mends the cable of a node, both ways. False if there is no such node.
    pub fn set_link_down(&mut self, node: NodeId, down: bool) -> bool {
        let Some(slot) = self.nodes.get_mut(usize::from(node.0)) else {
            return false;
        };
        slot.up.link.set_down(down);
        slot.down.link.set_down(down);
        true
    }

    /// Changes what goes wrong on the links of a node, both ways, from now on.
    ///
    /// # Errors
    /// If the faults make no sense; the old ones stay. A node that does not exist has no links.
    pub fn set_faults(&mut self, node: NodeId, faults: FaultConfig) -> Result<(), FaultError> {
        faults.check()?;
        if let Some(slot) = self.nodes.get_mut(usize::from(node.0)) {
            slot.up.link.set_config(faults)?;
            slot.down.link.set_config(faults)?;
        }
        Ok(())
    }

    /// Lets time pass in which nothing happens, up to `until` or the next event.
    pub fn pass(&mut self, until: Instant) {
        let next = self.queue.next_at().unwrap_or(until);
        self.now = self.now.max(until.min(next));
    }

    /// Steps the waiting actors of a node, as if a packet had come.
    pub fn wake(&mut self, node: NodeId) {
        if usize::from(node.0) < self.nodes.len() {
            self.wake_waiting(usize::from(node.0));
        }
    }

    /// Lets the machines send what they have after the caller changed something: posted work,
    /// injected tasks, loaded tables.
    pub fn kick(&mut self) {
        for node in 0..self.nodes.len() {
            self.pump(node);
        }
        for switch in 0..self.switches.len() {
            self.drain_switch(switch);
        }
    }
}
