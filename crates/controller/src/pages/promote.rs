//! Moving entries between the switch and the server's memory.
//!
//! An entry has one owner at any moment. A page is promoted by swapping markers into both words of
//! its entry in the server's memory; the previous values are the initial state in the switch. From
//! then on no node's compare-and-swap succeeds there, whatever it had read before. Demotion takes
//! the entry out of the switch and writes place and latch word, in this order. In between nodes
//! find the page in neither directory, and retry. A page whose home is being written is not moved:
//! the end of that write must find its entry. There are no leases on pages in the server's memory.

use super::fallback::{self, TAKEN};
use super::set_up::with_pages;
use crate::{Controller, Site};
use rackweave_programs::pages::EntryState;
use rackweave_wire::fabric::page::{FallbackLatch, PageId, PageLocation};

/// Pages demoted at a time, to free entries: finding cold ones visits the whole index.
const DEMOTE_BATCH: usize = 64;

impl Controller {
    /// Handles the report that an unindexed page is requested often.
    pub(super) fn page_is_hot(&mut self, site: &mut dyn Site, page: PageId) {
        let capacity = with_pages(site, |pages| pages.config().entries as usize);
        if with_pages(site, |pages| pages.len()) >= capacity {
            self.demote_cold(site, DEMOTE_BATCH.min(capacity.div_ceil(8)));
            with_pages(site, |pages| pages.decay());
        }
        self.promote(site, page);
    }

    /// Moves the entry of a page from the server's memory to the switch. Returns false if there is
    /// no free entry, if its home is being written, or if the switch has it already.
    pub fn promote(&mut self, site: &mut dyn Site, page: PageId) -> bool {
        let Some((server, rkey, offset)) = self.fallback_entry(page) else {
            return false;
        };
        let full = with_pages(site, |pages| pages.len() >= pages.config().entries as usize);
        if full {
            return false;
        }
        let mark = &mut |word| {
            let is_here = !FallbackLatch(word).is_indexed();
            is_here.then_some(FallbackLatch::INDEXED.0)
        };
        let latch = site.update_word(server, rkey, offset, mark);
        let latch = latch.map(FallbackLatch).filter(|word| !word.is_indexed());
        let Some(latch) = latch else {
            return false;
        };
        let place = site.update_word(server, rkey, offset + 8, &mut |_| Some(TAKEN));
        let place = PageLocation(place.unwrap_or_default());
        let state = EntryState {
            latch: latch.latch(),
            holder: latch.anyone(),
            doubted: latch.doubter().is_some(),
            place,
            ..EntryState::default()
        };
        let inserted =
            !place.is_writing() && with_pages(site, |pages| pages.insert(page, state)).is_ok();
        if !inserted {
            site.store_word(server, rkey, offset + 8, place.0.to_le_bytes());
            site.store_word(server, rkey, offset, latch.0.to_le_bytes());
        }
        inserted
    }

    /// Moves the entry of a page from the switch to the server's memory. Returns false if it is not
    /// in the switch, if its home is being written, if leases on it cannot be revoked, or if there
    /// is no server.
    pub fn demote(&mut self, site: &mut dyn Site, page: PageId) -> bool {
        let Some(at) = self.fallback_entry(page) else {
            return false;
        };
        if self.holds_latches(site) {
            return false;
        }
        let Some(state) = with_pages(site, |pages| pages.remove(page)) else {
            return false;
        };
        if !self.revoke_leases(site, page, state.leases) {
            let _fits = with_pages(site, |pages| pages.insert(page, state));
            return false;
        }
        fallback::store(site, at, &state);
        true
    }

    /// Demotes up to `limit` pages that were not requested since the previous call; returns their
    /// number.
    pub fn demote_cold(&mut self, site: &mut dyn Site, limit: usize) -> usize {
        let cold = with_pages(site, |pages| pages.cold(limit));
        cold.into_iter()
            .filter(|&page| self.demote(site, page))
            .count()
    }
}
