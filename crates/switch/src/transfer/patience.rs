//! How long a transfer waits for source and target: the counts, since the last progress, in a cell
//! of the register array `retries`.
//!
//! Source and target each get all retries. A source that was cut off for almost the whole limit
//! leaves the target its full time, and vice versa: a node is given up only after all retries to it
//! failed. NAKs are answers, so they do not count as silence. They have their own bound, since a
//! node that answers "not yet" for ever would otherwise keep its lane for ever.

use super::FailReason;

/// Bits of each count of timeouts; the configuration allows 1000 retries.
const BITS: u32 = 10;
const MASK: u32 = (1 << BITS) - 1;

/// Whether the source has answered since the last timeout.
const HEARD: u32 = 1 << 31;

/// NAKs without progress after which the node that sends them is given up. A NIC sends one for each
/// gap; late and duplicate ones, and those of up to 32 members for the same gap, add to the count.
pub(super) const NAKS_MAX: u32 = (1 << (31 - 2 * BITS)) - 1;

/// Why a request is reissued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No answer arrived within the timeout.
    Timeout,
    /// A node reported missing packets.
    Nak,
}

/// The node that is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blame {
    /// The node that was asked: the source, or the node of a word operation.
    Asked,
    /// The target, or the slowest of several.
    Target,
}

/// The counts of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Patience {
    /// Whether the source has answered since the last timeout.
    is_heard: bool,
    /// Timeouts since the last answer of the source.
    silent: u32,
    /// Timeouts after which the source answered: the target did not acknowledge what the source had
    /// sent.
    unheeded: u32,
    /// NAKs.
    naks: u32,
}

impl Patience {
    pub const fn of(cell: u32) -> Self {
        Self {
            is_heard: cell & HEARD != 0,
            silent: cell & MASK,
            unheeded: cell >> BITS & MASK,
            naks: cell >> (2 * BITS) & NAKS_MAX,
        }
    }

    pub const fn cell(self) -> u32 {
        let heard = if self.is_heard { HEARD } else { 0 };
        heard | self.naks << (2 * BITS) | self.unheeded << BITS | self.silent
    }

    /// Records a fragment from the source.
    pub const fn heard(self) -> Self {
        Self {
            is_heard: true,
            silent: 0,
            ..self
        }
    }

    /// Records that a request is reissued.
    pub fn again(mut self, cause: Cause) -> Self {
        match cause {
            Cause::Timeout => {
                if core::mem::take(&mut self.is_heard) {
                    self.unheeded = (self.unheeded + 1).min(MASK);
                }
                self.silent = (self.silent + 1).min(MASK);
            }
            Cause::Nak => self.naks = (self.naks + 1).min(NAKS_MAX),
        }
        self
    }

    /// The node to give up and the reason, if a limit is reached.
    pub fn exhausted(self, retries: u32) -> Option<(Blame, FailReason)> {
        if self.silent > retries {
            Some((Blame::Asked, FailReason::Unreachable))
        } else if self.unheeded > retries {
            Some((Blame::Target, FailReason::Unreachable))
        } else if self.naks == NAKS_MAX {
            Some((Blame::Target, FailReason::RemoteOperation))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: u32 = 16;

    fn timeouts(mut patience: Patience, count: u32, is_heard: bool) -> Patience {
        for _ in 0..count {
            if is_heard {
                patience = patience.heard();
            }
            patience = Patience::of(patience.cell()).again(Cause::Timeout);
        }
        patience
    }

    #[test]
    fn whoever_is_silent_is_given_up_after_all_retries() {
        for (is_heard, blame) in [(false, Blame::Asked), (true, Blame::Target)] {
            let patience = timeouts(Patience::default(), RETRIES, is_heard);
            assert_eq!(patience.exhausted(RETRIES), None);
            let patience = timeouts(patience, 1, is_heard);
            let given_up = Some((blame, FailReason::Unreachable));
            assert_eq!(patience.exhausted(RETRIES), given_up);
        }
    }

    #[test]
    fn each_gets_all_retries_whatever_the_other_took() {
        let patience = timeouts(Patience::default(), RETRIES, false);
        let patience = timeouts(patience, RETRIES, true);
        assert_eq!(
            patience.exhausted(RETRIES),
            None,
            "the target is asked last"
        );
        let patience = timeouts(patience, RETRIES - 1, false);
        assert_eq!(patience.exhausted(RETRIES), None, "the source again");
    }

    #[test]
    fn naks_are_no_silence_but_have_a_bound() {
        let mut patience = timeouts(Patience::default(), RETRIES, false);
        for _ in 1..NAKS_MAX {
            patience = Patience::of(patience.again(Cause::Nak).cell());
            assert_eq!(patience.exhausted(RETRIES), None);
        }
        let given_up = Some((Blame::Target, FailReason::RemoteOperation));
        let patience = patience.again(Cause::Nak).again(Cause::Nak);
        assert_eq!(patience.exhausted(RETRIES), given_up);
    }

    #[test]
    fn counts_do_not_run_into_each_other() {
        let mut patience = Patience::default();
        for _ in 0..2000 {
            patience = Patience::of(patience.again(Cause::Timeout).cell());
        }
        assert_eq!(
            patience.exhausted(1000).map(|(blame, _)| blame),
            Some(Blame::Asked)
        );
        assert_eq!(patience.heard().exhausted(1000), None);
    }
}
