//! Sets endpoints up and connects clients and coordinators to them.

use super::network::{IndexNetwork, IndexNetworkSpec};
use super::running::Running;
use super::{Index, IndexEndpointSpec, IndexLoss, IndexSetUpError, IndexSpec, SharedServer};
use crate::Rack;
use rackweave_base::{NodeId, Qpn};
use rackweave_endpoint::index::{
    Coordinator, CoordinatorConfig, EndpointId, IndexClient, IndexClientConfig, Shard,
};
use rackweave_verbs::{QpCapabilities, Verbs};

pub(crate) fn create(rack: &Rack, spec: IndexSpec) -> Result<Index, IndexSetUpError> {
    let given = spec.endpoints.len();
    let map = spec.map.clone();
    if given != usize::from(map.endpoints()) {
        let map = map.endpoints();
        return Err(IndexSetUpError::Endpoints { map, given });
    }
    let payload = |spec: &IndexEndpointSpec| spec.server.payload_max;
    let mut payloads = spec.endpoints.iter().map(payload);
    let other = payloads.position(|max| max != payload(&spec.endpoints[0]));
    if let Some(at) = other {
        return Err(IndexSetUpError::Payloads(EndpointId(at as u16)));
    }
    let mut running: Vec<Option<Running>> = Vec::with_capacity(given);
    for (at, endpoint) in spec.endpoints.iter().enumerate() {
        match Running::start(rack, endpoint, EndpointId(at as u16), &map) {
            Ok(started) => running.push(Some(started)),
            Err(error) => {
                for (started, spec) in running.into_iter().zip(&spec.endpoints) {
                    stop(rack, spec.node, started);
                }
                return Err(error);
            }
        }
    }
    Ok(Index {
        spec,
        running,
        map,
        network: None,
    })
}

fn stop(rack: &Rack, node: NodeId, running: Option<Running>) {
    let Some(running) = running else {
        return;
    };
    let threads = running.threads.clone();
    rack.on_node(node, |verbs| running.stop(verbs));
    // A dead node has nothing to give back, but its threads end.
    for thread in threads {
        *thread.lock() = None;
    }
}

/// Connects a client on `node` to an endpoint.
pub(crate) fn attach(
    rack: &Rack,
    index: &mut Index,
    node: NodeId,
    client: &mut IndexClient,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let memory = rack.memory().clone();
    let attributes = index.spec.attributes;
    let at = endpoint.index();
    let server = index.spec.endpoints.get(at).map(|spec| spec.node);
    let running = index.running.get_mut(at).and_then(Option::as_mut);
    let (server, running) = server
        .zip(running)
        .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    let remote = running.remote;
    let ends = on_node(rack, node, |verbs| {
        let pd = verbs.create_pd();
        Ok(client.attach(verbs, &memory, pd, endpoint, remote)?)
    })?;
    let thread = running.threads[running.clients % running.threads.len()].clone();
    let accepted = on_node(rack, server, |verbs| {
        let mut thread = thread.lock();
        let thread = thread
            .as_mut()
            .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
        let call = thread.rpc.accept(verbs)?;
        let capabilities = QpCapabilities {
            send_max: 1,
            receive_max: 1,
            segments_max: 1,
        };
        let (pd, cq) = (running.pd, running.cq);
        let read = ends
            .reader
            .map(|_| verbs.create_qp(pd, cq, cq, capabilities));
        Ok((call, read.transpose()?))
    });
    let connected = accepted.and_then(|(call, read)| {
        running.readers.extend(read);
        rack.connect((node, ends.rpc), (server, call), &attributes)?;
        open(rack, server, &thread, call)?;
        if let (Some(own), Some(peer)) = (ends.reader, read) {
            rack.connect((node, own), (server, peer), &attributes)?;
            if let Some(network) = &mut index.network {
                network.add_pair(rack, endpoint, peer, attributes.mtu.bytes())?;
            }
        }
        Ok(())
    });
    match connected {
        Ok(()) => running.clients += 1,
        Err(_) => {
            rack.on_node(node, |verbs| client.detach(verbs, endpoint));
        }
    }
    connected
}

/// A client on `node`, connected to all endpoints that are not dead.
pub(crate) fn add_client(
    rack: &Rack,
    index: &mut Index,
    node: NodeId,
    config: IndexClientConfig,
) -> Result<IndexClient, IndexSetUpError> {
    let mut config = config;
    // Both ends must have the same.
    config.rpc.payload_max = index.spec.endpoints[0].server.payload_max;
    config.reader.mtu = index.spec.attributes.mtu;
    let mut client = IndexClient::new(index.map(), config);
    for endpoint in index.endpoints() {
        if index.running(endpoint).is_none() {
            continue;
        }
        if let Err(error) = attach(rack, index, node, &mut client, endpoint) {
            rack.on_node(node, |verbs| client.close(verbs));
            return Err(error);
        }
    }
    Ok(client)
}

