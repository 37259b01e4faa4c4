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
//! The response has two little-endian words: status (bits 0–7), whether the requester now has the
//! latch (bit 8), whether there is a lease (bit 9; see [`Response::leased`]), command id (bits
//! 32–63); and the latch word.
//!
//! A *slot* carries one request at a time: until its response has arrived, and its completion if
//! the response is [`Status::Moving`].

use super::{LatchWord, PageId};
use zerocopy::TryFromBytes;

/// Bytes of a response.
pub const RESPONSE_LEN: u32 = 16;

/// Maximum buffer frames of a node.
pub const FRAMES_MAX: u32 = 1 << 24;

/// Maximum slots of one channel.
pub const SLOTS_MAX: u16 = 256;

/// The operation requested.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Operation {
    /// Moves the page into the buffer frame, unless a node holds it exclusively.
    FixShared = 1,
    /// Takes the latch, and moves the page into the buffer frame. A node that has the latch keeps
    /// it.
    FixExclusive = 2,
    /// As [`Operation::FixShared`], but nothing is moved if the low eight bits of the version equal
    /// the argument. The response has the whole version.
    RefreshShared = 3,
    /// As [`Operation::FixExclusive`], with the same condition.
    RefreshExclusive = 4,
    /// Returns the latch word. With [`Request::WANTS_LEASE`] as its buffer frame it also asks for a
    /// lease on the version whose low eight bits are the argument ([`super::control`]).
    Verify = 5,
    /// The page was changed in the buffer frame: increments the version and releases the latch. The
    /// buffer frame is now the page's place, and the SSD has an older version.
    Unfix = 6,
    /// Releases the latch; nothing was changed.
    Release = 7,
    /// Writes the buffer frame to the page's home. With argument 1 it remains the page's place.
    Evict = 8,
    /// Asks whether every transfer out of this node's buffer frames that began before the last
    /// [`Status::Current`] of this operation has ended.
    Quiesce = 9,
    /// Reads the home into the buffer frame, whatever the directory says: for pages that it does
    /// not index.
    ReadHome = 10,
    /// Selects node (bits 24–39) and buffer frame (bits 0–23) for the slot's next
    /// [`Operation::ReadFrame`].
    Aim = 11,
    /// Copies the page from the selected buffer frame into the requester's: for pages that are not
    /// indexed.
    ReadFrame = 12,
    /// Writes the buffer frame to the home: for pages that are not indexed.
    WriteHome = 13,
    /// Makes everything durable that any node has written to the page's store: an NVMe Flush of its
    /// namespace (NVM Command Set 1.0, 3.2.2). The page may be any page of the store.
    Flush = 14,
    /// The requester was given the latch of a page in doubt and has determined that its buffer
    /// frame has the newest version: acts as [`Operation::Unfix`].
    Own = 15,
    /// The same, but the newest version is at home: releases the latch.
    Disown = 16,
    /// The requester has the latch, and its change must not be visible before all leases of other
    /// nodes on the page are revoked: [`Status::Current`] if there are none, otherwise a completion
    /// follows when they are.
    Revoke = 17,
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

    /// Whether it requests the page itself.
    pub const fn is_fix(self) -> bool {
        matches!(
            self,
            Self::FixShared | Self::FixExclusive | Self::RefreshShared | Self::RefreshExclusive
        )
    }

    /// Whether it may move data, so that its slot is in use until a completion has arrived.
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

    /// Whether it uses the directory's entry of the page.
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
    /// The operation requested.
    pub operation: Operation,
    /// The page; for an [`Operation::Aim`], the result of [`Request::aim`] for node and buffer
    /// frame.
    pub page: PageId,
    /// The argument, as defined by the operation.
    pub argument: u8,
    /// The requester's slot in its channel.
    pub slot: u8,
    /// The requester's buffer frame, below [`FRAMES_MAX`].
    pub frame: u32,
}

impl Request {
    /// In place of the buffer frame of a [`Operation::Verify`]: asks for a lease.
    pub const WANTS_LEASE: u32 = 1;

    /// The argument of a [`Operation::RefreshShared`] for a copy of this version.
    pub const fn have(latch: LatchWord) -> u8 {
        latch.version() as u8
    }

    /// The value that an [`Operation::Aim`] carries in place of a page.
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

    /// The request of a READ; `None` if there is no such operation.
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

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Status {
    /// Data is in flight; a completion with the same command id follows.
    Moving = 1,
    /// The request is done; nothing follows.
    Current = 2,
    /// Another node holds the latch; nothing was done.
    Locked = 3,
    /// The directory has no entry for the page.
    NotIndexed = 4,
    /// The last version of the page was lost with the node that had it.
    Lost = 5,
    /// The requester does not have the latch; nothing was done.
    NotHolder = 6,
    /// The buffer frame is not the page's place, or is not newer than the home: it may be dropped.
    Superseded = 7,
    /// No lane is free for the transfer, another write of the page is in flight, or the slot's last
    /// request has not ended: repeat the request.
    Busy = 8,
    /// The operation, the page or the buffer frame is invalid.
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
    /// The result of the request.
    pub status: Status,
    /// Whether the requester has the page's latch, as of this response.
    pub granted: bool,
    /// The command id of its completion; never zero.
    pub command: u32,
    /// The page's latch word.
    pub latch: LatchWord,
    /// After an operation that takes the latch: other nodes may have leases on the page. After a
    /// [`Operation::Verify`]: the requester has a lease on this version.
    pub leased: bool,
}

impl Response {
    /// The two words in memory.
    pub fn emit(&self) -> [u8; RESPONSE_LEN as usize] {
        let flags = self.granted as u64 | (self.leased as u64) << 1;
        let first = self.status as u64 | flags << 8 | (self.command as u64) << 32;
        let mut bytes = [0; RESPONSE_LEN as usize];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.latch.0.to_le_bytes());
        bytes
    }

    /// The response in these words; `None` if there is no such status.
    pub fn parse(first: u64, second: u64) -> Option<Self> {
        let status = Status::from_number(first as u8)?;
        Some(Self {
            status,
            granted: first >> 8 & 1 == 1,
            command: (first >> 32) as u32,
            latch: LatchWord(second),
            leased: first >> 9 & 1 == 1,
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
                leased: number % 3 == 0,
            };
            let bytes = response.emit();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!(bytes[0], number);
            assert_eq!(Response::parse(word(0), word(8)), Some(response));
        }
        assert_eq!(Response::parse(0, 0), None);
    }
}
