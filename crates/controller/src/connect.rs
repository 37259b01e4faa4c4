//! Connections from node to node, through the forwarding switch.

use crate::{Fabric, LaneError, Site};
use rackweave_base::{Duration, NodeId, Psn, Qpn};
use rackweave_verbs::{Access, Mtu, Peer, QpModify, ReceiveSide, SendSide};
use serde::{Deserialize, Serialize};

/// The attributes that both ends of a connection share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PairAttributes {
    /// The path MTU.
    pub mtu: Mtu,
    /// What the peer may do.
    pub access: Access,
    /// READs and atomics in flight each way.
    pub reads_in_flight_max: u8,
    /// How long to wait for an acknowledgement.
    pub timeout: Duration,
    /// Maximum retransmissions.
    pub retries: u8,
    /// Maximum retransmissions to a receiver that is not ready.
    pub rnr_retries: u8,
    /// The delay that a receiver that is not ready requests.
    pub rnr_wait: Duration,
}

impl Default for PairAttributes {
    fn default() -> Self {
        Self {
            mtu: Mtu::B4096,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC,
            reads_in_flight_max: 16,
            timeout: Duration::from_millis(67),
            retries: 7,
            rnr_retries: 6,
            rnr_wait: Duration::from_micros(10),
        }
    }
}

impl PairAttributes {
    /// The transitions that connect a queue pair in state Reset to `peer`, whose first request has
    /// `peer_psn`; its own first one has `own_psn`.
    pub fn steps(&self, peer: Peer, own_psn: Psn, peer_psn: Psn) -> [QpModify; 3] {
        [
            QpModify::Init,
            QpModify::ReadyToReceive(ReceiveSide {
                peer,
                psn: peer_psn,
                mtu: self.mtu,
                access: self.access,
                reads_in_flight_max: self.reads_in_flight_max,
                rnr_wait: self.rnr_wait,
            }),
            QpModify::ReadyToSend(SendSide {
                psn: own_psn,
                timeout: self.timeout,
                retries: self.retries,
                rnr_retries: self.rnr_retries,
                reads_in_flight_max: self.reads_in_flight_max,
            }),
        ]
    }
}

impl Fabric {
    /// Connects two queue pairs that are in state Reset; afterwards both are ready to send.
    ///
    /// # Errors
    /// If a node is unknown or dead, or refuses a step.
    pub fn connect_pair(
        &self,
        site: &mut dyn Site,
        (a, a_qpn): (NodeId, Qpn),
        (b, b_qpn): (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<(), LaneError> {
        let (a_psn, b_psn) = (self.random_psn(), self.random_psn());
        let nodes = site.nodes();
        let peer = |node: NodeId, qpn: Qpn| {
            nodes
                .iter()
                .find(|(id, _)| *id == node)
                .map(|(_, address)| Peer {
                    mac: address.mac,
                    ip: address.ip,
                    qpn,
                })
                .ok_or(LaneError::NoNode(node))
        };
        let ends = [
            (a, a_qpn, peer(b, b_qpn)?, a_psn, b_psn),
            (b, b_qpn, peer(a, a_qpn)?, b_psn, a_psn),
        ];
        for (node, qpn, peer, own_psn, peer_psn) in ends {
            let steps = attributes.steps(peer, own_psn, peer_psn);
            let mut result = Err(LaneError::NoNode(node));
            site.node(node, &mut |verbs| {
                result = steps
                    .iter()
                    .try_for_each(|&step| verbs.modify_qp(qpn, step))
                    .map_err(|error| LaneError::Modify { node, error });
            });
            result?;
        }
        Ok(())
    }
}
