//! The parts of a channel. They are created by the code that connects a node to the switch and the
//! servers. [`rackweave_wire::fabric::page::control`] defines the layout of the control region.

use rackweave_base::{Block, Lkey, Qpn, Rkey};
use rackweave_verbs::{CqId, Operation, Segment, WorkRequest};
use rackweave_wire::fabric::page::completion::COMPLETION_LEN;
use rackweave_wire::fabric::page::request::RESPONSE_LEN;
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, PageId, PageLocation, Request, Response, control,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::step::Word;

/// Bytes of an entry in a server's memory.
const ENTRY_LEN: u64 = 16;
/// Offset of the result of a compare-and-swap in a slot's scratch area.
const SWAPPED_AT: u64 = 16;
const SCRATCH_LEN: u64 = 32;

/// The parts of a channel.
#[derive(Clone, Debug)]
pub struct ChannelParts {
    /// The node's number in places and latches.
    pub node: u16,
    /// The queue pair to the switch, ready to send, with 16 READs in flight. Its send queue has
    /// space for at least two requests per slot.
    pub requests: Qpn,
    /// The completion queue of all queue pairs of the channel and of no other, with space for at
    /// least two completions per slot.
    pub cq: CqId,
    /// Maximum number of operations in flight: 1 to [`SLOTS_MAX`].
    ///
    /// [`SLOTS_MAX`]: rackweave_wire::fabric::page::request::SLOTS_MAX
    pub slots: u16,
    /// The control region, which is known to the switch and the controller.
    pub control: Block,
    /// The address of its first byte.
    pub control_address: u64,
    /// Its key for local work requests.
    pub control_lkey: Lkey,
    /// Number of buffer frames of the node; operations on others end in [`Answer::Invalid`].
    ///
    /// [`Answer::Invalid`]: super::Answer::Invalid
    pub frames: u32,
    /// Where to find entries that are not in the switch: one element for each store.
    pub fallback: Vec<FallbackParts>,
    /// Set when the channel has written a plea, for the thread that notifies the controller.
    pub alarm: Arc<AtomicBool>,
    /// Shared by all channels of the node.
    pub owed: Owed,
}

/// Pages for which a channel of a node still owes the directory an operation that no caller waits
/// for, such as the release of a latch that may have been granted. The node requests nothing else
/// for such a page before; otherwise the late operation would release a latch that the node has
/// acquired since.
#[derive(Clone, Debug, Default)]
pub struct Owed(Arc<OwedPages>);

#[derive(Debug, Default)]
struct OwedPages {
    count: AtomicUsize,
    /// Number of operations owed for each page.
    pages: Mutex<BTreeMap<PageId, u32>>,
}

impl Owed {
    /// Whether no page is owed an operation.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<PageId, u32>> {
        self.0.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, page: PageId) -> bool {
        !self.is_empty() && self.pages().contains_key(&page)
    }

    pub(super) fn add(&self, page: PageId) {
        let mut pages = self.pages();
        *pages.entry(page).or_default() += 1;
        self.0.count.store(pages.len(), Ordering::Release);
    }

    pub(super) fn settle(&self, page: PageId) {
        let mut pages = self.pages();
        if let Entry::Occupied(mut entry) = pages.entry(page) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        self.0.count.store(pages.len(), Ordering::Release);
    }
}

/// The entries of one store in the memory of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FallbackParts {
    /// The queue pair to the server, ready to send, with READs and atomics. Stores may share it.
    /// Its send queue has space for at least one request per slot.
    pub qpn: Qpn,
    /// The address of the entry of page 0: a multiple of 16, or [`control::NO_ENTRIES`].
    pub address: u64,
    /// The key of the server's region, for remote READs and atomics.
    pub rkey: Rkey,
    /// The number of entries, which is the number of pages of the store.
    pub entries: u64,
    /// The store.
    pub store: u8,
}

impl FallbackParts {
    /// Whether the node has the key of the entries, that is, the store is open to it.
    pub(super) fn is_open(&self) -> bool {
        self.address != control::NO_ENTRIES
    }

    /// The address of the entry of a page of this store; `None` if there is no such page.
    pub(super) fn entry(&self, page: PageId) -> Option<u64> {
        (page.index() < self.entries).then(|| self.address + ENTRY_LEN * page.index())
    }
}

impl ChannelParts {
    /// Whether the node was declared dead: a channel with these parts can no longer be used.
    pub fn is_fenced(&self) -> bool {
        self.generation() == control::FENCED
    }

    #[inline]
    fn word(&self, offset: u64) -> u64 {
        u64::from_le(self.control.word(offset as usize).load(Ordering::Acquire))
    }

