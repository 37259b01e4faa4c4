//! Sets endpoints up and connects clients and coordinators to them.

use super::agent::{EndpointReply, EndpointRequest, EndpointStart, Hex, ReplicaRequest};
use super::attached::{Attach, Attached};
use super::network::{IndexNetwork, IndexNetworkSpec};
use super::replication::{self, Replication, is_gone};
use super::running::Accepted;
use super::{Index, IndexEndpointSpec, IndexLoss, IndexSetUpError, IndexSpec};
use crate::Rack;
use rackweave_base::NodeId;
use rackweave_endpoint::btree::Tree;
use rackweave_endpoint::index::{EndpointId, PartitionMap, Shard};
use rackweave_verbs::Verbs;

/// Bytes of the values that one request to load has, at most, if there is more than one.
const LOAD_BYTES: usize = 1 << 18;

pub(crate) fn create(rack: &Rack, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
    let given = spec.endpoints.len();
    if given != usize::from(spec.map.endpoints()) {
        let map = spec.map.endpoints();
        return Err(IndexSetUpError::Endpoints { map, given });
    }
    let payload = |spec: &IndexEndpointSpec| spec.server.payload_max;
    let mut payloads = spec.endpoints.iter().map(payload);
    let other = payloads.position(|max| max != payload(&spec.endpoints[0]));
    if let Some(at) = other {
        return Err(IndexSetUpError::Payloads(EndpointId(at as u16)));
    }
    if spec.datagrams.is_some() && !spec.replicas.is_empty() && given > 1 {
        return Err(IndexSetUpError::ReplicasAndDatagrams);
    }
    let mut index = Index::new(rack, rack.random_number(), spec, true);
    for endpoint in index.endpoints() {
        let map = index.map.clone();
        if let Err(error) = start(&mut index, endpoint, &map, false) {
            destroy(&mut index);
            return Err(error);
        }
    }
    Ok(index)
}

fn start(
    index: &mut Index,
    endpoint: EndpointId,
    map: &PartitionMap,
    keeps: bool,
) -> Result<(), IndexSetUpError> {
    let mut spec = index.spec.endpoints[endpoint.index()];
    let place = index.place(endpoint);
    if place != spec.node {
        // The NICs of a DPU's host are beside the endpoint's first node only.
        (spec.node, spec.ports) = (place, 1);
    }
    index.starts += 1;
    let how = EndpointStart {
        spec,
        datagrams: index.spec.datagrams,
        mtu: index.spec.attributes.mtu.bytes(),
        map: map.clone(),
        start: index.starts,
        has_replicas: !index.spec.replicas.is_empty(),
        keeps,
    };
    match index.ask(endpoint, EndpointRequest::Start(Box::new(how)))? {
        EndpointReply::Done => {}
        // What it should keep is gone.
        _ => return Err(IndexSetUpError::NoEndpoint(endpoint)),
    }
    index.is_up[endpoint.index()] = true;
    if let Some(network) = &mut index.network {
        network.add_server(&index.rack, endpoint, spec.node)?;
    }
    Ok(())
}

/// Ends all endpoints.
pub(crate) fn destroy(index: &mut Index) {
    for endpoint in index.endpoints() {
        replication::remove(index, endpoint);
        // A process that is gone has no endpoint any more.
        let _ = end(index, endpoint, true);
    }
}

/// Connects a user to an endpoint and removes its former queue pairs there.
pub(crate) fn attach<T: Attach>(
    rack: &Rack,
    index: &Index,
    attached: &mut Attached<T>,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let place = attached.ends.get_mut(endpoint.index());
    let former = place.ok_or(IndexSetUpError::NoEndpoint(endpoint))?.take();
    if let Some(former) = former {
        // An endpoint that was down has forgotten it.
        let _ = index.ask(endpoint, EndpointRequest::Release(former));
    }
    let purpose = attached.machine.purpose();
    let accept = || match index.ask(endpoint, EndpointRequest::Accept(purpose))? {
        EndpointReply::Accepted(accepted) => Ok(accepted),
        _ => Err(IndexSetUpError::NoEndpoint(endpoint)),
    };
    let accepted = match accept() {
        Err(IndexSetUpError::NoEndpoint(_)) if index.find_again(endpoint) => accept()?,
        Err(error) if is_gone(&error) && index.find_again(endpoint) => accept()?,
        accepted => accepted?,
    };
    attached.ends[endpoint.index()] = Some(accepted);
    let (memory, attributes) = (rack.memory().clone(), index.spec.attributes);
    let Attached {
        machine, node, pd, ..
    } = attached;
    let ends = on_node(rack, *node, |verbs| {
        machine.attach(verbs, &memory, *pd, endpoint, accepted.remote)
    })?;
    rack.connect(
        (*node, ends.rpc),
        (accepted.node, accepted.rpc),
        &attributes,
    )?;
    index.ask(endpoint, EndpointRequest::Open(accepted))?;
    if let (Some(own), Some(peer)) = (ends.reader, accepted.reader) {
        if accepted.is_led {
            on_node(rack, *node, |verbs| {
                verbs.keep_to_switch(own);
                Ok(())
            })?;
        }
        rack.connect((*node, own), (accepted.node, peer), &attributes)?;
    }
    Ok(())
}

