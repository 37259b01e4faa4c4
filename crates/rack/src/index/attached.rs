//! Users of an index at a node, with their resources at the endpoints.

use super::IndexSetUpError;
use super::running::{Accepted, Purpose};
use core::ops::{Deref, DerefMut};
use rackweave_base::{Memory, NodeId};
use rackweave_endpoint::index::{
    Access, ClientEnds, Coordinator, EndpointId, IndexClient, RemoteTree,
};
use rackweave_verbs::{PdId, Verbs};

/// Something that is connected to the endpoints of an index.
pub trait Attach {
    /// The purpose of its connections.
    fn purpose(&self) -> Purpose;

    /// Makes the queue pairs to an endpoint, in place of former ones.
    ///
    /// # Errors
    /// If the memory or NIC lacks capacity.
    fn attach(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        endpoint: EndpointId,
        remote: RemoteTree,
    ) -> Result<ClientEnds, IndexSetUpError>;

    /// Frees all its resources.
    fn close(self, verbs: &mut dyn Verbs);
}

impl Attach for IndexClient {
    fn purpose(&self) -> Purpose {
        match self.config().access {
            Access::Rpc => Purpose::Requests,
            Access::OneSided => Purpose::Reads,
            Access::InNetwork => Purpose::LedReads,
        }
    }

    fn attach(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        endpoint: EndpointId,
        remote: RemoteTree,
    ) -> Result<ClientEnds, IndexSetUpError> {
        Ok(IndexClient::attach(
            self, verbs, memory, pd, endpoint, remote,
        )?)
    }

    fn close(self, verbs: &mut dyn Verbs) {
        IndexClient::close(self, verbs);
    }
}

impl Attach for Coordinator {
    fn purpose(&self) -> Purpose {
        Purpose::Coordination
    }

    fn attach(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        endpoint: EndpointId,
        _remote: RemoteTree,
    ) -> Result<ClientEnds, IndexSetUpError> {
        let rpc = Coordinator::attach(self, verbs, memory, pd, endpoint)?;
        Ok(ClientEnds { rpc, reader: None })
    }

    fn close(self, verbs: &mut dyn Verbs) {
        Coordinator::close(self, verbs);
    }
}

/// A client or coordinator at a node, polled by its holder. Dropping it does not free its resources
/// at the endpoints: [`crate::services::IndexService::release`] does.
#[derive(Debug)]
pub struct Attached<T> {
    pub(super) machine: T,
    pub(super) node: NodeId,
    pub(super) pd: PdId,
    /// By endpoint.
    pub(super) ends: Vec<Option<Accepted>>,
}

impl<T> Attached<T> {
    /// Its node.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

impl<T> Deref for Attached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.machine
    }
}

impl<T> DerefMut for Attached<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.machine
    }
}
