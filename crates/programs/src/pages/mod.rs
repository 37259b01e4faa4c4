//! The page directory: the location and the latch of every page (Seamless, section 2).
//!
//! A node's request is a READ that the switch answers itself: status, command id, latch word. In
//! the same pass the directory's entry changes; this makes latches atomic, since packets pass one
//! after another. If data is to move, that pass also starts the movement:
//!
//! - from the **memory** of the node that caches the page: a checked transfer of the engine, which
//!   refuses a buffer frame that now holds another page;
//! - from or to the **SSD**: the switch is the host of an NVMe-oF target. It sends a command on the
//!   slot's own I/O queue, so that there is one command at a time on each, and passes the target's
//!   WRITEs and READs on to the slot's node, with a constant added to their PSNs, and the node's
//!   answers back. Losses on the way are thus repaired by the two NICs.
//!
//! ```text
//!   node                     switch                          target
//!    │── READ page, frame ────▶│  latch, place                  │
//!    │◀─ status, command id ───│── SEND command ───────────────▶│
//!    │                         │◀───────────── ACK ─────────────│
//!    │◀─ WRITE psn+offset ─────│◀──────── WRITE psn ────────────│
//!    │── ACK psn+offset ──────▶│───────── ACK psn ─────────────▶│
//!    │                         │◀──────── SEND response ────────│
//!    │◀─ WRITE completion ─────│──────────── ACK ──────────────▶│
//! ```
//!
//! At the end the node gets the same completion whatever the source was, with the latch word *of
//! that moment*: so it knows whether the page was changed while it was in flight.
//!
//! Files: `request` a request's pass, `movement` the start of a movement; `complete` its end;
//! `queue` the NVMe host's side of an I/O queue, `relay` the node's side; `sources` lanes and
//! epochs; `second` a second copy of a page; `leases` reads without a request; `sketch` which pages
//! should be indexed; `index`, `registers`, `entries` the state; `control` the control-plane
//! operations; `counters` the answers by kind.

mod complete;
mod control;
mod counters;
mod entries;
mod index;
mod leases;
mod movement;
mod queue;
mod registers;
mod relay;
mod request;
mod second;
mod sketch;
mod sources;
mod task;
#[cfg(test)]
mod tests;

use index::Index;
use rackweave_base::{Instant, Packet, PortId, Psn};
use rackweave_switch::table::Direct;
use rackweave_switch::transfer::{Engine, EngineEvent, Lane, LaneId};
use rackweave_switch::{DropReason, Ledger, Pass};
use rackweave_wire::Headers;
use registers::Registers;

pub use control::{EntryState, LostPage, NodeDeath};
pub use counters::PageCounters;
pub use entries::{
    ChannelEntry, NodeEntry, PageRole, PagesConfig, SlotEntry, StoreEntry, StoreSet,
};
pub use movement::cargo;
pub use second::SecondPlace;
pub use sources::transfers_at_a_time;
pub use task::{Digests, End, PageDigest, PageTask, Tasks};

/// Source lanes of a node: transfers out of its buffer frames at a time. The lane after them
/// revokes leases.
pub const SOURCES: u8 = 31;

/// The page directory.
pub struct Pages {
    config: PagesConfig,
    registers: Registers,
    index: Index,
    channels: Direct<ChannelEntry>,
    slots: Direct<SlotEntry>,
    nodes: Direct<NodeEntry>,
    stores: Direct<StoreEntry>,
    roles: Direct<PageRole>,
    /// One entry: until when no latch is granted.
    held: Direct<Instant>,
    /// The packet generator key of the first I/O queue.
    first_key: u32,
    counters: PageCounters,
    /// After how many verifications a page is leased; `None`: never.
    lease_after: Option<u8>,
}

impl Pages {
    /// An empty directory over an engine with `lanes` lanes, whose packet generator keys begin with
    /// `first_key`.
    pub fn new(config: PagesConfig, lanes: u16, first_key: u32) -> Self {
        let lanes = if config.entries == 0 { 0 } else { lanes };
        Self {
            registers: Registers::new(&config),
            index: Index::new(&config),
            channels: Direct::new("pages.channels", 0, usize::from(config.channels)),
            slots: Direct::new("pages.slots", 1, usize::from(config.slots)),
            nodes: Direct::new("pages.nodes", 1, usize::from(config.nodes)),
            stores: Direct::new("pages.stores", 1, usize::from(config.stores)),
            roles: Direct::new("pages.roles", 0, usize::from(lanes)),
            held: Direct::new("pages.held", 0, usize::from(config.entries > 0)),
            config,
            first_key,
            counters: PageCounters::default(),
            lease_after: None,
        }
    }

    /// Whether this switch has a page directory.
    pub fn is_present(&self) -> bool {
        self.config.entries > 0
    }

    /// The sizes.
    pub fn config(&self) -> &PagesConfig {
        &self.config
    }

    /// Answers since the switch started.
    pub fn counters(&self) -> PageCounters {
        self.counters
    }

