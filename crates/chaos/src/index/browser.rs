//! Remote users of the index. They report everything to the checker.

use super::plan::{ClientPlan, IndexPlan};
use super::shared::{Shared, order};
use super::work::{Task, Work};
use crate::campaign::{ROUNDS_MAX, wait};
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{
    Access, Answer, IndexClient, IndexClientConfig, IndexError, Op, ReaderConfig, Reply, Ticket,
};
use rackweave_endpoint::rpc::ClientConfig;
use rackweave_rack::Attached;
use rackweave_sim::checkers::index_history::{Operation, PointId, ScanId};
use rackweave_sim::world::{Actor, Context, Step};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Attempts of an operation that must succeed.
const TRIES_MAX: u32 = 100;

/// Pause after an answer that an endpoint is down.
const GONE_PAUSE: Duration = Duration::from_micros(20);

/// A client of the index: the harness connects it, and its actor uses it.
pub(super) struct ClientSlot {
    /// Its number for the checker.
    pub who: u32,
    pub node: NodeId,
    pub client: RefCell<Attached<IndexClient>>,
    /// By endpoint: the start of it that the client was last connected with.
    pub starts: RefCell<Vec<u64>>,
    /// Its node has crashed.
    pub is_dead: Cell<bool>,
}

/// The work of a client.
pub(super) enum Todo {
    /// This many operations of all kinds.
    Random(u32),
    /// These operations. They must succeed, if necessary after a new connection: an idle client
    /// does not know that the former one is broken.
    Listed(VecDeque<Task>),
}

impl Todo {
    /// Gets all keys, and scans everything in both directions.
    pub fn read_all(shared: &Shared) -> Self {
        let gets = (0..shared.keys.count).map(|index| get(shared.keys.key(index)));
        let scans = [Direction::Forward, Direction::Backward].map(scan_all);
        Self::Listed(gets.chain(scans).collect())
    }
}

/// A pending operation.
enum Job {
    Point {
        id: PointId,
        key: u64,
        operation: Operation,
    },
    Scan {
        id: ScanId,
        direction: Direction,
        limit: u32,
    },
}

impl Job {
    /// The same operation, for a client that reads everything.
    fn again(&self) -> Task {
        match *self {
            Job::Point { key, .. } => get(key),
            Job::Scan { direction, .. } => scan_all(direction),
        }
    }
}

/// A client at work.
pub(super) struct Browser {
    shared: Rc<Shared>,
    slot: Rc<ClientSlot>,
    work: Work,
    todo: Todo,
    /// If it must succeed: the remaining number of attempts.
    tries: Option<u32>,
    jobs: BTreeMap<Ticket, Job>,
    next_at: Instant,
}

/// The configuration of the client with this number for the checker.
pub(super) fn config(plan: &IndexPlan, client: &ClientPlan, who: u32) -> IndexClientConfig {
    let mut rng = Rng::new(plan.seed ^ u64::from(who)).fork("client");
    IndexClientConfig {
        operations: plan.habits.at_once as u16,
        access: client.access,
        rpc: ClientConfig {
            window: 1 + rng.below(8) as u16,
            batch_bytes: *rng.pick(&[0, 512]),
            timeout: plan.patience,
            ..ClientConfig::default()
        },
        reader: ReaderConfig {
            walks: 1 + rng.below(8) as u16,
            cache_bytes: client.cache_bytes,
            records: *rng.pick(&[1, 2, 8]),
            ..ReaderConfig::default()
        },
        scan_parts: plan.network.map_or(1, |network| network.scan_parts),
        busy_wait: Duration::from_micros(*rng.pick(&[1, 5])),
        busy_wait_max: Duration::from_micros(100),
        tries_max: *rng.pick(&[20, 1000]),
        ..IndexClientConfig::default()
    }
}

impl ClientSlot {
    pub fn new(who: u32, client: Attached<IndexClient>, endpoints: usize) -> Rc<Self> {
        Rc::new(Self {
            who,
            node: client.node(),
            client: RefCell::new(client),
            starts: RefCell::new(vec![0; endpoints]),
            is_dead: Cell::new(false),
        })
    }

    pub fn asks_network(&self) -> bool {
        self.client.borrow().config().access == Access::InNetwork
    }
}

impl Browser {
    pub fn new(shared: Rc<Shared>, slot: Rc<ClientSlot>, todo: Todo, seed: u64) -> Self {
        let rng = Rng::new(seed ^ u64::from(slot.who) << 8).fork("browser");
        Self {
            work: Work::new(&shared, rng),
            tries: matches!(todo, Todo::Listed(_)).then_some(TRIES_MAX),
            shared,
            slot,
            todo,
            jobs: BTreeMap::new(),
            next_at: Instant::ZERO,
        }
    }

    fn next_task(&mut self) -> Option<Task> {
        match &mut self.todo {
            Todo::Listed(tasks) => tasks.pop_front(),
            Todo::Random(0) => None,
            Todo::Random(left) => {
                *left -= 1;
                Some(self.work.draw(&self.shared))
            }
        }
    }

    fn has_more(&self) -> bool {
        match &self.todo {
            Todo::Listed(tasks) => !tasks.is_empty(),
            Todo::Random(left) => *left > 0,
        }
    }

