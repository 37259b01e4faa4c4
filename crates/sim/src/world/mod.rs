//! The world: nodes, links, switches and actors under one virtual clock.
//!
//! ```text
//! actor ─verbs─▶ NIC machine ─transmit pipeline─▶ egress queue ─wire─▶ switch machine
//!   ▲                                                                        │ pipeline latency
//!   └─spin latency─ NIC machine ◀─receive pipeline─ wire ◀─ egress queue ◀───┘
//! ```
//!
//! Every transition that takes time is an event. A packet is taken from a NIC's state machine when
//! its transmit pipeline has space, so that the machine decides as late as hardware would what to
//! send next. The switch handles a packet when its last bit has arrived, and the resulting packets
//! enter the egress queues one pipeline latency later; the order of arrivals is thus the order of
//! register accesses. A packet that leaves a switch for another one takes a cable with an egress
//! queue like any other, and is handled there when its last bit has arrived.
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

/// Why [`World::run`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The last actor is done. Returned once; running on drains what is still in flight.
    Done,
    /// The deadline is reached.
    Deadline,
    /// A control event that was entered with [`World::at`].
    Control(u64),
    /// A digest for the controller has arrived: take it with [`World::poll_digest`].
    Digest,
    /// No event is pending; nothing happens unless the caller changes something.
    Stalled,
}

