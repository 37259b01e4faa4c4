//! The addresses of the exchanges of this process.

use crate::Rack;
use crate::rack::Agent;
use rackweave_base::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;

use super::held;

/// Asks for the address of the exchange of a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AddressRequest(pub NodeId);

/// Why there is no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the node has no exchange")]
pub(crate) struct NoExchange;

/// The agent of a process.
#[derive(Debug, Default)]
pub(crate) struct ExchangeAgent {
    addresses: Mutex<BTreeMap<NodeId, SocketAddr>>,
}

impl ExchangeAgent {
    /// Adds a node's address. False: it has one.
    pub fn add(&self, node: NodeId, address: SocketAddr) -> bool {
        let mut addresses = held(&self.addresses);
        let is_new = !addresses.contains_key(&node);
        addresses.entry(node).or_insert(address);
        is_new
    }

    pub fn remove(&self, node: NodeId) {
        held(&self.addresses).remove(&node);
    }
}

impl Agent for ExchangeAgent {
    type Request = AddressRequest;
    type Reply = SocketAddr;
    type Error = NoExchange;

    const NAME: &'static str = "exchange";

    fn is_first(_request: &AddressRequest) -> bool {
        true
    }

    fn act(
        &self,
        _rack: &Rack,
        _user: &str,
        AddressRequest(node): AddressRequest,
    ) -> Result<SocketAddr, NoExchange> {
        held(&self.addresses).get(&node).copied().ok_or(NoExchange)
    }

    // Nobody has anything here that outlives a request.
    fn users(&self, _users: &mut BTreeSet<String>) {}

    fn forget(&self, _rack: &Rack, _user: &str) {}

    fn remove_others(&self, _rack: &Rack) {}
}
