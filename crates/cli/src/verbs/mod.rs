//! Both ends of perftest's tests: the pair of queue pairs, the posting and the answering node, and
//! the results of each.
//!
//! Tests of this process and jobs of hosted nodes run them.

pub mod initiator;
pub mod pair;

use initiator::Responder;
use pair::{Shape, Side};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Results of the posting node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NearFound {
    /// Messages completed on each queue pair.
    pub completed: Vec<u64>,
    /// When the last message completed, in nanoseconds since the start.
    pub last: u64,
    /// Whether completions were in order and atomics returned the right values.
    pub is_sound: bool,
    /// Latencies of messages.
    pub latency_ns: Value,
    /// Digest of the buffers that the messages used.
    pub digest: u64,
}

/// Results of the other node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FarFound {
    /// Messages received, if it posts receives.
    pub received: Option<u64>,
    /// Digest of the buffers that the messages used.
    pub digest: u64,
    /// Whether each target word of atomics was incremented once per message.
    pub words_are_right: bool,
}

impl FarFound {
    /// The results after a measurement that `completed` this many messages on each queue pair.
    pub fn new(
        responder: Option<&Responder>,
        shape: &Shape,
        far: &Side,
        completed: &[u64],
    ) -> Self {
        Self {
            received: responder.map(Responder::received),
            digest: far.digest(shape, completed),
            words_are_right: far.words_are(shape, completed),
        }
    }
}
