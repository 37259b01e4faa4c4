//! The sizes of streams.

/// The sizes of the streams of a connection. Windows are each node's own; the limits are the same
/// at all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamConfig {
    /// Bytes that a stream may have in flight in any case.
    pub window_min: u32,
    /// Maximum window of a stream whose consumer keeps up.
    pub window_max: u32,
    /// The longest message in bytes.
    pub message_max: u64,
    /// The longest request in bytes.
    pub request_max: u64,
    /// Maximum streams of a connection at a time.
    pub streams_max: usize,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            window_min: 64 << 10,
            window_max: 8 << 20,
            message_max: 1 << 30,
            request_max: 64 << 20,
            streams_max: 1 << 16,
        }
    }
}
