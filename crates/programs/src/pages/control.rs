//! Control-plane operations of the directory. They are not bound to passes: between two passes they
//! may read and change any cell.

use super::registers::{ACTIVE, BUSY, DOUBTED, operation};
use super::{ChannelEntry, NodeEntry, PageRole, Pages, SecondPlace, SlotEntry, StoreEntry, leases};
use rackweave_base::{Instant, Psn};
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::page::{LatchWord, Operation, PageId, PageLocation};
use serde::{Deserialize, Serialize};

/// The directory's state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryState {
    /// The latch word.
    pub latch: LatchWord,
    /// The node that has the latch.
    pub holder: Option<u16>,
    /// Whether that node has to determine whether it has the newest version.
    pub doubted: bool,
    /// The location of the newest version.
    pub place: PageLocation,
    /// Another buffer frame that may have the newest version.
    pub second: SecondPlace,
    /// The nodes that may have leases, by bit.
    pub leases: u32,
}

/// A page whose newest version was lost with a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostPage {
    /// The page.
    pub page: PageId,
    /// The lost version, or one above it if it is unknown.
    pub version: u64,
}

/// The effect of a node's death on the directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeDeath {
    /// Pages whose latch it had.
    pub released: Vec<PageId>,
    /// Pages whose newest version only it had.
    pub lost: Vec<LostPage>,
}

impl EntryState {
    /// The state after the death of a node.
    pub const fn died(self, node: u16) -> Self {
        let is_holder = matches!(self.holder, Some(holder) if holder == node);
        let place = self.place.died(node);
        let second = match place.is_lost() {
            true => SecondPlace::NONE,
            false => self.second.without(node).0,
        };
        Self {
            // The holder's changes were never visible to other nodes.
            latch: if is_holder {
                self.latch.released()
            } else {
                self.latch
            },
            holder: if is_holder { None } else { self.holder },
            doubted: self.doubted && !is_holder,
            place,
            second,
            leases: self.leases & !leases::bit(node),
        }
    }
}

