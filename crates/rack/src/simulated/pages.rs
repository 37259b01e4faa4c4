//! The NVMe targets of a simulated rack.

use super::SimulatedRack;
use super::simulation::Simulation;
use super::target::{SharedTarget, TargetActor};
use rackweave_base::NodeId;
use rackweave_controller::PageSetUpError;
use rackweave_target::{Backend, Target, TargetConfig, TargetError};

impl SimulatedRack {
    /// Kills the target on a node: its queues break, its pending commands are not completed. The
    /// page directory is notified at once.
    pub fn remove_target(&mut self, node: NodeId) {
        self.get_mut().remove_target(node);
    }

    /// Connects the stores of a target that replaced another.
    ///
    /// # Errors
    /// If the target refuses its queues.
    pub fn reconnect_target(&mut self, node: NodeId) -> Result<(), PageSetUpError> {
        let mut simulation = self.get_mut();
        let stores = simulation.controller.page_stores_of(node);
        let connected = stores.into_iter().try_for_each(|store| {
            simulation.control(|controller, site| controller.page_target_returned(site, store))
        });
        simulation.wake_all();
        connected
    }
}

impl Simulation {
    /// Puts an NVMe target behind a node's NIC, on a core of its own.
    pub fn add_target(
        &mut self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<(), TargetError> {
        self.remove_target(node);
        let memory = self.memory.clone();
        let Some(nic) = self.world.nic_mut(node) else {
            return Ok(());
        };
        let target = SharedTarget::new(Target::new(config, nic, &memory, namespaces)?);
        self.targets[usize::from(node.0)] = Some(target.clone());
        self.world.spawn_server(node, Box::new(TargetActor(target)));
        Ok(())
    }

    fn remove_target(&mut self, node: NodeId) {
        for store in self.controller.page_stores_of(node) {
            self.control(|controller, site| controller.page_target_died(site, store));
        }
        let target = self.targets[usize::from(node.0)].take();
        let target = target.and_then(|target| target.lock().take());
        if let (Some(target), Some(nic)) = (target, self.world.nic_mut(node)) {
            target.destroy(nic);
        }
        self.wake_all();
    }
}
