//! What a target has done.

use rackweave_wire::nvme::Status;
use std::collections::BTreeMap;

/// Counters of a target since it was made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Read commands that came.
    pub reads: u64,
    /// Write commands that came.
    pub writes: u64,
    /// Flush commands that came.
    pub flushes: u64,
    /// Write Zeroes commands that came.
    pub write_zeroes: u64,
    /// Admin commands that came, those of Fabrics aside.
    pub admin: u64,
    /// Fabrics commands that came.
    pub fabrics: u64,
    /// Capsules that are none, and commands on I/O queues that nobody knows.
    pub unknown: u64,
    /// Bytes that reads gave to hosts.
    pub bytes_read: u64,
    /// Bytes that writes took from hosts.
    pub bytes_written: u64,
    /// Commands that had to wait for a transfer buffer.
    pub buffer_waits: u64,
    /// Requests that a backend had no room for at first.
    pub backend_waits: u64,
    /// Requests that were held back because an earlier one for the same blocks had not ended.
    pub order_waits: u64,
    /// Queues that broke: their queue pair failed, or their controller ended.
    pub queues_broken: u64,
    /// Answers by status, successes aside; hints (do not retry) are left out.
    pub errors: BTreeMap<Status, u64>,
}
