//! Opens or formats the stores when a page service starts.

use super::{PageError, PageService, PageServiceError, Prepare, StoreInfo, StoreState};
use crate::services::wait_within;
use rackweave_base::KeyRng;
use rackweave_endpoint::page_store::{FormatOptions, OpenError};

impl PageService {
    /// As [`Self::prepare`]. If another process has made the directory, it may still be formatting
    /// the stores.
    pub(super) fn prepare_within(
        &self,
        how: Prepare,
        is_other: bool,
    ) -> Result<Vec<StoreState>, PageServiceError> {
        let prepared = wait_within(&self.rack().any_node(), self.time_limit(), || {
            let prepared = self.prepare(how);
            let is_blank = matches!(
                prepared,
                Err(PageServiceError::AtStore {
                    error: PageError::Open(OpenError::Blank(_)),
                    ..
                })
            );
            (!is_other || !is_blank).then_some(prepared)
        });
        prepared.unwrap_or_else(|| self.prepare(how))
    }

    /// Opens or formats all stores. Returns the state in which it found each.
    fn prepare(&self, how: Prepare) -> Result<Vec<StoreState>, PageServiceError> {
        let first = self.0.nodes.first().copied().unwrap_or_default();
        if how == Prepare::Leave {
            return Ok(Vec::new());
        }
        let prepare = |store: &StoreInfo| {
            let worker = self.unopened(first)?;
            let format = FormatOptions {
                store: store.number,
                capacity: store.pages,
                // Not from the rack's seed: two racks may have the same seed.
                identity: KeyRng::system().next_u64(),
            };
            let done = match how {
                Prepare::Format => worker.format(format).map(|()| StoreState::Formatted),
                _ => match worker.open(store.number) {
                    Err(PageError::Open(OpenError::Blank(_))) if how == Prepare::OpenOrFormat => {
                        worker.format(format).map(|()| StoreState::Formatted)
                    }
                    Ok(superblock) if superblock.clean => Ok(StoreState::Closed),
                    other => other.map(|_| StoreState::NotClosed),
                },
            };
            done.map_err(|error| self.at_store(store.number, error))
        };
        self.0.stores.iter().map(prepare).collect()
    }
}
