//! Replicas of endpoints: where they are, and which of them has all values.
//!
//! An endpoint is at one of several nodes, its *place*, and its replica at another one. Only the
//! process that made the index decides which is which, in [`keep`] and `set_up::restart`:
//!
//! | state | | next |
//! |---|---|---|
//! | none | no replica | a replica is made at the next node that is up: building |
//! | building | keys are being copied to it | whole, or lost: ending |
//! | whole | it has all values | the endpoint is dead: promoted; the replica is lost: ending |
//! | ending | the endpoint goes on alone | its pending writes have ended: none |
//! | promoted | the place has changed, and the endpoint is to start there | it has started: none |

use super::agent::{EndpointReply, EndpointRequest, ReplicaRequest, ReplicaStart};
use super::{Index, IndexEndpointSpec, IndexSetUpError, set_up};
use rackweave_base::NodeId;
use rackweave_endpoint::index::{EndpointId, PartitionMap};

/// The state of an endpoint's replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Replication {
    #[default]
    None,
    Runs {
        node: NodeId,
        epoch: u64,
        is_whole: bool,
    },
    Ending {
        node: NodeId,
        epoch: u64,
    },
    Promoted,
}

impl Replication {
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Runs { is_whole: true, .. } | Self::Promoted)
    }
}

/// The copies of an endpoint's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaStatus {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its node.
    pub node: NodeId,
    /// The node of its replica, if it has one.
    pub replica: Option<NodeId>,
    /// Whether the replica has all values: then they survive the endpoint.
    pub is_whole: bool,
}

type Result<T> = core::result::Result<T, IndexSetUpError>;

/// Whether the error means that the process or node that was asked does not exist.
pub(super) fn is_gone(error: &IndexSetUpError) -> bool {
    matches!(
        error,
        IndexSetUpError::NoProcess { .. } | IndexSetUpError::NoNode(_)
    )
}

/// Advances the replicas of an index that was made here. Appends the endpoints that have been
/// replaced by their replicas. Returns whether any replica or endpoint was made or removed.
pub(crate) fn keep(index: &mut Index, replaced: &mut Vec<EndpointId>) -> bool {
    if index.spec.replicas.is_empty() {
        return false;
    }
    let before = index.replication.clone();
    for endpoint in index.endpoints() {
        match index.replication[endpoint.index()] {
            Replication::None if index.is_up[endpoint.index()] => make(index, endpoint),
            Replication::Runs { .. } => look(index, endpoint, replaced),
            Replication::Ending { node, epoch } => end(index, endpoint, (node, epoch)),
            Replication::Promoted => replace(index, endpoint, replaced),
            Replication::None => {}
        }
    }
    before != index.replication || !replaced.is_empty()
}

/// Makes a replica at the first node that is up and is not the endpoint's.
fn make(index: &mut Index, endpoint: EndpointId) {
    let place = index.place(endpoint);
    let all = &index.spec.replicas;
    let after = all.iter().position(|node| *node == place);
    let (before, after) = all.split_at(after.map_or(0, |at| at + 1));
    let nodes = after.iter().chain(before).filter(|node| **node != place);
    for node in nodes.copied().collect::<Vec<_>>() {
        index.epochs += 1;
        let epoch = index.epochs;
        match connect(index, endpoint, (node, epoch)) {
            Ok(()) => {
                let is_whole = false;
                index.replication[endpoint.index()] = Replication::Runs {
                    node,
                    epoch,
                    is_whole,
                };
                return;
            }
            Err(error) => {
                index.failed = Some(error);
                // It may have begun all the same.
                index.replication[endpoint.index()] = Replication::Ending { node, epoch };
                end(index, endpoint, (node, epoch));
            }
        }
        if index.replication[endpoint.index()] != Replication::None {
            return;
        }
    }
}

fn connect(index: &mut Index, endpoint: EndpointId, (node, epoch): (NodeId, u64)) -> Result<()> {
    index.starts += 1;
    let spec = index.spec.endpoints[endpoint.index()];
    let datagrams = u16::from(index.spec.datagrams.is_some());
    let start = ReplicaRequest::Start(Box::new(ReplicaStart {
        threads: spec.threads * (1 + datagrams),
        spec: IndexEndpointSpec { node, ..spec },
        start: index.starts,
    }));
    let gone = IndexSetUpError::NoEndpoint(endpoint);
    let EndpointReply::Pairs(to) = index.ask_replica(endpoint, (node, epoch), start)? else {
        return Err(gone);
    };
    let attributes = index.spec.attributes;
    let connect = EndpointRequest::ConnectReplica {
        epoch,
        to,
        attributes,
    };
    index.ask(endpoint, connect)?;
    index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Open)?;
    match index.ask(endpoint, EndpointRequest::Replicate { epoch })? {
        EndpointReply::Done => Ok(()),
        _ => Err(gone),
    }
}

