//! All nodes and the switches in this process, in real time.
//!
//! No thread is required: whoever waits drives the rack, through [`rackweave_verbs::Progress`].
//! Driver threads help where there are cores for them, and sleep when nothing is due.

mod sequencer;
mod shared;
mod threads;

use crate::Flow;
use crate::build::{self, Kind, RackError};
use crate::config::RackConfig;
use crate::pages::{self, PageEnds, TargetOptions};
use crate::statistics::{Described, Observed, RackObserver};
use rackweave_base::{Instant, KeyRng, Memory, NodeId};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{
    Controller, FlowError, FlowId, FlowSpec, FlowState, LaneError, Loss, LostPage, PageNode,
    PageSetUpError, PageSpec, PageStoreSpec, Site, Topology,
};
use rackweave_endpoint::page_store::NodeAccess;
use rackweave_nic::Nic;
use rackweave_programs::Pipeline;
use rackweave_switch::{Counters, Switch, SwitchConfig, Tap};
use rackweave_target::{Backend, Target, TargetError};
use rackweave_verbs::{Progress, Verbs};
use rackweave_wire::fabric::page::PageId;
pub(crate) use shared::Shared;
use std::fmt;
use std::sync::{Arc, Mutex};
use threads::Drivers;

/// Rounds of idleness after which one who waits at a node drives all others, too.
const ROUNDS_LEFT: u32 = 32;

/// A rack in this process.
pub struct EmbeddedRack {
    shared: Arc<Shared>,
    drivers: Drivers,
    config: RackConfig,
    observed: Arc<Observed>,
    identity: u64,
    /// Held while the rack gets its pages.
    pub(crate) page_set_up: Mutex<()>,
}

/// A node of an embedded rack: whoever has it may post work there.
#[derive(Clone)]
pub struct NodeHandle {
    shared: Arc<Shared>,
    node: usize,
}

impl EmbeddedRack {
    /// Builds and starts a rack.
    ///
    /// # Errors
    /// If the configuration makes no sense or the programs do not fit the switch.
    pub fn new(config: &RackConfig) -> Result<Self, RackError> {
        let parts = build::build(config, Kind::Embedded, SwitchConfig::default())?;
        let shared = Arc::new(Shared::new(config, parts)?);
        shared.install_hosts()?;
        let drivers = Drivers::start(&shared, config.driver_threads)?;
        let observed = Observed {
            described: Described::new(config, shared.topology()),
            seen: Mutex::default(),
        };
        Ok(Self {
            shared,
            drivers,
            config: config.clone(),
            observed: Arc::new(observed),
            // Zero would mean any rack.
            identity: KeyRng::system().next_u64().max(1),
            page_set_up: Mutex::new(()),
        })
    }

    /// Whoever has this may look at what the rack has done so far, while it runs.
    pub fn observer(&self) -> RackObserver {
        RackObserver::new(Arc::downgrade(&self.shared), self.observed.clone())
    }

    /// The configuration.
    pub fn config(&self) -> &RackConfig {
        &self.config
    }

    /// What units say to each other to show that they are of this rack: nobody else knows it.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The arena of all regions.
    pub fn memory(&self) -> &Memory {
        self.shared.memory()
    }

