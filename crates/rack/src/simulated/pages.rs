//! The page directory of a simulated rack.

use super::SimulatedRack;
use super::target::{SharedTarget, TargetActor};
use crate::build::{self, Kind};
use crate::pages::{self, PageEnds, TargetOptions};
use rackweave_base::NodeId;
use rackweave_controller::{LostPage, PageNode, PageSetUpError, PageSpec, PageStoreSpec};
use rackweave_target::{Backend, Target, TargetError};
use rackweave_wire::fabric::page::PageId;

impl SimulatedRack {
    /// Puts an NVMe target with these namespaces behind a node's NIC, on a core of its own. One
    /// that is there goes, as if its process had been killed.
    ///
    /// # Errors
    /// If the node is dead, a namespace makes no sense, or the node lacks room.
    pub fn add_target(
        &mut self,
        node: NodeId,
        options: TargetOptions,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<(), TargetError> {
        self.remove_target(node);
        let config = options.config(&self.config);
        let memory = self.memory.clone();
        let Some(nic) = self.world.nic_mut(node) else {
            return Ok(());
        };
        let target = SharedTarget::new(Target::new(config, nic, &memory, namespaces)?);
        self.targets[usize::from(node.0)] = Some(target.clone());
        self.world.spawn_server(node, Box::new(TargetActor(target)));
        Ok(())
    }

    /// Kills the target on a node: its queues break, what it was doing is not finished. The page
    /// directory learns of it at once.
    pub fn remove_target(&mut self, node: NodeId) {
        let stores: Vec<u8> = self.stores_of(node);
        for store in stores {
            self.control(|controller, site| controller.page_target_died(site, store));
        }
        let target = self.targets[usize::from(node.0)].take();
        let target = target.and_then(|target| target.lock().take());
        if let (Some(target), Some(nic)) = (target, self.world.nic_mut(node)) {
            target.destroy(nic);
        }
        self.wake_all();
    }

    fn stores_of(&self, node: NodeId) -> Vec<u8> {
        self.controller.page_stores_of(node)
    }

    /// Connects the stores of a target that was put in place of another.
    ///
    /// # Errors
    /// If the target does not take its queues.
    pub fn reconnect_target(&mut self, node: NodeId) -> Result<(), PageSetUpError> {
        let stores = self.stores_of(node);
        let connected = stores.into_iter().try_for_each(|store| {
            self.control(|controller, site| controller.page_target_returned(site, store))
        });
        self.wake_all();
        connected
    }

    /// What a page directory of these nodes and stores is with this rack's settings.
    pub fn page_spec(
        &self,
        nodes: Vec<PageNode>,
        stores: Vec<PageStoreSpec>,
        fallback: Option<NodeId>,
    ) -> PageSpec {
        let timeout = build::pipeline_config(&self.config, Kind::Simulated)
            .engine
            .timeout;
        pages::spec(&self.config, timeout, nodes, stores, fallback)
    }

    /// Sets a page directory up.
    ///
    /// # Errors
    /// If the specification makes no sense, or the switch, a node or a target lacks room.
    pub fn create_pages(&mut self, spec: PageSpec) -> Result<(), PageSetUpError> {
        let made = self.control(|controller, site| controller.create_pages(site, spec));
        self.wake_all();
        made
    }

    /// A node's buffer frames and the channels of its workers; nothing if it is dead.
    pub fn page_ends(&self, node: NodeId) -> Option<PageEnds> {
        pages::ends(&self.controller, node, &self.page_alarm, |node, rkey| {
            self.regions.block(node, rkey)
        })
    }

    /// Brings a node that was revived back to the page directory, with empty buffer frames.
    ///
    /// # Errors
    /// If it lacks room.
    pub fn rejoin_pages(&mut self, node: NodeId) -> Result<(), PageSetUpError> {
        let joined = self.control(|controller, site| controller.page_node_returned(site, node));
        self.wake_all();
        joined
    }

    /// Takes a node for dead that may be alive: what it does from now on counts for nothing.
    pub fn declare_dead(&mut self, node: NodeId) {
        self.control(|controller, site| controller.node_died(site, node));
        self.wake_all();
    }

    /// Opens a store of pages to these nodes and closes it to all others. False if there is no such
    /// store.
    pub fn open_store_to(&mut self, store: u8, nodes: &[NodeId]) -> bool {
        let opened = self.control(|controller, site| controller.open_store_to(site, store, nodes));
        self.wake_all();
        opened
    }

    /// Pages whose newest version went down with a node.
    pub fn lost_pages(&self) -> &[LostPage] {
        self.controller.lost_pages()
    }

    /// Goes back to the version of a lost page that is at home. False if that cannot be: see
    /// [`rackweave_controller::Controller::accept_loss`].
    pub fn accept_loss(&mut self, page: PageId) -> bool {
        let accepted = self.control(|controller, site| controller.accept_loss(site, page));
        self.wake_all();
        accepted
    }

    /// Has the switch index a page.
    pub fn promote(&mut self, page: PageId) -> bool {
        self.control(|controller, site| controller.promote(site, page))
    }

    /// Has the memory server have the entry of a page.
    pub fn demote(&mut self, page: PageId) -> bool {
        self.control(|controller, site| controller.demote(site, page))
    }
}