/// Looks whether an endpoint and its replica are there.
fn look(index: &mut Index, endpoint: EndpointId, replaced: &mut Vec<EndpointId>) {
    let at = endpoint.index();
    let Replication::Runs {
        node,
        epoch,
        is_whole,
    } = index.replication[at]
    else {
        return;
    };
    let state = match index.ask(endpoint, EndpointRequest::Replication) {
        Ok(EndpointReply::Replication(state)) => Some(state),
        Ok(_) => None,
        Err(error) if is_gone(&error) => None,
        // It is not known whether the endpoint lives.
        Err(_) => return,
    };
    let is_there = match index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Look) {
        Ok(reply) => !matches!(reply, EndpointReply::NotRunning),
        Err(error) => !is_gone(&error),
    };
    match state {
        Some(state) if state.epoch != epoch || state.is_lost || !is_there => {
            give_up(index, endpoint);
        }
        Some(state) => {
            // The replica learns maps only from now on.
            let is_whole = state.is_whole && (is_whole || learn_map(index, endpoint));
            index.replication[at] = Replication::Runs {
                node,
                epoch,
                is_whole,
            };
        }
        None if is_whole && is_there => replace(index, endpoint, replaced),
        None => {}
    }
}

/// Takes over an endpoint's map. False if the endpoint does not answer.
fn learn_map(index: &mut Index, endpoint: EndpointId) -> bool {
    let Ok(EndpointReply::Map(map)) = index.ask(endpoint, EndpointRequest::Map) else {
        return false;
    };
    if map.version() > index.map.version() {
        index.map = map;
    }
    true
}

/// The maps that replicas know.
pub(super) fn maps(index: &Index) -> impl Iterator<Item = PartitionMap> {
    let all = index.endpoints().zip(&index.replication);
    all.filter_map(|(endpoint, replication)| {
        let Replication::Runs { node, epoch, .. } = *replication else {
            return None;
        };
        match index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Look) {
            Ok(EndpointReply::Map(map)) => Some(map),
            _ => None,
        }
    })
}

fn replace(index: &mut Index, endpoint: EndpointId, replaced: &mut Vec<EndpointId>) {
    match set_up::replace(index, endpoint) {
        Ok(()) => replaced.push(endpoint),
        Err(error) => index.failed = Some(error),
    }
}

/// Has an endpoint go on without its replica: that cannot take its place any more.
pub(super) fn give_up(index: &mut Index, endpoint: EndpointId) {
    if let Replication::Runs { node, epoch, .. } = index.replication[endpoint.index()] {
        index.replication[endpoint.index()] = Replication::Ending { node, epoch };
        end(index, endpoint, (node, epoch));
    }
}

/// Waits until the endpoint can have another replica.
fn end(index: &mut Index, endpoint: EndpointId, (node, epoch): (NodeId, u64)) {
    let asked = index.ask(endpoint, EndpointRequest::Uncover { epoch });
    let _ = index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Stop);
    let state = asked.and_then(|_| index.ask(endpoint, EndpointRequest::Replication));
    let has_ended = match state {
        Ok(EndpointReply::Replication(state)) => {
            state.epoch != epoch && state.covered.is_none() && state.pending == 0
        }
        Ok(_) => true,
        Err(error) => is_gone(&error),
    };
    if has_ended {
        index.replication[endpoint.index()] = Replication::None;
    }
}

/// Makes a replica's tree that of its endpoint, which starts at the replica's node. False if there
/// is none that has all values.
pub(super) fn promote(index: &mut Index, endpoint: EndpointId) -> Result<bool> {
    let at = endpoint.index();
    let (node, epoch) = match index.replication[at] {
        Replication::Promoted => return Ok(true),
        Replication::Runs {
            node,
            epoch,
            is_whole: true,
        } => (node, epoch),
        _ => return Ok(false),
    };
    match index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Promote) {
        Ok(EndpointReply::Done) => {
            index.replication[at] = Replication::Promoted;
            index.set_place(endpoint, node);
            Ok(true)
        }
        Ok(_) => Ok(false),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the replica of an endpoint that does not run.
pub(super) fn remove(index: &mut Index, endpoint: EndpointId) {
    let replication = &mut index.replication[endpoint.index()];
    if let Replication::Runs { node, epoch, .. } | Replication::Ending { node, epoch } =
        core::mem::take(replication)
    {
        // A process that is gone has none any more.
        let _ = index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Stop);
    }
}

/// Why the last replica was not made, or did not replace its endpoint.
pub(crate) fn take_error(index: &mut Index) -> Option<IndexSetUpError> {
    index.failed.take()
}

/// The copies of all endpoints.
pub(crate) fn status(index: &Index) -> Vec<ReplicaStatus> {
    let all = index.endpoints().zip(&index.replication);
    all.map(|(endpoint, replication)| ReplicaStatus {
        endpoint,
        node: index.place(endpoint),
        replica: match *replication {
            Replication::Runs { node, .. } => Some(node),
            _ => None,
        },
        is_whole: matches!(replication, Replication::Runs { is_whole: true, .. }),
    })
    .collect()
}
