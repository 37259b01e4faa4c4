//! The counters of an exchange.

use core::sync::atomic::{AtomicU64, Ordering};

/// What an exchange has done so far, and has now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExchangeCounters {
    /// Connections that are open.
    pub connections: u64,
    /// Streams that are open.
    pub streams: u64,
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

    /// The counters, with the number of connections and streams.
    pub fn get(&self, connections: u64, streams: u64) -> ExchangeCounters {
        let (messages_received, bytes_received) = self.received.get();
        let (messages_sent, bytes_sent) = self.sent.get();
        let (broadcasts_sent, broadcast_bytes) = self.broadcasts.get();
        ExchangeCounters {
            connections,
            streams,
            messages_received,
            bytes_received,
            messages_sent: messages_sent + broadcasts_sent,
            bytes_sent: bytes_sent + broadcast_bytes,
            broadcasts_sent,
        }
    }
}
