//! What an agent does with requests.

use super::request::ReplicaRequest;
use super::request::{EndpointReply, EndpointRequest, EndpointStart, Hex, OutlinePart};
use super::{Endpoint, EndpointName};
use crate::index::network::IndexNetworkError;
use crate::index::replica::ReplicaHere;
use crate::index::running::{Accepted, Purpose, Running};
use crate::index::set_up::on_node;
use crate::rack::OWN;
use crate::{IndexSetUpError, Rack};
use rackweave_base::Qpn;
use rackweave_base::canary::{Canary, planted};
use rackweave_controller::ask::{RemoveIndexServer, SetIndexQuery, SetIndexServer};
use rackweave_endpoint::btree::TreeError;
use rackweave_endpoint::index::EndpointId;
use rackweave_programs::index::entries::QueryEntry;
use std::collections::BTreeMap;

/// Children of the tree nodes in one part of an outline, at most, if a tree node has not more: a
/// message on a control connection has a mebibyte.
const PART_CHILDREN: usize = 4096;

/// Keys in one sample, at most.
const SAMPLE_MAX: usize = 1 << 14;

type Result<T> = core::result::Result<T, IndexSetUpError>;

pub(super) fn act(
    rack: &Rack,
    endpoints: &mut BTreeMap<EndpointName, Endpoint>,
    user: &str,
    name: EndpointName,
    request: EndpointRequest,
) -> Result<EndpointReply> {
    let id = name.endpoint;
    if let Some(endpoint) = endpoints.get_mut(&name)
        && is_dead(rack, endpoint)
    {
        end(rack, endpoint);
    }
    match request {
        EndpointRequest::Start(how) => {
            if user != OWN && !rack.serves_others() {
                let node = &rack.config().node[usize::from(how.spec.node.0)];
                let (endpoint, node) = (id, node.name.clone());
                return Err(IndexSetUpError::NoProcess { endpoint, node });
            }
            let endpoint = endpoints.entry(name);
            let endpoint = endpoint.or_insert_with(|| Endpoint::of(user));
            start(rack, endpoint, id, &how)
        }
        EndpointRequest::Stop { forever: true } => {
            if let Some(endpoint) = endpoints.remove(&name) {
                stop(rack, endpoint);
            }
            Ok(EndpointReply::Done)
        }
        EndpointRequest::Replica { epoch, request } => {
            if matches!(request, ReplicaRequest::Start(_)) {
                let endpoint = endpoints.entry(name);
                endpoint.or_insert_with(|| Endpoint::of(user));
            }
            match endpoints.get_mut(&name) {
                Some(endpoint) => replica(rack, endpoint, id, (epoch, request)),
                None => Ok(EndpointReply::NotRunning),
            }
        }
        request => match endpoints.get_mut(&name) {
            Some(endpoint) => act_at(rack, endpoint, (user, id), request),
            None => Ok(EndpointReply::NotRunning),
        },
    }
}

/// Whether an endpoint was declared dead with its node, so that its replica may have its place.
fn is_dead(rack: &Rack, endpoint: &Endpoint) -> bool {
    let running = endpoint.running.as_ref();
    endpoint.has_replicas && running.is_some_and(|running| !running.is_member(rack))
}

/// Does what a request asks of an endpoint that runs.
fn act_at(
    rack: &Rack,
    endpoint: &mut Endpoint,
    (user, id): (&str, EndpointId),
    request: EndpointRequest,
) -> Result<EndpointReply> {
    let Some(running) = &mut endpoint.running else {
        return Ok(EndpointReply::NotRunning);
    };
    let (shard, mut done) = (running.shard.clone(), EndpointReply::Done);
    match request {
        EndpointRequest::Start(_) | EndpointRequest::Replica { .. } => {
            unreachable!("an endpoint need not run for them")
        }
        EndpointRequest::Stop { .. } => end(rack, endpoint),
        EndpointRequest::Accept(purpose) => {
            let accepted = accept(rack, endpoint, id, purpose)?;
            if user != OWN {
                endpoint.given.push((user.to_owned(), accepted));
            }
            done = EndpointReply::Accepted(accepted);
        }
        EndpointRequest::Open(accepted) => running.open(rack, id, &accepted)?,
        EndpointRequest::Release(accepted) => {
            endpoint.given.retain(|(_, given)| *given != accepted);
            release(rack, endpoint, &accepted)?;
        }
        EndpointRequest::Map => done = EndpointReply::Map((*shard.map()).clone()),
        EndpointRequest::Load { entries, is_last } => load(endpoint, entries, is_last)?,
        EndpointRequest::BeginRestart(dead) => {
            done = EndpointReply::Map(shard.begin_restart(dead)?);
        }
        EndpointRequest::EndRestart(map) => shard.end_restart(map.as_ref())?,
        EndpointRequest::Lead { number } => return lead(rack, endpoint, id, number),
        EndpointRequest::Outline { most, again } => return Ok(outline(endpoint, most, again)),
        EndpointRequest::Pin { bank, wanted } => {
            done = EndpointReply::NotPinned(shard.tree().pin(bank, &wanted));
        }
        EndpointRequest::Unpin { bank } => shard.tree().unpin(bank),
        EndpointRequest::Sample => {
            let mut keys = Vec::new();
            shard.take_sample(&mut keys);
            keys.truncate(SAMPLE_MAX);
            done = EndpointReply::Keys(keys);
        }
        EndpointRequest::ConnectReplica {
            epoch,
            to,
            attributes,
        } => {
            (endpoint.kept, endpoint.promoted) = (None, None);
            running.connect_replica(rack, epoch, (&to, &attributes))?;
        }
        EndpointRequest::Replicate { epoch } => running.replicate(rack, id, epoch)?,
        EndpointRequest::Uncover { epoch } => running.uncover(rack, epoch),
        EndpointRequest::Replication => {
            done = EndpointReply::Replication(shard.replication_state());
        }
    }
    Ok(done)
}

