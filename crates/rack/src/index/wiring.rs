//! What setting an index up needs of a rack, whichever kind that is.

use super::IndexSetUpError;
use super::network::Controlled;
use crate::{EmbeddedRack, SimulatedRack};
use rackweave_base::{Memory, NodeId, Qpn};
use rackweave_controller::LaneError;
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::Verbs;

/// What setting up needs of a rack.
pub(super) trait Wiring: Controlled {
    fn arena(&self) -> Memory;
    /// False if the node is not there; then `act` is not called.
    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool;
    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError>;
}

impl Wiring for &EmbeddedRack {
    fn arena(&self) -> Memory {
        self.memory().clone()
    }

    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let there = usize::from(node.0) < self.config().node.len();
        if there {
            self.node(node).with(|nic| act(nic));
        }
        there
    }

    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }
}

impl Wiring for SimulatedRack {
    fn arena(&self) -> Memory {
        self.memory().clone()
    }

    fn on_node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        match self.nic_mut(node) {
            Some(nic) => {
                act(nic);
                true
            }
            None => false,
        }
    }

    fn join(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        self.connect(a, b, attributes)
    }
}

/// Acts on a node that must be there.
pub(super) fn on_node<R>(
    rack: &mut impl Wiring,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> Result<R, IndexSetUpError>,
) -> Result<R, IndexSetUpError> {
    let (mut act, mut result) = (Some(act), None);
    rack.on_node(node, &mut |verbs| {
        result = act.take().map(|act| act(verbs));
    });
    result.unwrap_or(Err(IndexSetUpError::NoNode(node)))
}
