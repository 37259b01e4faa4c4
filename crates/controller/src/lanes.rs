//! Lanes: queue pairs between the switch and nodes.
//!
//! The node's end is an ordinary queue pair whose peer is the switch. The switch's end is an entry
//! in its tables. A number of the switch's queue pairs is never used twice in a row, so that
//! packets of an old connection do not match a new one. All lanes end at switch 0; other switches
//! forward their packets.

mod registry;

pub(crate) use registry::{LaneRegistry, LaneState};

use crate::unanswered::AskError;
use crate::{Fabric, NodeAddress, Site};
use rackweave_base::{Duration, NodeId, Psn, Qpn};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::{Lane, LaneId, LaneKind};
use rackweave_verbs::{
    Access, CqError, CqId, ModifyError, Mtu, PdId, Peer, QpCapabilities, QpError, QpModify,
    ReceiveSide, SendSide,
};
use rackweave_wire::{Ecn, Ethernet, Ipv4, Udp};
use serde::{Deserialize, Serialize};

/// Why a lane could not be connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum LaneError {
    /// The switch has too few adjacent free lanes.
    #[error(
        "the switch has {free} of {all} lanes left, {asked} more are needed; raise switch.lanes"
    )]
    NoLanes {
        /// Lanes requested.
        asked: u16,
        /// Lanes free.
        free: usize,
        /// Lanes in total.
        all: usize,
    },
    /// The node does not exist or is dead.
    #[error("{0:?} does not exist or does not answer")]
    NoNode(NodeId),
    /// The node could not make the queue pair.
    #[error("{node:?}: {error}")]
    Qp {
        /// The node.
        node: NodeId,
        /// The cause.
        error: QpError,
    },
    /// The node could not make a completion queue.
    #[error("{node:?}: {error}")]
    Cq {
        /// The node.
        node: NodeId,
        /// The cause.
        error: CqError,
    },
    /// The node could not connect the queue pair.
    #[error("{node:?}: {error}")]
    Modify {
        /// The node.
        node: NodeId,
        /// The cause.
        error: ModifyError,
    },
    /// A table of the switch is full.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The controller was not reached.
    #[error(transparent)]
    Controller(#[from] AskError),
}

/// A connected lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Connected {
    /// Its number in the switch.
    pub lane: LaneId,
    /// The switch's queue pair.
    pub switch_qpn: Qpn,
    /// The node at the other end.
    pub node: NodeId,
    /// The node's queue pair.
    pub node_qpn: Qpn,
    /// Whether the queue pair belongs to another owner and stays when the lane is removed.
    pub is_lent: bool,
}

/// The specification of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Its kind.
    pub kind: LaneKind,
    /// What the switch may do at the node.
    pub access: Access,
    /// The path MTU.
    pub mtu: Mtu,
    /// The first PSN of the switch.
    pub psn: Psn,
    /// A queue pair that the node already has.
    pub qpn: Option<Qpn>,
    /// READs in flight, either way.
    pub reads: u8,
    /// How long the node's end waits for an acknowledgement.
    pub timeout: Duration,
}

/// Timeout of the node's end of a lane on which it hardly ever sends: only doorbells.
pub(crate) const PASSIVE_TIMEOUT: Duration = Duration::from_millis(100);

