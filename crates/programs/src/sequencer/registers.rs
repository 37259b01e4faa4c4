//! The sequencers' register arrays, by stage.

use super::SequencerConfig;
use rackweave_switch::{Ledger, Register};

/// Requests of one channel whose answers are stored: as many as a queue pair may have in flight
/// (specification 1.4, 9.4.4; our NIC takes 16). A power of two, so that neighbouring PSNs have
/// different indices wherever the PSN wraps.
pub const ANSWERS: usize = 16;

/// In `expected`: a NAK for the expected PSN has been sent.
pub(super) const NAK_SENT: u32 = 1 << 31;
/// In `expected`: the PSN.
pub(super) const PSN: u32 = 0x00ff_ffff;
/// In `answered`: no request was answered here since the channel was connected.
pub(super) const NEVER: u32 = u32::MAX;

/// State per channel (c), per stored answer of a channel (a), per sequencer (s).
#[derive(Debug)]
pub(super) struct Registers {
    /// c: the PSN of the next request; [`NAK_SENT`] if its absence has been NAKed.
    pub expected: Register<u32>,
    /// s: numbers from here on must not be handed out yet.
    pub limit: Register<u64>,
    /// s: the next number.
    pub next: Register<u64>,
    /// a: the PSN of the request whose answer is stored here.
    pub answered: Register<u32>,
    /// a: that answer.
    pub answer: Register<u64>,
}

impl Registers {
    pub fn new(config: &SequencerConfig) -> Self {
        let (channels, sequencers) = (config.channels(), usize::from(config.sequencers));
        let [_, order, value, answers] = config.stages();
        Self {
            expected: Register::new("sequencer.expected", order, channels),
            limit: Register::new("sequencer.limit", order, sequencers),
            next: Register::new("sequencer.next", value, sequencers),
            answered: Register::new("sequencer.answered", answers, channels * ANSWERS),
            answer: Register::new("sequencer.answer", answers, channels * ANSWERS),
        }
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.register(&self.expected);
        ledger.register(&self.limit);
        ledger.register(&self.next);
        ledger.register(&self.answered);
        ledger.register(&self.answer);
    }
}
