//! Redo logs of the nodes, which lag behind, and checks of pages against them.

use super::shared::Shared;
use rackweave_endpoint::page_store::{PageGuard, RedoLog};
use rackweave_sim::checkers::page_history::PageStamp;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The log of one node: a requested write becomes durable some queries later.
#[derive(Debug)]
pub(super) struct NodeLog {
    /// Number of queries that a write takes.
    lag: u64,
    state: Mutex<Written>,
    durable: AtomicU64,
}

#[derive(Debug, Default)]
struct Written {
    /// The LSN up to which the log is being written, and the remaining queries until it is durable.
    under_way: Option<(u64, u64)>,
}

impl NodeLog {
    pub fn new(lag: u64) -> Self {
        Self {
            lag,
            state: Mutex::default(),
            durable: AtomicU64::new(0),
        }
    }
}

impl RedoLog for NodeLog {
    fn make_durable(&self, lsn: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (target, left) = state.under_way.unwrap_or((lsn, self.lag));
        state.under_way = match left.checked_sub(1) {
            Some(left) => Some((target, left)),
            None => {
                self.durable.fetch_max(target, Ordering::Relaxed);
                None
            }
        };
        self.durable.load(Ordering::Relaxed)
    }
}

/// The logs of all nodes, and all records appended to them.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// By the node's number in each of its lives.
    of_nodes: BTreeMap<u16, Arc<NodeLog>>,
    last_lsn: u64,
    /// The LSNs of each change. A lost change may be made once more, byte for byte.
    changes: BTreeMap<PageStamp, Vec<u64>>,
}

impl Logs {
    /// The log of a node that begins a life, or continues one over the same medium.
    pub fn open(&mut self, node: u16, lag: u64) -> Arc<NodeLog> {
        let log = self.of_nodes.entry(node);
        log.or_insert_with(|| Arc::new(NodeLog::new(lag))).clone()
    }

    /// Appends a change to the log of its writer, if the writer has one.
    pub fn append(&mut self, guard: &mut PageGuard, change: PageStamp) {
        if self.of_nodes.contains_key(&change.writer.node) {
            self.last_lsn += 1;
            guard.set_lsn(self.last_lsn);
            let lsns = self.changes.entry(change).or_default();
            lsns.push(self.last_lsn);
        }
    }
}

impl Shared {
    /// Checks that a fixed page bears the LSN of its last change, and that a reader at another node
    /// finds this change in its writer's log.
    pub fn check_log(&self, node: u16, guard: &PageGuard, change: PageStamp) {
        let logs = self.logs.borrow();
        let Some(lsns) = logs.changes.get(&change) else {
            return;
        };
        let (page, lsn) = (guard.page(), guard.lsn());
        if !lsns.contains(&lsn) {
            let wrong = format!("{page} bears LSN {lsn}, its change had {lsns:?}");
            self.wrong.push(wrong);
        }
        let writer = change.writer.node;
        let durable = logs.of_nodes[&writer].durable.load(Ordering::Relaxed);
        if writer != node && durable < lsn {
            self.wrong.push(format!(
                "{page} left node {writer} with LSN {lsn}, its log was durable up to {durable}"
            ));
        }
    }
}
