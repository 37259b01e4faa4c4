//! A core of a testbed: the time of a thread's work apart from the tree's.

use super::metered::Toll;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::rpc::{Service, Status, Writer};
use rackweave_sim::{CacheModel, CpuModel, devices};
use rackweave_verbs::{Completion, CompletionOpcode};

/// Bytes of an entry of a tree node: key and value, or key and pointer.
pub const TREE_ENTRY_BYTES: u64 = 16;

/// Time of a core to load or store bytes in its last level cache, where a NIC puts them: by
/// Little's law its lines in flight per latency.
pub fn streamed(cpu: &CpuModel, bytes: u64) -> Duration {
    let at_once = devices::HOST_LINES_IN_FLIGHT * devices::HOST_LINE_BYTES;
    Duration::from_nanos((bytes * cpu.cache_latency.as_nanos()).div_ceil(at_once))
}

/// The cost of a thread's work apart from loads of trees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Core {
    /// Posting, polling, clock.
    pub cpu: CpuModel,
    /// Loads, and cycles of a Xeon's work.
    pub caches: CacheModel,
}

impl Core {
    /// Time of this many cycles of a Xeon's work here, rounded up to whole nanoseconds.
    pub fn work(&self, cycles: u64) -> Duration {
        Duration::from_nanos(self.caches.work(cycles as f64).ceil() as u64)
    }

    /// Time to load bytes that a NIC has just written, one line after another.
    pub fn arrived(&self, bytes: u64) -> Duration {
        self.cpu.cache_latency * bytes.div_ceil(devices::HOST_LINE_BYTES)
    }

    /// Time to load a tree node that a NIC has just written, and to verify its entries.
    pub fn verified(&self, bytes: u64) -> Duration {
        let entries = bytes / TREE_ENTRY_BYTES;
        streamed(&self.cpu, bytes) + self.work(entries * devices::TREE_CHECK_ENTRY_CYCLES)
    }

    /// Time to search a tree node of this many entries whose lines are in the first level cache.
    pub fn searched(&self, entries: u64) -> Duration {
        let steps = u64::from(entries.max(1).next_power_of_two().ilog2()) + 1;
        let loads = steps as f64 * self.caches.latency_ns[0];
        let cycles = devices::TREE_NODE_CYCLES + steps * devices::SEARCH_STEP_CYCLES;
        Duration::from_nanos(loads.ceil() as u64) + self.work(cycles)
    }

    /// Time of an atomic operation on a word that other cores of the server also change.
    pub fn contended_atomic(&self) -> Duration {
        self.cpu.cache_latency + self.work(devices::ATOMIC_CYCLES)
    }
}

/// A work request costs its construction; those posted together share a doorbell. A completion
/// costs taking it; that of a receive also the loads of the received bytes, that of a READ also
/// verifying and searching the tree node.
impl Toll for Core {
    fn posts(&self, requests: usize) -> Duration {
        self.work(devices::WORK_REQUEST_CYCLES * requests as u64 + devices::DOORBELL_CYCLES)
    }

    fn receives(&self) -> Duration {
        self.work(devices::RECEIVE_REQUEST_CYCLES)
    }

    fn takes(&self, completion: &Completion) -> Duration {
        let bytes = u64::from(completion.length);
        let use_of_it = match completion.opcode {
            CompletionOpcode::Receive => self.arrived(bytes),
            // A tree node: verified and searched.
            CompletionOpcode::Read => {
                self.verified(bytes) + self.searched(bytes / TREE_ENTRY_BYTES)
            }
            _ => Duration::ZERO,
        };
        self.cpu.poll_cost + use_of_it
    }
}

/// A service whose work is charged to a core.
pub struct Priced<'a, S, P> {
    service: &'a mut S,
    price: P,
    /// The cost of all requests.
    pub spent: Duration,
    /// The number of requests.
    pub operations: u64,
}

impl<'a, S, P> Priced<'a, S, P>
where
    P: FnMut(Instant, u16, &[u8], u64) -> Duration,
{
    /// `price` is the cost of a request, given the time at which the core begins it, its method,
    /// its bytes and the number of bytes in the reply.
    pub fn new(service: &'a mut S, price: P) -> Self {
        Self {
            service,
            price,
            spent: Duration::ZERO,
            operations: 0,
        }
    }
}

impl<S: Service, P> Service for Priced<'_, S, P>
where
    P: FnMut(Instant, u16, &[u8], u64) -> Duration,
{
    fn serve(
        &mut self,
        now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        let before = reply.len();
        let status = self.service.serve(now, client, method, request, reply);
        let answered = (reply.len() - before) as u64;
        self.spent += (self.price)(now + self.spent, method, request, answered);
        self.operations += 1;
        status
    }

    fn resume(&mut self, now: Instant, client: u32, number: u64, reply: &mut Writer<'_>) -> Status {
        self.service.resume(now, client, number, reply)
    }

    fn left(&mut self, client: u32) {
        self.service.left(client);
    }
}
