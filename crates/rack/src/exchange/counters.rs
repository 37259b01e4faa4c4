//! What an exchange counts.

use super::connection::Link;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What an exchange has done so far, and has now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExchangeCounters {
    /// Connections that are open.
    pub connections: u64,
    /// Streams that are open.
    pub streams: u64,
    /// Bytes of messages that have arrived, whole or in part, and were not taken.
    pub bytes_waiting: u64,
    /// Bytes of messages that programs have sent and that have not left this node.
    pub bytes_queued: u64,
    /// Messages of streams received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Messages of streams sent.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
}

/// The counters that only grow.
#[derive(Default)]
pub(super) struct Counts {
    pub messages_received: AtomicU64,
    pub bytes_received: AtomicU64,
    pub messages_sent: AtomicU64,
    pub bytes_sent: AtomicU64,
}

impl Counts {
    /// With what the connections hold at the moment.
    pub fn read(&self, links: &[Arc<Link>]) -> ExchangeCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut counters = ExchangeCounters {
            connections: links.len() as u64,
            messages_received: read(&self.messages_received),
            bytes_received: read(&self.bytes_received),
            messages_sent: read(&self.messages_sent),
            bytes_sent: read(&self.bytes_sent),
            ..ExchangeCounters::default()
        };
        for link in links {
            let multiplexer = link.multiplexer();
            counters.streams += multiplexer.streams() as u64;
            counters.bytes_waiting += multiplexer.bytes_waiting();
            counters.bytes_queued += multiplexer.bytes_queued();
        }
        counters
    }
}
