//! Connects the switch's queues at an NVMe target out of band: the switch has no processor that
//! could exchange a kilobyte of Connect data, so its controller passes the target the same capsules
//! that would be sent over the wire (NVMe over Fabrics 1.1, 3.3 to 3.6).

use super::PageSetUpError;
use crate::Site;
use rackweave_base::{NodeId, Qpn};
use rackweave_target::{Counters, Target, TargetConfig, TargetError};
use rackweave_verbs::Verbs;
use rackweave_wire::nvme::fabrics::{CONTROLLER_ANY, Connect};
use rackweave_wire::nvme::property::Configuration;
use rackweave_wire::nvme::{ConnectData, Cqe, FabricsCommand, Property, Sgl};
use serde::{Deserialize, Serialize};

/// The switch's host identifier.
const HOST_ID: [u8; 16] = *b"rackweave switch";
const HOST: &str = "nqn.2025-01.io.rackweave:switch";

/// Entries of an I/O queue, counted from zero: the minimum, since a queue of the switch has one
/// command at a time.
const IO_QUEUE_SIZE: u16 = 1;
/// Entries of an admin queue, counted from zero (Fabrics 3.3: at least 32, if the target has them).
const ADMIN_QUEUE_SIZE: u16 = 31;

/// What the controller asks of the NVMe target of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TargetRequest {
    /// Make a queue pair for a queue of the switch, in state Reset.
    OpenQueue,
    /// Make an enabled NVMe controller with an admin queue.
    MakeController,
    /// Make a queue pair, which can already receive, an I/O queue of a controller.
    ConnectQueue {
        /// The queue pair.
        qpn: Qpn,
        /// The queue's number in the controller.
        queue_id: u16,
        /// The controller's number.
        controller: u16,
    },
    /// End a queue.
    CloseQueue {
        /// Its queue pair.
        qpn: Qpn,
    },
    /// End all queues of the switch.
    CloseQueues,
    /// Read the first bytes of a block, whatever is pending.
    Peek {
        /// The namespace.
        nsid: u32,
        /// The block.
        block: u64,
        /// The number of bytes.
        len: u32,
    },
    /// Report the target's counters.
    Counters,
    /// Report the target's namespaces.
    Namespaces,
}

/// The target's reply to the request of a similar name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TargetReply {
    /// The queue pair of a new queue.
    Queue(Qpn),
    /// The admin queue of a controller, and the responses to Connect and to its enabling.
    Controller(Qpn, [Cqe; 2]),
    /// The response to Connect.
    Connected(Cqe),
    /// The queue has ended.
    Closed,
    /// The bytes of a block; `None` if the target cannot tell.
    Bytes(Option<Vec<u8>>),
    /// The target's counters since its creation.
    Counters(Box<Counters>),
    /// Bytes of a block and the number of blocks, of each namespace.
    Namespaces(Vec<(u32, u64)>),
}

impl TargetRequest {
    /// Executes the request at the node.
    ///
    /// # Errors
    /// The target's.
    pub fn answer(
        self,
        target: &mut Target,
        verbs: &mut dyn Verbs,
    ) -> Result<TargetReply, TargetError> {
        Ok(match self {
            Self::OpenQueue => TargetReply::Queue(target.open_queue(verbs)?),
            Self::MakeController => {
                let qpn = target.open_queue(verbs)?;
                let TargetConfig {
                    nqn, queue_entries, ..
                } = target.config();
                let size = ADMIN_QUEUE_SIZE.min(queue_entries - 1);
                let connect = connect_capsule(0, size, CONTROLLER_ANY, nqn);
                let enable = FabricsCommand::PropertySet {
                    wide: false,
                    offset: Property::Configuration.offset(),
                    value: u64::from(Configuration::ENABLE.emit()),
                };
                let connected = target.admit(qpn, &connect);
                let enabled = target.admit(qpn, &enable.emit(1).emit());
                TargetReply::Controller(qpn, [connected, enabled])
            }
            Self::ConnectQueue {
                qpn,
                queue_id,
                controller,
            } => {
                target.queue_connected(verbs, qpn)?;
                let nqn = &target.config().nqn;
                let connect = connect_capsule(queue_id, IO_QUEUE_SIZE, controller, nqn);
                TargetReply::Connected(target.admit(qpn, &connect))
            }
            Self::CloseQueue { qpn } => {
                target.close_queue(verbs, qpn)?;
                TargetReply::Closed
            }
            Self::CloseQueues => {
                target.close_queues_of(verbs, HOST);
                TargetReply::Closed
            }
            Self::Peek { nsid, block, len } => {
                let mut bytes = vec![0; len as usize];
                let peeked = target.peek(nsid, block, &mut bytes);
                TargetReply::Bytes(peeked.then_some(bytes))
            }
            Self::Namespaces => TargetReply::Namespaces(target.namespaces().collect()),
            Self::Counters => TargetReply::Counters(Box::new(target.counters().clone())),
        })
    }
}

