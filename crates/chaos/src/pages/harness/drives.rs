//! The drives of a run: a namespace for each store, over one medium that outlives the target.

use crate::campaign::count;
use crate::pages::plan::PagesPlan;
use crate::pages::shared::Shared;
use core::cell::Cell;
use rackweave_base::Rng;
use rackweave_rack::{SsdBackend, SsdStall};
use rackweave_sim::SsdModel;
use rackweave_target::{Backend, DoubleWrite, MemoryBackend};

/// Drives of the storage node.
const DRIVES: usize = 2;

/// Maximum pages of a batch of double writes.
const BATCH: u64 = 8;

/// Blocks of the double-write area.
pub(in crate::pages) fn area_blocks(plan: &PagesPlan) -> u64 {
    let largest = plan.page_sizes().max().unwrap_or_default();
    2 * (1 + BATCH * u64::from(largest / plan.store.block_size))
}

fn double_write(
    ssd: SsdBackend<MemoryBackend>,
    plan: &PagesPlan,
) -> Result<DoubleWrite<SsdBackend<MemoryBackend>>, String> {
    DoubleWrite::with_area(ssd, area_blocks(plan)).map_err(|error| error.to_string())
}

/// The drives of the storage node, which outlive its targets.
pub(super) struct Drives {
    pub(super) medium: MemoryBackend,
    pub(super) stall: SsdStall,
    /// Number of targets so far.
    pub(super) targets: Cell<u64>,
}

impl Drives {
    /// The namespaces of a target, one for each store.
    pub(super) fn namespaces(
        &self,
        plan: &PagesPlan,
        shared: &Shared,
    ) -> Result<Vec<Box<dyn Backend>>, String> {
        let mut rng = Rng::new(plan.seed ^ self.targets.get()).fork("ssd");
        count(&self.targets);
        let model = SsdModel::default();
        let second = shared.store.as_ref().map(|store| &store.medium);
        let media = [&self.medium].into_iter().chain(second);
        media
            .zip(plan.page_sizes())
            .map(|(medium, size)| -> Result<Box<dyn Backend>, String> {
                let ssd = SsdBackend::new(medium.clone(), &model, DRIVES, size, &mut rng)
                    .with_stall(&self.stall);
                Ok(match plan.double_writes() {
                    true => Box::new(double_write(ssd, plan)?),
                    false => Box::new(ssd),
                })
            })
            .collect()
    }
}
