//! The page directory of a rack.

use super::Rack;
use crate::build;
use crate::pages::{self, PageEnds, TargetOptions};
use rackweave_base::NodeId;
use rackweave_controller::ask::{
    AcceptLoss, CreatePages, DemotePage, LostPages, OpenStoreTo, PageNodeOf, PromotePage,
    RejoinPages,
};
use rackweave_controller::{LostPage, PageNode, PageSetUpError, PageSpec, PageStoreSpec};
use rackweave_target::{Backend, TargetError};
use rackweave_wire::fabric::page::PageId;

impl Rack {
    /// Puts an NVMe target with these namespaces behind the NIC of a node that is here, in place of
    /// one that ended. One that is there goes, as if its process had been killed.
    ///
    /// # Errors
    /// If a namespace makes no sense or the node lacks room.
    pub fn add_target(
        &self,
        node: NodeId,
        options: TargetOptions,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<(), TargetError> {
        let config = options.config(self.config());
        self.backend().set_target(node, config, namespaces)
    }

    /// What a page directory of these nodes and stores is with this rack's settings.
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

    /// Sets a page directory up, for [`PageService`](crate::services::PageService) alone.
    pub(crate) fn create_pages(&self, spec: PageSpec) -> Result<(), PageSetUpError> {
        self.ask(CreatePages { spec })
    }

    /// The buffer frames of a node that is here, and the channels of its workers; nothing if it has
    /// none, or is dead.
    pub fn page_ends(&self, node: NodeId) -> Option<PageEnds> {
        let (pool, channels) = self.ask(PageNodeOf { node })?;
        let alarm = self.backend().page_alarm();
        pages::ends(pool, &channels, &alarm, |rkey| {
            self.backend().block(node, rkey)
        })
    }

    /// Brings a node that was taken for dead back to the page directory, with empty buffer frames:
    /// it needs a new pool, in what [`Rack::page_ends`] gives from now on.
    ///
    /// # Errors
    /// If it lacks room.
    pub(crate) fn rejoin_pages(&self, node: NodeId) -> Result<(), PageSetUpError> {
        self.ask(RejoinPages { node })
    }

    /// Opens a store of pages to these nodes and closes it to all others. False if there is no such
    /// store.
    pub fn open_store_to(&self, store: u8, nodes: &[NodeId]) -> bool {
        let nodes = nodes.to_vec();
        self.ask(OpenStoreTo { store, nodes })
    }

    /// Pages whose newest version went down with a node.
    pub fn lost_pages(&self) -> Vec<LostPage> {
        self.ask(LostPages {})
    }

    /// Goes back to the version of a lost page that is at home. False if that cannot be: see
    /// [`rackweave_controller::Controller::accept_loss`].
    pub fn accept_loss(&self, page: PageId) -> bool {
        self.ask(AcceptLoss { page })
    }

    /// Has the switch index a page. False if it has no room.
    pub fn promote(&self, page: PageId) -> bool {
        self.ask(PromotePage { page })
    }

    /// Has the memory server have the entry of a page.
    pub fn demote(&self, page: PageId) -> bool {
        self.ask(DemotePage { page })
    }
}
