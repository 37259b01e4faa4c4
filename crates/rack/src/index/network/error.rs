//! Errors of loading a tree into the switches.

use rackweave_base::NodeId;
use rackweave_controller::index::{IndexLoadError, PlanError};
use rackweave_endpoint::index::EndpointId;

/// Why a tree was not loaded into the switches, or a client's queue pair was not added.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IndexNetworkError {
    /// No switch of the rack runs the program.
    #[error(
        "no switch of this rack holds an index; set switch.index_queries, index_servers and \
         index_fat_ranges"
    )]
    NoProgram,
    /// The index has not been opened to the network.
    #[error("the index is not in the network; open it first")]
    NotOpen,
    /// Tree nodes do not fit one packet.
    #[error(
        "{endpoint} has tree nodes of {node} bytes, and packets carry {mtu}; a query is answered \
         by one packet: take smaller tree nodes or a larger MTU"
    )]
    NodeSize {
        /// The endpoint of the tree.
        endpoint: EndpointId,
        /// Bytes of a tree node.
        node: usize,
        /// Bytes of a packet's payload.
        mtu: u32,
    },
    /// A load is in progress.
    #[error("the switches are being loaded; end that first")]
    Loading,
    /// There is no such node.
    #[error("{0:?} is not in the rack")]
    NoNode(NodeId),
    /// No plan can be made for these trees.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The controller refused.
    #[error(transparent)]
    Load(#[from] IndexLoadError),
}
