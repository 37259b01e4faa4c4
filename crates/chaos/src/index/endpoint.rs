//! The endpoints of the index: one polling server thread each.

use super::plan::IndexPlan;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::index::EndpointId;
use rackweave_endpoint::rpc::ServerConfig;
use rackweave_rack::{IndexEndpointSpec, IndexSpec, SharedReplica, SharedServer};
use rackweave_sim::world::{Actor, Context, Step};

/// Maximum payload of requests and replies: small, so that scans and moves take several.
const PAYLOAD_MAX: u32 = 2048;

/// Interval at which a server thread looks that has work which no packet announces.
const LOOK_AGAIN: Duration = Duration::from_micros(1);

/// Time that a replica takes for a few requests.
const REPLICA_WORKS: Duration = Duration::from_nanos(300);

/// The index of a plan.
pub(super) fn spec(plan: &IndexPlan) -> Result<IndexSpec, String> {
    let server = ServerConfig {
        payload_max: PAYLOAD_MAX,
        batch_bytes: 512,
        completions_max: 4,
        ..ServerConfig::new(1)
    };
    let endpoint = |&node| IndexEndpointSpec {
        server,
        ..IndexEndpointSpec::new(node, plan.tree)
    };
    let map = rackweave_endpoint::index::PartitionMap::split(&plan.boundaries);
    let map = map.map_err(|error| error.to_string())?;
    let replicas = match plan.replicas {
        true => plan.endpoints.clone(),
        false => Vec::new(),
    };
    Ok(IndexSpec {
        attributes: plan.pair,
        replicas,
        ..IndexSpec::new(plan.endpoints.iter().map(endpoint).collect(), map)
    })
}

/// A server thread. It ends with its endpoint.
pub(super) struct ServerActor {
    server: SharedServer,
    rng: Rng,
}

impl ServerActor {
    pub fn new(plan: &IndexPlan, endpoint: EndpointId, server: SharedServer, life: u64) -> Self {
        let number = u64::from(endpoint.0) << 8 | life << 16;
        Self {
            server,
            rng: Rng::new(plan.seed ^ number).fork("server"),
        }
    }
}

impl Actor for ServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if self.server.is_stopped() {
            return Step::Done;
        }
        if self.server.poll(now, context.nic()) {
            // A few requests take this long. Others arrive meanwhile, and READs see intermediate
            // states.
            let worked = Duration::from_nanos(100 + self.rng.below(700));
            self.server.note_busy(worked);
            return Step::Compute(worked);
        }
        if self.server.is_waiting() {
            return Step::Sleep(LOOK_AGAIN);
        }
        Step::WaitForPacket
    }
}

/// A server thread of a replica. It ends with it.
pub(super) struct ReplicaActor {
    server: SharedReplica,
}

impl ReplicaActor {
    pub fn new(server: SharedReplica) -> Self {
        Self { server }
    }
}

impl Actor for ReplicaActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if self.server.is_stopped() {
            return Step::Done;
        }
        match self.server.poll(now, context.nic()) {
            true => Step::Compute(REPLICA_WORKS),
            false => Step::WaitForPacket,
        }
    }
}
