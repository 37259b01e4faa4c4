//! Which pages that are not indexed are requested often: a count-min sketch (Cormode and
//! Muthukrishnan 2005). Its least counter is at least as high as the true count.

use super::registers::SKETCH_WIDTH;
use super::{Digests, PageDigest, Pages, Tasks};
use rackweave_switch::Pass;
use rackweave_wire::fabric::page::{Operation, PageId};

/// Odd multipliers that spread pages over the rows of the sketch, each differently.
const SALTS: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0xd6e8_feb8_6659_fd93,
];

impl Pages {
    /// Counts a request for a page that is not indexed, and reports it to the controller when it is
    /// hot.
    pub(super) fn count<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        page: PageId,
        operation: Operation,
    ) {
        if !operation.is_fix() && operation != Operation::Verify {
            return;
        }
        let mut least = u32::MAX;
        for (row, salt) in self.registers.sketch.iter_mut().zip(SALTS) {
            let hash = page.number().wrapping_mul(salt) >> 40;
            let count = row.update(&mut pass.cursor, hash as usize % SKETCH_WIDTH, |count| {
                *count = count.saturating_add(1);
                *count
            });
            least = least.min(count);
        }
        // Reported repeatedly, since the controller's reaction may have no effect. Hardware has
        // masks, not remainders.
        let every = self.config.promote_at.next_power_of_two();
        if self.config.promote_at != 0 && least & (every - 1) == 0 {
            pass.hint(PageDigest::Hot(page));
        }
    }
}
