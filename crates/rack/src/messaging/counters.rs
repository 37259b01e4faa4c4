//! Counters of a listener.

use rackweave_endpoint::messaging::handshake::{HandshakeError, RefusalCode};

/// What became of those who came to a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListenerCounters {
    /// Streams that were opened.
    pub came: u64,
    /// Of these: became connections.
    pub connected: u64,
    /// Were turned away, as too many were there.
    pub busy: u64,
    /// Were refused by this unit, for what they are or sent, or for want of room.
    pub refused: u64,
    /// Refused this unit.
    pub refused_by_peer: u64,
    /// Ended before the handshake did.
    pub ended: u64,
    /// Took too long.
    pub timed_out: u64,
    /// Calls of the system that failed to take a stream, such as for want of file descriptors.
    pub accept_failed: u64,
    /// Refusals by this unit by code, in the order of [`RefusalCode::NAMED`].
    by_code: [u64; RefusalCode::NAMED.len()],
}

impl ListenerCounters {
    /// How often this unit has refused with a code, for being busy and for taking too long among
    /// them.
    pub fn refused_with(&self, code: RefusalCode) -> u64 {
        let at = RefusalCode::NAMED.iter().position(|&named| named == code);
        at.map_or(0, |at| self.by_code[at])
    }

    /// All codes that this unit has refused with, and how often.
    pub fn refusals(&self) -> impl Iterator<Item = (RefusalCode, u64)> {
        let all = RefusalCode::NAMED.into_iter().zip(self.by_code);
        all.filter(|&(_, count)| count > 0)
    }

    pub(super) fn count(&mut self, error: &HandshakeError) {
        let by_this_unit = match error {
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
        if by_this_unit {
            self.count_code(error.code());
        }
    }

    pub(super) fn count_code(&mut self, code: RefusalCode) {
        if let Some(at) = RefusalCode::NAMED.iter().position(|&named| named == code) {
            self.by_code[at] += 1;
        }
    }
}
