//! The threads of the index: servers on cores of the host or of the DPU, and clients on the compute
//! node, each with several operations in flight.

use super::{Core, tree};
use crate::harness::metered::Priced;
use crate::harness::prelude::*;
use rackweave_endpoint::index::message::Method;
use rackweave_endpoint::index::{Answer, IndexClient, Op, Reply, Shard, Ticket};
use rackweave_rack::{Attached, SharedServer};
use rackweave_sim::TreeCost;

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

#[derive(Clone, Debug)]
pub enum Keys {
    /// Uniformly distributed over this many keys.
    Uniform(u64),
    /// Zipfian, with the lowest keys the most popular.
    Ordered(Zipf),
}

impl Keys {
    fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(keys) => rng.below(*keys),
            Self::Ordered(zipf) => zipf.sample(rng),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Mix {
    pub keys: Keys,
    /// The share of updates in all operations.
    pub updates: f64,
}

impl Mix {
    /// Uniform over this many keys, with this share of updates.
    pub fn uniform(keys: u64, updates: f64) -> Self {
        let keys = Keys::Uniform(keys);
        Self { keys, updates }
    }
}

/// A client thread, with as many operations in flight as its client allows.
pub fn client(
    mut client: Attached<IndexClient>,
    mix: Mix,
    mut rng: Rng,
    tally: Shared,
) -> impl Program {
    let core = Core::of(Server::Compute);
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES);
    // Operations in flight: their start times and keys.
    let mut going: HashMap<Ticket, (Instant, u64)> = HashMap::new();
    on_core(core, move |now, verbs| {
        let mut spent = Duration::ZERO;
        client.advance(now, verbs);
        while let Some(reply) = client.take() {
            spent += dispatch;
            let asked = going.remove(&reply.ticket);
            let (since, key) = asked.ok_or("an answer to no question")?;
            check(key, &reply)?;
            tally.borrow_mut().end(since, now + verbs.spent() + spent);
        }
        if client.free() > 0 {
            while client.free() > 0 {
                spent += dispatch;
                let key = mix.keys.draw(&mut rng);
                let value = tree::value_of(key).to_le_bytes();
                // An update writes the existing value, so every reply can be checked.
                let op = match rng.chance(mix.updates) {
                    true => Op::Update { key, value: &value },
                    false => Op::Get { key },
                };
                let begun = client.begin(&op);
                let ticket = begun.map_err(|error| format!("key {key}: {error}"))?;
                going.insert(ticket, (now, key));
            }
            client.advance(now, verbs);
        }
        Ok(Some((spent, client.poll_timeout())))
    })
}

fn check(key: u64, reply: &Reply) -> Result<(), Failure> {
    match &reply.result {
        Ok(Answer::Found(true)) => Ok(()),
        Ok(Answer::Value(Some(value))) if value.word() == Some(tree::value_of(key)) => Ok(()),
        Ok(answer) => Err(format!("key {key}: {answer:?}")),
        Err(error) => Err(format!("key {key}: {error}")),
    }
}
