//! Client–server mode: client threads that send UDP datagrams, and memory server threads that
//! reply.

use super::database::Database;
use super::walk::WalkCost;
use crate::harness::drive::{Failure, Program};
use crate::harness::metered::after;
use crate::harness::tally::Shared;
use crate::harness::work::Core;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::index::{Answer, DatagramClient, Op, Reply, Ticket};
use rackweave_rack::SharedDatagramServer;
use rackweave_sim::world::{Context, Step};
use rackweave_sim::{Category, devices};
use rackweave_verbs::Datagrams;
use rackweave_wire::fabric::lookup;
use std::collections::HashMap;
use std::rc::Rc;

/// Time to send a datagram: a descriptor and a doorbell, as for a work request.
fn sending(core: &Core) -> Duration {
    core.work(devices::WORK_REQUEST_CYCLES + devices::DOORBELL_CYCLES)
}

/// Time to receive one of `bytes` bytes: completion, lines, a new buffer, parsing.
fn receiving(core: &Core, bytes: u64) -> Duration {
    let cycles = devices::RECEIVE_REQUEST_CYCLES + devices::RPC_DISPATCH_CYCLES;
    core.cpu.poll_cost + core.arrived(bytes) + core.work(cycles)
}

/// The operations of clients.
#[derive(Clone, Debug)]
pub struct Asks {
    /// The records.
    pub database: Database,
    /// The records, in the order of requests; the trees have their whole values.
    pub asked: Rc<[u64]>,
    /// The share of updates in all operations.
    pub updates: f64,
}

/// A thread of the computing client: it keeps as many operations in flight as its client allows,
/// until the tally's window is over.
pub struct AskingActor {
    /// None once the window is over.
    pub(super) client: Option<DatagramClient>,
    pub(super) core: Core,
    pub(super) asks: Asks,
    /// Index of the next one.
    pub(super) next: usize,
    pub(super) rng: Rng,
    /// Operations in flight: their start times and records.
    pub(super) going: HashMap<Ticket, (Instant, u64)>,
    pub(super) tally: Shared,
}

impl AskingActor {
    fn begin(&mut self, client: &mut DatagramClient, now: Instant) -> Result<(), String> {
        let asked = &self.asks.asked;
        let number = asked[self.next % asked.len()];
        self.next += 1;
        let key = self.asks.database.key(number);
        // An update writes the existing value, so every reply can be checked.
        let begun = if self.rng.chance(self.asks.updates) {
            let value = self.asks.database.value(number);
            let value = &value;
            client.begin(&Op::Update { key, value })
        } else {
            client.begin(&Op::Get { key })
        };
        let ticket = begun.map_err(|error| format!("key {key:#x}: {error}"))?;
        self.going.insert(ticket, (now, number));
        Ok(())
    }

    fn end(&mut self, reply: &Reply, now: Instant) -> Result<(), String> {
        let going = self.going.remove(&reply.ticket);
        let (since, number) = going.ok_or("an answer to no question")?;
        let database = self.asks.database;
        let key = database.key(number);
        match &reply.result {
            Ok(Answer::Found(true)) => {}
            Ok(Answer::Value(Some(value))) if **value == *database.value(number) => {}
            Ok(answer) => return Err(format!("key {key:#x}: {answer:?}")),
            Err(error) => return Err(format!("key {key:#x}: {error}")),
        }
        self.tally.borrow_mut().end(since, now);
        Ok(())
    }

    /// One turn. Returns its cost, or none if the window is over.
    fn work(
        &mut self,
        client: &mut DatagramClient,
        now: Instant,
        datagrams: &mut dyn Datagrams,
    ) -> Result<Option<Duration>, String> {
        let mut spent = Duration::ZERO;
        let before = client.datagram_statistics().sent;
        client.advance(now, datagrams);
        while let Some(reply) = client.take() {
            let bytes = lookup::HEADER_LEN as u64 + u64::from(self.asks.database.value_bytes);
            spent += receiving(&self.core, bytes);
            self.end(&reply, now + spent)?;
        }
        if now >= self.tally.borrow().until() {
            return Ok((!self.going.is_empty()).then_some(spent));
        }
        if client.free() > 0 {
            while client.free() > 0 {
                self.begin(client, now + spent)?;
                spent += self.core.work(devices::RPC_DISPATCH_CYCLES);
            }
            client.advance(now, datagrams);
        }
        for _ in before..client.datagram_statistics().sent {
            spent += sending(&self.core);
        }
        Ok(Some(spent))
    }
}

impl Program for AskingActor {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let Some(mut client) = self.client.take() else {
            return Ok(Step::Done);
        };
        let now = context.now();
        let Some(spent) = self.work(&mut client, now, context.nic())? else {
            client.close(context.nic());
            return Ok(Step::Done);
        };
        let timeout = client.poll_timeout();
        self.client = Some(client);
        context.charge(Category::Communication, spent);
        Ok(after(spent, timeout))
    }
}

/// A thread of a memory server. Its server must be set to serve one request per poll.
pub struct ServingActor {
    pub(super) server: SharedDatagramServer,
    pub(super) core: Core,
    pub(super) cost: WalkCost,
    /// Bytes of a request, and of a reply.
    pub(super) request_bytes: u64,
}

impl Program for ServingActor {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let mut server = self.server.lock();
        let Some(server) = server.as_mut() else {
            return Ok(Step::Done);
        };
        let before = server.statistics();
        if server.poll(context.now(), context.nic()) == 0 {
            return Ok(Step::WaitForPacket);
        }
        let walked = server.statistics().levels_walked - before.levels_walked;
        // A request that has walked no levels, unlike a lookup, is an update.
        let walk = match walked {
            0 => self.cost.update(),
            levels => self.cost.lookup(levels),
        };
        context.charge(Category::Compute, walk);
        let packets = receiving(&self.core, self.request_bytes) + sending(&self.core);
        context.charge(Category::Communication, packets);
        Ok(Step::Compute(Duration::ZERO))
    }
}
