//! The endpoints of the index: a shard, a server thread that polls, and what their NICs hold.

use super::plan::Plan;
use core::cell::RefCell;
use rackweave_base::{Block, Duration, Memory, NodeId, Qpn, Rng};
use rackweave_endpoint::btree::Tree;
use rackweave_endpoint::index::{
    EndpointId, IndexServer, PartitionMap, RemoteTree, ServerThread, Shard,
};
use rackweave_endpoint::rpc::{self, ServerConfig};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::{Access, CqId, PdId, QpCapabilities, Region, Verbs};
use std::rc::Rc;
use std::sync::Arc;

/// Where a server thread and the programs beside it find their endpoint: nothing while it is down.
pub(super) struct Seat {
    pub endpoint: EndpointId,
    pub node: NodeId,
    live: RefCell<Option<Live>>,
}

/// An endpoint that is up.
pub(super) struct Live {
    pub shard: Arc<Shard>,
    pub remote: RemoteTree,
    thread: ServerThread,
    pd: PdId,
    /// Of the queue pairs that only answer READs.
    cq: CqId,
    readers: Vec<Qpn>,
    tree: Region,
    version: Region,
}

/// The ends that an endpoint has for one client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Accepted {
    pub rpc: Qpn,
    pub reader: Option<Qpn>,
}

/// Sizes of requests and replies: small, so that scans and moves take several.
pub(super) const PAYLOAD_MAX: u32 = 2048;

impl Seat {
    pub fn new(endpoint: EndpointId, node: NodeId) -> Rc<Self> {
        Rc::new(Self {
            endpoint,
            node,
            live: RefCell::new(None),
        })
    }

    pub fn shard(&self) -> Option<Arc<Shard>> {
        self.live.borrow().as_ref().map(|live| live.shard.clone())
    }

    pub fn remote(&self) -> Option<RemoteTree> {
        self.live.borrow().as_ref().map(|live| live.remote)
    }

    pub fn is_up(&self) -> bool {
        self.live.borrow().is_some()
    }

    /// The endpoint is up, with the tree in this block.
    pub fn start(
        &self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        tree: Tree,
        map: PartitionMap,
        incarnation: u64,
    ) -> Result<(), String> {
        let who = self.endpoint;
        let told = |error: &dyn core::fmt::Display| format!("{who} does not start: {error}");
        let block = tree.block().clone();
        let shard = Shard::new(memory, who, tree, map).map_err(|error| told(&error))?;
        let pd = verbs.create_pd();
        let mut register = |block: Block| {
            let made = verbs.register(pd, block, Access::REMOTE_READ);
            made.map_err(|error| told(&error))
        };
        let tree = register(block)?;
        let version = register(shard.version_block().clone())?;
        let config = ServerConfig {
            payload_max: PAYLOAD_MAX,
            batch_bytes: 512,
            completions_max: 4,
            ..ServerConfig::new(incarnation)
        };
        let server = rpc::Server::new(verbs, memory, pd, config).map_err(|error| told(&error))?;
        let cq = verbs.create_cq(16).map_err(|error| told(&error))?;
        let shard = Arc::new(shard);
        self.live.replace(Some(Live {
            remote: shard.remote(&tree, &version),
            thread: ServerThread {
                rpc: server,
                service: IndexServer::new(shard.clone()),
            },
            shard,
            pd,
            cq,
            readers: Vec::new(),
            tree,
            version,
        }));
        Ok(())
    }

    /// The endpoint's process ends. What it had in its tree is in the block that comes back.
    /// `verbs` is nothing if its NIC is gone, too.
    pub fn stop(&self, verbs: Option<&mut dyn Verbs>) -> Option<Arc<Shard>> {
        let live = self.live.take()?;
        if let Some(verbs) = verbs {
            live.thread.rpc.close(verbs);
            for qpn in live.readers {
                // What the NIC no longer knows needs no giving back.
                let _ = verbs.destroy_qp(qpn);
            }
            let _ = verbs.destroy_cq(live.cq);
            verbs.deregister(&live.tree);
            verbs.deregister(&live.version);
        }
        Some(live.shard)
    }

    /// Makes the ends for one more client.
    pub fn accept(&self, verbs: &mut dyn Verbs, reads: bool) -> Result<Accepted, String> {
        let mut live = self.live.borrow_mut();
        let live = live.as_mut().ok_or("the endpoint is down")?;
        let rpc = live.thread.rpc.accept(verbs);
        let rpc = rpc.map_err(|error| error.to_string())?;
        let reader = if reads {
            let capabilities = QpCapabilities {
                send_max: 1,
                receive_max: 1,
                segments_max: 1,
            };
            let made = verbs.create_qp(live.pd, live.cq, live.cq, capabilities);
            let qpn = made.map_err(|error| error.to_string())?;
            live.readers.push(qpn);
            Some(qpn)
        } else {
            None
        };
        Ok(Accepted { rpc, reader })
    }

    /// A client's ends are of no use any more.
    pub fn remove(&self, verbs: &mut dyn Verbs, accepted: Accepted) {
        let mut live = self.live.borrow_mut();
        let Some(live) = live.as_mut() else { return };
        live.thread.rpc.remove(verbs, accepted.rpc);
        if let Some(qpn) = accepted.reader
            && live.readers.contains(&qpn)
        {
            live.readers.retain(|&other| other != qpn);
            // As above.
            let _ = verbs.destroy_qp(qpn);
        }
    }
}

/// A server thread. It ends with its endpoint.
pub(super) struct ServerActor {
    seat: Rc<Seat>,
    rng: Rng,
}

impl ServerActor {
    pub fn new(plan: &Plan, seat: Rc<Seat>, life: u64) -> Self {
        let number = u64::from(seat.endpoint.0) << 8 | life << 16;
        Self {
            seat,
            rng: Rng::new(plan.seed ^ number).fork("server"),
        }
    }
}

impl Actor for ServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let mut live = self.seat.live.borrow_mut();
        let Some(live) = live.as_mut() else {
            return Step::Done;
        };
        if live.thread.poll(now, context.nic()) {
            // So long a few requests take. Others come meanwhile, and READs see what is between.
            let worked = Duration::from_nanos(100 + self.rng.below(700));
            live.thread.service.meter().note_busy(worked, 0);
            return Step::Compute(worked);
        }
        Step::WaitForPacket
    }
}
