//! What faults do to the histories of pages: crashes, losses, media made again, power cuts.

use super::page::State;
use super::{PageFault, PageHistory};
use rackweave_base::Instant;

impl PageHistory {
    /// Records that a node dies, or is declared dead: its latches pass to others, changes that only
    /// it had are lost.
    pub fn crash(&mut self, now: Instant, node: u16) {
        self.dead.insert(node);
        for page in self.pages.values_mut() {
            let its = page.holder.take_if(|holder| holder.who.node == node);
            if its.is_some() {
                page.orphaned = Some(now);
            }
            let (home, is_lost) = (page.home, page.lost.is_some());
            let is_its = |state: &State| state.writer.is_some_and(|writer| writer.node == node);
            let newest = page.last();
            if page.in_doubt && page.states.iter().any(is_its) {
                page.states[newest].may_be_lost = true;
            }
            for (at, state) in page.states.iter_mut().enumerate() {
                if is_its(state) {
                    // What was lost before, with a directory, stays lost.
                    state.may_be_lost = at > home || is_lost && state.may_be_lost;
                    state.doubtful = !state.certain;
                    if state.doubtful {
                        page.orphaned = Some(now);
                    }
                }
            }
        }
    }

    /// Records that the store reports the newest version of a page, this one, as lost.
    pub fn lost(&mut self, page: u64, version: u64) {
        let entry = self.page(page);
        let newest = entry.newest().to_string();
        let may_be_lost = entry.may_be_lost(entry.last());
        let fits = entry.may_be_lost_as(version);
        entry.report_lost(version);
        if !may_be_lost {
            self.violate(page, PageFault::LostWithoutCause { newest });
        } else if !fits {
            self.violate(page, PageFault::WrongLoss { version, newest });
        }
    }

    /// Records that the loss of this version of a page, or a higher one, is accepted: the page
    /// continues from its home version. The loss may be older: a change released since that was not
    /// taken before its node died did not undo it.
    pub fn accept(&mut self, page: u64, version: u64) {
        let entry = self.page(page);
        let version = entry.lost.unwrap_or(version);
        if entry.lost.is_none() && !entry.may_be_lost(entry.last()) {
            let newest = entry.newest().to_string();
            return self.violate(page, PageFault::LostWithoutCause { newest });
        }
        // A version names one content forever, and other nodes may have copies of the lost one.
        entry.rebase(version + 1);
    }

    /// Records that the directory was lost and rebuilt from what the nodes have; `partial`: the
    /// content of an unresponsive node is unknown, so everything may be lost. So may a page whose
    /// home `is_damaged`: it is unknown which version was there.
    pub fn made_again(&mut self, partial: bool, is_damaged: impl Fn(u64) -> bool) {
        for (&number, page) in &mut self.pages {
            page.renumber(partial || is_damaged(number));
        }
    }

    /// Records that the homes could not be read then: nodes are asked, each about pages of which it
    /// has had a version. If a node dies before it has answered, it is unknown whether a newer
    /// version is at home.
    pub fn in_doubt(&mut self) {
        self.pages
            .values_mut()
            .for_each(|page| page.in_doubt = true);
    }

    /// Records a power failure of all nodes and the device: what was flushed is intact, and of
    /// later changes some version.
    pub fn power_cut(&mut self) {
        for page in self.pages.values_mut() {
            page.holder = None;
            page.orphaned = None;
            page.rebase(0);
        }
    }

    /// Records that the store was closed after everything had been written home, and is opened
    /// again: versions may start anew.
    pub fn reopen(&mut self) {
        for page in self.pages.values_mut() {
            page.home = page.last() - usize::from(page.newest().doubtful && page.last() > 0);
            page.holder = None;
            page.orphaned = None;
            page.rebase(0);
        }
    }
}