    fn response_at(&self, slot: u16) -> u64 {
        u64::from(self.slots) * COMPLETION_LEN + u64::from(slot) * u64::from(RESPONSE_LEN)
    }

    fn scratch_at(&self, slot: u16) -> u64 {
        let before = COMPLETION_LEN + u64::from(RESPONSE_LEN);
        u64::from(self.slots) * before + u64::from(slot) * SCRATCH_LEN
    }

    fn segment(&self, offset: u64, length: u32) -> [Segment; 1] {
        [Segment {
            address: self.control_address + offset,
            length,
            lkey: self.control_lkey,
        }]
    }

    /// How often the channel was connected, counted from one, or [`control::FENCED`].
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.word(control::generation_at(self.slots))
    }

    /// The same for the connection to the memory server.
    #[inline]
    pub(super) fn server_generation(&self) -> u64 {
        self.word(control::server_generation_at(self.slots))
    }

    /// Requests that the connections to the switch be re-established.
    pub(super) fn plead(&self, generation: u64) {
        self.set_word(control::plea_at(self.slots), generation);
    }

    /// Requests that the connection to the memory server be re-established.
    pub(super) fn plead_for_server(&self, generation: u64) {
        self.set_word(control::server_plea_at(self.slots), generation);
    }

    fn set_word(&self, offset: u64, word: u64) {
        let cell = self.control.word(offset as usize);
        cell.store(word.to_le(), Ordering::Release);
        self.alarm.store(true, Ordering::Release);
    }

    /// Updates the location of the entries after the connection to their server was re-established.
    pub(super) fn entries_moved(&mut self) {
        let mut fallback = core::mem::take(&mut self.fallback);
        for parts in &mut fallback {
            let at = control::entries_at(self.slots, parts.store);
            parts.address = self.word(at);
            parts.rkey = Rkey(self.word(at + 8) as u32);
        }
        self.fallback = fallback;
    }

    /// Invalidates a completion that arrived in a slot earlier.
    pub(super) fn clear_completion(&self, slot: u16) {
        let cell = self
            .control
            .word((u64::from(slot) * COMPLETION_LEN) as usize);
        cell.store(0, Ordering::Release);
    }

    /// The response in a slot; `None` if it is not valid.
    pub(super) fn response(&self, slot: u16) -> Option<Response> {
        let at = self.response_at(slot);
        Response::parse(self.word(at), self.word(at + 8))
    }

    /// The completion in a slot, if it belongs to this command.
    pub(super) fn completion(&self, slot: u16, command: u32) -> Option<Completion> {
        let at = u64::from(slot) * COMPLETION_LEN;
        // The first word identifies the command of both words. Both are present: they arrive in one
        // WRITE, and the reading thread holds the NIC that stores it.
        let first = self.word(at);
        if (first >> 32) as u32 != command {
            return None;
        }
        Completion::parse(first, self.word(at + 8))
    }

    /// The entry that was read into a slot's scratch area.
    pub(super) fn entry(&self, slot: u16) -> (FallbackLatch, PageLocation) {
        let at = self.scratch_at(slot);
        (
            FallbackLatch(self.word(at)),
            PageLocation(self.word(at + 8)),
        )
    }

    /// The value that a compare-and-swap found.
    pub(super) fn swapped(&self, slot: u16) -> u64 {
        self.word(self.scratch_at(slot) + SWAPPED_AT)
    }

    /// The READ that carries a request.
    pub(super) fn ask(&self, id: u64, slot: u16, request: Request) -> WorkRequest {
        let read = Operation::Read {
            address: request.address(),
            rkey: Rkey(request.rkey()),
        };
        WorkRequest::new(
            id,
            read,
            &self.segment(self.response_at(slot), RESPONSE_LEN),
        )
    }

    /// The READ of an entry.
    pub(super) fn read_entry(&self, id: u64, slot: u16, address: u64, rkey: Rkey) -> WorkRequest {
        let read = Operation::Read { address, rkey };
        WorkRequest::new(
            id,
            read,
            &self.segment(self.scratch_at(slot), ENTRY_LEN as u32),
        )
    }

    /// The compare-and-swap of a word of an entry.
    pub(super) fn swap(
        &self,
        id: u64,
        slot: u16,
        (entry, rkey): (u64, Rkey),
        word: Word,
        (compare, swap): (u64, u64),
    ) -> WorkRequest {
        let address = match word {
            Word::Latch => entry,
            Word::PageLocation => entry + 8,
        };
        let operation = Operation::CompareSwap {
            address,
            rkey,
            compare,
            swap,
        };
        WorkRequest::new(
            id,
            operation,
            &self.segment(self.scratch_at(slot) + SWAPPED_AT, 8),
        )
    }
}
