//! Sets endpoints up and connects clients and coordinators to them.

use super::attached::{Attach, Attached};
use super::network::{IndexNetwork, IndexNetworkSpec};
use super::running::{Accepted, Running};
use super::{EndpointRequest, Index, IndexEndpointSpec, IndexLoss, IndexSetUpError, IndexSpec};
use crate::Rack;
use rackweave_base::NodeId;
use rackweave_endpoint::btree::Tree;
use rackweave_endpoint::index::{EndpointId, PartitionMap, Shard};
use rackweave_verbs::Verbs;

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
    let mut index = Index {
        running: (0..given).map(|_| None).collect(),
        map: spec.map.clone(),
        starts: 0,
        network: None,
        elsewhere: None,
        spec,
    };
    for endpoint in index.endpoints() {
        let map = index.map.clone();
        if let Err(error) = start(rack, &mut index, endpoint, &map, None) {
            destroy(rack, &mut index);
            return Err(error);
        }
    }
    Ok(index)
}

fn start(
    rack: &Rack,
    index: &mut Index,
    endpoint: EndpointId,
    map: &PartitionMap,
    tree: Option<Tree>,
) -> Result<(), IndexSetUpError> {
    index.starts += 1;
    let running = Running::start(rack, &index.spec, endpoint, (map, index.starts), tree)?;
    if let Some(network) = &mut index.network {
        let at = (endpoint, running.node());
        network.add_server(rack, at, &running.shard, &running.remote())?;
    }
    index.running[endpoint.index()] = Some(running);
    Ok(())
}

/// Ends all endpoints.
pub(crate) fn destroy(rack: &Rack, index: &mut Index) {
    for endpoint in index.endpoints() {
        kill(rack, index, endpoint);
    }
}

/// Connects a user to an endpoint and removes its former queue pairs there.
pub(crate) fn attach<T: Attach>(
    rack: &Rack,
    index: &mut Index,
    attached: &mut Attached<T>,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let place = attached.ends.get_mut(endpoint.index());
    let former = place.ok_or(IndexSetUpError::NoEndpoint(endpoint))?.take();
    if let Some(former) = former {
        // An endpoint that was down has forgotten it.
        let _ = index.ask(rack, EndpointRequest::Release(endpoint, former));
    }
    let purpose = attached.machine.purpose();
    let accepted = index.ask(rack, EndpointRequest::Accept(endpoint, purpose))?;
    let accepted = accepted.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
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
    index.ask(rack, EndpointRequest::Open(endpoint, accepted))?;
    if let (Some(own), Some(peer)) = (ends.reader, accepted.reader) {
        rack.connect((*node, own), (accepted.node, peer), &attributes)?;
    }
    Ok(())
}

/// Connects a user on `node` to all endpoints that are not dead.
pub(crate) fn attach_all<T: Attach>(
    rack: &Rack,
    index: &mut Index,
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
        if index.running(endpoint).is_none() && index.elsewhere.is_none() {
            continue;
        }
        if let Err(error) = attach(rack, index, &mut attached, endpoint) {
            release(rack, index, attached);
            return Err(error);
        }
    }
    Ok(attached)
}

/// Frees a user's resources and those of the endpoints for it.
pub(crate) fn release<T: Attach>(rack: &Rack, index: &mut Index, mut attached: Attached<T>) {
    let ends = core::mem::take(&mut attached.ends);
    let machine = attached.machine;
    rack.on_node(attached.node, |verbs| machine.close(verbs));
    disown(rack, index, ends);
}

/// Frees the endpoints' resources for a user.
pub(crate) fn forget<T>(rack: &Rack, index: &mut Index, attached: &mut Attached<T>) {
    let none = index.endpoints().map(|_| None).collect();
    disown(rack, index, core::mem::replace(&mut attached.ends, none));
}

fn disown(rack: &Rack, index: &mut Index, ends: Vec<Option<Accepted>>) {
    for (endpoint, accepted) in index.endpoints().zip(ends) {
        if let Some(accepted) = accepted {
            // An endpoint that is gone has forgotten it.
            let _ = index.ask(rack, EndpointRequest::Release(endpoint, accepted));
        }
    }
}

/// Ends an endpoint.
pub(crate) fn kill(rack: &Rack, index: &mut Index, endpoint: EndpointId) {
    index.map = index.map();
    let place = index.running.get_mut(endpoint.index());
    let running = place.and_then(Option::take);
    // Before it stops, so that no query is led to it any more.
    if let Some(network) = &mut index.network {
        let removed = network.remove_server(rack, endpoint);
        debug_assert!(removed.is_ok(), "taking out needs no room: {removed:?}");
    }
    if let Some(running) = running {
        running.stop(rack);
    }
}

/// Restarts an endpoint: with its former contents if its former shard is given, else empty.
pub(crate) fn restart(
    rack: &Rack,
    index: &mut Index,
    endpoint: EndpointId,
    kept: Option<&Shard>,
) -> Result<IndexLoss, IndexSetUpError> {
    if endpoint.index() >= index.running.len() {
        return Err(IndexSetUpError::NoEndpoint(endpoint));
    }
    kill(rack, index, endpoint);
    let running = index.running.iter().flatten();
    let others: Vec<_> = running.map(|running| running.shard.clone()).collect();
    let map = Shard::begin_anew(&others, &index.map, endpoint)?;
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
    start(rack, index, endpoint, &map, tree)?;
    Ok(IndexLoss { lost, map })
}

/// Opens an index to the network: existing connections take part, and so will later ones.
pub(crate) fn open_network(
    rack: &Rack,
    index: &mut Index,
    spec: IndexNetworkSpec,
) -> Result<(), IndexSetUpError> {
    let mut network = IndexNetwork::new(rack, spec)?;
    let mtu = index.spec.attributes.mtu.bytes();
    for (endpoint, running) in index.all_running() {
        let at = (endpoint, running.node());
        network.add_server(rack, at, &running.shard, &running.remote())?;
        for qpn in running.led() {
            network.add_pair(rack, endpoint, qpn, mtu)?;
        }
    }
    index.network = Some(network);
    Ok(())
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
