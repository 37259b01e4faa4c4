//! What a node holds for queries at the moment.
//!
//! A query that is over, or was cancelled, leaves nothing of it: no stream, and no bytes. A
//! coordinator asks its workers with
//! [`counters_of`](crate::channel::RackweaveChannelResolver::counters_of).

use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::SessionStateBuilder;
use datafusion_distributed::WorkerQueryContext;
use rackweave::exchange::Exchange;

/// Marks the tasks of no query.
pub(crate) const UNCOUNTED_HEADER: &str = "x-rackweave-uncounted";

/// What a node holds, or several of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Open exchange streams: each is open at two nodes.
    pub streams: u64,
    /// Bytes of messages that have arrived and that no operator has taken.
    pub bytes_waiting: u64,
    /// Bytes of messages that tasks have sent and that have not left the node.
    pub bytes_queued: u64,
    /// Tasks whose session or plan something holds. Those that are over are freed within a second.
    pub tasks: u64,
    /// Memory of the process that is resident, in bytes; 0 where the system doesn't say.
    pub resident_bytes: u64,
}

impl NodeCounters {
    /// What the node of an exchange holds. `tasks` counts those of its worker.
    #[must_use]
    pub fn of(exchange: &Exchange, tasks: &TaskCounter) -> Self {
        let counters = exchange.counters();
        Self {
            streams: counters.streams,
            bytes_waiting: counters.bytes_waiting,
            bytes_queued: counters.bytes_queued,
            tasks: tasks.count(),
            resident_bytes: resident_bytes().unwrap_or(0),
        }
    }

    /// Bytes that wait to be taken or to leave.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_waiting + self.bytes_queued
    }
}

impl Add for NodeCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            streams: self.streams + other.streams,
            bytes_waiting: self.bytes_waiting + other.bytes_waiting,
            bytes_queued: self.bytes_queued + other.bytes_queued,
            tasks: self.tasks + other.tasks,
            resident_bytes: self.resident_bytes + other.resident_bytes,
        }
    }
}

impl Sum for NodeCounters {
    fn sum<I: Iterator<Item = Self>>(counters: I) -> Self {
        counters.fold(Self::default(), Add::add)
    }
}

/// Counts the tasks of a worker whose sessions are alive. Clones are the same counter.
#[derive(Clone, Debug, Default)]
pub struct TaskCounter(Arc<AtomicU64>);

impl TaskCounter {
    /// The tasks that something holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts the session that is built for a task, as long as there is a context of it.
    #[must_use]
    pub fn watch(&self, context: WorkerQueryContext) -> SessionStateBuilder {
        let mut builder = context.builder;
        if context.headers.contains_key(UNCOUNTED_HEADER) {
            return builder;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let task = Arc::new(LiveTask(self.clone()));
        builder.config().get_or_insert_default().set_extension(task);
        builder
    }
}

/// An extension of a task's configuration, which its context and its operators share.
struct LiveTask(TaskCounter);

impl Drop for LiveTask {
    fn drop(&mut self) {
        let TaskCounter(count) = &self.0;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `VmRSS` of proc(5)'s `/proc/self/status`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_counts_while_its_context_is_held() {
        let tasks = TaskCounter::default();
        let query = WorkerQueryContext {
            builder: SessionStateBuilder::new(),
            headers: http::HeaderMap::new(),
        };
        let state = tasks.watch(query).build();
        let context = state.task_ctx();
        drop(state);
        assert_eq!(tasks.count(), 1);
        drop(context);
        assert_eq!(tasks.count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes().unwrap() > 1 << 20);
    }
}
