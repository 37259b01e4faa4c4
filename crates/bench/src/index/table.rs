//! The operations of one worker on an index.

use super::keys::Keys;
use super::scan::Scan;
use super::turns::Turns;
use super::way::Way;
use crate::ycsb::{Kind, Run, RunError, Stepped, Table, Task};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Answer, Op, Ticket};
use rackweave_workload::ycsb::{Floor, Stamp, write_record};
use std::sync::Arc;

/// State shared by workers on the same records.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// The keys of the records.
    pub keys: Keys,
    /// The turns of writers.
    pub turns: Arc<Turns>,
}

/// An index, for one worker.
pub(super) struct IndexTable {
    pub way: Way,
    records: Records,
    /// Whether scans are divided.
    is_divided: bool,
    stamp: Stamp,
    /// There are few, and replies mostly arrive in the order of the requests.
    doing: Vec<Doing>,
    /// Changes whose turn has not come.
    waiting: Vec<Task>,
    /// Changes that have read the value they modify, and the version that they write.
    read: Vec<(Task, u64)>,
    /// Changes that found another pending change of their record.
    pub waits: u64,
    record: Vec<u8>,
}

/// An operation that was requested.
struct Doing {
    ticket: Ticket,
    task: Task,
    state: State,
}

/// The progress of an operation.
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
            Ok(ticket) => self.doing.push(Doing {
                ticket,
                task,
                state,
            }),
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
        run.check(
            record,
            None,
            write_record(&mut bytes, record, version, self.stamp),
        );
        self.stamp.sequence += 1;
        stepped.bytes += bytes.len() as u64;
        let (key, value) = (self.records.keys.key(record), &bytes[..]);
        if task.kind == Kind::Insert {
            self.ask(
                run,
                task,
                &Op::Insert { key, value },
                State::Insert,
                stepped,
            );
        } else {
            run.check(record, None, run.expectations.begin_update(record));
            let state = State::Write(version);
            self.ask(run, task, &Op::Update { key, value }, state, stepped);
        }
        self.record = bytes;
    }

    /// Checks a reply. True if the operation has ended successfully.
    fn take(
        &mut self,
        run: &Run,
        doing: Doing,
        result: Result<Answer, RunError>,
        stepped: &mut Stepped,
    ) -> bool {
        let (task, record) = (doing.task, doing.task.key);
        let answer = match result {
            Ok(answer) => answer,
            // The turn stays taken, because the record's version is unknown.
            Err(error) => {
                run.fail(error);
                return false;
            }
        };
        match (doing.state, answer) {
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
            let asked = |doing: &Doing| doing.ticket == ticket;
            let at = self.doing.iter().position(asked);
            let at = at.expect("an answer is to a question");
            let doing = self.doing.swap_remove(at);
            let task = doing.task;
            if self.take(run, doing, result, stepped) {
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
