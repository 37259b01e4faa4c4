//! The page directory of a rack.

use super::Rack;
use crate::build;
use crate::pages::{self, PageEnds, TargetOptions};
use rackweave_base::NodeId;
use rackweave_controller::ask::{
    AcceptLoss, AskError, CreatePages, DemotePage, LostPages, OpenStoreTo, PageNodeOf, PromotePage,
    RejoinPages,
};
use rackweave_controller::{LostPage, PageNode, PageSetUpError, PageSpec, PageStoreSpec};
use rackweave_target::{Backend, TargetError};
use rackweave_wire::fabric::page::PageId;

impl Rack {
    /// Puts an NVMe target with these namespaces behind the NIC of a node that is here, in place of
    /// one that has ended. A running one is removed, as if its process had been killed.
    ///
    /// # Errors
    /// If a namespace is invalid or the node lacks capacity.
    pub fn add_target(
        &self,
        node: NodeId,
        options: TargetOptions,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<(), TargetError> {
        let config = options.config(self.config());
        self.backend().set_target(node, config, namespaces)
    }

    /// The specification of a page directory of these nodes and stores, with this rack's settings.
    pub(crate) fn page_spec(
        &self,
        nodes: Vec<PageNode>,
        stores: Vec<PageStoreSpec>,
        fallback: Option<NodeId>,
    ) -> PageSpec {
        let (config, kind) = (self.config(), self.backend().kind());
        let timeout = build::pipeline_config(config, kind).engine.timeout;
        pages::spec(config, timeout, nodes, stores, fallback)
    }

    /// Sets up a page directory; used by [`PageService`](crate::services::PageService) alone.
    pub(crate) fn create_pages(&self, spec: PageSpec) -> Result<(), PageSetUpError> {
        self.ask(CreatePages { spec })
    }

    /// The buffer frames of a node that is here, and the channels of its workers; `None` if it has
    /// none, or is dead.
    pub fn page_ends(&self, node: NodeId) -> Option<PageEnds> {
        let (pool, channels) = self.ask(PageNodeOf { node })?;
        let alarm = self.backend().page_alarm();
        pages::ends(pool, &channels, &alarm, |rkey| {
            self.backend().block(node, rkey)
        })
    }

    /// Brings a node that was declared dead back to the page directory, with empty buffer frames:
    /// it needs a new pool, from what [`Rack::page_ends`] returns from now on.
    ///
    /// # Errors
    /// If it lacks capacity.
    pub(crate) fn rejoin_pages(&self, node: NodeId) -> Result<(), PageSetUpError> {
        self.ask(RejoinPages { node })
    }

    /// Opens a store of pages to these nodes and closes it to all others. Returns false if there is
    /// no such store.
    pub fn open_store_to(&self, store: u8, nodes: &[NodeId]) -> bool {
        let nodes = nodes.to_vec();
        self.ask(OpenStoreTo { store, nodes })
    }

    /// Pages whose newest version was lost with a node.
    ///
    /// # Errors
    /// If the controller does not answer.
    pub fn lost_pages(&self) -> Result<Vec<LostPage>, AskError> {
        self.ask(LostPages {})
    }

    /// Reverts a lost page to its version in storage. Returns false if that is not possible: see
    /// [`rackweave_controller::Controller::accept_loss`].
    pub fn accept_loss(&self, page: PageId) -> bool {
        self.ask(AcceptLoss { page })
    }

    /// Moves the entry of a page to the switch. Returns false if the switch has no capacity.
    pub fn promote(&self, page: PageId) -> bool {
        self.ask(PromotePage { page })
    }

    /// Moves the entry of a page to the memory server.
    pub fn demote(&self, page: PageId) -> bool {
        self.ask(DemotePage { page })
    }
}
