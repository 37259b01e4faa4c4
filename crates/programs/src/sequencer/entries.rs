//! What the controller enters: channels and sequencers; and the reports to it.

use rackweave_base::{Psn, Rkey};
use serde::{Deserialize, Serialize};

/// The first of the four stages that sequencers take, where they share a switch of 12 stages only
/// with the transfer engine.
pub const STAGE_BESIDE_ENGINE: u8 = 8;

/// The first of them on a switch with more stages: after everything that fits in 12.
pub const STAGE_BEHIND_ALL: u8 = 12;

/// The sizes of the sequencers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerConfig {
    /// Sequencers at a time; zero: none in this switch.
    pub sequencers: u16,
    /// Channels: queue pairs of clients.
    pub clients: u16,
    /// The first of the four stages: [`STAGE_BESIDE_ENGINE`] or [`STAGE_BEHIND_ALL`].
    pub first_stage: u8,
}

impl SequencerConfig {
    /// No sequencers.
    pub const NONE: SequencerConfig = SequencerConfig {
        sequencers: 0,
        clients: 0,
        first_stage: STAGE_BESIDE_ENGINE,
    };

    /// Number of channels; zero without sequencers.
    pub(super) const fn channels(&self) -> usize {
        if self.sequencers == 0 {
            0
        } else {
            self.clients as usize
        }
    }

    /// The stages of tables; order and limits; numbers; stored answers.
    pub(super) const fn stages(&self) -> [u8; 4] {
        let first = self.first_stage;
        [first, first + 1, first + 2, first + 3]
    }
}

/// A client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerChannel {
    /// Its number: the index of its registers.
    pub number: u16,
    /// The PSN of its first request.
    pub first: Psn,
}

/// A sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencerEntry {
    /// The key that a request must have.
    pub rkey: Rkey,
    /// The controller is notified when fewer numbers than this are left below the limit. A power of
    /// two.
    pub reserve: u64,
}

/// A report to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequencerDigest {
    /// This sequencer approaches its limit. Reported several times on the way there, since a digest
    /// may be lost.
    Low(u16),
}
