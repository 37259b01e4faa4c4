//! The index of the campaign, and the endpoints that have to be restarted.

use super::super::journal::{Event, IndexEvent, Journal, System};
use super::super::shared::{INDEX, KEYS, VALUE_MAX};
use super::Objects;
use rackweave_base::NodeId;
use rackweave_endpoint::index::EndpointId;
use rackweave_rack::config::Role;
use rackweave_rack::services::{IndexOptions, IndexService, IndexServiceError};
use rackweave_rack::{IndexNetworkSpec, Rack};
use rackweave_sim::checkers::index_history::{ValueStamp, fill_value};
use std::collections::BTreeSet;

/// So many consecutive seeds have indexes with replicas, and so many without: with each kind of
/// link, with and without TLS.
const SAME_COPIES: u64 = 4;

/// An endpoint of the index.
pub(super) struct Endpoint {
    pub node: NodeId,
    /// Its first key.
    first: u64,
    /// Whether it has to be restarted.
    pub is_gone: bool,
    /// Whether an attempt has failed, which may have restarted it.
    has_failed: bool,
}

impl Objects {
    /// Notes which endpoints were at nodes that have left, and which were replaced by replicas.
    pub(super) fn look_at_endpoints(&mut self, left: &BTreeSet<NodeId>) {
        for (endpoint, now) in self.endpoints.iter_mut().zip(self.index.replicas()) {
            endpoint.is_gone |= left.contains(&endpoint.node);
            if endpoint.node != now.node {
                self.journal
                    .note(Event::Index(0, IndexEvent::Replaced(now.node.0)));
                // That node may have left as well since.
                endpoint.node = now.node;
                endpoint.is_gone = left.contains(&now.node);
            }
        }
    }

    /// Whether the index has as many copies of every value as it should have.
    pub(super) fn has_all_copies(&self) -> bool {
        let has_replicas = !self.index.index().spec().replicas.is_empty();
        !has_replicas || self.index.replicas().iter().all(|it| it.is_whole)
    }

    pub(super) fn restart_endpoint(&mut self, at: usize) -> bool {
        let Endpoint {
            node,
            first,
            is_gone,
            has_failed,
        } = self.endpoints[at];
        if !is_gone {
            return true;
        }
        match self.index.restart(EndpointId(at as u16)) {
            Ok(loss) => {
                (self.endpoints[at].is_gone, self.endpoints[at].has_failed) = (false, false);
                if loss.lost.is_some() {
                    let next = self.endpoints.get(at + 1);
                    let last = next.map_or(u64::MAX, |next| next.first - 1);
                    let restarted = IndexEvent::Restarted(node.0, (first, last), has_failed);
                    self.note(Event::Index(0, restarted));
                    // It may have started at another node, with nothing.
                    self.endpoints[at].node = self.index.replicas()[at].node;
                }
                true
            }
            Err(error) => {
                self.endpoints[at].has_failed = true;
                self.note(Event::Failed(System::Index, error.to_string()));
                false
            }
        }
    }
}

pub(super) fn make_index(
    rack: &Rack,
    seed: u64,
    journal: &Journal,
) -> Result<(IndexService, Vec<Endpoint>), IndexServiceError> {
    let mut nodes = rack.config().nodes_of(Role::Storage);
    nodes.truncate(2);
    let firsts = [0, KEYS / 2];
    let options = IndexOptions {
        nodes: nodes.clone(),
        boundaries: firsts[1..nodes.len().max(1)].to_vec(),
        keys: 4096,
        value_max: VALUE_MAX,
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        copies: match (seed / SAME_COPIES).is_multiple_of(2) {
            true => 2,
            false => 1,
        },
        ..IndexOptions::default()
    };
    let index = IndexService::new(rack, &options)?;
    let value = |key: u64| {
        let mut bytes = vec![0; VALUE_MAX as usize];
        // The campaign's values have the numbers of their keys.
        fill_value(&mut bytes, key, ValueStamp::new(key as u32), seed);
        journal.note(Event::Index(0, IndexEvent::Loaded(key, key as u32)));
        (key, bytes)
    };
    let loaded: Vec<_> = (0..KEYS).step_by(2).map(value).collect();
    index.load(loaded)?;
    index.share(INDEX)?;
    let endpoint = |(node, first)| Endpoint {
        node,
        first,
        is_gone: false,
        has_failed: false,
    };
    Ok((index, nodes.into_iter().zip(firsts).map(endpoint).collect()))
}
