//! An endpoint's connections to its replica.

use super::Running;
use crate::Rack;
use crate::index::IndexSetUpError;
use crate::index::replica::payload_max;
use crate::index::set_up::on_node;
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::index::EndpointId;
use rackweave_endpoint::rpc::{Client, ClientConfig};
use rackweave_verbs::Verbs;

/// Queue pairs to a replica that the threads do not have yet.
#[derive(Debug)]
pub(super) struct Backups {
    epoch: u64,
    /// Those of the threads for connections, then those of the threads for datagrams.
    clients: Vec<(NodeId, Client)>,
}

impl Running {
    /// Makes a queue pair for every thread, and connects it to one of a replica.
    pub fn connect_replica(
        &mut self,
        rack: &Rack,
        epoch: u64,
        (to, attributes): (&[(NodeId, Qpn)], &PairAttributes),
    ) -> Result<(), IndexSetUpError> {
        self.drop_backups(rack);
        let connected = (0..self.threads.len() as u16).map(|at| self.port_of(at));
        let datagrams = self.datagrams.iter().map(|_| self.port_of(0));
        let ports: Vec<_> = connected
            .chain(datagrams)
            .map(|port| (port.node, port.pd))
            .collect();
        let config = ClientConfig {
            payload_max: payload_max(self.payload_max),
            ..ClientConfig::default()
        };
        let backups = self.backups.insert(Backups {
            epoch,
            clients: Vec::new(),
        });
        let connected = ports.into_iter().zip(to).try_for_each(|((node, pd), to)| {
            let client = on_node(rack, node, |verbs| {
                Ok(Client::new(verbs, rack.memory(), pd, config)?)
            })?;
            let qpn = client.qpn();
            backups.clients.push((node, client));
            Ok(rack.connect((node, qpn), *to, attributes)?)
        });
        if connected.is_err() {
            self.drop_backups(rack);
        }
        connected
    }

    /// They are connected: the threads get them, and begin to copy keys.
    pub fn replicate(
        &mut self,
        rack: &Rack,
        endpoint: EndpointId,
        epoch: u64,
    ) -> Result<(), IndexSetUpError> {
        let gone = IndexSetUpError::NoEndpoint(endpoint);
        let backups = self.backups.take_if(|backups| backups.epoch == epoch);
        let mut clients = backups.ok_or(gone.clone())?.clients.into_iter();
        let now = rack.now();
        let mut attached = Ok(());
        for thread in &self.threads {
            let Some((node, client)) = clients.next() else {
                break;
            };
            let result = on_node(rack, node, |verbs| match thread.lock().as_mut() {
                Some(it) => Ok(it.service.attach_replica(now, verbs, epoch, client)?),
                None => {
                    client.close(verbs);
                    Ok(())
                }
            });
            attached = attached.and(result);
        }
        for (thread, (node, client)) in self.datagrams.iter().zip(clients) {
            let result = on_node(rack, node, |verbs| match thread.lock().as_mut() {
                Some(it) => Ok(it.service().attach_replica(now, verbs, epoch, client)?),
                None => {
                    client.close(verbs);
                    Ok(())
                }
            });
            attached = attached.and(result);
        }
        let begun = attached.and_then(|()| Ok(self.shard.replicate(epoch)?));
        if begun.is_err() {
            self.shard.uncover(epoch);
        }
        begun
    }

    /// Goes on without the replica of an epoch.
    pub fn uncover(&mut self, rack: &Rack, epoch: u64) {
        self.drop_backups(rack);
        self.shard.uncover(epoch);
    }

    /// Frees queue pairs that no thread has.
    pub(super) fn drop_backups(&mut self, rack: &Rack) {
        let backups = self.backups.take().into_iter();
        for (node, client) in backups.flat_map(|backups| backups.clients) {
            rack.on_node(node, |verbs: &mut dyn Verbs| client.close(verbs));
        }
    }
}
