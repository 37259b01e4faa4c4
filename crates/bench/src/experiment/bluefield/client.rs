//! A thread of the compute node that uses the index, with several operations in flight.

use super::{Core, tree};
use crate::harness::metered::{Metered, MeteredProgram, Worked};
use crate::harness::tally::Shared;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Reply, Ticket};
use rackweave_rack::Attached;
use rackweave_sim::devices;
use rackweave_workload::ycsb::Zipf;
use std::collections::HashMap;

/// The keys that a client requests.
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

/// The requested operations.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The distribution of keys.
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

/// A client thread.
pub struct ClientActor {
    /// The client, with its connections.
    pub(super) client: Attached<IndexClient>,
    pub(super) mix: Mix,
    pub(super) rng: Rng,
    /// Operations in flight: their start times and keys.
    pub(super) going: HashMap<Ticket, (Instant, u64)>,
    pub(super) tally: Shared,
}

impl ClientActor {
    fn begin(&mut self, now: Instant) -> Result<(), String> {
        let key = self.mix.keys.draw(&mut self.rng);
        let value = tree::value_of(key).to_le_bytes();
        // An update writes the existing value, so every reply can be checked.
        let op = match self.rng.chance(self.mix.updates) {
            true => Op::Update { key, value: &value },
            false => Op::Get { key },
        };
        let begun = self.client.begin(&op);
        let ticket = begun.map_err(|error| format!("key {key}: {error}"))?;
        self.going.insert(ticket, (now, key));
        Ok(())
    }

    fn check(key: u64, reply: &Reply) -> Result<(), String> {
        match &reply.result {
            Ok(Answer::Found(true)) => Ok(()),
            Ok(Answer::Value(Some(value))) if value.word() == Some(tree::value_of(key)) => Ok(()),
            Ok(answer) => Err(format!("key {key}: {answer:?}")),
            Err(error) => Err(format!("key {key}: {error}")),
        }
    }
}

impl MeteredProgram for ClientActor {
    type Toll = Core;

    fn work(&mut self, now: Instant, verbs: &mut Metered<'_, Core>) -> Worked {
        let dispatch = verbs.toll().work(devices::RPC_DISPATCH_CYCLES);
        let mut spent = Duration::ZERO;
        self.client.advance(now, verbs);
        while let Some(reply) = self.client.take() {
            spent += dispatch;
            let going = self.going.remove(&reply.ticket);
            let (since, key) = going.ok_or("an answer to no question")?;
            Self::check(key, &reply)?;
            self.tally
                .borrow_mut()
                .end(since, now + verbs.spent() + spent);
        }
        if self.client.free() > 0 {
            while self.client.free() > 0 {
                spent += dispatch;
                self.begin(now)?;
            }
            self.client.advance(now, verbs);
        }
        Ok(Some(spent))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }
}