/// Connects a user on `node` to all endpoints that are not dead.
pub(crate) fn attach_all<T: Attach>(
    rack: &Rack,
    index: &Index,
    node: NodeId,
    machine: T,
) -> Result<Attached<T>, IndexSetUpError> {
    let mut attached = Attached {
        machine,
        node,
        pd: on_node(rack, node, |verbs| Ok(verbs.create_pd()))?,
        ends: index.endpoints().map(|_| None).collect(),
    };
    for endpoint in index.endpoints() {
        match attach(rack, index, &mut attached, endpoint) {
            // It is dead.
            Ok(()) | Err(IndexSetUpError::NoEndpoint(_) | IndexSetUpError::NoProcess { .. }) => {}
            Err(error) => {
                release(rack, index, attached);
                return Err(error);
            }
        }
    }
    Ok(attached)
}

/// Frees a user's resources and those of the endpoints for it.
pub(crate) fn release<T: Attach>(rack: &Rack, index: &Index, mut attached: Attached<T>) {
    let ends = core::mem::take(&mut attached.ends);
    let machine = attached.machine;
    rack.on_node(attached.node, |verbs| machine.close(verbs));
    disown(index, ends);
}

/// Frees the endpoints' resources for a user.
pub(crate) fn forget<T>(index: &Index, attached: &mut Attached<T>) {
    let none = index.endpoints().map(|_| None).collect();
    disown(index, core::mem::replace(&mut attached.ends, none));
}

fn disown(index: &Index, ends: Vec<Option<Accepted>>) {
    for (endpoint, accepted) in index.endpoints().zip(ends) {
        if let Some(accepted) = accepted {
            // An endpoint that is gone has forgotten it.
            let _ = index.ask(endpoint, EndpointRequest::Release(accepted));
        }
    }
}

/// Ends an endpoint.
pub(crate) fn kill(index: &mut Index, endpoint: EndpointId) {
    index.map = index.map();
    // A process that is gone has no endpoint any more.
    let _ = end(index, endpoint, false);
}

/// Ends the endpoints and replicas of an index at a node.
pub(crate) fn kill_at(index: &mut Index, node: NodeId) {
    for endpoint in index.endpoints() {
        if index.place(endpoint) == node {
            kill(index, endpoint);
        }
        if let Replication::Runs {
            node: at, epoch, ..
        } = index.replication[endpoint.index()]
            && at == node
        {
            let _ = index.ask_replica(endpoint, (node, epoch), ReplicaRequest::Stop);
        }
    }
}