    /// Declares tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        if !self.is_present() {
            return;
        }
        self.registers.declare(ledger);
        self.index.declare(ledger);
        ledger.direct(&self.channels);
        ledger.direct(&self.slots);
        ledger.direct(&self.nodes);
        ledger.direct(&self.stores);
        ledger.direct(&self.roles);
        ledger.direct(&self.held);
    }

    /// Packet generator entries: one per I/O queue.
    pub fn generator_keys(&self) -> usize {
        usize::from(self.config.slots) * usize::from(self.config.stores)
    }

    /// The role of a lane, if it belongs to the directory.
    #[inline]
    pub fn role(&self, lane: LaneId) -> Option<PageRole> {
        self.roles.lookup(lane.index()).copied()
    }

    /// The I/O queue of a slot at a store.
    fn queue(&self, slot: u16, store: u8) -> usize {
        usize::from(store) * usize::from(self.config.slots) + usize::from(slot)
    }

    /// The lane of a slot's I/O queue at a store, if its target is connected.
    fn queue_lane<'a>(&self, engine: &'a Engine, slot: u16, store: u8) -> Option<&'a Lane> {
        let store = self.stores.lookup(usize::from(store))?;
        let store = Some(store).filter(|store| store.connected)?;
        engine.lane(LaneId(store.first_queue.0 + slot))
    }

    /// Handles a packet on one of the directory's lanes.
    pub fn packet<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, lane): (PortId, LaneId),
        headers: &Headers,
        packet: Packet,
    ) {
        match self.role(lane) {
            Some(PageRole::Requests(channel)) => {
                self.request(pass, engine, (port, channel), headers, &packet);
            }
            Some(PageRole::Queue { slot, store }) => {
                self.target_says(pass, engine, (port, lane, slot, store), headers, packet);
            }
            Some(PageRole::Relay(slot)) => {
                self.node_says(pass, engine, (port, slot), headers, packet);
            }
            _ => pass.drop(port, DropReason::UnexpectedOpcode, &packet),
        }
    }

    /// Executes the pass of a directory task.
    pub fn task<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        task: PageTask,
    ) {
        match task {
            PageTask::Command { slot, store } => self.command(pass, engine, slot, store),
            PageTask::Finish {
                slot,
                store,
                psn,
                relay,
                status,
            } => self.finish(pass, engine, (slot, store), (psn, relay), status),
            PageTask::Complete { slot, end } => self.complete(pass, slot, end),
            PageTask::Idle { slot } => self.idle(pass, slot),
            PageTask::Repeat { slot } => self.repeat(pass, slot),
            PageTask::Revoke { slot, node } => self.revoke(pass, slot, node),
            PageTask::MoveFrom { slot, node, frame } => self.move_from(pass, slot, (node, frame)),
            PageTask::Received { slot, latch } => self.received(pass, slot, latch),
        }
    }

    /// Handles an event of the engine on one of the directory's lanes.
    pub fn event<T: Tasks, D: Digests>(&mut self, pass: &mut Pass<'_, T, D>, event: EngineEvent) {
        let Some(role) = self.role(event.lane()) else {
            return;
        };
        match (event, role) {
            (EngineEvent::Done { cookie, .. }, PageRole::Source { node, bit }) => {
                self.transfer_done(pass, cookie as u16, (node, bit));
            }
            (EngineEvent::Refused { cookie, .. }, PageRole::Source { node, bit }) => {
                self.transfer_refused(pass, cookie as u16, (node, bit));
            }
            // The lane stays reserved until the controller has repaired it.
            (
                EngineEvent::Failed { cookie, lane, .. },
                PageRole::Source { .. } | PageRole::Lease(_),
            ) => {
                let slot = cookie as u16;
                let command = &mut self.registers.command;
                let command = command.read(&mut pass.cursor, usize::from(slot));
                pass.digest(PageDigest::MoveFailed {
                    slot,
                    source: lane,
                    command: Psn::new(command),
                });
            }
            (EngineEvent::Written { cookie, .. }, PageRole::Lease(node)) => {
                self.revoked(pass, cookie, node);
            }
            (EngineEvent::Written { cookie, .. }, PageRole::Word(_)) => {
                self.completion_written(pass, cookie as u16);
            }
            (EngineEvent::Failed { .. }, PageRole::Word(slot)) => {
                pass.digest(PageDigest::RequesterSilent { slot });
            }
            (event, role) => debug_assert!(false, "{event:?} cannot happen on {role:?}"),
        }
    }

    /// Handles a packet generator event for an I/O queue.
    pub fn generated<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        key: u32,
    ) {
        let slots = u32::from(self.config.slots);
        let (slot, store) = ((key % slots) as u16, (key / slots) as u8);
        self.queue_timeout(pass, engine, slot, store);
    }

    /// Whether the table entries of a task still exist.
    pub fn is_alive(&self, task: &PageTask) -> bool {
        self.slots.lookup(usize::from(task.slot())).is_some()
    }
}
