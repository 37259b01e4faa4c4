//! A client of an index, for one thread.
//!
//! A client has a connection to each endpoint for requests and, if it reads one-sided, one for
//! READs. It routes operations by its copy of the partition map. Where that is outdated, endpoints
//! say so, and the client fetches a newer one and tries again. The client is sans-IO:
//! [`IndexClient::begin`] accepts an operation; [`IndexClient::poll`] advances all pending
//! operations and returns completed ones.
//!
//! A client that reads in the network sends its READs on the same queue pairs, and asks the
//! switches on the path where to begin. The endpoint has no memory with the key that stands for the
//! query. So in a rack whose switches answer no queries, a query reaches the endpoint and breaks
//! the connection. Then the client reads that endpoint one-sided once it has a new connection to
//! it.
//!
//! `datagram` is a client that sends datagrams instead.
//!
//! `operations` holds the pending operations, `answers` handles replies, `link` is the connection
//! to one endpoint, `parts` divides a scan into several.

mod answers;
mod datagram;
mod link;
mod operations;
mod parts;

pub use datagram::{DatagramClient, DatagramClientConfig, DatagramClientStatistics};

use super::map::{EndpointId, PartitionMap};
use super::op::{Access, BeginError, Op, Reply, Ticket};
use super::reader::{ReaderConfig, ReaderError, RemoteTree};
use super::sampler::SampleConfig;
use super::statistics::{ClientStatistics, ReaderStatistics};
use crate::rpc::{self, RpcError};
use link::Link;
use operations::Operations;
use rackweave_base::{Duration, Instant, Memory, Qpn};
use rackweave_verbs::{PdId, Verbs};

/// Configuration of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexClientConfig {
    /// Maximum number of pending operations.
    pub operations: u16,
    /// The access method for reads.
    pub access: Access,
    /// Its connections for requests.
    pub rpc: rpc::ClientConfig,
    /// Its readers, if it reads one-sided or in the network. The client sets their `network`.
    pub reader: ReaderConfig,
    /// Whether switches may be queried, if the client reads in the network: see
    /// [`IndexClient::set_network`].
    pub network: bool,
    /// Number of parts into which a scan that is bounded at its far end is divided. The parts are
    /// read concurrently, as far as there are free walks; 0 is the same as 1. Each part may return
    /// as many entries as the limit of the whole scan allows. Scans by request are not divided.
    pub scan_parts: u16,
    /// The sample of keys read by READs; endpoints sample the keys of requests.
    pub sample: SampleConfig,
    /// Wait before the first retry for keys that are being moved. It doubles with each retry, up to
    /// `busy_wait_max`.
    pub busy_wait: Duration,
    /// Maximum wait between retries.
    pub busy_wait_max: Duration,
    /// Maximum number of attempts of an operation whose keys are being moved or have no owner.
    pub tries_max: u32,
}

impl Default for IndexClientConfig {
    fn default() -> Self {
        Self {
            operations: 64,
            access: Access::Rpc,
            rpc: rpc::ClientConfig::default(),
            reader: ReaderConfig::default(),
            network: true,
            scan_parts: 1,
            sample: SampleConfig::default(),
            busy_wait: Duration::from_micros(5),
            busy_wait_max: Duration::from_millis(1),
            tries_max: 1000,
        }
    }
}

/// Queue pairs to be connected to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientEnds {
    /// To be connected to a queue pair that the endpoint's [`rpc::Server`] has accepted.
    pub rpc: Qpn,
    /// To be connected to a queue pair that allows READs of the endpoint's tree; present if the
    /// client reads one-sided or in the network.
    pub reader: Option<Qpn>,
}

/// Why a client could not attach to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The map has no such endpoint.
    #[error("the index has {endpoints} endpoints; there is no {endpoint}")]
    NoEndpoint {
        /// The endpoint.
        endpoint: EndpointId,
        /// Number of endpoints.
        endpoints: u16,
    },
    /// The connection for requests could not be created.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The connection for READs could not be created.
    #[error(transparent)]
    Reader(#[from] ReaderError),
}

/// A client of an index.
#[derive(Debug)]
pub struct IndexClient {
    config: IndexClientConfig,
    links: Vec<Option<Link>>,
    operations: Operations,
    /// By endpoint: whether a query to the network broke the connection.
    refused: Vec<bool>,
    /// Counters of removed readers.
    readers_before: ReaderStatistics,
}

impl IndexClient {
    /// A client that begins with this map. It has no connection to any endpoint yet.
    pub fn new(map: PartitionMap, config: IndexClientConfig) -> Self {
        Self {
            links: (0..map.endpoints()).map(|_| None).collect(),
            refused: vec![false; usize::from(map.endpoints())],
            operations: Operations::new(map, config),
            readers_before: ReaderStatistics::default(),
            config,
        }
    }

    /// Creates the queue pairs to an endpoint whose tree is at `remote`. Operations pending on
    /// former queue pairs end as if the endpoint had left.
    ///
    /// # Errors
    /// If the endpoint does not exist, the memory or the NIC has no free resources, or the client
    /// reads in the network and the tree nodes are larger than the MTU of its path
    /// ([`ReaderConfig::mtu`]).
    pub fn attach(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        endpoint: EndpointId,
        remote: RemoteTree,
    ) -> Result<ClientEnds, AttachError> {
        let endpoints = self.links.len() as u16;
        if endpoint.0 >= endpoints {
            return Err(AttachError::NoEndpoint {
                endpoint,
                endpoints,
            });
        }
        self.detach(verbs, endpoint);
        let mut link = Link::new(verbs, memory, pd, &self.config, remote)?;
        link.network = self.config.network && !self.refused[endpoint.index()];
        let ends = link.ends();
        // An entry of a page has a header that a request does not have.
        let room = self.config.rpc.payload_max.saturating_sub(32);
        self.operations.limit_values(remote.value_max.min(room));
        self.links[endpoint.index()] = Some(link);
        Ok(ends)
    }

