//! Leases: a node with a lease on a page reads its copy without a request, until it is revoked.
//!
//! An entry's cell says which nodes may have a lease. [`Operation::Verify`] adds a node, if nobody
//! has the latch and the page was verified often enough since it was last latched by another node:
//! a page that is written often is not leased. [`Operation::Revoke`] removes the nodes one after
//! the other, each when its NIC has acknowledged the WRITE of zero into the page's lease word.
//! While a node has the latch, none is added. So when the last one is removed, no read of another
//! node that begins later returns the present version.

use super::movement::cargo;
use super::registers::{BUSY, operation};
use super::request::Asked;
use super::second::again;
use super::{Digests, End, PageTask, Pages, SOURCES, Tasks, sources};
use rackweave_base::Psn;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_switch::transfer::{EngineTask, LaneId};
use rackweave_wire::fabric::page::control::{lease_word_at, lease_words};
use rackweave_wire::fabric::page::{LatchWord, Operation, Outcome, PageSource, Request};

/// Nodes with a bit in an entry's cell; nodes from this number on get no leases.
const NODES: u16 = 28;
/// The bits of the nodes.
const MASK: u32 = (1 << NODES) - 1;
/// Number of verifications since a node latched the page.
const COUNT_AT: u32 = NODES as u32;
/// The largest number.
const COUNT_MAX: u32 = 7;
/// The page was requested since the controller last looked.
pub(super) const TOUCHED: u32 = 1 << 31;

/// The nodes in a cell.
pub(super) const fn nodes(cell: u32) -> u32 {
    cell & MASK
}

/// The cell with other nodes.
pub(super) const fn with_nodes(cell: u32, nodes: u32) -> u32 {
    cell & !MASK | nodes & MASK
}

/// The bit of a node, or nothing.
pub(super) const fn bit(node: u16) -> u32 {
    if node < NODES { 1 << node } else { 0 }
}

/// Counts a verification, and gives the node a lease if there were enough.
fn ask(cell: &mut u32, node: u16, enough: u8) -> bool {
    let count = *cell >> COUNT_AT & COUNT_MAX;
    if count < u32::from(enough).min(COUNT_MAX) {
        *cell += 1 << COUNT_AT;
        return false;
    }
    *cell |= bit(node);
    node < NODES
}

/// The first other node in a cell.
fn first_other(cell: u32, node: u16) -> Option<u16> {
    let others = nodes(cell) & !bit(node);
    (others != 0).then(|| others.trailing_zeros() as u16)
}

/// What a request's pass has found about leases.
#[derive(Clone, Copy)]
pub(super) struct Leases {
    /// The requester has a lease now; or, after an exclusive fix, others have.
    pub leased: bool,
    /// The node whose lease is to be revoked first.
    pub first: Option<u16>,
}

impl Pages {
    /// Updates the cell of an entry in a request's pass. `is_open`: nobody has the latch, and the
    /// page is not lost. `is_mine`: the requester has the latch.
    pub(super) fn leases<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        entry: usize,
        (latch, is_open, is_mine): (LatchWord, bool, bool),
    ) -> Leases {
        let node = asked.lanes.node;
        let request = asked.request;
        let wants = request.operation == Operation::Verify
            && request.frame == Request::WANTS_LEASE
            && request.argument == Request::have(latch);
        let enough = self.lease_after.filter(|_| wants && is_open);
        let cells = &mut self.registers.leases;
        let leases = cells.update(&mut pass.cursor, entry, |cell| {
            *cell |= TOUCHED;
            let others = nodes(*cell) & !bit(node) != 0;
            let mut leased = false;
            if let Some(enough) = enough {
                leased = ask(cell, node, enough);
            } else if request.operation.is_exclusive() && is_mine {
                leased = others;
                *cell &= !(COUNT_MAX << COUNT_AT);
            }
            Leases {
                leased,
                first: first_other(*cell, node),
            }
        });
        self.counters.leased += u64::from(wants && leases.leased);
        leases
    }

    /// Revokes the lease of a node on a slot's page.
    pub(super) fn revoke<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        node: u16,
    ) {
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let page = registers.page_of(cursor, usize::from(slot));
        let psn = Psn::new(registers.command.read(cursor, usize::from(slot)));
        let at = self.nodes.lookup(usize::from(node)).copied();
        let sources = &mut registers.sources;
        let taken = at.filter(|_| sources.update(cursor, usize::from(node), sources::take_lease));
        let Some(at) = taken else {
            // Another revocation at this node is under way, or the node has died: the requester
            // asks again.
            return pass.recirculate(again(slot));
        };
        if planted(Canary::PagesRevokeUnconfirmed) {
            let end = End::new(Outcome::Done, PageSource::Memory);
            pass.mirror(PageTask::Complete { slot, end });
        }
        let words = lease_words(at.layout.frames);
        pass.recirculate(EngineTask::WriteWordAt {
            lane: LaneId(at.first_source.0 + u16::from(SOURCES)),
            offset: lease_word_at(page, words),
            word: [0; 8],
            cookie: cargo(slot, psn),
        });
    }

    /// Handles the end of a revocation: continues with the next node.
    pub(super) fn revoked<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        cookie: u32,
        node: u16,
    ) {
        let (slot, s) = (cookie as u16, usize::from(cookie as u16));
        let is_held = self.holds_latches(pass.now);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let is_busy = registers.phase.read(cursor, s) & BUSY != 0;
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let command = registers.command.read(cursor, s);
        // The controller may have ended the request for which this was begun.
        let is_its = is_busy
            && operation(kind) == Some(Operation::Revoke)
            && cargo(slot, Psn::new(command)) == cookie;
        let requester = self.slots.lookup(s).filter(|_| is_its);
        let entry = self.index.lookup(page);
        let sources = &mut registers.sources;
        sources.update(cursor, usize::from(node), |cell| {
            sources::release(cell, SOURCES);
        });
        let (Some(requester), Some(entry)) = (requester, entry) else {
            if is_its {
                pass.recirculate(again(slot));
            }
            return;
        };
        let next = registers.leases.update(cursor, entry, |cell| {
            *cell &= !bit(node);
            first_other(*cell, requester.node)
        });
        pass.recirculate(match next {
            Some(node) => PageTask::Revoke { slot, node },
            None if is_held => again(slot),
            None => PageTask::Complete {
                slot,
                end: End::new(Outcome::Done, PageSource::Memory),
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_leased_after_enough_verifications() {
        let mut cell = TOUCHED;
        for _ in 0..7 {
            assert!(!ask(&mut cell, 3, 9));
        }
        assert!(ask(&mut cell, 3, 9) && ask(&mut cell, 27, 4));
        assert!(!ask(&mut cell, 28, 0), "it has no bit");
        assert_eq!(nodes(cell), 1 << 3 | 1 << 27);
        assert_eq!(first_other(cell, 3), Some(27));
        assert_eq!(first_other(cell, 28), Some(3));
        let cell = with_nodes(cell, 1 << 3);
        assert_eq!((first_other(cell, 3), cell & TOUCHED), (None, TOUCHED));
    }
}
