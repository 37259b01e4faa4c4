//! Clients and the coordinator: they join, leave, and connect to endpoints.

use super::world::{Client, ENDPOINTS, KEYS, THREADS, USERS, World, client_config, connect};
use crate::index::map::EndpointId;
use crate::index::op::Access;
use crate::index::reader::ReaderConfig;
use crate::index::rebalancer::Step;
use crate::index::{Coordinator, CoordinatorConfig, IndexClient, IndexClientConfig};
use crate::test_network::Network;
use rackweave_base::Qpn;
use rackweave_verbs::{QpCapabilities, Verbs};
use std::collections::HashMap;

/// An endpoint's queue pair to a user.
pub struct Accepted {
    /// The name of the client or coordinator.
    pub user: u64,
    pub endpoint: EndpointId,
    /// The thread whose server it belongs to; `None`: it is for READs.
    pub thread: Option<usize>,
    pub qpn: Qpn,
    /// Whether the user does not have it any more.
    pub is_unused: bool,
}

impl World {
    pub fn join(&mut self, access: Access) {
        let config = IndexClientConfig {
            operations: 6,
            access,
            rpc: client_config(6),
            reader: ReaderConfig {
                walks: 4,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        };
        let map = self.endpoints.iter().flatten().next().unwrap().shard.map();
        self.names += 1;
        self.clients.push(Client {
            name: self.names,
            client: IndexClient::new((*map).clone(), config),
            access,
            pending: HashMap::new(),
        });
    }

    /// A client dies. Whether its pending operations take effect is open.
    pub fn leave(&mut self, at: usize) {
        let client = self.clients.swap_remove(at);
        client.client.close(&mut self.network.nics[USERS]);
        self.disuse(client.name, None);
        self.join(client.access);
    }

    /// A user does not have its queue pairs to an endpoint, or to all, any more.
    fn disuse(&mut self, user: u64, endpoint: Option<EndpointId>) {
        for accepted in &mut self.accepted {
            let is_meant = endpoint.is_none_or(|endpoint| endpoint == accepted.endpoint);
            accepted.is_unused |= accepted.user == user && is_meant;
        }
    }

    /// The endpoints learn which queue pairs are not used any more.
    pub fn release(&mut self) {
        for accepted in self.accepted.extract_if(.., |accepted| accepted.is_unused) {
            let Some(endpoint) = &mut self.endpoints[accepted.endpoint.index()] else {
                continue;
            };
            let nic = &mut self.network.nics[endpoint.node];
            match accepted.thread {
                Some(thread) => drop(endpoint.threads[thread].rpc.remove(nic, accepted.qpn)),
                None => drop(nic.destroy_qp(accepted.qpn)),
            }
        }
    }

    fn note(&mut self, user: u64, endpoint: EndpointId, thread: Option<usize>, qpn: Qpn) {
        self.accepted.push(Accepted {
            user,
            endpoint,
            thread,
            qpn,
            is_unused: false,
        });
    }

    /// Connects clients and the coordinator to endpoints that they cannot reach.
    pub fn attach(&mut self) {
        for id in ENDPOINTS {
            for at in 0..self.clients.len() {
                if self.clients[at].client.is_gone(id) && self.endpoints[id.index()].is_some() {
                    self.attach_client(at, id);
                }
            }
        }
        if self.coordinator.is_none() && self.endpoints.iter().all(Option::is_some) {
            self.coordinate();
        }
    }

    fn attach_client(&mut self, at: usize, id: EndpointId) {
        self.disuse(self.clients[at].name, Some(id));
        let endpoint = self.endpoints[id.index()].as_mut().unwrap();
        let (node, thread) = (endpoint.node, self.rng.below(THREADS as u64) as usize);
        let Network { nics, memory, .. } = &mut self.network;
        let pd = nics[USERS].create_pd();
        let Client { client, name, .. } = &mut self.clients[at];
        let user = *name;
        let ends = client.attach(&mut nics[USERS], memory, pd, id, endpoint.remote);
        let ends = ends.unwrap();
        let far = endpoint.threads[thread].rpc.accept(&mut nics[node]);
        // The server may not know yet which of its clients have left.
        let Ok(far) = far else {
            return client.detach(&mut nics[USERS], id);
        };
        connect(&mut self.network, (USERS, ends.rpc), (node, far));
        if let Some(reader) = ends.reader {
            let capabilities = QpCapabilities {
                send_max: 1,
                receive_max: 1,
                segments_max: 1,
            };
            let nic = &mut self.network.nics[node];
            let far = nic.create_qp(endpoint.pd, endpoint.cq, endpoint.cq, capabilities);
            let reader_far = far.unwrap();
            endpoint.readers.push(reader_far);
            connect(&mut self.network, (USERS, reader), (node, reader_far));
            self.note(user, id, None, reader_far);
        }
        self.note(user, id, Some(thread), far);
    }

    fn coordinate(&mut self) {
        self.names += 1;
        let map = self.endpoints[0].as_ref().unwrap().shard.map();
        let config = CoordinatorConfig {
            rpc: client_config(4),
            chunk: 40,
            name: self.names as u32,
            ..CoordinatorConfig::default()
        };
        let mut coordinator = Coordinator::new((*map).clone(), config);
        self.coordinates = self.names;
        for id in ENDPOINTS {
            let endpoint = self.endpoints[id.index()].as_mut().unwrap();
            let Network { nics, memory, .. } = &mut self.network;
            let pd = nics[USERS].create_pd();
            let near = coordinator.attach(&mut nics[USERS], memory, pd, id);
            let far = endpoint.threads[0].rpc.accept(&mut nics[endpoint.node]);
            let Ok(far) = far else {
                coordinator.close(&mut nics[USERS]);
                return self.disuse(self.coordinates, None);
            };
            connect(
                &mut self.network,
                (USERS, near.unwrap()),
                (endpoint.node, far),
            );
            self.note(self.coordinates, id, Some(0), far);
        }
        self.coordinator = Some(coordinator);
    }

    /// The coordinator dies.
    pub fn dismiss(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.close(&mut self.network.nics[USERS]);
            self.disuse(self.coordinates, None);
        }
    }

    /// Begins a move of some keys, if one can begin.
    pub fn begin_move(&mut self) {
        let Some(coordinator) = &mut self.coordinator else {
            return;
        };
        let Some(border) = coordinator.map().parts().get(1).map(|part| part.low) else {
            return;
        };
        let count = self.rng.between(1, 100);
        let (low, last, from) = match self.rng.chance(0.5) {
            true => (border.saturating_sub(count).max(20), border - 1, 0),
            false => (border, (border + count).min(KEYS - 20), 1),
        };
        if low <= last {
            let (from, to) = (ENDPOINTS[from], ENDPOINTS[1 - from]);
            // Another move may be in progress.
            let _ = coordinator.begin_move(Step {
                from,
                to,
                low,
                last,
            });
        }
    }

    pub fn coordinator_is_ready(&self) -> bool {
        self.coordinator.as_ref().is_some_and(Coordinator::is_ready)
    }

    /// Moves a range to the other endpoint.
    pub fn move_keys(&mut self, from: usize, low: u64, last: u64) {
        let (from, to) = (ENDPOINTS[from], ENDPOINTS[1 - from]);
        let step = Step {
            from,
            to,
            low,
            last,
        };
        self.coordinator.as_mut().unwrap().begin_move(step).unwrap();
    }
}
