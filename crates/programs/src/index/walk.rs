//! The walk of a query through the tree nodes of a switch.

use super::entries::{FatRange, NO_SLOT, ROOT};
use super::layer::Step;
use super::{Child, Index};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Cursor;
use rackweave_wire::fabric::query::{LEVELS_END, Progress};

impl Index {
    /// Advances a query as deep as this switch can.
    #[inline]
    pub(super) fn walk(&mut self, cursor: &mut Cursor, key: u64, progress: &mut Progress) {
        let mut banks = [progress.bank; 3];
        if planted(Canary::IndexHalfLoaded) {
            banks = self.last_loaded;
        }
        let [bank, banks @ ..] = banks.map(usize::from);
        self.through_fat_root(cursor, bank, key, progress);
        let layers = (self.config.first_layer..).zip(self.layers.iter_mut());
        for ((number, layer), bank) in layers.zip(banks) {
            if progress.layer != number || progress.slot == NO_SLOT {
                continue;
            }
            let step = layer.step(cursor, bank, progress.slot, key);
            progress.slot = NO_SLOT;
            match step {
                Step::Child(child) => descend(progress, child),
                Step::Beyond => self.counters.beyond += 1,
                Step::NotLoaded => self.counters.not_loaded += 1,
            }
        }
    }

    fn through_fat_root(
        &mut self,
        cursor: &mut Cursor,
        bank: usize,
        key: u64,
        progress: &mut Progress,
    ) {
        let Some(fat_root) = &mut self.fat_root else {
            return;
        };
        if core::mem::replace(&mut progress.fat_root_met, true) {
            return;
        }
        debug_assert!(progress.node == ROOT && progress.slot == NO_SLOT);
        match fat_root.find(cursor, bank, key) {
            None => self.counters.no_range += 1,
            Some(FatRange { server, .. }) if server != progress.server => {
                self.counters.other_server += 1;
            }
            Some(FatRange { child, .. }) if child.node == 0 => self.counters.beyond += 1,
            Some(FatRange { child, .. }) => descend(progress, child),
        }
    }
}

/// One level down.
fn descend(progress: &mut Progress, child: Child) {
    progress.node = child.node;
    progress.slot = child.slot;
    progress.layer = (progress.layer + 1).min(LEVELS_END - 1);
    progress.depth = (progress.depth + 1).min(LEVELS_END - 1);
}
