//! The nodes' queue pairs of lanes, as requests that are data: a node connects all those of a batch
//! at once.

use super::{LaneError, Wanted};
use rackweave_base::{Duration, NodeId, Qpn};
use rackweave_switch::transfer::LaneKind;
use rackweave_verbs::{
    CqId, ModifyError, PdId, Peer, QpCapabilities, QpError, QpModify, ReceiveSide, SendSide, Verbs,
};
use serde::{Deserialize, Serialize};

/// A queue pair of a node that is to be connected to the switch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PairRequest {
    /// One that the node has; otherwise one is made.
    pub qpn: Option<Qpn>,
    /// The protection domain of one that is made.
    pub pd: PdId,
    /// Its completion queue.
    pub cq: CqId,
    /// The steps that connect it.
    pub steps: Vec<QpModify>,
    /// Whether its peer keeps what it reads from being freed.
    pub reads_by_reference: bool,
}

/// Why a node could not connect a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum PairError {
    /// It could not make it.
    #[error(transparent)]
    Make(QpError),
    /// It could not take a step.
    #[error(transparent)]
    Modify(ModifyError),
}

impl PairError {
    pub(super) fn of(self, node: NodeId) -> LaneError {
        match self {
            Self::Make(error) => LaneError::Qp { node, error },
            Self::Modify(error) => LaneError::Modify { node, error },
        }
    }
}

impl PairRequest {
    /// A queue pair for a lane. The node's requests begin with the same PSN as the switch's.
    pub(super) fn new((pd, cq): (PdId, CqId), peer: Peer, wanted: &Wanted) -> Self {
        let Wanted {
            psn, mtu, access, ..
        } = *wanted;
        let receive = ReceiveSide {
            peer,
            psn,
            mtu,
            access,
            reads_in_flight_max: wanted.reads,
            rnr_wait: Duration::from_micros(10),
        };
        let send = SendSide {
            psn,
            timeout: wanted.timeout,
            retries: 7,
            rnr_retries: 6,
            reads_in_flight_max: wanted.reads,
        };
        let connect = [
            QpModify::Init,
            QpModify::ReadyToReceive(receive),
            QpModify::ReadyToSend(send),
        ];
        let reset = wanted.qpn.map(|_| QpModify::Reset);
        Self {
            qpn: wanted.qpn,
            pd,
            cq,
            steps: reset.into_iter().chain(connect).collect(),
            // The engine keeps the required promise: what it reads is freed only after the target
            // has acknowledged it.
            reads_by_reference: wanted.kind == LaneKind::Source,
        }
    }

    /// Connects it at its node. A queue pair that cannot be connected is destroyed if it was made
    /// here.
    ///
    /// # Errors
    /// The node's.
    pub fn answer(&self, verbs: &mut dyn Verbs) -> Result<Qpn, PairError> {
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        let qpn = match self.qpn {
            Some(qpn) => qpn,
            None => {
                let made = verbs.create_qp(self.pd, self.cq, self.cq, capabilities);
                let qpn = made.map_err(PairError::Make)?;
                verbs.keep_to_switch(qpn);
                qpn
            }
        };
        let mut steps = self.steps.iter();
        if let Err(error) = steps.try_for_each(|&step| verbs.modify_qp(qpn, step)) {
            if self.qpn.is_none() {
                let _made_here = verbs.destroy_qp(qpn);
            }
            return Err(PairError::Modify(error));
        }
        if self.reads_by_reference {
            verbs.read_by_reference(qpn);
        }
        Ok(qpn)
    }
}
