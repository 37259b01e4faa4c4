//! How a session reaches the index: through a client, or by calling the tree.

use crate::ycsb::RunError;
use rackweave_endpoint::btree::{Direction, Tree};
use rackweave_endpoint::index::{Answer, IndexClient, Op, Ticket, Value};
use rackweave_rack::Attached;
use std::collections::VecDeque;

/// A completed operation.
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
    ///
    /// # Errors
    /// If it is invalid, or too many are in flight.
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

    /// The client, if there is one.
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
    /// Access to `tree`.
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
