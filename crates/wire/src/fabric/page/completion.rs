//! The end of a data transfer: two words that the switch writes into the requester's memory, in the
//! same form for every source (Seamless, section 2.1).
//!
//! First word: outcome (bits 0–7), source (bits 8–15), NVMe status (bits 16–31), command id (bits
//! 32–63). Second word: the latch word *now*, which shows whether the page was changed, or is being
//! changed, since the request.

use super::LatchWord;
use zerocopy::TryFromBytes;

/// Bytes of a completion. The completions of a channel form an array with one entry for each slot.
pub const COMPLETION_LEN: u64 = 16;

/// The result of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Outcome {
    /// The data has been moved.
    Done = 1,
    /// The source has left; repeat the request.
    SourceGone = 2,
    /// The selected buffer frame holds another page, or none: only for
    /// [`super::Operation::ReadFrame`].
    WrongHeader = 3,
    /// The NVMe target refused or failed; its status gives the reason.
    StorageError = 4,
    /// The NVMe target does not answer; repeat the request.
    StorageGone = 5,
    /// The page's last version is lost.
    Lost = 6,
    /// The page is no longer indexed: the latch word is meaningless.
    NotIndexed = 7,
}

/// The source or the target of the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum PageSource {
    /// The memory of a node.
    Memory = 1,
    /// An SSD.
    Storage = 2,
}

/// The end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The result.
    pub outcome: Outcome,
    /// The source of the data.
    pub source: PageSource,
    /// The status field of the NVMe completion without its phase bit (Base 2.0, 3.3.3.2), otherwise
    /// zero.
    pub nvme_status: u16,
    /// The command id of the request.
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

    /// The completion in these words; `None` if they are not a completion.
    pub fn parse(first: u64, second: u64) -> Option<Self> {
        let outcome = Outcome::try_read_from_bytes(&[first as u8]).ok()?;
        let source = PageSource::try_read_from_bytes(&[(first >> 8) as u8]).ok()?;
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
            for source in [PageSource::Memory, PageSource::Storage] {
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
