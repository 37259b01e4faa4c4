//! How a session comes to the index: a client, or the tree itself.

use super::error::RunError;
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Ticket, Value};
use std::collections::VecDeque;

/// An operation's end.
pub type Ended = (Ticket, Result<Answer, RunError>);

/// Takes operations, and gives back what has ended, in any order.
pub trait Way {
    /// Takes an operation.
    ///
    /// # Errors
    /// If it makes no sense, or too many are under way.
    fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, RunError>;

    /// An operation that has ended.
    fn take(&mut self) -> Option<Ended>;
}

impl Way for IndexClient {
    fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, RunError> {
        Ok(IndexClient::begin(self, op)?)
    }

    fn take(&mut self) -> Option<Ended> {
        let reply = IndexClient::take(self)?;
        Some((reply.ticket, reply.result.map_err(RunError::from)))
    }
}

/// What a local tree was used for, which a simulated core is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalWork {
    /// Searches that changed nothing; a scan is one.
    pub lookups: u64,
    /// Searches that changed a value or an entry.
    pub writes: u64,
    /// Bytes of entries that scans went over.
    pub scanned_bytes: u64,
}

/// A thread of the node that has the tree. Operations end when they begin.
#[derive(Debug)]
pub struct Local {
    tree: Tree,
    tickets: u64,
    ended: VecDeque<Ended>,
    value: Vec<u8>,
    work: LocalWork,
}

impl Local {
    /// A way to `tree`.
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            tickets: 0,
            ended: VecDeque::new(),
            value: Vec::new(),
            work: LocalWork::default(),
        }
    }

    /// What it did since this was asked last.
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

impl Way for Local {
    fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, RunError> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let answer = self.answer(op);
        self.ended.push_back((ticket, answer));
        Ok(ticket)
    }

    fn take(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }
}
