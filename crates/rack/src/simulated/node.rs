//! The access of a blocking program to a node of a simulated rack.

use super::World;
use core::cell::RefCell;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_nic::Nic;
use rackweave_verbs::{NodeAccess, Progress, Verbs};
use send_wrapper::SendWrapper;
use std::sync::Arc;

/// Minimum and maximum time that passes while no event happens: a thread that waits for a moment at
/// which nothing is due would otherwise wait forever.
const REST: Duration = Duration::from_micros(1);
const REST_MAX: Duration = Duration::from_millis(1);

/// A node, whose time passes while a thread waits there.
pub(super) struct SimulatedNode {
    world: Arc<World>,
    node: NodeId,
    /// The NIC seen by a program that outlives its node: a new one without former state that no
    /// packet reaches.
    orphan: SendWrapper<RefCell<Option<Nic>>>,
}

impl SimulatedNode {
    pub fn new(world: Arc<World>, node: NodeId) -> Self {
        let orphan = SendWrapper::new(RefCell::new(None));
        Self {
            world,
            node,
            orphan,
        }
    }
}

impl Progress for SimulatedNode {
    /// Executes the next event.
    fn drive(&self) -> bool {
        self.world.simulation.borrow_mut().next_event()
    }

    fn relax(&self, idle_rounds: u32) {
        let rest = Duration::from_nanos(REST.as_nanos() << idle_rounds.min(10)).min(REST_MAX);
        let mut simulation = self.world.simulation.borrow_mut();
        let until = simulation.world.now() + rest;
        simulation.run(until);
        // Even if no event will ever happen, time passes.
        simulation.world.pass(until);
    }
}

impl NodeAccess for SimulatedNode {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        let mut simulation = self.world.simulation.borrow_mut();
        if let Some(nic) = simulation.world.nic_mut(self.node) {
            act(nic);
            simulation.world.kick();
            return;
        }
        let mut orphan = self.orphan.borrow_mut();
        act(orphan.get_or_insert_with(|| simulation.new_nic(self.node)));
    }

    fn now(&self) -> Instant {
        self.world.simulation.borrow().world.now()
    }
}
