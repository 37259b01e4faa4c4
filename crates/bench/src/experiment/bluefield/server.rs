//! A server thread of the index on a core of the host or of the DPU.

use super::{Core, tree};
use crate::harness::prelude::*;
use crate::harness::work::Priced;
use core::cell::Cell;
use rackweave_endpoint::index::Shard;
use rackweave_endpoint::index::message::Method;
use rackweave_rack::SharedServer;
use rackweave_sim::TreeCost;
use rackweave_sim::testbed::Server;

/// Factor by which a server's cores become slower.
const SLOWER: u64 = 2;

/// Costs of operations on a shard, shared by all its threads.
#[derive(Debug)]
pub struct Prices {
    server: Server,
    /// Keys that one key of the real tree stands for.
    scale: u64,
    /// Real keys of the whole index.
    keys: u64,
    node_bytes: u32,
    /// The map version that `cost` belongs to.
    version: Cell<Option<u64>>,
    cost: Cell<TreeCost>,
}

impl Prices {
    /// Prices for a shard on `server` of an index that has `keys` real keys and represents `scale`
    /// times as many.
    pub fn new(server: Server, keys: u64, scale: u64, node_bytes: u32) -> Rc<Self> {
        Rc::new(Self {
            server,
            scale,
            keys,
            node_bytes,
            version: Cell::new(None),
            cost: Cell::new(tree::cost(server, 1, node_bytes)),
        })
    }

    /// The cost of the shard's tree with its current keys.
    fn cost(&self, shard: &Shard) -> TreeCost {
        let version = Some(shard.version());
        if self.version.replace(version) != version {
            let part = shard.part();
            let keys = part.map_or(0, |part| {
                let end = self.keys.min(part.last.saturating_add(1));
                end.saturating_sub(part.low)
            });
            let keys = (keys * self.scale).max(1);
            let cost = tree::cost(self.server, keys, self.node_bytes);
            self.cost.set(cost);
        }
        self.cost.get()
    }
}

/// The cost of a request apart from its dispatch, on a tree of this cost.
fn price(core: Core, cost: TreeCost, method: u16, request: &[u8], answered: u64) -> Duration {
    match Method::from_number(method) {
        Some(Method::Get) => cost.lookup,
        Some(Method::Insert | Method::Update | Method::Put | Method::Delete) => cost.update,
        // A page of entries in order, each of them copied.
        Some(Method::Scan | Method::Export) => cost.lookup + core.verified(answered),
        // Received entries, each of them searched separately.
        Some(Method::Load | Method::Install) => {
            let entries = request.len() as u64 / tree::ENTRY_BYTES;
            cost.update * entries
        }
        _ => core.work(devices::TREE_OPERATION_CYCLES),
    }
}

/// A server thread of the endpoint with these prices; its core may become slower at some time.
pub fn serving(
    server: SharedServer,
    prices: Rc<Prices>,
    slower_from: Option<Instant>,
) -> impl Program {
    let core = Core::of(prices.server);
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES);
    on_core(core, move |now, verbs| {
        let mut thread = server.lock();
        let Some(thread) = thread.as_mut() else {
            return Ok(None);
        };
        let cost = prices.cost(thread.service.shard());
        let price = |_, method, request: &[u8], answered| {
            dispatch + price(core, cost, method, request, answered)
        };
        let mut service = Priced::new(&mut thread.service, price);
        thread.rpc.poll(now, verbs, &mut service);
        let (mut compute, operations) = (service.spent, service.operations);
        if let Some(qpn) = thread.rpc.poll_lost() {
            return Err(format!("the connection {qpn} broke"));
        }
        if slower_from.is_some_and(|from| from <= now) {
            let more = verbs.spent() * (SLOWER - 1);
            verbs.pay(|_| more);
            compute = compute * SLOWER;
        }
        let spent = verbs.spent() + compute;
        if spent > Duration::ZERO {
            let queue = u32::try_from(operations).unwrap_or(u32::MAX);
            thread.service.meter().note_busy(spent, queue);
        }
        Ok(Some((compute, None)))
    })
}
