//! The servers of an index in the network: the endpoints that the switch answers for, and the queue
//! pairs of their clients.

use super::{IndexNetwork, Server};
use crate::Rack;
use crate::index::network::IndexNetworkError;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::ask::{RemoveIndexServer, SetIndexQuery, SetIndexServer};
use rackweave_endpoint::index::{EndpointId, RemoteTree, Shard};
use rackweave_programs::index::entries::QueryEntry;
use std::sync::Arc;

impl IndexNetwork {
    /// Adds an endpoint that serves from now on, under a number that no plan names.
    ///
    /// # Errors
    /// If the switches lack capacity.
    pub fn add_server(
        &mut self,
        rack: &Rack,
        (endpoint, node): (EndpointId, NodeId),
        shard: &Arc<Shard>,
        remote: &RemoteTree,
    ) -> Result<(), IndexNetworkError> {
        self.remove_server(rack, endpoint)?;
        let used = |number: &u16| {
            let live = self.servers.iter().flatten();
            live.map(|server| server.number).any(|used| used == *number)
                || self.named.contains(number)
        };
        let number = (0..u16::MAX).find(|number| !used(number)).unwrap_or(0);
        let ip = rack.ask(SetIndexServer {
            number,
            node,
            address: remote.address,
            node_shift: remote.layout.bytes().ilog2() as u8,
        })?;
        let server = Server {
            number,
            ip: ip.ok_or(IndexNetworkError::NoNode(node))?,
            rkey: remote.rkey,
            shard: shard.clone(),
            pairs: Vec::new(),
        };
        self.first_rkeys.entry(endpoint).or_insert(remote.rkey);
        let at = endpoint.index();
        if self.servers.len() <= at {
            self.servers.resize_with(at + 1, || None);
        }
        self.servers[at] = Some(server);
        Ok(())
    }

    /// Removes an endpoint that no longer serves: its clients' queue pairs are forgotten, and
    /// entries of plans for it lead no query.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn remove_server(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let Some(server) = server.and_then(Option::take) else {
            return Ok(());
        };
        Ok(rack.ask(RemoveIndexServer {
            number: server.number,
            ip: server.ip,
            pairs: server.pairs,
        })?)
    }

    /// Adds a client's queue pair that is connected to an endpoint, whose end it names: queries on
    /// it are led from now on.
    ///
    /// # Errors
    /// If the switches lack capacity, or tree nodes do not fit packets of `mtu` bytes.
    pub fn add_pair(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
        qpn: Qpn,
        mtu: u32,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let server = server
            .and_then(Option::as_mut)
            .ok_or(IndexNetworkError::NotOpen)?;
        let node = server.shard.tree().layout().bytes();
        if node > mtu as usize {
            return Err(IndexNetworkError::NodeSize {
                endpoint,
                node,
                mtu,
            });
        }
        let first = self.first_rkeys.get(&endpoint);
        let rkey = match first.filter(|_| planted(Canary::IndexStaleRkey)) {
            Some(first) => *first,
            None => server.rkey,
        };
        let entry = QueryEntry {
            server: server.number,
            rkey,
        };
        rack.ask(SetIndexQuery {
            at: (server.ip, qpn),
            entry: Some(entry),
        })?;
        server.pairs.push(qpn);
        Ok(())
    }

    /// Removes a client's queue pair: queries on it are dropped from now on.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn remove_pair(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
        qpn: Qpn,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let Some(server) = server.and_then(Option::as_mut) else {
            return Ok(());
        };
        let Some(at) = server.pairs.iter().position(|&pair| pair == qpn) else {
            return Ok(());
        };
        server.pairs.swap_remove(at);
        Ok(rack.ask(SetIndexQuery {
            at: (server.ip, qpn),
            entry: None,
        })?)
    }
}
