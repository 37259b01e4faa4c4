//! The counters of a node.

use prost::Message as _;

use super::CodecError;
use crate::counters::NodeCounters;

/// [`NodeCounters`].
#[derive(Clone, PartialEq, prost::Message)]
struct CountersWire {
    #[prost(uint64, tag = "1")]
    streams: u64,
    #[prost(uint64, tag = "2")]
    bytes_waiting: u64,
    #[prost(uint64, tag = "3")]
    bytes_queued: u64,
    #[prost(uint64, tag = "4")]
    tasks: u64,
    #[prost(uint64, tag = "5")]
    resident_bytes: u64,
}

/// The answer to [`Request::Counters`](super::Request::Counters).
#[must_use]
pub fn encode_counters(counters: &NodeCounters) -> Vec<u8> {
    CountersWire {
        streams: counters.streams,
        bytes_waiting: counters.bytes_waiting,
        bytes_queued: counters.bytes_queued,
        tasks: counters.tasks,
        resident_bytes: counters.resident_bytes,
    }
    .encode_to_vec()
}

/// The counters that `bytes` are.
///
/// # Errors
///
/// The bytes are no counters.
pub fn decode_counters(bytes: &[u8]) -> Result<NodeCounters, CodecError> {
    let wire = CountersWire::decode(bytes)?;
    Ok(NodeCounters {
        streams: wire.streams,
        bytes_waiting: wire.bytes_waiting,
        bytes_queued: wire.bytes_queued,
        tasks: wire.tasks,
        resident_bytes: wire.resident_bytes,
    })
}