    /// A node.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, node: NodeId) -> NodeHandle {
        let at = usize::from(node.0);
        assert!(
            at < self.config.node.len(),
            "{node:?} is not in the configuration"
        );
        NodeHandle {
            shared: self.shared.clone(),
            node: at,
        }
    }

    /// What those who wait call.
    pub fn progress(&self) -> Arc<dyn Progress> {
        self.shared.clone()
    }

    /// The same shape of flow with this rack's settings for batches, transfers and MTU.
    pub fn flow_spec(
        &self,
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> FlowSpec {
        build::flow_spec(
            &self.config,
            Kind::Embedded,
            producers,
            consumers,
            item_size,
            ring_bytes,
        )
    }

    /// Sets a flow up.
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks room.
    pub fn create_flow(&self, spec: FlowSpec) -> Result<Flow, FlowError> {
        // Still under the controller's lock: nothing may end the flow before its ends are made.
        let made = self.shared.control(|controller, site| {
            let (id, rings) = controller.create_flow(site, spec)?;
            let regions = self.shared.regions();
            Ok(Flow::local(id, &rings, |node, rkey| {
                regions.block(node, rkey)
            }))
        });
        self.shared.kick();
        made
    }

    /// A consumer joins a balanced or replicated flow; returns its number.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::add_consumer`].
    pub fn add_consumer(&self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        self.change(|controller, site| {
            let (index, ring) = controller.add_consumer(site, flow.id, node)?;
            let regions = self.shared.regions();
            flow.joined_consumer(&ring, |node, rkey| regions.block(node, rkey));
            Ok(index)
        })
    }

    /// A consumer leaves; its stream ends after what it has been shown.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::remove_consumer`].
    pub fn remove_consumer(&self, id: FlowId, index: usize) -> Result<(), FlowError> {
        self.change(|controller, site| controller.remove_consumer(site, id, index))
    }

    /// A producer joins; returns its number.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::add_producer`].
    pub fn add_producer(&self, flow: &mut Flow, node: NodeId) -> Result<usize, FlowError> {
        self.change(|controller, site| {
            let (index, rings) = controller.add_producer(site, flow.id, node)?;
            let regions = self.shared.regions();
            flow.joined_producer(&rings, |node, rkey| regions.block(node, rkey));
            Ok(index)
        })
    }

    /// A producer that has finished leaves.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::remove_producer`].
    pub fn remove_producer(&self, id: FlowId, index: usize) -> Result<(), FlowError> {
        self.change(|controller, site| controller.remove_producer(site, id, index))
    }

    /// Changes the weight of a running flow.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::set_weight`].
    pub fn set_weight(&self, id: FlowId, weight: Option<u32>) -> Result<(), FlowError> {
        self.change(|controller, site| controller.set_weight(site, id, weight))
    }

    /// Members of a flow that were lost.
    pub fn losses(&self, id: FlowId) -> Vec<Loss> {
        self.shared.control(|controller, site| {
            controller.handle_digests(site);
            controller.losses(id).to_vec()
        })
    }

    /// Puts an NVMe target with these namespaces behind a node's NIC.
    ///
    /// # Errors
    /// If a namespace makes no sense or the node lacks room.
    pub fn add_target(
        &self,
        node: NodeId,
        options: TargetOptions,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<(), TargetError> {
        let config = options.config(&self.config);
        let memory = self.shared.memory().clone();
        self.shared.set_target(usize::from(node.0), |nic| {
            Target::new(config, nic, &memory, namespaces)
        })
    }

    /// What a page directory of these nodes and stores is with this rack's settings.
    pub fn page_spec(
        &self,
        nodes: Vec<PageNode>,
        stores: Vec<PageStoreSpec>,
        fallback: Option<NodeId>,
    ) -> PageSpec {
        let timeout = build::pipeline_config(&self.config, Kind::Embedded)
            .engine
            .timeout;
        pages::spec(&self.config, timeout, nodes, stores, fallback)
    }

    /// Sets a page directory up.
    ///
    /// # Errors
    /// If the specification makes no sense, or the switch, a node or a target lacks room.
    pub fn create_pages(&self, spec: PageSpec) -> Result<(), PageSetUpError> {
        self.change(|controller, site| controller.create_pages(site, spec))
    }

    /// A node's buffer frames and the channels of its workers; nothing if it has none.
    pub fn page_ends(&self, node: NodeId) -> Option<PageEnds> {
        self.shared.control(|controller, _| {
            let regions = self.shared.regions();
            let alarm = self.shared.page_alarm();
            pages::ends(controller, node, alarm, |node, rkey| {
                regions.block(node, rkey)
            })
        })
    }

    /// Brings a node that was taken for dead back to the page directory, with empty buffer frames:
    /// it needs a new pool, in what [`EmbeddedRack::page_ends`] gives from now on.
    ///
    /// # Errors
    /// If it lacks room.
    pub fn rejoin_pages(&self, node: NodeId) -> Result<(), PageSetUpError> {
        self.change(|controller, site| controller.page_node_returned(site, node))
    }

    /// Takes a node for dead that may be alive: what it does from now on counts for nothing.
    pub fn declare_dead(&self, node: NodeId) {
        self.change(|controller, site| controller.node_died(site, node));
    }

    /// Opens a store of pages to these nodes and closes it to all others. False if there is no such
    /// store.
    pub fn open_store_to(&self, store: u8, nodes: &[NodeId]) -> bool {
        self.change(|controller, site| controller.open_store_to(site, store, nodes))
    }

    /// Pages whose newest version went down with a node.
    pub fn lost_pages(&self) -> Vec<LostPage> {
        self.shared
            .control(|controller, _| controller.lost_pages().to_vec())
    }

    /// Goes back to the version of a lost page that is at home. False if that cannot be: see
    /// [`rackweave_controller::Controller::accept_loss`].
    pub fn accept_loss(&self, page: PageId) -> bool {
        self.change(|controller, site| controller.accept_loss(site, page))
    }

    pub(crate) fn change<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        let result = self.shared.control(|controller, site| {
            controller.handle_digests(site);
            act(controller, site)
        });
        self.shared.kick();
        result
    }

    /// How a flow is doing.
    pub fn flow_state(&self, id: FlowId) -> Option<FlowState> {
        self.shared.control(|controller, site| {
            controller.handle_digests(site);
            controller.flow_state(id)
        })
    }

    /// Breaks a flow off.
    pub fn close_flow(&self, id: FlowId) {
        self.shared
            .control(|controller, site| controller.close_flow(site, id));
    }

    /// Connects two queue pairs that are in state Reset.
    ///
    /// # Errors
    /// If a node is unknown or refuses.
    pub fn connect(
        &self,
        a: (NodeId, rackweave_base::Qpn),
        b: (NodeId, rackweave_base::Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.shared
            .control(|controller, site| controller.connect_pair(site, a, b, attributes))
    }

    /// Takes a node down as a power cut would: its NIC answers no more. Flows with it break off.
    pub fn crash_node(&self, node: NodeId) {
        self.shared.crash(usize::from(node.0));
        self.shared
            .control(|controller, site| controller.node_died(site, node));
    }

    /// Restarts switch 0 with empty tables; running flows are set up again.
    ///
    /// # Errors
    /// If the tables are too small for the nodes, which the first start rules out.
    pub fn restart_switch(&self) -> Result<(), RackError> {
        self.restart_switch_at(0).map(|_| ())
    }

    /// The same for any switch. Flows, pages and sequencers are those of switch 0; others know only
    /// the ways. False if there is no such switch.
    ///
    /// # Errors
    /// As for [`EmbeddedRack::restart_switch`].
    pub fn restart_switch_at(&self, at: usize) -> Result<bool, RackError> {
        if !self.shared.restart_switch(at)? {
            return Ok(false);
        }
        self.shared.control(|controller, site| match at {
            0 => controller.switch_restarted(site),
            _ => controller.edge_switch_restarted(site, at),
        })?;
        self.shared.kick();
        Ok(true)
    }

    /// Which switches there are, and where nodes hang.
    pub fn topology(&self) -> &Topology {
        self.shared.topology()
    }

    /// Has `tap` see every packet at switch 0, or nobody.
    pub fn set_tap(&self, tap: Option<Box<dyn Tap>>) {
        self.shared.with_switch(|switch| switch.set_tap(tap));
    }

    /// The counters of switch 0.
    pub fn switch_counters(&self) -> Counters {
        self.shared.with_switch(|switch| switch.counters().clone())
    }

    /// Acts on a switch; nothing if there is no such switch.
    pub fn with_switch_at<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Switch<Pipeline>) -> R,
    ) -> Option<R> {
        let result = self.shared.with_switch_at(at, act);
        self.shared.kick();
        result
    }

    /// Bytes that the rack itself takes beyond its regions: now, and at most by its configuration.
    pub fn bytes_overhead(&self) -> (usize, usize) {
        self.shared.bytes_overhead(&self.config)
    }

    /// Driver threads that run.
    pub fn driver_threads(&self) -> usize {
        self.drivers.count()
    }
}

