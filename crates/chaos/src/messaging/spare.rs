//! The free resources of a NIC: what connections leave behind uses up some of them.

use rackweave_base::{Block, NodeId};
use rackweave_rack::SimulatedRack;
use rackweave_rack::testing::SimulatedMachines;
use rackweave_verbs::{Access, QpCapabilities, Verbs};

/// Objects that can still be created at a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Spare {
    queue_pairs: usize,
    completion_queues: usize,
    regions: usize,
}

impl Spare {
    /// The free resources of a node, found by using them up, with `block` in all regions; zero for
    /// a crashed node.
    pub fn of(rack: &mut SimulatedRack, node: NodeId, block: &Block) -> Self {
        let Some(mut nic) = rack.nic_mut(node) else {
            return Self::default();
        };
        let pd = nic.create_pd();
        let mut spare = Self::default();
        let mut queues = Vec::new();
        while let Ok(cq) = nic.create_cq(1) {
            queues.push(cq);
        }
        spare.completion_queues = queues.len();
        let mut pairs = Vec::new();
        if let Some(&cq) = queues.first() {
            let capabilities = QpCapabilities {
                send_max: 1,
                receive_max: 1,
                ..QpCapabilities::default()
            };
            while let Ok(qpn) = nic.create_qp(pd, cq, cq, capabilities) {
                pairs.push(qpn);
            }
        }
        spare.queue_pairs = pairs.len();
        let mut regions = Vec::new();
        while let Ok(region) = nic.register(pd, block.clone(), Access::empty()) {
            regions.push(region);
        }
        spare.regions = regions.len();
        // These objects were just created and have no other user.
        for qpn in pairs {
            let _ = nic.destroy_qp(qpn);
        }
        for cq in queues {
            let _ = nic.destroy_cq(cq);
        }
        for region in &regions {
            nic.deregister(region);
        }
        spare
    }
}
