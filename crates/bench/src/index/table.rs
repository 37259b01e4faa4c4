//! The operations of one worker on an index, and how it reaches the index: through a client, or by
//! calling the tree.

use super::records::{Records, Scan};
use crate::ycsb::prelude::*;
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Ticket, Value};
use rackweave_rack::Attached;
use std::collections::VecDeque;

/// An index, for one worker.
pub(super) struct IndexTable {
    pub way: Way,
    records: Records,
    /// Whether scans are divided.
    is_divided: bool,
    stamp: Stamp,
    /// Requested operations: few, and replies mostly arrive in the order of the requests.
    doing: Vec<(Ticket, Task, State)>,
    /// Changes whose turn has not come.
    waiting: Vec<Task>,
    /// Changes that have read the value they modify, and the version that they write.
    read: Vec<(Task, u64)>,
    /// Changes that found another pending change of their record.
    pub waits: u64,
    record: Vec<u8>,
}

enum State {
    Read(Floor),
    /// A read that a write follows. Its turn is taken, so only this version may be visible.
    Fetch(Floor, u64),
    /// A write of this version. Its turn is taken.
    Write(u64),
    Insert,
    Scan(Scan),
}

impl IndexTable {
    /// The table of worker `number`, whose scans are divided into `scan_parts` parts.
    pub fn new(way: Way, records: &Records, number: u32, scan_parts: u16) -> Self {
        Self {
            way,
            records: records.clone(),
            is_divided: scan_parts > 1,
            stamp: Stamp {
                writer: number as u16,
                sequence: 0,
            },
            doing: Vec::new(),
            waiting: Vec::new(),
            read: Vec::new(),
            waits: 0,
            record: Vec::new(),
        }
    }

    fn ask(&mut self, run: &Run, task: Task, op: &Op<'_>, state: State, stepped: &mut Stepped) {
        stepped.handled += 1;
        match self.way.begin(op) {
            Ok(ticket) => self.doing.push((ticket, task, state)),
            Err(error) => run.fail(error),
        }
    }

    /// Begins a change if its turn is free.
    fn try_change(&mut self, run: &Run, task: Task, stepped: &mut Stepped) -> bool {
        let Some(version) = self.records.turns.take(task.key) else {
            return false;
        };
        stepped.happened = true;
        if task.kind == Kind::ReadModifyWrite {
            let state = State::Fetch(run.expectations.before_read(task.key), version);
            let key = self.records.keys.key(task.key);
            self.ask(run, task, &Op::Get { key }, state, stepped);
        } else {
            self.write(run, task, version + 1, stepped);
        }
        true
    }

    /// Writes a record whose turn is taken, or a new one.
    fn write(&mut self, run: &Run, task: Task, version: u64, stepped: &mut Stepped) {
        let record = task.key;
        let mut bytes = core::mem::take(&mut self.record);
        bytes.resize(run.load.ycsb.record_size as usize, 0);
        let written = write_record(&mut bytes, record, version, self.stamp);
        run.check(record, None, written);
        self.stamp.sequence += 1;
        stepped.bytes += bytes.len() as u64;
        let (key, value) = (self.records.keys.key(record), &bytes[..]);
        let (op, state) = if task.kind == Kind::Insert {
            (Op::Insert { key, value }, State::Insert)
        } else {
            run.check(record, None, run.expectations.begin_update(record));
            (Op::Update { key, value }, State::Write(version))
        };
        self.ask(run, task, &op, state, stepped);
        self.record = bytes;
    }

    /// Checks a reply. True if the operation has ended successfully.
    fn take(
        &mut self,
        run: &Run,
        (task, state): (Task, State),
        result: Result<Answer, RunError>,
        stepped: &mut Stepped,
    ) -> bool {
        let record = task.key;
        let answer = match result {
            Ok(answer) => answer,
            // The turn stays taken, because the record's version is unknown.
            Err(error) => {
                run.fail(error);
                return false;
            }
        };
        match (state, answer) {
            (State::Read(floor), Answer::Value(value)) => {
                judge(run, record, value.as_deref(), floor, stepped);
            }
            (State::Fetch(floor, version), Answer::Value(value)) => {
                let found = judge(run, record, value.as_deref(), floor, stepped);
                if let Some(found) = found.filter(|&found| found != version) {
                    let reason =
                        format!("it was read in version {found}, its only one is {version}");
                    run.note(record, None, reason);
                }
                self.read.push((task, version + 1));
                return false;
            }
            (State::Write(version), Answer::Found(true)) => {
                let committed = run.expectations.commit_update(record, version);
                run.check(record, None, committed);
                self.records.turns.give_back(record, version);
            }
            (State::Write(version), Answer::Found(false)) => {
                run.note(record, None, "it was not there to be updated");
                run.check(record, None, run.expectations.cancel_update(record));
                self.records.turns.give_back(record, version - 1);
            }
            (State::Insert, Answer::Found(found)) => {
                if found {
                    run.note(record, None, "it was there before it was inserted");
                }
                run.inserts.acknowledge(record);
            }
            (State::Scan(scan), Answer::Entries(entries)) => {
                stepped.bytes += scan.judge(run, self.records.keys, &entries);
            }
            _ => {
                run.note(record, None, "the answer is to another question");
                return false;
            }
        }
        true
    }
}