impl fmt::Debug for EmbeddedRack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.config.node.len();
        let mut text = f.debug_struct("EmbeddedRack");
        text.field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeHandle").field(&self.node).finish()
    }
}

impl Drop for EmbeddedRack {
    fn drop(&mut self) {
        self.drivers.stop(&self.shared);
    }
}

impl NodeHandle {
    /// Acts on the node's NIC and sees to it that what was posted gets going.
    pub fn with<R>(&self, act: impl FnOnce(&mut Nic) -> R) -> R {
        let result = self.shared.with_nic(self.node, act);
        self.shared.kick();
        result
    }

    /// Acts on the node's NIC without waking anybody: for polling.
    pub fn peek<R>(&self, act: impl FnOnce(&mut Nic) -> R) -> R {
        self.shared.with_nic(self.node, act)
    }
}

impl Progress for NodeHandle {
    fn drive(&self) -> bool {
        self.shared.drive_from(self.node)
    }

    fn relax(&self, idle_rounds: u32) {
        // Those to whom other nodes were left may be asleep, or be this thread.
        if idle_rounds < ROUNDS_LEFT || !self.shared.drive() {
            self.shared.relax(idle_rounds);
        }
    }
}

impl NodeAccess for NodeHandle {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.with(|nic| act(nic));
    }

    fn try_act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let acted = self.shared.try_with_nic(self.node, |nic| act(nic));
        if acted.is_some() {
            self.shared.kick();
        }
        acted.is_some()
    }

    fn now(&self) -> Instant {
        self.shared.time()
    }
}

#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod topology_tests;
