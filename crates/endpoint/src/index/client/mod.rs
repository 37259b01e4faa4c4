//! One thread's way into an index.
//!
//! A client has a connection to each endpoint for requests and, if it reads one-sided, one for
//! READs. It routes by its copy of the partition map; where that is out of date, endpoints say so,
//! and the client fetches a newer one and tries again. It is sans-IO: [`IndexClient::begin`] takes
//! an operation, [`IndexClient::poll`] gets on with all of them and gives back what has ended.
//!
//! A client that reads in the network sends its READs by the same queue pairs, and asks the
//! switches on the way where to begin. If that breaks the way to an endpoint (its memory has
//! nothing with the key that stands for the question, so a rack whose switches answer none ends
//! there), it reads that endpoint one-sided once it has a new way to it.
//!
//! `datagram` is a client that sends datagrams instead.
//!
//! `operations` is what is under way, `answers` what comes of it; `link` is the way to one
//! endpoint, `parts` how a scan becomes several.

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

/// The size and the patience of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexClientConfig {
    /// Operations under way at a time.
    pub operations: u16,
    /// How it reads.
    pub access: Access,
    /// Its connections for requests.
    pub rpc: rpc::ClientConfig,
    /// Its readers, if it reads one-sided or in the network. Their `network` is set by the client.
    pub reader: ReaderConfig,
    /// Whether switches may be asked, if it reads in the network: see [`IndexClient::set_network`].
    pub network: bool,
    /// Into how many parts a scan that is bounded at its far end is divided, which are read at a
    /// time, as far as there are walks for them; 0 is as 1. Each may bring as many entries as the
    /// limit of the whole allows. Scans by request are not divided.
    pub scan_parts: u16,
    /// Which keys of reads by READ it remembers; endpoints remember those of requests.
    pub sample: SampleConfig,
    /// How long it waits before it asks again for keys that are being moved; twice as long each
    /// time, up to `busy_wait_max`.
    pub busy_wait: Duration,
    /// The longest of these waits.
    pub busy_wait_max: Duration,
    /// How often it tries an operation whose keys are being moved or have no owner.
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

/// Queue pairs that are to be connected to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientEnds {
    /// To one that its [`rpc::Server`] has accepted.
    pub rpc: Qpn,
    /// To one that allows READs of its tree, if the client reads one-sided or in the network.
    pub reader: Option<Qpn>,
}

/// Why a client has no way to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The map has no such endpoint.
    #[error("the index has {endpoints} endpoints; there is no {endpoint}")]
    NoEndpoint {
        /// Which was meant.
        endpoint: EndpointId,
        /// How many there are.
        endpoints: u16,
    },
    /// No connection for requests.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// No connection for READs.
    #[error(transparent)]
    Reader(#[from] ReaderError),
}

/// A client of an index.
#[derive(Debug)]
pub struct IndexClient {
    config: IndexClientConfig,
    links: Vec<Option<Link>>,
    operations: Operations,
    /// By endpoint: asking the network broke the way to it.
    refused: Vec<bool>,
    /// Counters of readers that are gone.
    readers_before: ReaderStatistics,
}

impl IndexClient {
    /// A client that begins with this map. It has no way to any endpoint yet.
    pub fn new(map: PartitionMap, config: IndexClientConfig) -> Self {
        Self {
            links: (0..map.endpoints()).map(|_| None).collect(),
            refused: vec![false; usize::from(map.endpoints())],
            operations: Operations::new(map, config),
            readers_before: ReaderStatistics::default(),
            config,
        }
    }

