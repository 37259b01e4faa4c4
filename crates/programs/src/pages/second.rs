//! The second place of a page: another buffer frame with its newest version.
//!
//! Nodes drop clean pages without a message, so a directory that knows one copy reads the SSD
//! although another node may have the page. The second place is a hint about a clean copy: it is
//! entered when a node has received the page while another has it, and is forgotten when that node
//! requests the page again, when its buffer frame turns out to hold something else, and when
//! the page is changed. Requests are served by the two places in turn; a refused transfer continues
//! with the other before the SSD.
//!
//! Reads from the second place are checked like those from the first: whenever a node that has it
//! is found not to have the page, the place's number of moves is incremented, so that no read that
//! began before is trusted ([`PageLocation`](rackweave_wire::fabric::page::PageLocation)). Entering
//! a copy needs no increment.

use super::registers::BUSY;
use super::request::Asked;
use super::{Digests, End, PageTask, Pages, Tasks, movement};
use rackweave_base::Psn;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_wire::fabric::page::request::FRAMES_MAX;
use rackweave_wire::fabric::page::{
    LatchWord, Operation, Outcome, PageId, PageLocation, PageSource, Request, Status,
};

/// A cell: buffer frame in bits 0 to 23, node plus one in bits 24 to 31; zero for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SecondPlace(pub(super) u32);

impl SecondPlace {
    /// No buffer frame.
    pub const NONE: SecondPlace = SecondPlace(0);

    /// A buffer frame of a node; none if the node's number does not fit.
    pub const fn new(node: u16, frame: u32) -> Self {
        match node {
            0..=254 => Self((node as u32 + 1) << 24 | frame & (FRAMES_MAX - 1)),
            _ => Self::NONE,
        }
    }

    /// Node and buffer frame.
    pub const fn at(self) -> Option<(u16, u32)> {
        match self.0 >> 24 {
            0 => None,
            node => Some((node as u16 - 1, self.0 & (FRAMES_MAX - 1))),
        }
    }

    /// The same without this node, and whether it was there.
    pub const fn without(self, node: u16) -> (Self, bool) {
        match self.at() {
            Some((at, _)) if at == node => (Self::NONE, true),
            _ => (self, false),
        }
    }

    /// The effect of a request. `is_mine` and `is_others`: who has the latch; `is_current`: the
    /// requester has the newest version.
    pub(super) fn requested(
        self,
        me: u16,
        operation: Operation,
        (is_mine, is_others, is_current): (bool, bool, bool),
    ) -> (Self, bool) {
        match operation {
            Operation::Unfix | Operation::Own | Operation::Disown
                if is_mine && !planted(Canary::PagesStaleSecond) =>
            {
                (Self::NONE, false)
            }
            _ if operation.is_fix() && !is_others && !is_current => self.without(me),
            _ => (self, false),
        }
    }
}

/// The source of a page that the requester does not have: one of its places, else its home.
pub(super) fn source(
    me: u16,
    psn: Psn,
    place: PageLocation,
    second: SecondPlace,
) -> movement::From {
    let first = place.cached();
    let first = first.filter(|&(node, _)| node != me || place.is_dirty());
    let both = [first, second.at()];
    let turn = usize::from(psn.get() & 1 == 1);
    match both[turn].or(both[1 - turn]) {
        Some((node, frame)) => movement::From::Frame(node, frame),
        None => movement::From::Home,
    }
}

impl Pages {
    /// Continues after a node turned out not to have the page of a slot: at the other place, else
    /// at the page's home. `place` and `second` are without that node.
    pub(super) fn elsewhere(
        &self,
        (slot, node): (u16, u16),
        page: PageId,
        (place, second): (PageLocation, SecondPlace),
    ) -> PageTask {
        let requester = self.slots.lookup(usize::from(slot)).map(|slot| slot.node);
        let others = [place.cached(), second.at()].into_iter().flatten();
        let mut others = others.filter(|(at, _)| *at != node && Some(*at) != requester);
        match others.next() {
            // The node has to ask again.
            _ if place.is_lost() => again(slot),
            Some((node, frame)) => PageTask::MoveFrom { slot, node, frame },
            None if place.is_dirty() => again(slot),
            None => PageTask::Command {
                slot,
                store: page.store(),
            },
        }
    }