impl Pages {
    /// Sets the role of a lane.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_role(&mut self, lane: LaneId, role: Option<PageRole>) -> Result<(), TableError> {
        self.roles.set(lane.index(), role)
    }

    /// Enters a node's buffer frames while no transfer reads them.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_node(&mut self, node: u16, entry: Option<NodeEntry>) -> Result<(), TableError> {
        self.nodes.set(usize::from(node), entry)?;
        *self.registers.sources.control(usize::from(node)) = 0;
        Ok(())
    }

    /// Enters a channel.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_channel(
        &mut self,
        number: u16,
        entry: Option<ChannelEntry>,
    ) -> Result<(), TableError> {
        self.channels.set(usize::from(number), entry)?;
        if let Some(entry) = entry {
            *self.registers.expected.control(usize::from(number)) = entry.first.get();
        }
        Ok(())
    }

    /// Enters an idle slot; `relay` is the first PSN of requests passed on to its node.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_slot(
        &mut self,
        slot: u16,
        entry: Option<SlotEntry>,
        relay: Psn,
    ) -> Result<(), TableError> {
        let at = usize::from(slot);
        self.slots.set(at, entry)?;
        *self.registers.phase.control(at) = 0;
        *self.registers.command.control(at) = u32::MAX;
        *self.registers.relay.control(at) = relay.get();
        Ok(())
    }

    /// The lanes of a slot.
    pub fn slot(&self, slot: u16) -> Option<SlotEntry> {
        self.slots.lookup(usize::from(slot)).copied()
    }

    /// Starts a new connection with the next request passed on to the slot's node.
    pub fn reset_relay(&mut self, slot: u16, psn: Psn) {
        *self.registers.relay.control(usize::from(slot)) = psn.get();
    }

    /// Sets a new connection of a slot's I/O queue: `send` is the switch's first PSN, `base` the
    /// target's.
    pub fn set_queue(&mut self, slot: u16, store: u8, send: Psn, base: Psn) {
        let at = self.queue(slot, store);
        *self.registers.send.control(at) = send.get();
        *self.registers.base.control(at) = base.get();
        *self.registers.acked.control(at) = 0;
        *self.registers.pending.control(at) = 0;
    }

    /// Enters a store.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_store(&mut self, store: u8, entry: Option<StoreEntry>) -> Result<(), TableError> {
        self.stores.set(usize::from(store), entry)
    }

    /// A store.
    pub fn store(&self, store: u8) -> Option<StoreEntry> {
        self.stores.lookup(usize::from(store)).copied()
    }

    /// Whether a command of the slot is in flight at a store.
    pub fn has_command(&self, slot: u16, store: u8) -> bool {
        let at = self.queue(slot, store);
        at < self.generator_keys() && self.registers.acked.peek(at) & ACTIVE != 0
    }

    /// Drops the slot's command.
    pub fn forget_command(&mut self, slot: u16, store: u8) {
        let at = self.queue(slot, store);
        *self.registers.acked.control(at) = 0;
    }

    /// Ends the transfer on a source lane, regardless of the engine.
    pub fn free_source(&mut self, node: u16, bit: u8) {
        let cell = self.registers.sources.control(usize::from(node));
        super::sources::release(cell, bit);
    }

    /// Opens a store to a node, or closes it. Returns false if there is no such node.
    pub fn set_member(&mut self, node: u16, store: u8, is_member: bool) -> bool {
        let at = usize::from(node);
        let Some(&entry) = self.nodes.lookup(at) else {
            return false;
        };
        let mut stores = entry.stores;
        stores.set(store, is_member);
        self.nodes
            .set(at, Some(NodeEntry { stores, ..entry }))
            .is_ok()
    }

    /// The PSN of a slot's request that has not ended; `None` if there is none.
    pub fn under_way(&self, slot: u16) -> Option<Psn> {
        let at = usize::from(slot);
        let is_busy = self.registers.phase.peek(at) & BUSY != 0;
        is_busy.then(|| Psn::new(self.registers.command.peek(at)))
    }

    /// Drops a slot's request that will not end any more; if it was to write a page home, the page
    /// is no longer being written. Its queues must be closed already.
    pub fn forget_request(&mut self, slot: u16) {
        let at = usize::from(slot);
        if self.under_way(slot).is_none() {
            return;
        }
        *self.registers.phase.control(at) &= !BUSY;
        if operation(self.registers.frame.peek(at)) != Some(Operation::Evict) {
            return;
        }
        let page = PageId::from_number(self.registers.page.peek(at)).unwrap_or_default();
        self.change(page, |state| EntryState {
            place: state.place.not_writing(),
            ..state
        });
    }

    /// Indexes a page.
    ///
    /// # Errors
    /// If the directory is full.
    pub fn insert(&mut self, page: PageId, state: EntryState) -> Result<(), TableError> {
        let entry = self.index.insert(page)?;
        self.set_entry(entry, state);
        *self.registers.leases.control(entry) |= leases::TOUCHED;
        Ok(())
    }

    /// Removes a page from the directory and returns its state. A page whose home is being written
    /// stays, since the end of that write must find it.
    pub fn remove(&mut self, page: PageId) -> Option<EntryState> {
        let entry = self.index.lookup(page)?;
        let state = self.peek_entry(entry);
        if state.place.is_writing() {
            return None;
        }
        self.index.remove(page);
        Some(state)
    }

    /// The state of a page.
    pub fn entry(&self, page: PageId) -> Option<EntryState> {
        self.index.lookup(page).map(|entry| self.peek_entry(entry))
    }

    /// Changes the state of an indexed page. Returns false if it is not indexed.
    pub fn change(&mut self, page: PageId, change: impl FnOnce(EntryState) -> EntryState) -> bool {
        let Some(entry) = self.index.lookup(page) else {
            return false;
        };
        let state = change(self.peek_entry(entry));
        self.set_entry(entry, state);
        true
    }

    /// Gives a node a lease on a page that has been verified this often, at most seven times, since
    /// another node latched it; `None`: never.
    pub fn set_leases(&mut self, after: Option<u8>) {
        self.lease_after = after;
    }

    /// Grants no latch before this time, at which leases that cannot be revoked have expired.
    pub fn hold_latches(&mut self, until: Instant) {
        let until = self.held.lookup(0).map_or(until, |&held| until.max(held));
        // Without an entry there is no directory.
        let _fits = self.held.set(0, Some(until));
    }

    /// Whether no latch is granted at this time: leases that nobody can revoke may not have
    /// expired.
    #[inline]
    pub fn holds_latches(&self, now: Instant) -> bool {
        self.held.lookup(0).is_some_and(|&until| now < until)
    }

    /// Number of indexed pages.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no page is indexed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every indexed page.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, EntryState)> + '_ {
        let pages = self.index.pages();
        pages.map(|(page, entry)| (page, self.peek_entry(entry)))
    }

    /// Handles the death of a node: its latches are released, and what only it had is lost.
    pub fn node_died(&mut self, node: u16) -> NodeDeath {
        let mut death = NodeDeath::default();
        let pages: Vec<_> = self.index.pages().collect();
        for (page, entry) in pages {
            let before = self.peek_entry(entry);
            let after = before.died(node);
            if after == before {
                continue;
            }
            let was_holder = after.holder != before.holder;
            if was_holder {
                death.released.push(page);
            }
            // A page that counted as lost may have been at the latch holder.
            if after.place.is_lost() && (was_holder || !before.place.is_lost()) {
                let version = before.latch.version();
                death.lost.push(LostPage { page, version });
            }
            self.set_entry(entry, after);
        }
        death
    }

    /// Up to `limit` indexed pages that were not requested since the last call, and that may be
    /// removed.
    pub fn cold(&mut self, limit: usize) -> Vec<PageId> {
        let pages: Vec<_> = self.index.pages().collect();
        let mut cold = Vec::new();
        for (page, entry) in pages {
            let cell = self.registers.leases.control(entry);
            let touched = core::mem::replace(cell, *cell & !leases::TOUCHED) & leases::TOUCHED;
            let writing = self.peek_entry(entry).place.is_writing();
            if touched == 0 && !writing && cold.len() < limit {
                cold.push(page);
            }
        }
        cold
    }

    /// Halves the counters of the sketch.
    pub fn decay(&mut self) {
        for row in &mut self.registers.sketch {
            for at in 0..row.bytes() / row.cell_bytes() {
                *row.control(at) /= 2;
            }
        }
    }

    fn peek_entry(&self, entry: usize) -> EntryState {
        EntryState {
            latch: LatchWord(self.registers.latch.peek(entry)),
            holder: (self.registers.holder.peek(entry) & !DOUBTED).checked_sub(1),
            doubted: self.registers.holder.peek(entry) & DOUBTED != 0,
            place: PageLocation(self.registers.place.peek(entry)),
            second: SecondPlace(self.registers.second.peek(entry)),
            leases: leases::nodes(self.registers.leases.peek(entry)),
        }
    }

    fn set_entry(&mut self, entry: usize, state: EntryState) {
        let holder = state.holder.map_or(0, |node| node + 1);
        let doubted = if state.doubted { DOUBTED } else { 0 };
        *self.registers.holder.control(entry) = holder | doubted;
        *self.registers.latch.control(entry) = state.latch.0;
        *self.registers.place.control(entry) = state.place.0;
        *self.registers.second.control(entry) = state.second.0;
        let cell = self.registers.leases.control(entry);
        *cell = leases::with_nodes(*cell, state.leases);
    }
}