    /// Makes the queue pairs to an endpoint, whose tree is at `remote`. What is under way to it by
    /// way of former ones ends as if it had gone.
    ///
    /// # Errors
    /// If there is no such endpoint, memory or NIC have no room, or the client reads in the network
    /// and the tree nodes are larger than the MTU of its path ([`ReaderConfig::mtu`]).
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
        // An entry of a page has a header that a request has not.
        let room = self.config.rpc.payload_max.saturating_sub(32);
        self.operations.limit_values(remote.value_max.min(room));
        self.links[endpoint.index()] = Some(link);
        Ok(ends)
    }

    /// Gives the queue pairs to an endpoint back. What is under way to it ends.
    pub fn detach(&mut self, verbs: &mut dyn Verbs, endpoint: EndpointId) {
        let link = self.links.get_mut(endpoint.index()).and_then(Option::take);
        if let Some(mut link) = link {
            link.break_off(endpoint, &mut self.operations);
            self.refused[endpoint.index()] |= link.is_refused();
            self.readers_before += link.statistics();
            link.close(verbs);
        }
    }

    /// Gives everything back.
    pub fn close(mut self, verbs: &mut dyn Verbs) {
        for endpoint in 0..self.links.len() as u16 {
            self.detach(verbs, EndpointId(endpoint));
        }
    }

    /// Takes an operation, to be read by the access of the configuration.
    ///
    /// # Errors
    /// If too many are under way, or it makes no sense.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        self.begin_by(op, self.config.access)
    }

    /// Takes an operation, to be read in this way. A client that was not configured to read
    /// one-sided or in the network has no readers, and sends requests all the same; one that was
    /// configured to read one-sided does not ask the network.
    ///
    /// # Errors
    /// As for [`IndexClient::begin`].
    pub fn begin_by(&mut self, op: &Op<'_>, access: Access) -> Result<Ticket, BeginError> {
        self.operations.begin(op, access)
    }

    /// Lets operations that are to be read in the network ask the switches, or not; then they begin
    /// at the root. Asking anew counts for the endpoints, too, to which it once broke the way.
    pub fn set_network(&mut self, network: bool) {
        self.config.network = network;
        if network {
            self.refused.fill(false);
        }
        for link in self.links.iter_mut().flatten() {
            link.network = network;
        }
    }

    /// Whether switches are asked on the way to an endpoint.
    pub fn asks_network(&self, endpoint: EndpointId) -> bool {
        let link = self.links.get(endpoint.index()).and_then(Option::as_ref);
        self.config.access == Access::InNetwork && link.is_some_and(|link| link.network)
    }

    /// Appends keys that it has read by READs since this was last called: those that
    /// [`IndexClientConfig::sample`] lets it remember; of a scan, where it began.
    pub fn take_sample(&mut self, keys: &mut Vec<u64>) {
        self.operations.sampler.take(keys);
    }

    /// Gets on with what is under way; an operation that has ended, if there is one.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Reply> {
        if let Some(reply) = self.operations.take_reply() {
            return Some(reply);
        }
        self.advance(now, verbs);
        self.operations.take_reply()
    }

    /// Gets on with what is under way. True if anything came.
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
            // What has to be sent again goes now, and not when something comes next.
            dispatch(verbs, &mut self.links, operations);
            for link in self.links.iter_mut().flatten() {
                link.send(now, verbs);
            }
        }
        came
    }

    /// An operation that has ended, if one is known. Needs no verbs.
    pub fn take(&mut self) -> Option<Reply> {
        self.operations.take_reply()
    }

    /// When to call [`IndexClient::poll`] even if no completion comes; [`Instant::ZERO`] if there
    /// is something to be sent.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.iter().flatten();
        let timeouts = links.filter_map(Link::poll_timeout);
        timeouts.chain(self.operations.poll_timeout()).min()
    }

    /// Operations begun whose end has not been taken.
    pub fn under_way(&self) -> usize {
        self.operations.under_way()
    }

    /// Operations that may be begun now.
    pub fn free(&self) -> usize {
        self.operations.free()
    }

    /// The map that it routes by.
    pub fn map(&self) -> &PartitionMap {
        self.operations.map()
    }

    /// Whether an endpoint cannot be reached: the rack may attach the client again.
    pub fn is_gone(&self, endpoint: EndpointId) -> bool {
        let link = self.links.get(endpoint.index());
        link.and_then(Option::as_ref).is_none_or(Link::is_broken)
    }

    /// What it has seen.
    pub fn statistics(&self) -> ClientStatistics {
        self.operations.statistics
    }

    /// What its readers have seen, all together.
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

/// Sends what is to be sent, as far as there is room.
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
