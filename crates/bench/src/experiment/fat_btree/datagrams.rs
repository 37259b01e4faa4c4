//! Client–server mode: client threads that send UDP datagrams, and memory server threads that
//! reply.

use super::client::check;
use super::database::Database;
use super::walk::WalkCost;
use crate::harness::drive::{Failure, Program, Turn};
use crate::harness::metered::after;
use crate::harness::tally::Shared;
use crate::harness::work::Core;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::index::{DatagramClient, Op, Ticket};
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

/// A thread of the computing client: it keeps as many operations in flight as `made` allows, until
/// the tally's window is over. Its first operation is the `next`-th of `asks`.
pub fn asking(
    made: DatagramClient,
    core: Core,
    asks: Asks,
    mut next: usize,
    mut rng: Rng,
    tally: Shared,
) -> impl Program {
    // None once the window is over.
    let mut client = Some(made);
    // Operations in flight: their start times and records.
    let mut going: HashMap<Ticket, (Instant, u64)> = HashMap::new();
    let reply_bytes = lookup::HEADER_LEN as u64 + u64::from(asks.database.value_bytes);
    // One turn. Returns its cost, or none if the window is over.
    let mut work = move |client: &mut DatagramClient,
                         now: Instant,
                         nic: &mut dyn Datagrams|
          -> Result<Option<Duration>, Failure> {
        let mut spent = Duration::ZERO;
        let before = client.datagram_statistics().sent;
        client.advance(now, nic);
        while let Some(reply) = client.take() {
            spent += receiving(&core, reply_bytes);
            let asked = going.remove(&reply.ticket);
            let (since, number) = asked.ok_or("an answer to no question")?;
            check(&asks.database, number, &reply, true)?;
            tally.borrow_mut().end(since, now + spent);
        }
        if now >= tally.borrow().until() {
            return Ok((!going.is_empty()).then_some(spent));
        }
        if client.free() > 0 {
            while client.free() > 0 {
                let number = asks.asked[next % asks.asked.len()];
                next += 1;
                let ticket = begin(client, &asks, number, &mut rng)?;
                going.insert(ticket, (now + spent, number));
                spent += core.work(devices::RPC_DISPATCH_CYCLES);
            }
            client.advance(now, nic);
        }
        for _ in before..client.datagram_statistics().sent {
            spent += sending(&core);
        }
        Ok(Some(spent))
    };
    move |context: &mut Context<'_>| -> Turn {
        let Some(mut using) = client.take() else {
            return Ok(Step::Done);
        };
        let now = context.now();
        let Some(spent) = work(&mut using, now, context.nic())? else {
            using.close(context.nic());
            return Ok(Step::Done);
        };
        let timeout = using.poll_timeout();
        client = Some(using);
        context.charge(Category::Communication, spent);
        Ok(after(spent, timeout))
    }
}

/// Begins an operation on a record.
fn begin(
    client: &mut DatagramClient,
    asks: &Asks,
    number: u64,
    rng: &mut Rng,
) -> Result<Ticket, Failure> {
    let key = asks.database.key(number);
    // An update writes the existing value, so every reply can be checked.
    let begun = if rng.chance(asks.updates) {
        let value = &asks.database.value(number);
        client.begin(&Op::Update { key, value })
    } else {
        client.begin(&Op::Get { key })
    };
    begun.map_err(|error| format!("key {key:#x}: {error}"))
}

/// A thread of a memory server, which must be set to serve one request per poll; a request has this
/// many bytes, and a reply.
pub fn serving(
    server: SharedDatagramServer,
    core: Core,
    cost: WalkCost,
    request_bytes: u64,
) -> impl Program {
    move |context: &mut Context<'_>| -> Turn {
        let mut server = server.lock();
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
            0 => cost.update(),
            levels => cost.lookup(levels),
        };
        context.charge(Category::Compute, walk);
        let packets = receiving(&core, request_bytes) + sending(&core);
        context.charge(Category::Communication, packets);
        Ok(Step::Compute(Duration::ZERO))
    }
}