    /// Moves a slot's page out of this buffer frame.
    pub(super) fn move_from<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        (node, frame): (u16, u32),
    ) {
        let s = usize::from(slot);
        let Some(&lanes) = self.slots.lookup(s) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        if registers.phase.read(cursor, s) & BUSY == 0 {
            return; // the controller has ended the request
        }
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let psn = Psn::new(registers.command.read(cursor, s));
        let request = Request {
            operation: Operation::FixShared,
            page,
            argument: 0,
            slot: 0,
            frame: kind & (FRAMES_MAX - 1),
        };
        let asked = Asked {
            slot,
            psn,
            lanes,
            request,
        };
        let from = movement::From::Frame(node, frame);
        match self.move_page(pass, &asked, from) {
            (Status::Moving, Some(work)) => work.recirculate(pass),
            _ => pass.recirculate(again(slot)),
        }
    }

    /// Enters the buffer frame of a slot's node, which has just received the page in the version of
    /// this latch word, as a place of the page. This pass precedes the completion's, so the node
    /// does not know yet that it has the page, and cannot have dropped it.
    pub(super) fn received<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        latch: LatchWord,
    ) {
        let s = usize::from(slot);
        let Some(&lanes) = self.slots.lookup(s) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let page = registers.page_of(cursor, s);
        let frame = registers.frame.read(cursor, s) & (FRAMES_MAX - 1);
        let Some(entry) = self.index.lookup(page) else {
            return;
        };
        let now = registers.latch.update(cursor, entry, |latch| *latch);
        if LatchWord(now) != latch {
            return;
        }
        let had_second = registers.second.update(cursor, entry, |cell| {
            let had = *cell != 0;
            if !had {
                *cell = SecondPlace::new(lanes.node, frame).0;
            }
            had
        });
        if had_second {
            registers.place.update(cursor, entry, |place| {
                *place = PageLocation(*place).read(lanes.node, frame).0;
            });
        }
    }
}

/// The end of a movement that is to be requested again.
pub(super) const fn again(slot: u16) -> PageTask {
    PageTask::Complete {
        slot,
        end: End::new(Outcome::SourceGone, PageSource::Memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_place_is_forgotten_by_changes_and_by_requests_of_its_node() {
        let second = SecondPlace::new(3, 9);
        assert_eq!(second.at(), Some((3, 9)));
        assert_eq!(SecondPlace::new(255, 9), SecondPlace::NONE);
        let requested = |me, operation, state| second.requested(me, operation, state);
        let open = (false, false, false);
        let gone = (SecondPlace::NONE, true);
        assert_eq!(requested(3, Operation::FixShared, open), gone);
        assert_eq!(requested(4, Operation::FixShared, open), (second, false));
        let current = (false, false, true);
        let refreshed = requested(3, Operation::RefreshShared, current);
        assert_eq!(refreshed, (second, false));
        let refused = requested(3, Operation::FixShared, (false, true, false));
        assert_eq!(refused, (second, false), "it does not have the latch");
        let changed = requested(4, Operation::Unfix, (true, false, false));
        assert_eq!(changed, (SecondPlace::NONE, false));
        assert_eq!(
            requested(4, Operation::Release, (true, false, false)).0,
            second
        );
    }

    #[test]
    fn places_take_turns() {
        let (place, second) = (PageLocation::dirty(1, 5), SecondPlace::new(2, 6));
        let from = |me, psn, place, second| match source(me, Psn::new(psn), place, second) {
            movement::From::Frame(node, frame) => Some((node, frame)),
            movement::From::Home => None,
        };
        assert_eq!(from(0, 4, place, second), Some((1, 5)));
        assert_eq!(from(0, 5, place, second), Some((2, 6)));
        assert_eq!(from(0, 5, place, SecondPlace::NONE), Some((1, 5)));
        let dropped = PageLocation::clean(0, 5);
        assert_eq!(from(0, 4, dropped, second), Some((2, 6)));
        assert_eq!(from(0, 4, dropped, SecondPlace::NONE), None);
    }
}
