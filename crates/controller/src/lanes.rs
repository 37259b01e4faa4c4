//! Lanes: queue pairs between the switch and nodes.
//!
//! The node's end is an ordinary queue pair whose peer is the switch. The switch's end is an entry
//! in its tables. A number of the switch's queue pairs is never used twice in a row, so that
//! packets of an old connection do not match a new one. All lanes end at switch 0; other switches
//! forward their packets.

mod pairs;
mod registry;

pub use pairs::{PairError, PairRequest};
pub(crate) use registry::{LaneRegistry, LaneState};

use crate::unanswered::AskError;
use crate::{Fabric, NodeAddress, Site};
use rackweave_base::{Duration, NodeId, PortId, Psn, Qpn};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::{Lane, LaneId, LaneKind};
use rackweave_verbs::{Access, CqError, CqId, ModifyError, Mtu, PdId, Peer, QpError};
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

/// A lane that is to be connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLink {
    pub lane: LaneId,
    /// What it is connected to.
    pub old: Option<Connected>,
    pub wanted: Wanted,
}

impl LaneLink {
    /// What is wanted, with the queue pair that the node has already, if there is one.
    fn wanted(&self) -> Wanted {
        let old = self.old.map(|old| old.node_qpn);
        Wanted {
            qpn: self.wanted.qpn.or(old),
            ..self.wanted
        }
    }

    /// Whether the queue pair belongs to another owner.
    fn is_lent(&self) -> bool {
        let is_given = self.wanted.qpn.is_some();
        self.old.map_or(is_given, |old| old.is_lent)
    }
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
        node: (NodeId, NodeAddress),
        wanted: Wanted,
    ) -> Result<Connected, LaneError> {
        let link = LaneLink {
            lane,
            old: None,
            wanted,
        };
        Ok(self.link_lanes(site, node, &[link])?[0])
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
        let link = LaneLink {
            lane: connected.lane,
            old: Some(*connected),
            wanted,
        };
        Ok(self.link_lanes(site, (connected.node, address), &[link])?[0])
    }

    /// Connects or reconnects lanes to queue pairs of one node, which is asked once.
    ///
    /// # Errors
    /// The first error. Queue pairs that were made are destroyed then.
    pub(crate) fn link_lanes(
        &self,
        site: &mut dyn Site,
        (node, address): (NodeId, NodeAddress),
        links: &[LaneLink],
    ) -> Result<Vec<Connected>, LaneError> {
        let towards = site.topology().port_towards(0, node);
        let port = towards.ok_or(LaneError::NoNode(node))?;
        let home = self.home(site, node)?;
        let (mut qpns, mut requests) = (Vec::new(), Vec::new());
        for link in links {
            if let Some(old) = &link.old {
                site.switch(&mut |_, switch: &mut Switch<Pipeline>| {
                    let engine = &mut switch.program_mut().engine;
                    engine.disconnect(old.lane, old.switch_qpn);
                });
                self.lanes.renew();
            }
            let qpn = self.lanes.qpn(link.lane);
            qpns.push(qpn);
            let peer = Peer {
                mac: self.switch.mac,
                ip: self.switch.ip,
                qpn,
            };
            requests.push(PairRequest::new(home, peer, &link.wanted()));
        }
        let pairs = site.connect_pairs(node, &requests);
        let pairs = pairs.ok_or(LaneError::NoNode(node))?;
        let mut linked = Vec::new();
        let mut failed = None;
        for (((link, request), switch_qpn), pair) in
            links.iter().zip(&requests).zip(qpns).zip(pairs)
        {
            let entered = pair.map_err(|error| error.of(node)).and_then(|node_qpn| {
                let made = Connected {
                    lane: link.lane,
                    switch_qpn,
                    node,
                    node_qpn,
                    is_lent: link.is_lent(),
                };
                let entered = self.enter_lane(site, &made, (port, address), &link.wanted);
                if entered.is_err() && request.qpn.is_none() {
                    destroy_qp(site, node, node_qpn);
                }
                Ok(entered.map(|()| made)?)
            });
            match entered {
                Ok(made) => linked.push(made),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let Some(error) = failed else {
            return Ok(linked);
        };
        for connected in linked {
            let is_new = links
                .iter()
                .any(|it| it.lane == connected.lane && it.old.is_none());
            if is_new && !connected.is_lent {
                destroy_qp(site, node, connected.node_qpn);
            }
            site.switch(&mut |_, switch: &mut Switch<Pipeline>| {
                let engine = &mut switch.program_mut().engine;
                engine.disconnect(connected.lane, connected.switch_qpn);
            });
        }
        Err(error)
    }

    /// Enters a lane in the switch's table.
    fn enter_lane(
        &self,
        site: &mut dyn Site,
        made: &Connected,
        (port, address): (PortId, NodeAddress),
        wanted: &Wanted,
    ) -> Result<(), TableError> {
        let (lane, qpn) = (made.lane, made.switch_qpn);
        let entry = Lane {
            kind: wanted.kind,
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
            peer_qpn: made.node_qpn,
            mtu: wanted.mtu.bytes(),
        };
        let mut entered = Ok(());
        site.switch(&mut |_, switch| {
            let engine = &mut switch.program_mut().engine;
            entered = engine.connect(lane, qpn, wanted.psn, entry);
        });
        entered
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
