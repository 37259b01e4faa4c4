//! Sets endpoints up and connects clients and coordinators to them.

use super::agent::{EndpointReply, EndpointRequest, EndpointStart, Hex};
use super::attached::{Attach, Attached};
use super::network::{IndexNetwork, IndexNetworkSpec};
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
    let mut index = Index::new(rack, rack.random_number(), spec, false);
    for endpoint in index.endpoints() {
        let map = index.map.clone();
        if let Err(error) = start(&mut index, endpoint, &map) {
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
) -> Result<(), IndexSetUpError> {
    index.starts += 1;
    let spec = index.spec.endpoints[endpoint.index()];
    let how = EndpointStart {
        spec,
        datagrams: index.spec.datagrams,
        mtu: index.spec.attributes.mtu.bytes(),
        map: map.clone(),
        start: index.starts,
    };
    index.ask(endpoint, EndpointRequest::Start(Box::new(how)))?;
    index.is_up[endpoint.index()] = true;
    if let Some(network) = &mut index.network {
        network.add_server(&index.rack, endpoint, spec.node)?;
    }
    Ok(())
}

/// Ends all endpoints.
pub(crate) fn destroy(index: &mut Index) {
    for endpoint in index.endpoints() {
        end(index, endpoint, true);
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
    let accepted = match index.ask(endpoint, EndpointRequest::Accept(purpose))? {
        EndpointReply::Accepted(accepted) => accepted,
        _ => return Err(IndexSetUpError::NoEndpoint(endpoint)),
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
    end(index, endpoint, false);
}

fn end(index: &mut Index, endpoint: EndpointId, forever: bool) {
    if let Some(is_up) = index.is_up.get_mut(endpoint.index()) {
        *is_up = false;
    }
    if let Some(network) = &mut index.network {
        network.forget_server(endpoint);
    }
    // A process that is gone has no endpoint any more.
    let _ = index.ask(endpoint, EndpointRequest::Stop { forever });
}

/// Restarts an endpoint: with its former contents if its former shard is given, else empty. That is
/// possible only at a node in this process.
pub(crate) fn restart(
    index: &mut Index,
    endpoint: EndpointId,
    kept: Option<&Shard>,
) -> Result<IndexLoss, IndexSetUpError> {
    if endpoint.index() >= index.is_up.len() {
        return Err(IndexSetUpError::NoEndpoint(endpoint));
    }
    kill(index, endpoint);
    let map = begin_anew(index, endpoint)?;
    let part = map.part_of(endpoint);
    index.map = map.clone();
    let tree = match (kept, part) {
        (Some(kept), Some(part)) => {
            let tree = Tree::open(kept.tree().block().clone())?;
            // A range that was being received and was not committed is returned.
            let (low, last) = tree.bounds();
            tree.extend(low.min(part.low), last.max(part.last))?;
            tree.shrink(part.low, part.last)?;
            Some(tree)
        }
        _ => None,
    };
    let lost = part.filter(|_| tree.is_none());
    if let Some(tree) = tree {
        index.agent().keep(index.name(endpoint), tree);
    }
    start(index, endpoint, &map)?;
    Ok(IndexLoss { lost, map })
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
        let node = index.spec.endpoints[endpoint.index()].node;
        network.add_server(rack, endpoint, node)?;
    }
    index.network = Some(network);
    Ok(())
}

/// Loads entries into an empty endpoint.
pub(crate) fn load<V: AsRef<[u8]>>(
    index: &Index,
    endpoint: EndpointId,
    entries: impl Iterator<Item = (u64, V)>,
) -> Result<(), IndexSetUpError> {
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
