//! The counters of an exchange.

use super::link::Link;
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
    /// Bytes of messages that programs have sent and that have not left this node. Those of
    /// broadcasts are not among them.
    pub bytes_queued: u64,
    /// Messages of streams received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Messages of streams sent. A message that is broadcast counts once.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages that were broadcast, each once.
    pub broadcasts_sent: u64,
}

/// What has been counted so far.
#[derive(Default)]
pub(super) struct Counts {
    received: Count,
    sent: Count,
    broadcasts: Count,
}

#[derive(Default)]
struct Count {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, bytes: u64) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.messages), read(&self.bytes))
    }
}

impl Counts {
    /// A message of a stream was received.
    pub fn received(&self, bytes: u64) {
        self.received.add(bytes);
    }

    /// A message of a stream was sent.
    pub fn sent(&self, bytes: u64) {
        self.sent.add(bytes);
    }

    /// A message was broadcast.
    pub fn broadcast(&self, bytes: u64) {
        self.broadcasts.add(bytes);
    }

    /// The counters, with what the connections hold at the moment.
    pub fn read(&self, links: &[Arc<Link>]) -> ExchangeCounters {
        let (messages_received, bytes_received) = self.received.get();
        let (messages_sent, bytes_sent) = self.sent.get();
        let (broadcasts_sent, broadcast_bytes) = self.broadcasts.get();
        let mut counters = ExchangeCounters {
            connections: links.len() as u64,
            messages_received,
            bytes_received,
            messages_sent: messages_sent + broadcasts_sent,
            bytes_sent: bytes_sent + broadcast_bytes,
            broadcasts_sent,
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