impl Table for IndexTable {
    fn begin(&mut self, run: &Run, task: Task, stepped: &mut Stepped) {
        let keys = self.records.keys;
        let key = keys.key(task.key);
        match task.kind {
            Kind::Read => {
                let state = State::Read(run.expectations.before_read(task.key));
                self.ask(run, task, &Op::Get { key }, state, stepped);
            }
            Kind::Scan => {
                let op = Op::Scan {
                    low: key,
                    last: match self.is_divided {
                        false => u64::MAX,
                        // A divided scan needs an end: the last record that it can return.
                        true => keys.key(task.key + u64::from(task.length) - 1),
                    },
                    direction: Direction::Forward,
                    limit: task.length,
                };
                let state = State::Scan(Scan::new(run, task.key, task.length));
                self.ask(run, task, &op, state, stepped);
            }
            Kind::Insert => self.write(run, task, 0, stepped),
            Kind::Update | Kind::ReadModifyWrite => {
                if !self.try_change(run, task, stepped) {
                    self.waits += 1;
                    self.waiting.push(task);
                }
            }
        }
    }

    fn advance(&mut self, run: &Run, stepped: &mut Stepped, mut ended: impl FnMut(Task)) {
        while let Some((ticket, result)) = self.way.take() {
            stepped.happened = true;
            stepped.handled += 1;
            let at = self.doing.iter().position(|asked| asked.0 == ticket);
            let at = at.expect("an answer is to a question");
            let (_, task, state) = self.doing.swap_remove(at);
            if self.take(run, (task, state), result, stepped) {
                ended(task);
            }
        }
        for (task, version) in core::mem::take(&mut self.read) {
            self.write(run, task, version, stepped);
        }
        // A run that ends early does not wait for turns that failed operations still hold.
        let mut waiting = core::mem::take(&mut self.waiting);
        if !run.is_stopped() {
            waiting.retain(|&task| !self.try_change(run, task, stepped));
            self.waiting = waiting;
        }
    }

    fn under_way(&self) -> usize {
        self.doing.len() + self.waiting.len() + self.read.len()
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Verifies a record that was read. Returns its version if it is intact.
fn judge(
    run: &Run,
    record: u64,
    value: Option<&[u8]>,
    floor: Floor,
    stepped: &mut Stepped,
) -> Option<u64> {
    let Some(bytes) = value else {
        run.note(record, None, "it is not there");
        return None;
    };
    stepped.bytes += bytes.len() as u64;
    run.verify(record, None, bytes, floor)
}

type Ended = (Ticket, Result<Answer, RunError>);

/// Accepts operations, and returns completed ones in any order.
pub(super) enum Way {
    /// Threads of the node that holds the tree.
    Local(Box<Local>),
    /// Clients at other nodes.
    Client(Box<Attached<IndexClient>>),
}

impl Way {
    /// Begins an operation.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, RunError> {
        match self {
            Self::Local(local) => Ok(local.begin(op)),
            Self::Client(client) => Ok(client.begin(op)?),
        }
    }

    /// Takes a completed operation.
    pub fn take(&mut self) -> Option<Ended> {
        match self {
            Self::Local(local) => local.ended.pop_front(),
            Self::Client(client) => {
                let reply = client.take()?;
                Some((reply.ticket, reply.result.map_err(RunError::from)))
            }
        }
    }

    pub fn client(&self) -> Option<&IndexClient> {
        match self {
            Self::Local(_) => None,
            Self::Client(client) => Some(client),
        }
    }
}

/// Work on a local tree, which is charged to a simulated core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LocalWork {
    /// Searches without a change; a scan counts as one.
    pub lookups: u64,
    /// Searches with a change of a value or an entry.
    pub writes: u64,
    /// Bytes of entries visited by scans.
    pub scanned_bytes: u64,
}

/// A thread of the node that holds the tree. Operations complete when they begin.
#[derive(Debug)]
pub(super) struct Local {
    tree: Tree,
    tickets: u64,
    ended: VecDeque<Ended>,
    value: Vec<u8>,
    work: LocalWork,
}

impl Local {
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            tickets: 0,
            ended: VecDeque::new(),
            value: Vec::new(),
            work: LocalWork::default(),
        }
    }

    fn begin(&mut self, op: &Op<'_>) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let answer = self.answer(op);
        self.ended.push_back((ticket, answer));
        ticket
    }

    /// The work since the last call.
    pub fn take_work(&mut self) -> LocalWork {
        core::mem::take(&mut self.work)
    }

    fn answer(&mut self, op: &Op<'_>) -> Result<Answer, RunError> {
        match op {
            Op::Get { .. } | Op::Scan { .. } => self.work.lookups += 1,
            _ => self.work.writes += 1,
        }
        let tree = &self.tree;
        Ok(match *op {
            Op::Get { key } => {
                let there = tree.lookup(key, &mut self.value);
                Answer::Value(there.then(|| Value::from(&self.value[..])))
            }
            Op::Insert { key, value } => Answer::Found(!tree.insert(key, value)?),
            Op::Update { key, value } => Answer::Found(tree.update(key, value)?),
            Op::Put { key, value } => Answer::Found(!tree.put(key, value)?),
            Op::Delete { key } => Answer::Found(tree.remove(key)?),
            Op::Scan {
                low,
                last,
                direction,
                limit,
            } => Answer::Entries(self.scan((low, last), direction, limit)),
        })
    }

    fn scan(
        &mut self,
        (low, last): (u64, u64),
        direction: Direction,
        limit: u32,
    ) -> Vec<(u64, Value)> {
        let mut entries = Vec::with_capacity(limit as usize);
        let mut bytes = 0;
        if limit > 0 {
            self.tree.scan(low..=last, direction, &mut |key, value| {
                bytes += 8 + value.len() as u64;
                entries.push((key, Value::from(value)));
                entries.len() < limit as usize
            });
        }
        self.work.scanned_bytes += bytes;
        entries
    }
}
