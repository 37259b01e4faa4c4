//! A request to the page directory: a READ of [`RESPONSE_LEN`] bytes from the switch.
//!
//! | field of the RETH | bits | content |
//! |---|---|---|
//! | virtual address | 56–63 | [`Operation`] |
//! | | 48–55 | argument: see the operation |
//! | | 0–47 | page number; for [`Operation::Aim`] node and buffer frame |
//! | rkey | 24–31 | the requester's slot |
//! | | 0–23 | the requester's buffer frame |
//!
//! The response has two little-endian words: status (bits 0–7), whether the latch is the
//! requester's now (bit 8), command id (bits 32–63); and the latch word.
//!
//! A *slot* carries one request at a time: until its response has come, and its completion if the
//! response is [`Status::Moving`].

use super::{LatchWord, PageId};
use zerocopy::TryFromBytes;

/// Bytes of a response.
pub const RESPONSE_LEN: u32 = 16;

/// The largest number of buffer frames of a node.
pub const FRAMES_MAX: u32 = 1 << 24;

/// Slots of one channel at most.
pub const SLOTS_MAX: u16 = 256;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Operation {
    /// The page into the buffer frame, unless somebody holds it exclusively.
    FixShared = 1,
    /// The latch, and the page into the buffer frame. A node that has the latch keeps it.
    FixExclusive = 2,
    /// As [`Operation::FixShared`], but nothing is moved if the version's low eight bits are the
    /// argument. The response has the whole version.
    RefreshShared = 3,
    /// As [`Operation::FixExclusive`], with the same condition.
    RefreshExclusive = 4,
    /// The latch word.
    Verify = 5,
    /// The page has been changed in the buffer frame: version plus one, latch released; the buffer
    /// frame is the page's place now, and the SSD is behind.
    Unfix = 6,
    /// The latch is released; nothing was changed.
    Release = 7,
    /// The buffer frame is written to the page's home. With argument 1 it stays the page's place.
    Evict = 8,
    /// Asks whether every transfer out of this node's buffer frames that began before the last
    /// [`Status::Current`] of this operation has ended.
    Quiesce = 9,
    /// Home to buffer frame, whatever the directory says: for pages that it does not index.
    ReadHome = 10,
    /// Names node (bits 24–39) and buffer frame (bits 0–23) for the slot's next
    /// [`Operation::ReadFrame`].
    Aim = 11,
    /// The page from the buffer frame aimed at into the requester's: for pages not indexed.
    ReadFrame = 12,
    /// Buffer frame to home: for pages not indexed.
    WriteHome = 13,
    /// Everything that has been written to the page's store, by whomever, becomes durable: an NVMe
    /// Flush of its namespace (NVM Command Set 1.0, 3.2.2). The page may be any of the store.
    Flush = 14,
    /// The requester was given the latch of a page that is in doubt, and has found out that its
    /// buffer frame has the newest version: as [`Operation::Unfix`].
    Own = 15,
    /// The same, but the newest version is at home: the latch is released.
    Disown = 16,
}

impl Operation {
    /// The operation with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::try_read_from_bytes(&[number]).ok()
    }

    /// Whether it takes the latch.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::FixExclusive | Self::RefreshExclusive)
    }

    /// Whether it asks for the page itself.
    pub const fn is_fix(self) -> bool {
        matches!(
            self,
            Self::FixShared | Self::FixExclusive | Self::RefreshShared | Self::RefreshExclusive
        )
    }

    /// Whether data may move for it, so that its slot is in use until a completion has come.
    pub const fn may_move(self) -> bool {
        !matches!(
            self,
            Self::Verify
                | Self::Unfix
                | Self::Release
                | Self::Quiesce
                | Self::Aim
                | Self::Own
                | Self::Disown
        )
    }

    /// Whether it is about the directory's entry of the page.
    pub const fn needs_entry(self) -> bool {
        !matches!(
            self,
            Self::Quiesce
                | Self::ReadHome
                | Self::Aim
                | Self::ReadFrame
                | Self::WriteHome
                | Self::Flush
        )
    }
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked for.
    pub operation: Operation,
    /// The page; of an [`Operation::Aim`] what [`Request::aim`] makes of node and buffer frame.
    pub page: PageId,
    /// As the operation says.
    pub argument: u8,
    /// The requester's slot in its channel.
    pub slot: u8,
    /// The requester's buffer frame, below [`FRAMES_MAX`].
    pub frame: u32,
}

