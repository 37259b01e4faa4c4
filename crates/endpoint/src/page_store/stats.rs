//! Counters of a worker.

use rackweave_base::counters;
use rackweave_wire::fabric::page::PageSource;

counters! {
    /// Counters of one worker since it was created. Those of several workers can be added.
    Statistics {
        /// Fixes that returned a guard.
        fixes,
        /// Of those: the newest version was already in the pool.
        local_hits,
        /// Of those: without a request to the directory, by a lease.
        leased_hits,
        /// Of the fixes: another fix of this node was already fetching the page.
        joined,
        /// Pages that came from a node's memory; entry in the switch.
        memory_indexed,
        /// Pages that came from a node's memory; entry in the server's memory.
        memory_fallback,
        /// Pages that came from storage; entry in the switch.
        storage_indexed,
        /// Pages that came from storage; entry in the server's memory.
        storage_fallback,
        /// Copies in the pool that turned out to be outdated.
        stale_copies,
        /// Times that a page was latched by another node, or changed while it was moved.
        conflicts,
        /// Times that no response came.
        gone,
        /// Fixes that failed.
        failed,
        /// Pages dropped that were identical to their homes.
        evicted_clean,
        /// Pages dropped after a write home.
        evicted_dirty,
        /// Pages written home, whether kept or dropped.
        written,
        /// Writes that failed.
        write_failures,
        /// Times that the directory confirmed the end of earlier transfers.
        quiesce_rounds,
        /// Pages received damaged.
        checksum_failures,
        /// Pages received with the header of another page.
        wrong_pages,
        /// Latches released after a change.
        unfixed,
        /// Latches released without a change.
        released,
        /// Times that the engine's log was not yet durable far enough.
        log_behind,
    }
}

impl Statistics {
    /// Counts a received page.
    pub(super) fn count(&mut self, served: super::directory::Served) {
        let counter = match (served.source, served.indexed) {
            (PageSource::Memory, true) => &mut self.memory_indexed,
            (PageSource::Memory, false) => &mut self.memory_fallback,
            (PageSource::Storage, true) => &mut self.storage_indexed,
            (PageSource::Storage, false) => &mut self.storage_fallback,
        };
        *counter += 1;
    }
}