fn start(
    rack: &Rack,
    endpoint: &mut Endpoint,
    id: EndpointId,
    how: &EndpointStart,
) -> Result<EndpointReply> {
    end(rack, endpoint);
    (endpoint.mtu, endpoint.has_replicas) = (how.mtu, how.has_replicas);
    (endpoint.outline, endpoint.loading) = (Vec::new(), (Vec::new(), 0));
    endpoint.given.clear();
    if !how.keeps {
        (endpoint.kept, endpoint.promoted) = (None, None);
    } else if endpoint.kept.is_none() {
        return Ok(EndpointReply::NotRunning);
    }
    let tree = match (&endpoint.kept, how.map.part_of(id)) {
        (Some(tree), Some(part)) => {
            // The tree may have a range that was being received and was not committed, or one that
            // was given away.
            let (low, last) = tree.bounds();
            tree.extend(low.min(part.low), last.max(part.last))?;
            tree.shrink(part.low, part.last)?;
            Some(tree.clone())
        }
        _ => None,
    };
    // The tree is still kept: if this reply is lost, the same is requested again.
    endpoint.running = Some(Running::start(rack, how, id, tree)?);
    Ok(EndpointReply::Done)
}

/// Does what concerns the replica of an epoch.
fn replica(
    rack: &Rack,
    endpoint: &mut Endpoint,
    id: EndpointId,
    (epoch, request): (u64, ReplicaRequest),
) -> Result<EndpointReply> {
    if let ReplicaRequest::Start(how) = request {
        if let Some(earlier) = endpoint.replica.take() {
            earlier.stop(rack);
        }
        let here = ReplicaHere::start(rack, id, epoch, &how)?;
        let here = endpoint.replica.insert(here);
        return Ok(EndpointReply::Pairs(here.pairs()));
    }
    if endpoint.promoted == Some(epoch) && matches!(request, ReplicaRequest::Promote) {
        return Ok(EndpointReply::Done);
    }
    let here = endpoint.replica.as_ref();
    let Some(here) = here.filter(|here| here.epoch == epoch && here.is_member(rack)) else {
        return Ok(EndpointReply::NotRunning);
    };
    match request {
        ReplicaRequest::Start(_) => unreachable!("it is handled above"),
        ReplicaRequest::Open => here.open(rack)?,
        ReplicaRequest::Look => {
            on_node(rack, here.node, |_| Ok(()))?;
            let map = here.map();
            return Ok(map.map_or(EndpointReply::Done, EndpointReply::Map));
        }
        ReplicaRequest::Stop => {
            if let Some(here) = endpoint.replica.take() {
                here.stop(rack);
            }
        }
        ReplicaRequest::Promote => {
            on_node(rack, here.node, |_| Ok(()))?;
            let here = endpoint.replica.take();
            let tree = here.map(|here| here.promote(rack)).transpose()?.flatten();
            if tree.is_none() {
                return Ok(EndpointReply::NotRunning);
            }
            (endpoint.kept, endpoint.promoted) = (tree, Some(epoch));
        }
    }
    Ok(EndpointReply::Done)
}

/// Ends an endpoint, which may start again.
fn end(rack: &Rack, endpoint: &mut Endpoint) {
    leave(rack, endpoint);
    if let Some(running) = endpoint.running.take() {
        running.stop(rack);
    }
}

/// Ends an endpoint and its replica.
pub(super) fn stop(rack: &Rack, mut endpoint: Endpoint) {
    end(rack, &mut endpoint);
    if let Some(replica) = endpoint.replica {
        replica.stop(rack);
    }
}

fn accept(
    rack: &Rack,
    endpoint: &mut Endpoint,
    id: EndpointId,
    purpose: Purpose,
) -> Result<Accepted> {
    let running = endpoint.running.as_mut();
    let running = running.ok_or(IndexSetUpError::NoEndpoint(id))?;
    let accepted = running.accept(rack, id, purpose)?;
    let led = accepted.reader.filter(|_| accepted.is_led);
    if let Some(qpn) = led
        && let Err(error) = query(rack, endpoint, id, qpn)
    {
        if let Some(running) = &mut endpoint.running {
            running.release(rack, &accepted);
        }
        return Err(error);
    }
    Ok(accepted)
}