impl Request {
    /// The argument of a [`Operation::RefreshShared`] for a copy of this version.
    pub const fn have(latch: LatchWord) -> u8 {
        latch.version() as u8
    }

    /// What an [`Operation::Aim`] carries in place of a page.
    pub const fn aim(node: u16, frame: u32) -> PageId {
        PageId((node as u64) << 24 | (frame & (FRAMES_MAX - 1)) as u64)
    }

    /// The virtual address of the READ.
    pub fn address(&self) -> u64 {
        (self.operation as u64) << 56 | (self.argument as u64) << 48 | self.page.number()
    }

    /// The rkey of the READ.
    pub fn rkey(&self) -> u32 {
        (self.slot as u32) << 24 | self.frame & (FRAMES_MAX - 1)
    }

    /// The request of a READ; nothing if there is no such operation.
    pub fn parse(address: u64, rkey: u32) -> Option<Self> {
        let operation = Operation::from_number((address >> 56) as u8)?;
        Some(Self {
            operation,
            page: PageId(address & ((1 << PageId::BITS) - 1)),
            argument: (address >> 48) as u8,
            slot: (rkey >> 24) as u8,
            frame: rkey & (FRAMES_MAX - 1),
        })
    }
}

/// How a request was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Status {
    /// Data is on its way; a completion with the same command id follows.
    Moving = 1,
    /// It is done; nothing follows.
    Current = 2,
    /// Another node holds the latch; nothing was done.
    Locked = 3,
    /// The directory has no entry for the page.
    NotIndexed = 4,
    /// The last version of the page went down with the node that had it.
    Lost = 5,
    /// The latch is not the requester's; nothing was done.
    NotHolder = 6,
    /// The buffer frame is not the page's place, or is not ahead of the home: it may be dropped.
    Superseded = 7,
    /// There is no lane for the transfer, another write of the page is under way, or the slot's
    /// last request has not ended: ask again.
    Busy = 8,
    /// The operation, the page or the buffer frame makes no sense.
    Invalid = 9,
    /// The page's store is not open to the requester's node; nothing was done.
    NotMember = 10,
}

impl Status {
    fn from_number(number: u8) -> Option<Self> {
        Self::try_read_from_bytes(&[number]).ok()
    }
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// How it was taken.
    pub status: Status,
    /// Whether the page's latch is the requester's, as of this answer.
    pub granted: bool,
    /// What its completion will bear; never zero.
    pub command: u32,
    /// The page's latch word.
    pub latch: LatchWord,
}

impl Response {
    /// The two words in memory.
    pub fn emit(&self) -> [u8; RESPONSE_LEN as usize] {
        let first = self.status as u64 | (self.granted as u64) << 8 | (self.command as u64) << 32;
        let mut bytes = [0; RESPONSE_LEN as usize];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.latch.0.to_le_bytes());
        bytes
    }

    /// The response in these words; nothing if there is no such status.
    pub fn parse(first: u64, second: u64) -> Option<Self> {
        let status = Status::from_number(first as u8)?;
        Some(Self {
            status,
            granted: first >> 8 & 1 == 1,
            command: (first >> 32) as u32,
            latch: LatchWord(second),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_there_and_back() {
        for number in 0..=255 {
            let Some(operation) = Operation::from_number(number) else {
                continue;
            };
            let request = Request {
                operation,
                page: PageId::new(2, 1234).unwrap(),
                argument: 0xab,
                slot: 31,
                frame: FRAMES_MAX - 1,
            };
            assert_eq!(operation as u8, number);
            let parsed = Request::parse(request.address(), request.rkey());
            assert_eq!(parsed, Some(request));
        }
        assert_eq!(Request::parse(0, 0), None);
        assert_eq!(Request::parse(u64::MAX, 0), None);
        assert_eq!(Request::aim(7, 9).number(), 7 << 24 | 9);
    }

    #[test]
    fn responses_there_and_back() {
        for number in 0..=20 {
            let Some(status) = Status::from_number(number) else {
                continue;
            };
            let response = Response {
                status,
                granted: number % 2 == 0,
                command: 0x8000_0001,
                latch: LatchWord(77),
            };
            let bytes = response.emit();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!(bytes[0], number);
            assert_eq!(Response::parse(word(0), word(8)), Some(response));
        }
        assert_eq!(Response::parse(0, 0), None);
    }
}
