//! All nodes and the switches in this process, in real time.
//!
//! No thread is required: waiting threads drive the rack, through [`rackweave_verbs::Progress`].
//! Driver threads help where there are cores for them, and sleep when nothing is due.

mod shared;
mod tasks;
mod threads;

use crate::build::{self, Kind, RackError};
use crate::config::RackConfig;
use crate::rack::{Backend, Rack};
use crate::statistics::{Observed, RackStatistics, by_name};
use crate::testing::{EmbeddedMachines, Faults, Taps};
use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use core::task::Waker;
use rackweave_base::{Block, Instant, KeyRng, Memory, NodeId, Rkey};
use rackweave_controller::Topology;
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_endpoint::page_store::NodeAccess;
use rackweave_nic::Nic;
use rackweave_programs::Pipeline;
use rackweave_switch::{Counters, Switch, SwitchConfig, Tap};
use rackweave_target::{Backend as Medium, Target, TargetConfig, TargetError};
use rackweave_verbs::{Progress, Verbs};
pub(crate) use shared::Shared;
use std::fmt;
use std::sync::Arc;
use threads::Drivers;

/// Idle rounds after which a thread that waits at a node drives all other nodes, too.
const ROUNDS_LEFT: u32 = 32;

/// A rack in this process. Clones are the same rack; as a [`Rack`] it can be used by services.
#[derive(Clone)]
pub struct EmbeddedRack {
    rack: Rack,
    running: Arc<Running>,
}

/// The running parts of the rack.
struct Running {
    shared: Arc<Shared>,
    drivers: Drivers,
    config: RackConfig,
    observed: Observed,
    identity: u64,
}

/// The access to a node.
struct EmbeddedNode {
    shared: Arc<Shared>,
    node: usize,
    has_drivers: bool,
}

impl EmbeddedRack {
    /// Builds and starts a rack.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn new(config: &RackConfig) -> Result<Self, RackError> {
        let parts = build::build(config, Kind::Embedded, SwitchConfig::default())?;
        let shared = Arc::new(Shared::new(config, parts)?);
        shared.install_hosts()?;
        let drivers = Drivers::start(&shared, config.driver_threads)?;
        let observed = Observed::new(config, shared.topology());
        let running = Arc::new(Running {
            shared,
            drivers,
            config: config.clone(),
            observed,
            // Zero would match any rack.
            identity: KeyRng::system().next_u64().max(1),
        });
        Ok(Self {
            rack: Rack::new(running.clone()),
            running,
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.running.shared
    }

    /// The object by which waiting threads drive the rack.
    pub fn progress(&self) -> Arc<dyn Progress> {
        self.shared().clone()
    }

    /// The switches and the places of nodes.
    pub fn topology(&self) -> &Topology {
        self.shared().topology()
    }

    /// The counters of switch 0.
    pub fn switch_counters(&self) -> Counters {
        self.shared()
            .with_switch(|switch| switch.counters().clone())
    }

    /// Bytes that the rack itself uses besides its regions: the current number, and the maximum by
    /// its configuration.
    pub fn bytes_overhead(&self) -> (usize, usize) {
        self.shared().bytes_overhead(self.config())
    }

    /// The number of running driver threads.
    pub fn driver_threads(&self) -> usize {
        self.running.drivers.count()
    }
}

impl Faults for EmbeddedRack {
    fn crash_node(&self, node: NodeId) {
        self.shared().crash(usize::from(node.0));
        self.shared()
            .control(|controller, site| controller.node_died(site, node));
    }

    fn restart_switch_at(&self, at: usize) -> Result<bool, RackError> {
        if !self.shared().restart_switch(at)? {
            return Ok(false);
        }
        self.shared().control(|controller, site| match at {
            0 => controller.switch_restarted(site),
            _ => controller.edge_switch_restarted(site, at),
        })?;
        self.shared().kick();
        Ok(true)
    }
}

impl Taps for EmbeddedRack {
    fn set_tap(&self, tap: Option<Box<dyn Tap>>) {
        self.shared().with_switch(|switch| switch.set_tap(tap));
    }
}

impl EmbeddedMachines for EmbeddedRack {
    fn with_nic<R>(&self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R {
        self.shared().with_nic(usize::from(node.0), act)
    }

    fn with_switch_at<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Switch<Pipeline>) -> R,
    ) -> Option<R> {
        let result = self.shared().with_switch_at(at, act);
        self.shared().kick();
        result
    }
}

impl Deref for EmbeddedRack {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        &self.rack
    }
}

impl From<EmbeddedRack> for Rack {
    fn from(embedded: EmbeddedRack) -> Self {
        embedded.rack
    }
}

impl Backend for Running {
    fn config(&self) -> &RackConfig {
        &self.config
    }

    fn kind(&self) -> Kind {
        Kind::Embedded
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    fn memory(&self) -> &Memory {
        self.shared.memory()
    }

    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>> {
        let at = usize::from(node.0);
        (at < self.config.node.len()).then(|| {
            Arc::new(EmbeddedNode {
                shared: self.shared.clone(),
                node: at,
                has_drivers: self.drivers.count() > 0,
            }) as Arc<dyn NodeAccess>
        })
    }

    fn now(&self) -> Instant {
        self.shared.time()
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.shared.is_alive(usize::from(node.0))
    }

    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.shared.regions.block(node, rkey)
    }

    fn page_alarm(&self) -> Arc<AtomicBool> {
        self.shared.page_alarm().clone()
    }

    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError> {
        let memory = self.shared.memory().clone();
        self.shared.set_target(usize::from(node.0), |nic| {
            Target::new(config, nic, &memory, namespaces)
        })
    }

    fn statistics(&self) -> RackStatistics {
        let (observed, mut site) = (&self.observed, &*self.shared);
        observed.ask_soon(|ask| {
            let asked = self
                .shared
                .try_control(|controller, site| ask(controller, site));
            asked.is_some()
        });
        let nic = |node: NodeId| {
            let of = |nic: &mut Nic| nic.counters().clone();
            let counters = self.shared.with_nic(usize::from(node.0), of);
            Some(by_name(counters.iter()))
        };
        observed.look(&mut site, nic)
    }

    fn ask(&self, request: Request) -> Result<Reply, AskError> {
        let reply = self.shared.control(|controller, site| {
            controller.handle_digests(site);
            request.answer(controller, site)
        });
        self.shared.kick();
        Ok(reply)
    }
}

impl fmt::Debug for EmbeddedRack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rack.fmt(f)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.drivers.stop(&self.shared);
    }
}

impl Progress for EmbeddedNode {
    fn drive(&self) -> bool {
        self.shared.drive_from(self.node)
    }

    fn relax(&self, idle_rounds: u32) {
        // The threads that other nodes were left to may be asleep, or be this thread.
        if idle_rounds < ROUNDS_LEFT || !self.shared.drive() {
            self.shared.rest(Some(self.node), idle_rounds);
        }
    }

    fn wake_later(&self, waker: &Waker) {
        if self.has_drivers {
            self.shared.tasks.register(waker);
            // A sleeping driver thread would sleep for too long.
            self.shared.kick();
        } else {
            self.relax(0);
            waker.wake_by_ref();
        }
    }
}

impl NodeAccess for EmbeddedNode {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.shared.with_nic(self.node, |nic| act(nic));
        self.shared.kick();
    }

    fn peek(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.shared.with_nic(self.node, |nic| act(nic));
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
mod cut_through_tests;
#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod sequencer_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod topology_tests;