/// Frees the resources of a user.
pub(super) fn release(rack: &Rack, endpoint: &mut Endpoint, accepted: &Accepted) -> Result<()> {
    let running = endpoint.running.as_mut();
    // The numbers of an earlier start may have been reused by now.
    let running = running.filter(|running| running.is_of_this_start(accepted));
    let Some(running) = running else {
        return Ok(());
    };
    let led = accepted.reader.filter(|_| accepted.is_led);
    let led = led.filter(|qpn| running.has_reader(*qpn));
    if let (Some(qpn), Some(_)) = (led, endpoint.server) {
        let (at, entry) = ((running.node(), qpn), None);
        let removed = rack.ask(SetIndexQuery { at, entry });
        removed.map_err(IndexNetworkError::from)?;
    }
    running.release(rack, accepted);
    Ok(())
}

/// Enters the endpoint at the switches, with its users.
fn lead(
    rack: &Rack,
    endpoint: &mut Endpoint,
    id: EndpointId,
    number: u16,
) -> Result<EndpointReply> {
    leave(rack, endpoint);
    let running = endpoint.running.as_ref();
    let running = running.ok_or(IndexSetUpError::NoEndpoint(id))?;
    let (node, remote) = (running.node(), running.remote());
    let led: Vec<Qpn> = running.led().collect();
    let entered = rack.ask(SetIndexServer {
        number,
        node,
        address: remote.address,
        node_shift: remote.layout.bytes().ilog2() as u8,
    });
    if !entered.map_err(IndexNetworkError::from)? {
        return Err(IndexNetworkError::NoNode(node).into());
    }
    endpoint.server = Some(number);
    endpoint.first_rkey.get_or_insert(remote.rkey);
    for qpn in led {
        query(rack, endpoint, id, qpn)?;
    }
    Ok(EndpointReply::Done)
}

/// Removes the endpoint from the switches, so that no query is led to it any more.
fn leave(rack: &Rack, endpoint: &mut Endpoint) {
    if let (Some(number), Some(running)) = (endpoint.server.take(), &endpoint.running) {
        let node = running.node();
        // A controller that does not answer has no switch that leads a query.
        let _gone = rack.ask(RemoveIndexServer { number, node });
    }
}

/// Has the switches lead queries on a user's queue pair, if the index is in the network.
fn query(rack: &Rack, endpoint: &Endpoint, id: EndpointId, qpn: Qpn) -> Result<()> {
    let (Some(server), Some(running)) = (endpoint.server, &endpoint.running) else {
        return Ok(());
    };
    let node = running.remote().layout.bytes();
    if node > endpoint.mtu as usize {
        let (endpoint, mtu) = (id, endpoint.mtu);
        return Err(IndexNetworkError::NodeSize {
            endpoint,
            node,
            mtu,
        }
        .into());
    }
    let stale = endpoint.first_rkey;
    let stale = stale.filter(|_| planted(Canary::IndexStaleRkey));
    let rkey = stale.unwrap_or(running.remote().rkey);
    let entered = rack.ask(SetIndexQuery {
        at: (running.node(), qpn),
        entry: Some(QueryEntry { server, rkey }),
    });
    Ok(entered.map_err(IndexNetworkError::from)?)
}

/// Takes entries to be loaded, and loads them if they are complete.
fn load(endpoint: &mut Endpoint, entries: Vec<(u64, Hex)>, is_last: bool) -> Result<()> {
    let Some(running) = &endpoint.running else {
        return Ok(());
    };
    let limit = running.shard.tree().block().len() as u64;
    let (loading, bytes) = &mut endpoint.loading;
    for (key, Hex(value)) in entries {
        *bytes += 8 + value.len() as u64;
        loading.push((key, value));
    }
    // More than the tree has place for is refused before it has all arrived.
    if *bytes > limit {
        let capacity = running.remote().tree_nodes;
        endpoint.loading = (Vec::new(), 0);
        return Err(TreeError::NodesUsedUp { capacity }.into());
    }
    if is_last {
        let (entries, _) = core::mem::take(&mut endpoint.loading);
        running.shard.bulk_load(entries)?;
    }
    Ok(())
}

fn outline(endpoint: &mut Endpoint, most: usize, again: bool) -> EndpointReply {
    let Some(running) = &endpoint.running else {
        return EndpointReply::NotRunning;
    };
    let shard = &running.shard;
    // An endpoint without keys has a tree with arbitrary bounds.
    if shard.part().is_none() {
        return EndpointReply::Outline(None);
    }
    let left = &mut endpoint.outline;
    if !again {
        *left = shard.tree().outline(most);
    }
    let bounds = left
        .first()
        .map_or_else(|| shard.tree().bounds(), |root| (root.low, root.last));
    let mut children = 0;
    let of_it = left.iter().take_while(|node| {
        let fits = children < PART_CHILDREN;
        children += node.children.len();
        fits
    });
    let count = of_it.count();
    let nodes: Vec<_> = left.drain(..count).collect();
    EndpointReply::Outline(Some(OutlinePart {
        bounds,
        nodes,
        is_last: left.is_empty(),
    }))
}
