//! A rack with sequencers of all kinds on it, and those who ask them.

use super::actors::{Asker, Counting, Link, Seat, Shared};
use super::plan::{Kind, Plan};
use core::cell::RefCell;
use rackweave_base::{Duration, NodeId, Qpn, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{LaneError, SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::rpc::{self, ClientConfig, Server, ServerConfig};
use rackweave_endpoint::sequencer::{
    AtomicSequencer, CounterService, Counters, RpcSequencer, SequencerWord,
};
use rackweave_rack::SimulatedRack;
use rackweave_verbs::{QpModify, Verbs};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a request or reply: numbers are short.
const PAYLOAD_MAX: u32 = 64;

/// A server and its counter.
struct Served {
    server: Rc<RefCell<Server>>,
    counter: u64,
}

/// A rack at work.
pub(super) struct Stage<'a> {
    pub plan: &'a Plan,
    pub rack: SimulatedRack,
    pub shared: Rc<Shared>,
    rng: Rng,
    in_switch: SequencerId,
    word: Option<SequencerWord>,
    served: Option<Served>,
    /// The sequencer of each kind that there is now, by its name in the history.
    names: BTreeMap<Kind, u32>,
    last_name: u32,
    /// Queue pairs of words to clients.
    far_ends: BTreeMap<(NodeId, u32), Qpn>,
    /// Places of clients that are alive.
    pub seats: Vec<Rc<Seat>>,
    last_client: u32,
}

impl<'a> Stage<'a> {
    /// Builds the rack with its sequencers and seats.
    pub fn new(plan: &'a Plan, shared: Rc<Shared>) -> Result<Self, String> {
        let rack = SimulatedRack::new(&plan.config).map_err(|error| format!("no rack: {error}"))?;
        let mut stage = Self {
            plan,
            rack,
            shared,
            rng: Rng::new(plan.seed).fork("stage"),
            in_switch: SequencerId(0),
            word: None,
            served: None,
            names: BTreeMap::new(),
            last_name: 0,
            far_ends: BTreeMap::new(),
            seats: Vec::new(),
            last_client: 0,
        };
        for &kind in &plan.kinds {
            stage.make(kind)?;
        }
        let mut nodes: Vec<_> = plan.clients.iter().map(|client| client.node).collect();
        nodes.dedup();
        for node in nodes {
            stage.seat(node);
        }
        Ok(stage)
    }

    /// A new sequencer of a kind, whose node is alive.
    fn make(&mut self, kind: Kind) -> Result<(), String> {
        let first = *self.rng.pick(&[0, 1, 1 << 40]) + self.rng.below(100);
        match kind {
            Kind::Switch => {
                let block = self.plan.block;
                let made = self.rack.create_sequencer(SequencerSpec { first, block });
                self.in_switch = made.map_err(|error| format!("no sequencer: {error}"))?;
            }
            Kind::Memory => {
                let memory = self.rack.memory().clone();
                let mut nic = self
                    .rack
                    .nic_mut(self.plan.memory)
                    .ok_or("no memory node")?;
                let word = SequencerWord::new(&mut *nic, &memory, first);
                self.word = Some(word.map_err(|error| format!("no word: {error}"))?);
            }
            Kind::Server => self.serve(first)?,
        }
        self.last_name += 1;
        self.names.insert(kind, self.last_name);
        let mut history = self.shared.history.borrow_mut();
        history.create(self.last_name, first);
        Ok(())
    }

    fn serve(&mut self, first: u64) -> Result<(), String> {
        let memory = self.rack.memory().clone();
        let config = ServerConfig {
            payload_max: PAYLOAD_MAX,
            ..ServerConfig::new(self.rng.next_u64() | 1)
        };
        let counter = self.rng.next_u64();
        let node = self.plan.server;
        let mut nic = self.rack.nic_mut(node).ok_or("no server node")?;
        let pd = nic.create_pd();
        let server = Server::new(&mut *nic, &memory, pd, config);
        drop(nic);
        let server = server.map_err(|error| format!("no server: {error}"))?;
        let server = Rc::new(RefCell::new(server));
        let counters = Counters::new();
        let created = counters.create(counter, first);
        created.map_err(|error| format!("no counter: {error}"))?;
        let actor = Counting {
            server: server.clone(),
            service: CounterService::new(counters),
        };
        self.rack.spawn_server(node, Box::new(actor));
        self.served = Some(Served { server, counter });
        Ok(())
    }

    /// The clients of a node take seats.
    fn seat(&mut self, node: NodeId) {
        for &client in self
            .plan
            .clients
            .iter()
            .filter(|client| client.node == node)
        {
            self.last_client += 1;
            self.seats.push(Seat::new(client, self.last_client));
        }
    }

    /// All clients of a node make so many calls; up to `again` of those that failed again.
    pub fn spawn(&mut self, node: NodeId, calls: u32, again: u32) {
        for seat in self.seats.iter().filter(|seat| seat.client.node == node) {
            let asker = Asker::new(self.shared.clone(), seat.clone(), calls, again);
            self.rack.spawn(node, Box::new(asker));
        }
    }

    /// Nodes of clients that are alive.
    pub fn client_nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> = self.seats.iter().map(|seat| seat.client.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Makes the connections that are waited for, where both ends are there.
    pub fn attend(&mut self) -> Result<(), String> {
        for seat in self.seats.clone() {
            if seat.waits.get() && self.connect(&seat)? {
                seat.sequencer.set(self.names[&seat.client.kind]);
                seat.waits.set(false);
            }
        }
        Ok(())
    }

    fn attributes(&self) -> PairAttributes {
        PairAttributes {
            timeout: self.plan.habits.timeout,
            ..PairAttributes::default()
        }
    }

    /// False if one end is not there.
    fn connect(&mut self, seat: &Seat) -> Result<bool, String> {
        if self.rack.nic_mut(seat.client.node).is_none() {
            return Ok(false);
        }
        match seat.client.kind {
            Kind::Switch => self.connect_to_switch(seat),
            Kind::Memory => self.connect_to_word(seat),
            Kind::Server => self.connect_to_server(seat),
        }
    }

    /// The client of a seat that asks by fetch-and-add.
    fn atomic(&mut self, seat: &Seat) -> Result<Qpn, String> {
        let mut link = seat.link.borrow_mut();
        if let Some(Link::Atomic(client)) = &*link {
            return Ok(client.qpn());
        }
        let memory = self.rack.memory().clone();
        let mut nic = self.rack.nic_mut(seat.client.node).ok_or("no client")?;
        let client = AtomicSequencer::new(&mut *nic, &memory, seat.client.config);
        let client = client.map_err(|error| format!("no client: {error}"))?;
        let qpn = client.qpn();
        *link = Some(Link::Atomic(Box::new(client)));
        Ok(qpn)
    }

    fn connect_to_switch(&mut self, seat: &Seat) -> Result<bool, String> {
        let from = (seat.client.node, self.atomic(seat)?);
        let attributes = self.attributes();
        let attached = self
            .rack
            .attach_sequencer(self.in_switch, from, &attributes);
        let place = match attached {
            Ok(place) => place,
            Err(SequencerSetUpError::Lane(LaneError::NoNode(_))) => return Ok(false),
            Err(error) => return Err(format!("client {} not attached: {error}", seat.number)),
        };
        if let Some(Link::Atomic(client)) = &mut *seat.link.borrow_mut() {
            client.connected(place);
        }
        Ok(true)
    }

    fn connect_to_word(&mut self, seat: &Seat) -> Result<bool, String> {
        let near = (seat.client.node, self.atomic(seat)?);
        let (Some(word), Some(mut nic)) = (&mut self.word, self.rack.nic_mut(self.plan.memory))
        else {
            return Ok(false);
        };
        let key = (seat.client.node, seat.number);
        if let Some(old) = self.far_ends.remove(&key) {
            word.remove(&mut *nic, old);
        }
        let far = word.accept(&mut *nic).map_err(|error| error.to_string())?;
        drop(nic);
        let place = word.place();
        self.far_ends.insert(key, far);
        if let Some(mut nic) = self.rack.nic_mut(near.0) {
            let reset = nic.modify_qp(near.1, QpModify::Reset);
            reset.map_err(|error| error.to_string())?;
        }
        let attributes = self.attributes();
        let far = (self.plan.memory, far);
        let connected = self.rack.connect(near, far, &attributes);
        connected.map_err(|error| format!("not connected: {error}"))?;
        if let Some(Link::Atomic(client)) = &mut *seat.link.borrow_mut() {
            client.connected(place);
        }
        Ok(true)
    }

    fn connect_to_server(&mut self, seat: &Seat) -> Result<bool, String> {
        let memory = self.rack.memory().clone();
        let (node, to) = (seat.client.node, self.plan.server);
        let attributes = self.attributes();
        if self.served.is_none() || self.rack.nic_mut(to).is_none() {
            return Ok(false);
        }
        let Some(mut near) = self.rack.nic_mut(node) else {
            return Ok(false);
        };
        if let Some(Link::Rpc(old)) = seat.link.borrow_mut().take() {
            old.close(&mut *near);
        }
        let pd = near.create_pd();
        let config = ClientConfig {
            window: 16,
            payload_max: PAYLOAD_MAX,
            timeout: Duration::from_millis(4),
            ..ClientConfig::default()
        };
        let client = rpc::Client::new(&mut *near, &memory, pd, config);
        drop(near);
        let client = client.map_err(|error| format!("no RPC client: {error}"))?;
        let (Some(served), Some(mut far)) = (&self.served, self.rack.nic_mut(to)) else {
            return Ok(false);
        };
        let mut server = served.server.borrow_mut();
        let qpn = server
            .accept(&mut *far)
            .map_err(|error| error.to_string())?;
        drop((server, far));
        let pair = ((node, client.qpn()), (to, qpn));
        let connected = self.rack.connect(pair.0, pair.1, &attributes);
        connected.map_err(|error| format!("not connected: {error}"))?;
        let counter = served.counter;
        let client = RpcSequencer::new(client, counter, seat.client.config);
        let client = client.map_err(|error| error.to_string())?;
        *seat.link.borrow_mut() = Some(Link::Rpc(Box::new(client)));
        Ok(true)
    }

    /// A node dies, nobody is told.
    pub fn crash(&mut self, node: NodeId) {
        self.rack.crash_node_silently(node);
        self.seats.retain(|seat| seat.client.node != node);
        if node == self.plan.memory {
            self.word = None;
            self.far_ends.clear();
        }
        if node == self.plan.server {
            self.served = None;
        }
    }

    /// A node is there again, with nothing in its memory.
    pub fn revive(&mut self, node: NodeId) -> Result<(), String> {
        if !self.rack.revive_node(node) {
            return Err(format!("{node:?} could not be revived"));
        }
        for (kind, home) in [
            (Kind::Memory, self.plan.memory),
            (Kind::Server, self.plan.server),
        ] {
            if node == home && self.plan.kinds.contains(&kind) {
                self.make(kind)?;
            }
        }
        self.seat(node);
        Ok(())
    }

    /// The switch forgets everything; the sequencer in it goes on where it was never before.
    pub fn restart_switch(&mut self) -> Result<(), String> {
        let reserved = self.rack.sequencer_reserved(self.in_switch);
        let restarted = self.rack.restart_switch();
        restarted.map_err(|error| format!("the switch did not restart: {error}"))?;
        if let (Some(at), Some(&name)) = (reserved, self.names.get(&Kind::Switch)) {
            let lost_max = self.plan.block + self.plan.block / 2;
            let mut history = self.shared.history.borrow_mut();
            history.went_on(name, at, lost_max);
        }
        Ok(())
    }
}