/// Asks a target. A reply to another request counts as none: the node is of another release.
fn ask<R>(
    site: &mut dyn Site,
    node: NodeId,
    request: TargetRequest,
    expected: impl Fn(TargetReply) -> Option<R>,
) -> Result<R, PageSetUpError> {
    let found = ask_all(site, node, vec![request], expected)?;
    found
        .into_iter()
        .next()
        .ok_or(PageSetUpError::NoTarget(node))
}

/// The same for several requests of one kind.
fn ask_all<R>(
    site: &mut dyn Site,
    node: NodeId,
    requests: Vec<TargetRequest>,
    expected: impl Fn(TargetReply) -> Option<R>,
) -> Result<Vec<R>, PageSetUpError> {
    let replies = site.target_all(node, requests);
    let replies = replies.ok_or(PageSetUpError::NoTarget(node))?;
    let reply = |reply: Result<TargetReply, TargetError>| {
        let reply = reply.map_err(|error| PageSetUpError::Target { node, error })?;
        expected(reply).ok_or(PageSetUpError::NoTarget(node))
    };
    replies.into_iter().map(reply).collect()
}

fn checked(node: NodeId, response: Cqe) -> Result<Cqe, PageSetUpError> {
    if response.status.is_success() {
        Ok(response)
    } else {
        Err(PageSetUpError::Refused {
            node,
            status: response.status,
        })
    }
}

fn connect_capsule(queue_id: u16, queue_size: u16, controller_id: u16, subsystem: &str) -> Vec<u8> {
    let data = ConnectData {
        host_id: HOST_ID,
        controller_id,
        subsystem: subsystem.to_owned(),
        host: HOST.to_owned(),
    }
    .emit();
    let sgl = Sgl::InCapsule {
        offset: 0,
        length: data.len() as u32,
    };
    let command = FabricsCommand::Connect(Connect {
        queue_id,
        queue_size,
        attributes: 0,
        keep_alive_ms: 0,
    });
    let mut capsule = command.emit(0).with_data(sgl).emit().to_vec();
    capsule.extend_from_slice(&data);
    capsule
}

/// Makes so many queue pairs for queues of the switch.
pub(super) fn open(
    site: &mut dyn Site,
    node: NodeId,
    count: usize,
) -> Result<Vec<Qpn>, PageSetUpError> {
    let requests = vec![TargetRequest::OpenQueue; count];
    ask_all(site, node, requests, |reply| match reply {
        TargetReply::Queue(qpn) => Some(qpn),
        _ => None,
    })
}

/// Makes an enabled controller at the target; returns its admin queue and its number. The admin
/// queue's queue pair stays unconnected: it sends nothing over the wire.
pub(super) fn admin(site: &mut dyn Site, node: NodeId) -> Result<(Qpn, u16), PageSetUpError> {
    let request = TargetRequest::MakeController;
    let (qpn, [connected, enabled]) = ask(site, node, request, |reply| match reply {
        TargetReply::Controller(qpn, responses) => Some((qpn, responses)),
        _ => None,
    })?;
    let controller = checked(node, connected)?.result as u16;
    checked(node, enabled)?;
    Ok((qpn, controller))
}

/// Makes queue pairs, which can already receive, I/O queues of the switch's controller, with these
/// numbers.
pub(super) fn connect(
    site: &mut dyn Site,
    node: NodeId,
    queues: impl Iterator<Item = (Qpn, u16)>,
    controller: u16,
) -> Result<(), PageSetUpError> {
    let request = |(qpn, queue_id)| TargetRequest::ConnectQueue {
        qpn,
        queue_id,
        controller,
    };
    let requests = queues.map(request).collect();
    let responses = ask_all(site, node, requests, |reply| match reply {
        TargetReply::Connected(response) => Some(response),
        _ => None,
    })?;
    responses
        .into_iter()
        .try_for_each(|response| checked(node, response).map(drop))
}

/// Ends a queue. A target that has been removed needs no action.
pub(super) fn close(site: &mut dyn Site, node: NodeId, qpn: Qpn) {
    let _gone = site.target(node, TargetRequest::CloseQueue { qpn });
}

/// Ends all queues of the switch at a target, also those of which this controller knows nothing.
pub(super) fn close_all(site: &mut dyn Site, node: NodeId) {
    let _gone = site.target(node, TargetRequest::CloseQueues);
}

/// The first bytes of a block, whatever is pending. `None` if the target is missing, or cannot
/// tell.
pub(super) fn peek(
    site: &mut dyn Site,
    node: NodeId,
    (nsid, block): (u32, u64),
    len: u32,
) -> Option<Vec<u8>> {
    let request = TargetRequest::Peek { nsid, block, len };
    let peeked = ask(site, node, request, |reply| match reply {
        TargetReply::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    peeked.ok()?
}