/// Connects a coordinator on `node` to an endpoint.
pub(crate) fn attach_coordinator(
    rack: &Rack,
    index: &mut Index,
    node: NodeId,
    coordinator: &mut Coordinator,
    endpoint: EndpointId,
) -> Result<(), IndexSetUpError> {
    let memory = rack.memory().clone();
    let running = index.running(endpoint);
    let running = running.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    let server = index.spec.endpoints[endpoint.index()].node;
    let own = on_node(rack, node, |verbs| {
        let pd = verbs.create_pd();
        Ok(coordinator.attach(verbs, &memory, pd, endpoint)?)
    })?;
    let thread = running.threads[0].clone();
    let peer = on_node(rack, server, |verbs| {
        let mut thread = thread.lock();
        let thread = thread
            .as_mut()
            .ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
        Ok(thread.rpc.accept(verbs)?)
    })?;
    rack.connect((node, own), (server, peer), &index.spec.attributes)?;
    open(rack, server, &thread, peer)
}

/// Has a server take requests of a connection before the first one can come, however late the
/// server is polled next.
fn open(
    rack: &Rack,
    server: NodeId,
    thread: &SharedServer,
    qpn: Qpn,
) -> Result<(), IndexSetUpError> {
    on_node(rack, server, |verbs| match thread.lock().as_mut() {
        Some(thread) => Ok(thread.rpc.connected(verbs, qpn)?),
        None => Ok(()),
    })
}

/// A coordinator on `node`, connected to all endpoints.
pub(crate) fn add_coordinator(
    rack: &Rack,
    index: &mut Index,
    node: NodeId,
    config: CoordinatorConfig,
) -> Result<Coordinator, IndexSetUpError> {
    let mut config = config;
    config.rpc.payload_max = index.spec.endpoints[0].server.payload_max;
    let mut coordinator = Coordinator::new(index.map(), config);
    for endpoint in index.endpoints() {
        if index.running(endpoint).is_some() {
            attach_coordinator(rack, index, node, &mut coordinator, endpoint)?;
        }
    }
    Ok(coordinator)
}

pub(crate) fn kill(rack: &Rack, index: &mut Index, endpoint: EndpointId) {
    index.map = index.map();
    let running = index
        .running
        .get_mut(endpoint.index())
        .and_then(Option::take);
    // Before it stops: nobody is led to it any more.
    if let Some(network) = &mut index.network {
        let removed = network.remove_server(rack, endpoint);
        debug_assert!(removed.is_ok(), "taking out needs no room: {removed:?}");
    }
    if let Some(spec) = index.spec.endpoints.get(endpoint.index()) {
        stop(rack, spec.node, running);
    }
}

/// Starts an endpoint anew, without what it had.
pub(crate) fn restart(
    rack: &Rack,
    index: &mut Index,
    endpoint: EndpointId,
) -> Result<IndexLoss, IndexSetUpError> {
    let spec = index.spec.endpoints.get(endpoint.index()).copied();
    let spec = spec.ok_or(IndexSetUpError::NoEndpoint(endpoint))?;
    kill(rack, index, endpoint);
    let running = index.running.iter().flatten();
    let others: Vec<_> = running.map(|running| running.shard.clone()).collect();
    let map = Shard::begin_anew(&others, &index.map, endpoint)?;
    let lost = map.part_of(endpoint);
    index.map = map.clone();
    let started = Running::start(rack, &spec, endpoint, &map)?;
    if let Some(network) = &mut index.network {
        let at = (endpoint, spec.node);
        network.add_server(rack, at, &started.shard, &started.remote)?;
    }
    index.running[endpoint.index()] = Some(started);
    Ok(IndexLoss { lost, map })
}

/// Opens an index to the network: what is connected already takes part, and what will be.
pub(crate) fn open_network(
    rack: &Rack,
    index: &mut Index,
    spec: IndexNetworkSpec,
) -> Result<(), IndexSetUpError> {
    let mut network = IndexNetwork::new(rack, spec)?;
    let mtu = index.spec.attributes.mtu.bytes();
    let endpoints = index.endpoints().zip(&index.spec.endpoints);
    for ((endpoint, spec), running) in endpoints.zip(&index.running) {
        let Some(running) = running else { continue };
        network.add_server(rack, (endpoint, spec.node), &running.shard, &running.remote)?;
        for &qpn in &running.readers {
            network.add_pair(rack, endpoint, qpn, mtu)?;
        }
    }
    index.network = Some(network);
    Ok(())
}

/// Acts on a node that must be there.
pub(super) fn on_node<R>(
    rack: &Rack,
    node: NodeId,
    act: impl FnOnce(&mut dyn Verbs) -> Result<R, IndexSetUpError>,
) -> Result<R, IndexSetUpError> {
    let done = rack.on_node(node, act);
    done.unwrap_or(Err(IndexSetUpError::NoNode(node)))
}
