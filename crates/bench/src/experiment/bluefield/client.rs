//! A thread of the compute node that uses the index, with several operations in flight.

use super::{Core, tree};
use crate::harness::prelude::*;
use rackweave_endpoint::index::{Answer, IndexClient, Op, Reply, Ticket};
use rackweave_rack::Attached;
use rackweave_sim::testbed::Server;
use rackweave_workload::ycsb::Zipf;

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