/// An event. Small, because packets are stored elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The last bit of a packet has arrived from a node at the switch.
    AtSwitch(u16),
    /// The last bit of a packet has arrived from the switch at a node.
    AtNode(u16),
    /// The last bit of a packet has arrived from a switch at another: a direction of a cable.
    AtCable(u16),
    /// A packet has passed a NIC's receive pipeline.
    Receive(u16),
    /// A NIC's transmit pipeline has space.
    Transmit(u16),
    /// The bytes of a packet that a NIC sends have been read.
    Leave(u16),
    /// A NIC's timer.
    NicTimer(u16),
    /// A switch's timer.
    SwitchTimer(u16),
    /// A digest has reached the controller.
    Digest,
    /// An actor's next step.
    Step(u32),
    /// An actor's wait may be over.
    WaitOver(u32),
    /// A core is free for the next actor: node and core.
    Core(u16, u16),
    /// A control event: an index into the tokens.
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
    /// Actors that have not ended.
    active: usize,
    /// Whether the end of the last actor is still to be reported.
    done_unreported: bool,
    tokens: Vec<u64>,
    tokens_free: Vec<u32>,
    memory: Memory,
    read_lines: ReadLines,
    /// Draws the times at which lines are read.
    lines_rng: Rng,
    /// The share of attempts at cut-through that succeed, and what draws them.
    cut_through: (f64, Rng),
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

    /// A world at time zero. Node `i` has `nics[i]`; ports and cables name switches by their index
    /// in `switches`.
    ///
    /// `memory` resolves payloads that a fault must copy. The switch's recirculation latency is its
    /// own configuration; [`SwitchModel::switch_config`] gives the model's.
    ///
    /// # Errors
    /// If there are not as many NICs as node models, too many nodes, nodes or cables at ports that
    /// do not exist or are taken, or the faults are invalid.
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
        // A separate generator, so that no other draw depends on whether lines are drawn.
        let lines_rng = Rng::new(config.seed).fork("lines");
        let cut_through_rng = Rng::new(config.seed).fork("cut through");
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
            done_unreported: false,
            tokens: Vec::new(),
            tokens_free: Vec::new(),
            memory,
            read_lines: ReadLines::default(),
            lines_rng,
            cut_through: (0.0, cut_through_rng),
        })
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the next event happens; `None` if no event is pending.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hash over every packet delivered so far: time, location, header, check value and payload
    /// length.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    /// Makes `run` return [`Stop::Control`] with `token` at `at`, or at once if that is past.
    pub fn at(&mut self, at: Instant, token: u64) {
        let index = self.tokens_free.pop().unwrap_or_else(|| {
            self.tokens.push(0);
            self.tokens.len() as u32 - 1
        });
        self.tokens[index as usize] = token;
        self.queue.push(at.max(self.now), Event::Control(index));
    }

    /// The oldest digest from a switch that has reached the controller or is on the way to it.
    ///
    /// The world takes all digests out of the switches; polling a switch itself returns none.
    pub fn poll_digest(&mut self) -> Option<P::Digest> {
        self.digests.pop_front()
    }

    /// The NIC of a node. None if there is no such node or it has crashed.
    pub fn nic(&self, node: NodeId) -> Option<&Nic> {
        self.nodes.get(usize::from(node.0))?.nic.as_ref()
    }

    /// The NIC of a node, for connecting queue pairs or posting work. Call [`World::kick`]
    /// afterwards.
    pub fn nic_mut(&mut self, node: NodeId) -> Option<&mut Nic> {
        self.nodes.get_mut(usize::from(node.0))?.nic.as_mut()
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Crashes a node: its NIC and its content are lost, its actors end, packets to it vanish.
    /// Packets that it had sent still travel. Returns whether it was alive.
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

    /// Puts a new NIC into a crashed node. Returns false, without effect, if there is no such node
    /// or it is alive. Its actors have to be spawned again.
    pub fn revive(&mut self, node: NodeId, nic: Nic) -> bool {
        match self.nodes.get_mut(usize::from(node.0)) {
            Some(slot) if slot.nic.is_none() => {
                let nic = slot.nic.insert(nic);
                nic.defer_reads(self.read_lines == ReadLines::AnyOrder);
                nic.set_cut_through(self.cut_through.0 > 0.0);
                self.pump(usize::from(node.0));
                true
            }
            _ => false,
        }
    }

    /// Sets how all NICs read the bytes of READ responses from now on.
    pub fn set_read_lines(&mut self, read_lines: ReadLines) {
        self.read_lines = read_lines;
        for nic in self.nodes.iter_mut().filter_map(|node| node.nic.as_mut()) {
            nic.defer_reads(read_lines == ReadLines::AnyOrder);
        }
    }

    /// Has this share of requests from node to node executed without packets, at once, where the
    /// switches forward packets between both nodes over whole cables: for tests of
    /// [`Nic::cut_through`], since no machine across a cable can do that.
    pub fn set_cut_through(&mut self, share: f64) {
        self.cut_through.0 = share;
        for nic in self.nodes.iter_mut().filter_map(|node| node.nic.as_mut()) {
            nic.set_cut_through(share > 0.0);
        }
    }

    /// Cuts (`true`) or repairs the cable of a node, in both directions. Returns false if there is
    /// no such node.
    pub fn set_link_down(&mut self, node: NodeId, down: bool) -> bool {
        let Some(slot) = self.nodes.get_mut(usize::from(node.0)) else {
            return false;
        };
        slot.up.link.set_down(down);
        slot.down.link.set_down(down);
        true
    }

    /// Changes the faults on the links of a node, in both directions, from now on.
    ///
    /// # Errors
    /// If the faults are invalid; the old ones stay. A node that does not exist has no links.
    pub fn set_faults(&mut self, node: NodeId, faults: FaultConfig) -> Result<(), FaultError> {
        faults.check()?;
        if let Some(slot) = self.nodes.get_mut(usize::from(node.0)) {
            slot.up.link.set_config(faults)?;
            slot.down.link.set_config(faults)?;
        }
        Ok(())
    }

    /// Advances the clock without events, up to `until` or the next event.
    pub fn pass(&mut self, until: Instant) {
        let next = self.queue.next_at().unwrap_or(until);
        self.now = self.now.max(until.min(next));
    }

    /// Steps the waiting actors of a node, as if a packet had arrived.
    pub fn wake(&mut self, node: NodeId) {
        if usize::from(node.0) < self.nodes.len() {
            self.wake_waiting(usize::from(node.0));
        }
    }

    /// Lets the state machines send after the caller changed something: posted work, injected
    /// tasks, loaded tables.
    pub fn kick(&mut self) {
        for node in 0..self.nodes.len() {
            self.pump(node);
        }
        for switch in 0..self.switches.len() {
            self.drain_switch(switch);
        }
    }
}
