//! Counters of a listener.

use rackweave_endpoint::messaging::handshake::{HandshakeError, RefusalCode};

/// Outcomes of handshakes at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListenerCounters {
    /// Streams that were opened.
    pub came: u64,
    /// Of these: those that became connections.
    pub connected: u64,
    /// Turned away, as too many were present.
    pub busy: u64,
    /// Refused by this node, for their identity, for what they sent, or for lack of capacity.
    pub refused: u64,
    /// The peer refused this node.
    pub refused_by_peer: u64,
    /// Ended before the handshake was complete.
    pub ended: u64,
    /// Timed out.
    pub timed_out: u64,
    /// Calls of the system that failed to accept a stream, such as for lack of file descriptors.
    pub accept_failed: u64,
    /// Refusals by this node by code, in the order of [`RefusalCode::NAMED`].
    by_code: [u64; RefusalCode::NAMED.len()],
}

impl ListenerCounters {
    /// Number of refusals by this node with a code, including those for being busy and for timing
    /// out.
    pub fn refused_with(&self, code: RefusalCode) -> u64 {
        let at = RefusalCode::NAMED.iter().position(|&named| named == code);
        at.map_or(0, |at| self.by_code[at])
    }

    /// All codes with which this node has refused, and their counts.
    pub fn refusals(&self) -> impl Iterator<Item = (RefusalCode, u64)> {
        let all = RefusalCode::NAMED.into_iter().zip(self.by_code);
        all.filter(|&(_, count)| count > 0)
    }

    pub(super) fn count(&mut self, error: &HandshakeError) {
        let by_this_node = match error {
            HandshakeError::Refused { .. } => {
                self.refused_by_peer += 1;
                false
            }
            HandshakeError::Ended { .. } => {
                self.ended += 1;
                false
            }
            HandshakeError::TimedOut { .. } => {
                self.timed_out += 1;
                true
            }
            _ => {
                self.refused += 1;
                true
            }
        };
        if by_this_node {
            self.count_code(error.code());
        }
    }

    pub(super) fn count_code(&mut self, code: RefusalCode) {
        if let Some(at) = RefusalCode::NAMED.iter().position(|&named| named == code) {
            self.by_code[at] += 1;
        }
    }
}
