//! A rack with sequencers of all kinds on it, and their clients.

use super::actors::{Asker, Counting, Session, Shared};
use super::plan::{Kind, SequencerPlan};
use crate::{SeedReport, campaign};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{LaneError, SequencerSetUpError};
use rackweave_endpoint::rpc::{ClientConfig, ServerConfig};
use rackweave_rack::SimulatedRack;
use rackweave_rack::services::{
    CounterServerSpec, SequencerOptions, SequencerPlacement, SequencerService,
    SequencerServiceError,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Bytes of a request or reply: numbers are short.
const PAYLOAD_MAX: u32 = 64;

/// A running rack.
pub(super) struct Harness<'a> {
    pub plan: &'a SequencerPlan,
    pub rack: SimulatedRack,
    pub shared: Rc<Shared>,
    rng: Rng,
    /// The current sequencer of each kind, with its name in the history.
    made: BTreeMap<Kind, (SequencerService, u32)>,
    last_name: u32,
    /// Sessions of live clients.
    pub sessions: Vec<Rc<Session>>,
    last_client: u32,
    pub dead: Vec<NodeId>,
    /// Crashed nodes of which the controller does not know.
    pub unreported: Vec<NodeId>,
    /// No further fault is to occur.
    pub quiet: bool,
    pub report: &'a mut SeedReport,
}

impl<'a> Harness<'a> {
    /// Builds the rack with its sequencers and sessions.
    pub fn new(
        plan: &'a SequencerPlan,
        shared: Rc<Shared>,
        report: &'a mut SeedReport,
    ) -> Result<Self, String> {
        let rack = campaign::rack_of(&plan.config)?;
        let mut harness = Self {
            plan,
            rack,
            shared,
            rng: Rng::new(plan.seed).fork("harness"),
            made: BTreeMap::new(),
            last_name: 0,
            sessions: Vec::new(),
            last_client: 0,
            dead: Vec::new(),
            unreported: Vec::new(),
            quiet: false,
            report,
        };
        for &kind in &plan.kinds {
            harness.make(kind)?;
        }
        let mut nodes: Vec<_> = plan.clients.iter().map(|client| client.node).collect();
        nodes.dedup();
        for node in nodes {
            harness.session(node);
        }
        Ok(harness)
    }

    /// A new sequencer of a kind, whose node is alive.
    fn make(&mut self, kind: Kind) -> Result<(), String> {
        let first = *self.rng.pick(&[0, 1, 1 << 40]) + self.rng.below(100);
        let placement = match kind {
            Kind::Switch => SequencerPlacement::Switch,
            Kind::Memory => SequencerPlacement::Memory(self.plan.memory),
            Kind::Server => SequencerPlacement::Server(CounterServerSpec {
                server: ServerConfig {
                    payload_max: PAYLOAD_MAX,
                    ..ServerConfig::new(1)
                },
                client: ClientConfig {
                    window: 16,
                    timeout: Duration::from_millis(4),
                    ..ClientConfig::default()
                },
                ..CounterServerSpec::new(self.plan.server)
            }),
        };
        let options = SequencerOptions {
            placement,
            first,
            block: self.plan.block,
            attributes: PairAttributes {
                timeout: self.plan.habits.timeout,
                ..PairAttributes::default()
            },
        };
        let made = SequencerService::with(&self.rack, &options);
        let made = made.map_err(|error| format!("no sequencer: {error}"))?;
        for (node, server) in made.servers() {
            let actor = Counting(server.clone());
            self.rack.spawn_server(node.id(), Box::new(actor));
        }
        self.last_name += 1;
        self.made.insert(kind, (made, self.last_name));
        let mut history = self.shared.history.borrow_mut();
        history.create(self.last_name, first);
        Ok(())
    }

    /// Creates the sessions of a node's clients.
    fn session(&mut self, node: NodeId) {
        let clients = self.plan.clients.iter();
        for &client in clients.filter(|client| client.node == node) {
            self.last_client += 1;
            self.sessions.push(Session::new(client, self.last_client));
        }
    }

    /// All clients of a node make this many calls, and repeat up to `again` of those that failed.
    pub fn spawn(&mut self, node: NodeId, calls: u32, again: u32) {
        let sessions = self.sessions.iter();
        for session in sessions.filter(|session| session.client.node == node) {
            let asker = Asker::new(self.shared.clone(), session.clone(), calls, again);
            self.rack.spawn(node, Box::new(asker));
        }
    }

    /// Live nodes with clients.
    pub fn client_nodes(&self) -> Vec<NodeId> {
        let nodes = self.sessions.iter().map(|session| session.client.node);
        nodes.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Makes the connections that are waited for, if both ends are up.
    pub fn connect_waiting(&mut self) -> Result<(), String> {
        for session in self.sessions.clone() {
            if session.waits.get() && self.connect(&session)? {
                session.waits.set(false);
            }
        }
        Ok(())
    }

    /// False if one end is down.
    fn connect(&mut self, session: &Session) -> Result<bool, String> {
        let Some((made, name)) = self.made.get(&session.client.kind) else {
            return Ok(false);
        };
        let mut link = session.link.borrow_mut();
        let joined = match &mut *link {
            Some(link) => made.attach(link),
            None => {
                let client = made.client(session.client.node, session.client.config);
                client.map(|client| *link = Some(client))
            }
        };
        match joined {
            Ok(()) => {
                session.sequencer.set(*name);
                Ok(true)
            }
            Err(
                SequencerServiceError::NoNode(_)
                | SequencerServiceError::Switch(SequencerSetUpError::Lane(LaneError::NoNode(_))),
            ) => Ok(false),
            Err(error) => Err(format!("client {} not attached: {error}", session.number)),
        }
    }

    /// A node crashes; the controller is not notified.
    pub fn crash(&mut self, node: NodeId) {
        self.rack.crash_node_silently(node);
        self.dead.push(node);
        self.unreported.push(node);
        self.sessions.retain(|session| session.client.node != node);
        for (kind, home) in self.homes() {
            if node == home {
                self.made.remove(&kind);
            }
        }
    }

    /// The sequencers that a node's crash ends, with their nodes.
    fn homes(&self) -> [(Kind, NodeId); 2] {
        [
            (Kind::Memory, self.plan.memory),
            (Kind::Server, self.plan.server),
        ]
    }

    /// A node returns with empty memory.
    pub fn revive(&mut self, node: NodeId) -> Result<(), String> {
        campaign::revive_node(&mut self.rack, node)?;
        for (kind, home) in self.homes() {
            if node == home && self.plan.kinds.contains(&kind) {
                self.make(kind)?;
            }
        }
        self.session(node);
        Ok(())
    }

    /// The switch loses all state; its sequencer continues at numbers that it never returned
    /// before.
    pub fn restart_switch(&mut self) -> Result<(), String> {
        let made = self.made.get(&Kind::Switch);
        let reserved = made.and_then(|(made, name)| Some((made.reserved()?, *name)));
        campaign::restart_switch(&self.rack)?;
        if let Some((at, name)) = reserved {
            let lost_max = self.plan.block + self.plan.block / 2;
            let mut history = self.shared.history.borrow_mut();
            history.went_on(name, at, lost_max);
        }
        Ok(())
    }
}
