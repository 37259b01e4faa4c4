//! What the controller enters: channels and sequencers; and what it is told.

use rackweave_base::{Psn, Rkey};

/// The first stage of the four that sequencers take, where they share a switch of 12 stages with
/// the transfer engine alone.
pub const STAGE_BESIDE_ENGINE: u8 = 8;

/// The first of them on a switch with more stages: behind whatever fits 12.
pub const STAGE_BEHIND_ALL: u8 = 12;

/// The sizes of the sequencers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerConfig {
    /// Sequencers at a time; zero: there are none in this switch.
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

    /// Channels, or none without sequencers.
    pub(super) const fn channels(&self) -> usize {
        if self.sequencers == 0 {
            0
        } else {
            self.clients as usize
        }
    }

    /// Tables; order and limits; numbers; kept answers.
    pub(super) const fn stages(&self) -> [u8; 4] {
        let first = self.first_stage;
        [first, first + 1, first + 2, first + 3]
    }
}

/// A client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerChannel {
    /// Its number: the place of its registers.
    pub number: u16,
    /// The PSN of its first request.
    pub first: Psn,
}

/// A sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerEntry {
    /// What a request must bear.
    pub rkey: Rkey,
    /// The controller is told when fewer numbers than this are left below the limit. A power of
    /// two.
    pub reserve: u64,
}

/// What the controller is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequencerDigest {
    /// This sequencer comes near its limit. Told several times on the way there, since a digest
    /// may be lost.
    Low(u16),
}
