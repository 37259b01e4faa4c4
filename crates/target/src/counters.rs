//! Counters of a target.

use rackweave_wire::nvme::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters of a target since its creation.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Read commands received.
    pub reads: u64,
    /// Write commands received.
    pub writes: u64,
    /// Flush commands received.
    pub flushes: u64,
    /// Write Zeroes commands received.
    pub write_zeroes: u64,
    /// Admin commands received, without Fabrics commands.
    pub admin: u64,
    /// Fabrics commands received.
    pub fabrics: u64,
    /// Malformed capsules, and unknown commands on I/O queues.
    pub unknown: u64,
    /// Bytes returned by reads.
    pub bytes_read: u64,
    /// Bytes received by writes.
    pub bytes_written: u64,
    /// Commands that had to wait for a transfer buffer.
    pub buffer_waits: u64,
    /// Requests that a backend had no capacity for at first.
    pub backend_waits: u64,
    /// Requests that were held back because an earlier one for the same blocks had not completed.
    pub order_waits: u64,
    /// Queues that broke: their queue pair failed, or their controller ended.
    pub queues_broken: u64,
    /// Answers by status, except success; hints (do not retry) are left out.
    pub errors: BTreeMap<Status, u64>,
}
