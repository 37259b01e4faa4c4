//! What a channel is made of: whoever connects a node to the switch and to the servers makes these.
//! [`rackweave_wire::fabric::page::control`] has the layout of the control region.

use rackweave_base::{Block, Lkey, Qpn, Rkey};
use rackweave_verbs::{CqId, Operation, Segment, WorkRequest};
use rackweave_wire::fabric::page::completion::COMPLETION_LEN;
use rackweave_wire::fabric::page::request::RESPONSE_LEN;
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, PageId, Place, Request, Response, control,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::step::Word;

/// Bytes of an entry in a server's memory.
const ENTRY_LEN: u64 = 16;
/// Where the result of a compare-and-swap lies in a slot's scratch.
const SWAPPED_AT: u64 = 16;
const SCRATCH_LEN: u64 = 32;

/// A channel's parts.
#[derive(Clone, Debug)]
pub struct ChannelParts {
    /// The node, as places and latches name it.
    pub node: u16,
    /// The queue pair to the switch, ready to send, with 16 READs in flight. Its send queue holds
    /// at least two requests for each slot.
    pub requests: Qpn,
    /// The completion queue of all queue pairs of the channel, and of no other, with room for at
    /// least two completions for each slot.
    pub cq: CqId,
    /// Operations that can be under way at once: 1 to [`SLOTS_MAX`].
    ///
    /// [`SLOTS_MAX`]: rackweave_wire::fabric::page::request::SLOTS_MAX
    pub slots: u16,
    /// The control region, which the switch and the controller know.
    pub control: Block,
    /// The address of its first byte.
    pub control_address: u64,
    /// Its key for local work requests.
    pub control_lkey: Lkey,
    /// Buffer frames of the node; operations on others end in [`Answer::Invalid`].
    ///
    /// [`Answer::Invalid`]: super::Answer::Invalid
    pub frames: u32,
    /// Where entries are that the switch has not: one for each store.
    pub fallback: Vec<FallbackParts>,
    /// Set when the channel has written a plea: whoever looks tells the controller.
    pub alarm: Arc<AtomicBool>,
    /// The same for all channels of the node.
    pub owed: Owed,
}

/// Pages about which a channel of a node has yet to tell the directory something that nobody waits
/// for any more: to give back a latch that may have been granted, say. Nobody at the node asks for
/// such a page before, or what comes late would open the latch that the node has by then.
#[derive(Clone, Debug, Default)]
pub struct Owed(Arc<OwedPages>);

#[derive(Debug, Default)]
struct OwedPages {
    count: AtomicUsize,
    /// How often.
    pages: Mutex<BTreeMap<PageId, u32>>,
}

impl Owed {
    /// Whether there is no such page.
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
    /// Its send queue holds at least one request for each slot.
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
    /// Whether the node has the key of the entries: the store is open to it.
    pub(super) fn is_open(&self) -> bool {
        self.address != control::NO_ENTRIES
    }

    /// The address of the entry of a page of this store; nothing if there is no such page.
    pub(super) fn entry(&self, page: PageId) -> Option<u64> {
        (page.index() < self.entries).then(|| self.address + ENTRY_LEN * page.index())
    }
}

impl ChannelParts {
    /// Whether the node was taken for dead: a channel of these parts is of no use any more.
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

    /// The same of the connection to the memory server.
    #[inline]
    pub(super) fn server_generation(&self) -> u64 {
        self.word(control::server_generation_at(self.slots))
    }

    /// Asks for the connections to the switch to be made afresh.
    pub(super) fn plead(&self, generation: u64) {
        self.set_word(control::plea_at(self.slots), generation);
    }

    /// Asks for the connection to the memory server to be made afresh.
    pub(super) fn plead_for_server(&self, generation: u64) {
        self.set_word(control::server_plea_at(self.slots), generation);
    }

    fn set_word(&self, offset: u64, word: u64) {
        let cell = self.control.word(offset as usize);
        cell.store(word.to_le(), Ordering::Release);
        self.alarm.store(true, Ordering::Release);
    }

    /// Notes where the entries are since the connection to their server was made afresh.
    pub(super) fn entries_moved(&mut self) {
        let mut fallback = core::mem::take(&mut self.fallback);
        for parts in &mut fallback {
            let at = control::entries_at(self.slots, parts.store);
            parts.address = self.word(at);
            parts.rkey = Rkey(self.word(at + 8) as u32);
        }
        self.fallback = fallback;
    }

    /// What came in a slot before counts no longer.
    pub(super) fn clear_completion(&self, slot: u16) {
        let cell = self
            .control
            .word((u64::from(slot) * COMPLETION_LEN) as usize);
        cell.store(0, Ordering::Release);
    }

    /// The response in a slot; nothing if it makes no sense.
    pub(super) fn response(&self, slot: u16) -> Option<Response> {
        let at = self.response_at(slot);
        Response::parse(self.word(at), self.word(at + 8))
    }

    /// The completion in a slot, if it is that of this command.
    pub(super) fn completion(&self, slot: u16, command: u32) -> Option<Completion> {
        let at = u64::from(slot) * COMPLETION_LEN;
        // The first word says whose both are. Both are there: they come in one WRITE, and whoever
        // looks holds the NIC that stores it.
        let first = self.word(at);
        if (first >> 32) as u32 != command {
            return None;
        }
        Completion::parse(first, self.word(at + 8))
    }

    /// The entry read into a slot's scratch.
    pub(super) fn entry(&self, slot: u16) -> (FallbackLatch, Place) {
        let at = self.scratch_at(slot);
        (FallbackLatch(self.word(at)), Place(self.word(at + 8)))
    }

    /// What a compare-and-swap found.
    pub(super) fn swapped(&self, slot: u16) -> u64 {
        self.word(self.scratch_at(slot) + SWAPPED_AT)
    }

    /// The READ that is a request.
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
            Word::Place => entry + 8,
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