impl Fabric {
    /// The protection domain of a node's rings, and the completion queue of its lanes.
    pub(crate) fn home(
        &self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(PdId, CqId), LaneError> {
        let place = self.lanes.home(node);
        let mut place = place.lock().expect("no holder panics");
        if let Some(home) = *place {
            return Ok(home);
        }
        let mut made = Err(LaneError::NoNode(node));
        site.node(node, &mut |verbs| {
            let pd = verbs.create_pd();
            made = verbs
                .create_cq(16)
                .map(|cq| (pd, cq))
                .map_err(|error| LaneError::Cq { node, error });
        });
        *place = Some(made?);
        made
    }

    /// A PSN that cannot be guessed.
    pub(crate) fn random_psn(&self) -> Psn {
        Psn::new(self.keys().next_u32())
    }

    /// Connects `lane` to a new queue pair on `node`, or to an existing one.
    pub(crate) fn connect_lane(
        &self,
        site: &mut dyn Site,
        lane: LaneId,
        (node, address): (NodeId, NodeAddress),
        wanted: Wanted,
    ) -> Result<Connected, LaneError> {
        let towards = site.topology().port_towards(0, node);
        let port = towards.ok_or(LaneError::NoNode(node))?;
        let (pd, cq) = self.home(site, node)?;
        let Wanted { kind, psn, mtu, .. } = wanted;
        let switch_qpn = self.lanes.qpn(lane);
        let peer = Peer {
            mac: self.switch.mac,
            ip: self.switch.ip,
            qpn: switch_qpn,
        };
        let node_qpn = make_pair(site, node, (pd, cq), peer, &wanted)?;
        let entry = Lane {
            kind,
            port,
            ethernet: Ethernet {
                target: address.mac,
                source: self.switch.mac,
                vlan: None,
            },
            ipv4: Ipv4 {
                dscp: 0,
                ecn: Ecn::Capable0,
                identification: 0,
                dont_fragment: true,
                ttl: 64,
                source: self.switch.ip,
                target: address.ip,
            },
            udp: Udp {
                source_port: 0xc000 | (lane.0 & 0x3fff),
                checksum: 0,
            },
            peer_qpn: node_qpn,
            mtu: mtu.bytes(),
        };
        let mut entered = Ok(());
        site.switch(&mut |_, switch| {
            entered = switch
                .program_mut()
                .engine
                .connect(lane, switch_qpn, psn, entry);
        });
        if let Err(error) = entered {
            if wanted.qpn.is_none() {
                destroy_qp(site, node, node_qpn);
            }
            return Err(error.into());
        }
        Ok(Connected {
            lane,
            switch_qpn,
            node,
            node_qpn,
            is_lent: wanted.qpn.is_some(),
        })
    }

    /// Reconnects a lane at both ends, with its queue pair or another: packets from before cannot
    /// match the new connection.
    pub(crate) fn relink_lane(
        &self,
        site: &mut dyn Site,
        connected: &Connected,
        address: NodeAddress,
        wanted: Wanted,
    ) -> Result<Connected, LaneError> {
        site.switch(&mut |_, switch: &mut Switch<Pipeline>| {
            let engine = &mut switch.program_mut().engine;
            engine.disconnect(connected.lane, connected.switch_qpn);
        });
        self.lanes.renew();
        let node = (connected.node, address);
        let wanted = Wanted {
            qpn: wanted.qpn.or(Some(connected.node_qpn)),
            ..wanted
        };
        let linked = self.connect_lane(site, connected.lane, node, wanted)?;
        Ok(Connected {
            is_lent: connected.is_lent,
            ..linked
        })
    }

    /// Disconnects a lane at both ends. A dead node needs no action.
    pub(crate) fn disconnect_lane(&self, site: &mut dyn Site, connected: &Connected) {
        if !connected.is_lent {
            destroy_qp(site, connected.node, connected.node_qpn);
        }
        site.switch(&mut |_, switch: &mut Switch<Pipeline>| {
            switch
                .program_mut()
                .engine
                .disconnect(connected.lane, connected.switch_qpn);
        });
        self.lanes.give_back(connected.lane);
    }
}

/// Destroys a queue pair. It is unknown if the node has restarted meanwhile; then there is nothing
/// to remove.
pub(crate) fn destroy_qp(site: &mut dyn Site, node: NodeId, qpn: Qpn) {
    site.node(node, &mut |verbs| _ = verbs.destroy_qp(qpn));
}

/// Makes the queue pair of a lane at its node, or takes the given one, and connects it.
fn make_pair(
    site: &mut dyn Site,
    node: NodeId,
    (pd, cq): (PdId, CqId),
    peer: Peer,
    wanted: &Wanted,
) -> Result<Qpn, LaneError> {
    let mut made = Err(LaneError::NoNode(node));
    site.node(node, &mut |verbs| {
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        made = match wanted.qpn {
            Some(qpn) => Ok(qpn),
            None => verbs
                .create_qp(pd, cq, cq, capabilities)
                .map_err(|error| LaneError::Qp { node, error }),
        };
        let Ok(qpn) = made else { return };
        let reset = wanted.qpn.map(|_| QpModify::Reset);
        let others = lane_modifications(peer, wanted);
        for modify in reset.into_iter().chain(others) {
            if let Err(error) = verbs.modify_qp(qpn, modify) {
                made = Err(LaneError::Modify { node, error });
                if wanted.qpn.is_none() {
                    let _ = verbs.destroy_qp(qpn);
                }
                return;
            }
        }
        if wanted.kind == LaneKind::Source {
            // The engine keeps the required promise: what it reads is freed only after the target
            // has acknowledged it.
            verbs.read_by_reference(qpn);
        }
    });
    made
}

/// From Reset to ReadyToSend. The node's requests begin with the same PSN as the switch's.
fn lane_modifications(peer: Peer, wanted: &Wanted) -> [QpModify; 3] {
    let Wanted {
        psn, mtu, access, ..
    } = *wanted;
    [
        QpModify::Init,
        QpModify::ReadyToReceive(ReceiveSide {
            peer,
            psn,
            mtu,
            access,
            reads_in_flight_max: wanted.reads,
            rnr_wait: Duration::from_micros(10),
        }),
        QpModify::ReadyToSend(SendSide {
            psn,
            timeout: wanted.timeout,
            retries: 7,
            rnr_retries: 6,
            reads_in_flight_max: wanted.reads,
        }),
    ]
}