/// Ends an endpoint. An error means that it may still run.
fn end(index: &mut Index, endpoint: EndpointId, forever: bool) -> Result<(), IndexSetUpError> {
    if let Some(is_up) = index.is_up.get_mut(endpoint.index()) {
        *is_up = false;
    }
    if let Some(network) = &mut index.network {
        network.forget_server(endpoint);
    }
    match index.ask(endpoint, EndpointRequest::Stop { forever }) {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Restarts an endpoint: with its former contents if its former shard is given, which is possible
/// only at a node in this process; else in place of its replica, if that has all values; else
/// empty.
pub(crate) fn restart(
    index: &mut Index,
    endpoint: EndpointId,
    kept: Option<&Shard>,
) -> Result<IndexLoss, IndexSetUpError> {
    if endpoint.index() >= index.is_up.len() {
        return Err(IndexSetUpError::NoEndpoint(endpoint));
    }
    index.map = index.map();
    let ended = end(index, endpoint, false);
    if kept.is_none() && index.replication[endpoint.index()].is_whole() {
        // A client that reaches it would read old values.
        ended?;
    }
    let map = begin_anew(index, endpoint)?;
    let part = map.part_of(endpoint);
    index.map = map.clone();
    let has_values = match kept {
        Some(kept) => {
            let tree = Tree::open(kept.tree().block().clone())?;
            replication::remove(index, endpoint);
            index.agent().keep(index.name(endpoint), tree);
            true
        }
        None => replication::promote(index, endpoint)?,
    };
    start_anew(index, endpoint, has_values)?;
    let lost = part.filter(|_| !has_values);
    Ok(IndexLoss { lost, map })
}

/// Starts a dead endpoint in place of its replica, which has all values.
pub(super) fn replace(index: &mut Index, endpoint: EndpointId) -> Result<(), IndexSetUpError> {
    index.map = index.map();
    // A client that reaches it would read old values.
    end(index, endpoint, false)?;
    index.map = begin_anew(index, endpoint)?;
    match replication::promote(index, endpoint)? {
        true => start_anew(index, endpoint, true),
        false => Err(IndexSetUpError::NoEndpoint(endpoint)),
    }
}

/// Starts an endpoint at its place; one without values, if that is gone, at another one.
fn start_anew(
    index: &mut Index,
    endpoint: EndpointId,
    has_values: bool,
) -> Result<(), IndexSetUpError> {
    let map = index.map.clone();
    if index.replication[endpoint.index()] != Replication::Promoted {
        replication::remove(index, endpoint);
    }
    let mut started = start(index, endpoint, &map, has_values);
    let is_absent = started.as_ref().is_err_and(is_gone);
    let has_none = started == Err(IndexSetUpError::NoEndpoint(endpoint));
    if has_values && (is_absent || has_none) {
        // What it had is gone as well.
        index.replication[endpoint.index()] = Replication::None;
        return started;
    }
    if is_absent {
        for node in index.places(endpoint).into_iter().skip(1) {
            index.set_place(endpoint, node);
            let next = start(index, endpoint, &map, false);
            if !next.as_ref().is_err_and(is_gone) {
                started = next;
                break;
            }
        }
    }
    if started.is_ok() {
        index.replication[endpoint.index()] = Replication::None;
    }
    started
}

/// Has all other endpoints store the map in which `dead` restarts, and returns it.
fn begin_anew(index: &mut Index, dead: EndpointId) -> Result<PartitionMap, IndexSetUpError> {
    let (mut newest, mut waiting, mut down) = (index.map.clone(), Vec::new(), Vec::new());
    let mut begun = Ok(());
    for other in index.endpoints_up() {
        match index.ask(other, EndpointRequest::BeginRestart(dead)) {
            Ok(EndpointReply::Map(map)) => {
                waiting.push(other);
                if map.version() > newest.version() {
                    newest = map;
                }
            }
            // It is dead, too.
            Ok(_) | Err(IndexSetUpError::NoProcess { .. }) => down.push(other),
            Err(error) => {
                begun = Err(error);
                break;
            }
        }
    }
    for other in down {
        index.is_up[other.index()] = false;
    }
    let map = newest.with_restart(dead);
    for other in waiting {
        let end = begun.is_ok().then(|| map.clone());
        let ended = index.ask(other, EndpointRequest::EndRestart(end));
        begun = begun.and(ended.map(|_| ()));
    }
    begun.map(|()| map)
}

/// Opens an index to the network: existing connections take part, and so will later ones.
pub(crate) fn open_network(
    rack: &Rack,
    index: &mut Index,
    spec: IndexNetworkSpec,
) -> Result<(), IndexSetUpError> {
    let mut network = IndexNetwork::new(rack, index.number, spec)?;
    for endpoint in index.endpoints_up() {
        let node = index.place(endpoint);
        network.add_server(rack, endpoint, node)?;
    }
    index.network = Some(network);
    Ok(())
}

/// Loads entries into an empty endpoint.
pub(crate) fn load<V: AsRef<[u8]>>(
    index: &mut Index,
    endpoint: EndpointId,
    entries: impl Iterator<Item = (u64, V)>,
) -> Result<(), IndexSetUpError> {
    // They do not go through the server threads.
    replication::give_up(index, endpoint);
    if let Some(shard) = index.shard(endpoint) {
        shard.bulk_load(entries)?;
        return Ok(());
    }
    let (mut part, mut bytes) = (Vec::new(), 0);
    let send = |part: &mut Vec<(u64, Hex)>, is_last| {
        let entries = core::mem::take(part);
        match index.ask(endpoint, EndpointRequest::Load { entries, is_last })? {
            EndpointReply::NotRunning => Err(IndexSetUpError::NoEndpoint(endpoint)),
            _ => Ok(()),
        }
    };
    for (key, value) in entries {
        let value = value.as_ref().to_vec();
        bytes += value.len() + 16;
        part.push((key, Hex(value)));
        if bytes >= LOAD_BYTES {
            send(&mut part, false)?;
            bytes = 0;
        }
    }
    send(&mut part, true)
}

/// Calls `act` with a node that must exist.
pub(super) fn on_node<R>(
    rack: &Rack,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> Result<R, IndexSetUpError>,
) -> Result<R, IndexSetUpError> {
    let done = rack.on_node(node, act);
    done.unwrap_or(Err(IndexSetUpError::NoNode(node)))
}
