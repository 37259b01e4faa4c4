//! The software counter: threads of a node that answer requests for sequence numbers.

use super::agent::NodeSource;
use super::{CounterServerSpec, Result, on_node};
use crate::index::Shared;
use crate::{Node, Rack};
use rackweave_base::NodeId;
use rackweave_endpoint::rpc::{Server, ServerConfig};
use rackweave_endpoint::sequencer::{CounterService, Counters};
use rackweave_verbs::Verbs;

/// A server thread of a counter; empty once the sequencer has been removed. A caller that also
/// locks its node must lock the node first.
pub type CounterServer = Shared<CounterThread>;

/// The parts of a server thread of a counter.
#[derive(Debug)]
pub struct CounterThread {
    /// The connections.
    pub rpc: Server,
    /// The handler of requests.
    pub service: CounterService,
}

/// Makes a server with a counter of this name.
pub(super) fn serve(
    rack: &Rack,
    spec: &CounterServerSpec,
    name: u64,
    first: u64,
) -> Result<NodeSource> {
    let counters = Counters::new();
    counters.create(name, first)?;
    let mut threads: Vec<(Node, CounterServer)> = Vec::new();
    for at in 0..spec.threads.max(1) {
        let node = NodeId(spec.node.0 + at % spec.ports.max(1));
        let config = ServerConfig {
            incarnation: rack.random_number() | 1,
            ..spec.server
        };
        let rpc = on_node(rack, node, |verbs| {
            let pd = verbs.create_pd();
            Ok(Server::new(verbs, rack.memory(), pd, config)?)
        });
        match rpc {
            Ok(rpc) => {
                let service = CounterService::new(counters.clone());
                let thread = Shared::new(CounterThread { rpc, service });
                threads.push((rack.node_at(node), thread));
            }
            Err(error) => {
                stop(rack, &threads);
                return Err(error);
            }
        }
    }
    Ok(NodeSource::Server {
        counters,
        name,
        threads,
        clients: 0,
    })
}

pub(super) fn stop(rack: &Rack, threads: &[(Node, CounterServer)]) {
    for (node, thread) in threads {
        let thread = thread.lock().take();
        if let Some(thread) = thread {
            rack.on_node(node.id(), |verbs| thread.rpc.close(verbs));
        }
    }
}

impl CounterServer {
    /// Answers pending requests. Returns true if there were any.
    pub fn poll(&self, now: rackweave_base::Instant, verbs: &mut dyn Verbs) -> bool {
        match self.lock().as_mut() {
            Some(CounterThread { rpc, service }) => rpc.poll(now, verbs, service),
            None => false,
        }
    }
}
