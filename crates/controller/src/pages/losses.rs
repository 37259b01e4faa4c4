//! Pages whose newest version is lost.

use super::fallback;
use super::set_up::with_pages;
use crate::{Controller, Site};
use rackweave_programs::pages::{EntryState, LostPage, SecondPlace};
use rackweave_wire::fabric::page::{FallbackLatch, PageId, PageLocation};

impl Controller {
    /// Pages whose newest version was lost with a node, and whose loss has not been accepted.
    pub fn lost_pages(&self) -> &[LostPage] {
        self.pages.as_ref().map_or(&[], |registry| &registry.lost)
    }

    /// Reverts a lost page to its version in storage. Its version number increases, so that no
    /// earlier copy is taken for it. Returns false if it is not lost, or no longer: a node that had
    /// it latched when it was lost may have given it back changed. Returns false, too, as long as a
    /// node has its latch, or may read a lost version by a lease: retry later.
    pub fn accept_loss(&mut self, site: &mut dyn Site, page: PageId) -> bool {
        let Some(state) = self.page_state(site, page) else {
            return false;
        };
        let is_lost = state.place.is_lost();
        if is_lost && (state.latch.is_locked() || self.holds_latches(site)) {
            return false;
        }
        // A lost page gets no new leases.
        if is_lost && !self.revoke_leases(site, page, state.leases) {
            return false;
        }
        let latch = state.latch.changed();
        let place = state.place.accepted();
        let indexed = with_pages(site, |pages| {
            pages.change(page, |state| match is_lost {
                true => EntryState {
                    latch,
                    place,
                    second: SecondPlace::NONE,
                    leases: 0,
                    ..state
                },
                false => state,
            })
        });
        if let (true, false, Some((server, rkey, offset))) =
            (is_lost, indexed, self.fallback_entry(page))
        {
            // A node that latches it now takes precedence.
            let words = (fallback::word(&state).0, FallbackLatch::new(latch, None).0);
            if site.compare_swap_word(server, rkey, offset, words) != Some(words.0) {
                return false;
            }
            let lost = &mut |word| (PageLocation(word) == state.place).then_some(place.0);
            site.update_word(server, rkey, offset + 8, lost);
        }
        if let Some(registry) = &mut self.pages {
            registry.lost.retain(|lost| lost.page != page);
            if is_lost {
                // Copies of the given-up versions must not come back if the directory is lost.
                registry.accepted.insert(page, state.latch.version() + 1);
            }
        }
        is_lost
    }

    /// The same, after losses that were undone have been forgotten.
    pub(crate) fn remaining_losses(&mut self, site: &mut dyn Site) -> &[LostPage] {
        self.forget_undone_losses(site);
        self.lost_pages()
    }

    /// Forgets losses that were undone: a node that had such a page latched has published it. Call
    /// it before losses are reported, and before the directory is rebuilt: what has happened is no
    /// longer visible once the directory is lost and homes cannot be read.
    pub(super) fn forget_undone_losses(&mut self, site: &mut dyn Site) {
        let is_lost = |lost: &LostPage| {
            let state = self.page_state(site, lost.page);
            state.is_none_or(|state| state.place.is_lost())
        };
        let lost = self.lost_pages().iter().copied().filter(is_lost).collect();
        if let Some(registry) = &mut self.pages {
            registry.lost = lost;
        }
    }

    /// The entry of a page, in the switch or in the server's memory.
    fn page_state(&self, site: &mut dyn Site, page: PageId) -> Option<EntryState> {
        if let Some(state) = with_pages(site, |pages| pages.entry(page)) {
            return Some(state);
        }
        let (server, rkey, offset) = self.fallback_entry(page)?;
        let mut load = |offset| site.load_word(server, rkey, offset).map(u64::from_le_bytes);
        let (latch, place) = (
            FallbackLatch(load(offset)?),
            PageLocation(load(offset + 8)?),
        );
        (!latch.is_indexed()).then_some(EntryState {
            latch: latch.latch(),
            holder: latch.anyone(),
            doubted: latch.doubter().is_some(),
            place,
            ..EntryState::default()
        })
    }

    /// Records pages as lost, each once.
    pub(super) fn note_lost(&mut self, lost: impl IntoIterator<Item = LostPage>) {
        let Some(registry) = &mut self.pages else {
            return;
        };
        for page in lost {
            match registry
                .lost
                .iter_mut()
                .find(|known| known.page == page.page)
            {
                Some(known) => *known = page,
                None => registry.lost.push(page),
            }
        }
    }
}