    /// Releases the queue pairs to an endpoint. Operations pending on them end.
    pub fn detach(&mut self, verbs: &mut dyn Verbs, endpoint: EndpointId) {
        let link = self.links.get_mut(endpoint.index()).and_then(Option::take);
        if let Some(mut link) = link {
            link.break_off(endpoint, &mut self.operations);
            self.refused[endpoint.index()] |= link.is_refused();
            self.readers_before += link.statistics();
            link.close(verbs);
        }
    }

    /// Releases all resources.
    pub fn close(mut self, verbs: &mut dyn Verbs) {
        for endpoint in 0..self.links.len() as u16 {
            self.detach(verbs, EndpointId(endpoint));
        }
    }

    /// Begins an operation, with the configured access method for reads.
    ///
    /// # Errors
    /// If too many operations are pending, or the operation is invalid.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        self.begin_by(op, self.config.access)
    }

    /// Begins an operation with this access method for reads. A client that is not configured to
    /// read one-sided or in the network has no readers, and sends requests regardless. A client
    /// that is configured to read one-sided does not query the network.
    ///
    /// # Errors
    /// As for [`IndexClient::begin`].
    pub fn begin_by(&mut self, op: &Op<'_>, access: Access) -> Result<Ticket, BeginError> {
        self.operations.begin(op, access)
    }

    /// Sets whether reads in the network query the switches; otherwise they begin at the root.
    /// Enabling queries also applies to endpoints whose connection a query once broke.
    pub fn set_network(&mut self, network: bool) {
        self.config.network = network;
        if network {
            self.refused.fill(false);
        }
        for link in self.links.iter_mut().flatten() {
            link.network = network;
        }
    }

    /// Whether switches are queried on the path to an endpoint.
    pub fn asks_network(&self, endpoint: EndpointId) -> bool {
        let link = self.links.get(endpoint.index()).and_then(Option::as_ref);
        self.config.access == Access::InNetwork && link.is_some_and(|link| link.network)
    }

    /// Appends the keys read by READs since the last call, as far as [`IndexClientConfig::sample`]
    /// keeps them; for a scan, the key where it began.
    pub fn take_sample(&mut self, keys: &mut Vec<u64>) {
        self.operations.sampler.take(keys);
    }

    /// Advances all pending operations; returns a completed operation, if there is one.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply> {
        if let Some(reply) = self.operations.take_reply() {
            return Some(reply);
        }
        self.advance(now, verbs);
        self.operations.take_reply()
    }

    /// Advances all pending operations. True if anything was received.
    pub fn advance(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let operations = &mut self.operations;
        operations.wake(now);
        dispatch(verbs, &mut self.links, operations);
        let mut came = false;
        for (at, link) in self.links.iter_mut().enumerate() {
            if let Some(link) = link {
                came |= link.advance(now, verbs, EndpointId(at as u16), operations);
            }
        }
        if operations.is_ready() {
            // Retries are sent now, not when the next reply arrives.
            dispatch(verbs, &mut self.links, operations);
            for link in self.links.iter_mut().flatten() {
                link.send(now, verbs);
            }
        }
        came
    }

    /// Returns a completed operation, if one is known. Needs no verbs.
    pub fn take(&mut self) -> Option<Reply> {
        self.operations.take_reply()
    }

    /// When to call [`IndexClient::poll`] even if no completion arrives; [`Instant::ZERO`] if there
    /// is something to send.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.iter().flatten();
        let timeouts = links.filter_map(Link::poll_timeout);
        timeouts.chain(self.operations.poll_timeout()).min()
    }

    /// Operations begun whose result has not been taken.
    pub fn under_way(&self) -> usize {
        self.operations.under_way()
    }

    /// Number of operations that can begin now.
    pub fn free(&self) -> usize {
        self.operations.free()
    }

    /// The map that the client uses for routing.
    pub fn map(&self) -> &PartitionMap {
        self.operations.map()
    }

    /// Whether an endpoint cannot be reached: the rack may attach the client again.
    pub fn is_gone(&self, endpoint: EndpointId) -> bool {
        let link = self.links.get(endpoint.index());
        link.and_then(Option::as_ref).is_none_or(Link::is_broken)
    }

    /// The client's counters.
    pub fn statistics(&self) -> ClientStatistics {
        self.operations.statistics
    }

    /// The sum of its readers' counters.
    pub fn reader_statistics(&self) -> ReaderStatistics {
        let mut all = self.readers_before;
        for link in self.links.iter().flatten() {
            all += link.statistics();
        }
        all
    }

    /// The configuration.
    pub fn config(&self) -> &IndexClientConfig {
        &self.config
    }
}

/// Sends pending requests, as far as there are free slots.
fn dispatch(verbs: &mut dyn Verbs, links: &mut [Option<Link>], operations: &mut Operations) {
    operations.fetch_map(links);
    while let Some(slot) = operations.next_ready() {
        let endpoint = operations.route(slot);
        match links[endpoint.index()].as_mut() {
            Some(link) if !link.is_broken() => link.take_on(verbs, slot, operations),
            _ => operations.unreachable(slot, endpoint),
        }
    }
}

#[cfg(test)]
mod tests;