    /// Begins the next operation, if it is due. True if it did.
    fn begin(&mut self, now: Instant) -> bool {
        if now < self.next_at || self.slot.client.borrow().free() == 0 {
            return false;
        }
        let Some(task) = self.next_task() else {
            return false;
        };
        let slot = self.slot.clone();
        let (client, shared) = (&mut *slot.client.borrow_mut(), self.shared.clone());
        let mut history = shared.history.borrow_mut();
        let (began, job) = match task {
            Task::Point {
                key,
                operation,
                ref value,
            } => {
                let op = match operation {
                    Operation::Get => Op::Get { key },
                    Operation::Insert(_) => Op::Insert { key, value },
                    Operation::Update(_) => Op::Update { key, value },
                    Operation::Put(_) => Op::Put { key, value },
                    Operation::Remove => Op::Delete { key },
                };
                let id = history.begin(now, slot.who, key, operation);
                let job = Job::Point { id, key, operation };
                (client.begin(&op), job)
            }
            Task::Scan {
                low,
                last,
                direction,
                limit,
            } => {
                let op = Op::Scan {
                    low,
                    last,
                    direction,
                    limit,
                };
                let id = history.begin_scan(now, slot.who, low..=last, order(direction));
                let job = Job::Scan {
                    id,
                    direction,
                    limit,
                };
                (client.begin(&op), job)
            }
        };
        match began {
            Ok(ticket) => _ = self.jobs.insert(ticket, job),
            Err(error) => self
                .shared
                .wrong
                .push(format!("client {}: {error}", slot.who)),
        }
        if self.tries.is_none() {
            let most = self.shared.habits.pause_max.as_nanos();
            self.next_at = now + Duration::from_nanos(self.work.rng().below(most));
        }
        true
    }

    fn ended(&mut self, now: Instant, reply: Reply) {
        let Some(job) = self.jobs.remove(&reply.ticket) else {
            let who = self.slot.who;
            let what = format!("client {who}: an end without a beginning, {reply:?}");
            return self.shared.wrong.push(what);
        };
        let shared = self.shared.clone();
        match (job, reply.result) {
            (Job::Point { id, key, .. }, Ok(Answer::Value(value))) => {
                shared.found(now, id, key, value.as_deref());
            }
            (Job::Point { id, operation, .. }, Ok(Answer::Found(was_there))) => {
                shared.changed(now, id, operation, was_there);
            }
            (Job::Scan { id, limit, .. }, Ok(Answer::Entries(entries))) => {
                let whole = entries.len() < limit as usize;
                let entries: Vec<(u64, &[u8])> = entries
                    .iter()
                    .map(|(key, value)| (*key, &**value))
                    .collect();
                let mut history = shared.history.borrow_mut();
                let scanned = shared.scanned(&entries, whole, |key, error| {
                    history.torn_in_scan(id, key, error);
                });
                // Without the torn entries the scan shows nothing.
                if scanned.entries.len() == entries.len() {
                    history.end_scan(now, id, scanned);
                }
            }
            (_, Ok(answer)) => {
                let who = self.slot.who;
                shared
                    .wrong
                    .push(format!("client {who}: {answer:?} to another question"));
            }
            (job, Err(error)) => self.failed(now, job, error),
        }
    }

    fn failed(&mut self, now: Instant, job: Job, error: IndexError) {
        let who = self.slot.who;
        let severe = matches!(
            error,
            IndexError::Refused(_)
                | IndexError::Malformed(_)
                | IndexError::Corrupt(_)
                | IndexError::ValueTooLarge(_)
        );
        if severe || self.tries == Some(0) {
            self.shared
                .wrong
                .push(format!("client {who} at {now:?}: {error}"));
        } else if let (Some(tries), Todo::Listed(tasks)) = (&mut self.tries, &mut self.todo) {
            *tries -= 1;
            tasks.push_back(job.again());
        }
        if matches!(error, IndexError::Gone(_) | IndexError::OutcomeUnknown(_)) {
            self.next_at = self.next_at.max(now + GONE_PAUSE);
        }
        match job {
            Job::Point { id, .. } if matches!(error, IndexError::OutcomeUnknown(_)) => {
                self.shared.unknown(id);
            }
            Job::Point { id, .. } => self.shared.refused(id),
            // Without a result the scan shows nothing.
            Job::Scan { .. } => {}
        }
    }

    /// Its node has crashed: pending operations will have no result.
    fn abandon(&mut self) {
        for (_, job) in core::mem::take(&mut self.jobs) {
            if let Job::Point { id, .. } = job {
                self.shared.unknown(id);
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn get(key: u64) -> Task {
    Task::Point {
        key,
        operation: Operation::Get,
        value: Vec::new(),
    }
}

fn scan_all(direction: Direction) -> Task {
    Task::Scan {
        low: 0,
        last: u64::MAX,
        direction,
        limit: u32::MAX,
    }
}

impl Actor for Browser {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        for round in 0.. {
            if round == ROUNDS_MAX {
                let who = self.slot.who;
                let what = format!("client {who} does not come to rest at {now:?}");
                self.shared.wrong.push(what);
                return Step::Done;
            }
            let slot = self.slot.clone();
            let reply = slot.client.borrow_mut().poll(now, context.nic());
            let mut happened = reply.is_some();
            if let Some(reply) = reply {
                self.ended(now, reply);
            }
            happened |= self.begin(now);
            if !happened {
                break;
            }
        }
        if self.jobs.is_empty() && !self.has_more() {
            return Step::Done;
        }
        let client = self.slot.client.borrow();
        let can_begin = client.free() > 0 && self.has_more();
        let next = can_begin.then_some(self.next_at);
        let due = next.into_iter().chain(client.poll_timeout()).min();
        wait(now, due)
    }
}
