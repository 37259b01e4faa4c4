//! Verbs that account for their cost on a core, and can hold back posted work until the core has
//! finished its turn; and a core of a testbed: the time of a thread's work apart from the tree's.

use super::drive::{Failure, Program, Turn};
use rackweave_base::{Block, Duration, Instant, Qpn};
use rackweave_endpoint::rpc::{Service, Status, Writer};
use rackweave_sim::world::{Context, Step};
use rackweave_sim::{CacheModel, Category, CpuModel, devices};
use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CqError, CqId, ModifyError, PdId, PostError,
    QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs,
    WorkRequest,
};

/// The cost of verbs on a core. A poll that finds nothing is free, since the simulator lets cores
/// spin.
pub trait Toll {
    /// For posting this many work requests together; at least one.
    fn posts(&self, requests: usize) -> Duration;

    /// For posting a receive.
    fn receives(&self) -> Duration;

    /// For taking a completion.
    fn takes(&self, completion: &Completion) -> Duration;
}

/// Work requests posted in a turn: they reach the NIC when the turn is over.
#[derive(Debug, Default)]
pub struct Outbox(Vec<(Qpn, WorkRequest)>);

impl Outbox {
    /// Ends the turn.
    pub fn flush(&mut self, verbs: &mut dyn Verbs) -> Result<(), String> {
        for (qpn, request) in self.0.drain(..) {
            let posted = verbs.post_send(qpn, request);
            posted.map_err(|error| format!("a request was not taken: {error}"))?;
        }
        Ok(())
    }
}

/// The cost of a turn apart from the verbs, and when the program wants another turn even if nothing
/// happens; none if it has ended. Or what is wrong.
pub type Worked = Result<Option<(Duration, Option<Instant>)>, Failure>;

/// A program on a core, of turns whose verbs cost `toll`, and whose work requests leave when the
/// turn is over.
pub fn on_core<T: Toll + Copy>(
    toll: T,
    mut work: impl FnMut(Instant, &mut Metered<'_, T>) -> Worked,
) -> impl Program {
    let mut outbox = Outbox::default();
    move |context: &mut Context<'_>| -> Turn {
        let now = context.now();
        outbox.flush(context.nic())?;
        let mut verbs = Metered::with(context.nic(), Some(&mut outbox), toll);
        let worked = work(now, &mut verbs);
        let communication = verbs.spent();
        context.charge(Category::Communication, communication);
        let Some((compute, timeout)) = worked? else {
            return Ok(Step::Done);
        };
        context.charge(Category::Compute, compute);
        Ok(after(communication + compute, timeout))
    }
}

/// The step after a turn that took `spent`: if the core did anything, it continues as soon as that
/// time is over; otherwise it waits.
pub fn after(spent: Duration, timeout: Option<Instant>) -> Step {
    match timeout {
        _ if spent > Duration::ZERO => Step::Compute(Duration::ZERO),
        Some(at) => Step::WaitUntil(at),
        None => Step::WaitForPacket,
    }
}

/// A node's verbs, and the time that the core using them has spent.
pub struct Metered<'a, T = CpuModel> {
    verbs: &'a mut dyn Verbs,
    /// Holds work requests until the end of the turn; without it they reach the NIC at once.
    outbox: Option<&'a mut Outbox>,
    toll: T,
    spent: Duration,
}

impl<'a, T: Toll> Metered<'a, T> {
    /// Nothing is spent yet. Work requests go to `outbox`, if there is one.
    pub fn with(verbs: &'a mut dyn Verbs, outbox: Option<&'a mut Outbox>, toll: T) -> Self {
        Self {
            verbs,
            outbox,
            toll,
            spent: Duration::ZERO,
        }
    }

    /// The time that the core has spent.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Charges the core for something other than a verb.
    pub fn pay(&mut self, cost: impl FnOnce(&T) -> Duration) {
        self.spent += cost(&self.toll);
    }
}

impl<'a> Metered<'a> {
    /// Verbs whose core has spent nothing yet; work requests reach the NIC at once.
    pub fn new(verbs: &'a mut dyn Verbs, cpu: CpuModel) -> Self {
        Self::with(verbs, None, cpu)
    }

    /// Charges for a completion that no queue shows: a word that the switch has written.
    pub fn word_taken(&mut self) {
        self.pay(|cpu| cpu.poll_cost);
    }
}

/// A constant per posted work request and per taken completion.
impl Toll for CpuModel {
    fn posts(&self, requests: usize) -> Duration {
        self.post_cost * requests as u64
    }

    fn receives(&self) -> Duration {
        self.post_cost
    }

    fn takes(&self, _completion: &Completion) -> Duration {
        self.poll_cost
    }
}

/// Verbs that cost nothing.
macro_rules! forwarded {
    ($(fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            self.verbs.$name($($argument),*)
        })*
    };
}

impl<T: Toll> Verbs for Metered<'_, T> {
    forwarded! {
        fn create_pd(&mut self) -> PdId;
        fn register(
            &mut self, pd: PdId, block: Block, access: Access
        ) -> Result<Region, RegisterError>;
        fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError>;
        fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError>;
        fn create_qp(
            &mut self, pd: PdId, send_cq: CqId, receive_cq: CqId, capabilities: QpCapabilities
        ) -> Result<Qpn, QpError>;
        fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError>;
        fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError>;
        fn read_by_reference(&mut self, qpn: Qpn);
        fn keep_to_switch(&mut self, qpn: Qpn);
    }

    fn deregister(&mut self, region: &Region) -> bool {
        self.verbs.deregister(region)
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.verbs.qp_state(qpn)
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        match &mut self.outbox {
            Some(outbox) => outbox.0.push((qpn, request)),
            None => self.verbs.post_send(qpn, request)?,
        }
        self.spent += self.toll.posts(1);
        Ok(())
    }

    fn post_sends(&mut self, qpn: Qpn, requests: &[WorkRequest]) -> Result<(), (usize, PostError)> {
        let result = match &mut self.outbox {
            Some(outbox) => {
                let held = requests.iter().map(|&request| (qpn, request));
                outbox.0.extend(held);
                Ok(())
            }
            None => self.verbs.post_sends(qpn, requests),
        };
        let posted = match result {
            Ok(()) => requests.len(),
            Err((posted, _)) => posted,
        };
        if posted > 0 {
            self.spent += self.toll.posts(posted);
        }
        result
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        self.verbs.post_receive(qpn, request)?;
        self.spent += self.toll.receives();
        Ok(())
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let count = self.verbs.poll_cq(cq, limit, completions);
        for completion in &completions[before..] {
            self.spent += self.toll.takes(completion);
        }
        count
    }
}

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
