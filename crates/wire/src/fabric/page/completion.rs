//! The end of a movement of data: two words that the switch writes into the requester's memory,
//! the same whatever the source was (Seamless, section 2.1).
//!
//! First word: outcome (bits 0–7), source (bits 8–15), NVMe status (bits 16–31), command id (bits
//! 32–63). Second word: the latch word *now*, which tells whether the page was changed, or is being
//! changed, since the request.

use super::LatchWord;
use zerocopy::TryFromBytes;

/// Bytes of a completion. Completions of a channel lie in an array, one place for each slot.
pub const COMPLETION_LEN: u64 = 16;

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Outcome {
    /// The data has been moved.
    Done = 1,
    /// The source went away; ask again.
    SourceGone = 2,
    /// The buffer frame aimed at holds another page, or none: only for
    /// [`super::Operation::ReadFrame`].
    WrongHeader = 3,
    /// The NVMe target refused or failed; its status says why.
    StorageError = 4,
    /// The NVMe target does not answer; ask again.
    StorageGone = 5,
    /// The page's last version is lost.
    Lost = 6,
    /// The page is not indexed any more: the latch word is meaningless.
    NotIndexed = 7,
}

/// Where data came from, or went to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Source {
    /// The memory of a node.
    Memory = 1,
    /// An SSD.
    Storage = 2,
}

/// The end of a movement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// How it ended.
    pub outcome: Outcome,
    /// Where from.
    pub source: Source,
    /// The status field of the NVMe completion without its phase bit (Base 2.0, 3.3.3.2), else
    /// zero.
    pub nvme_status: u16,
    /// The request's.
    pub command: u32,
    /// The latch word now.
    pub latch: LatchWord,
}

impl Completion {
    /// The two words.
    pub const fn words(&self) -> (u64, u64) {
        let first = self.outcome as u64
            | (self.source as u64) << 8
            | (self.nvme_status as u64) << 16
            | (self.command as u64) << 32;
        (first, self.latch.0)
    }

    /// The completion in these words; nothing if they are none.
    pub fn parse(first: u64, second: u64) -> Option<Self> {
        let outcome = Outcome::try_read_from_bytes(&[first as u8]).ok()?;
        let source = Source::try_read_from_bytes(&[(first >> 8) as u8]).ok()?;
        Some(Self {
            outcome,
            source,
            nvme_status: (first >> 16) as u16,
            command: (first >> 32) as u32,
            latch: LatchWord(second),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_there_and_back() {
        use Outcome::*;
        let outcomes = [
            Done,
            SourceGone,
            WrongHeader,
            StorageError,
            StorageGone,
            Lost,
            NotIndexed,
        ];
        for outcome in outcomes {
            for source in [Source::Memory, Source::Storage] {
                let completion = Completion {
                    outcome,
                    source,
                    nvme_status: 0x4002,
                    command: 0x8123_4567,
                    latch: LatchWord(5),
                };
                let (first, second) = completion.words();
                assert_eq!(Completion::parse(first, second), Some(completion));
            }
        }
        assert_eq!(Completion::parse(0, 0), None);
        assert_eq!(Completion::parse(1, 0), None);
    }
}
