//! Counters of servers of datagrams.

/// Counters of a datagram server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramServerStatistics {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams that are not requests, or are damaged. They get no reply.
    pub damaged: u64,
    /// Undamaged requests that are malformed. They are refused.
    pub malformed: u64,
    /// Gets with a hinted tree node.
    pub hinted: u64,
    /// Hinted gets whose walk began at the hint.
    pub begun: u64,
    /// Hinted gets whose key was to the right of the hint; the walk followed neighbours.
    pub followed: u64,
    /// Levels of the tree that gets visited.
    pub levels_walked: u64,
    /// Levels of the tree that gets skipped.
    pub levels_skipped: u64,
    /// Writes that had been executed before; the reply was repeated.
    pub repeated: u64,
    /// Writes whose slot has a newer write, or that another thread was executing.
    pub late: u64,
    /// Writes whose reply waited for the replica.
    pub deferred: u64,
    /// Writes in unknown sessions.
    pub sessionless: u64,
    /// Sessions that could not be opened because all were in use.
    pub sessions_full: u64,
    /// Replies for which the NIC had no free send buffer.
    pub unsent: u64,
}
