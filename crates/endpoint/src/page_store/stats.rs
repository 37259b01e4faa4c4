//! What a worker has seen.

use rackweave_base::counters;
use rackweave_wire::fabric::page::Source;

counters! {
    /// Counters of one worker since it began. Those of several add up.
    Statistics {
        /// Fixes that ended with a guard.
        fixes,
        /// Of those: the newest version was in the pool.
        local_hits,
        /// Of those: another fix of this node was bringing the page already.
        joined,
        /// Pages that came from a node's memory, found by the switch.
        memory_indexed,
        /// Pages that came from a node's memory, found in the server's memory.
        memory_fallback,
        /// Pages that came from storage, found by the switch.
        storage_indexed,
        /// Pages that came from storage, found in the server's memory.
        storage_fallback,
        /// Copies in the pool that turned out to be old.
        stale_copies,
        /// Times that a page was latched by another node, or changed while it moved.
        conflicts,
        /// Times that nobody answered.
        gone,
        /// Fixes that failed.
        failed,
        /// Pages dropped that were the same at home.
        evicted_clean,
        /// Pages dropped after they were written.
        evicted_dirty,
        /// Pages written home, kept or not.
        written,
        /// Writes that failed.
        write_failures,
        /// Times that the directory said that transfers of before have ended.
        quiesce_rounds,
        /// Pages that came damaged.
        checksum_failures,
        /// Pages that came with the header of another.
        wrong_pages,
        /// Latches given back after a change.
        unfixed,
        /// Latches given back without one.
        released,
        /// Times that the engine's log was asked and was not yet durable so far.
        log_behind,
    }
}

impl Statistics {
    /// Counts a page that came.
    pub(super) fn count(&mut self, served: super::directory::Served) {
        let counter = match (served.source, served.indexed) {
            (Source::Memory, true) => &mut self.memory_indexed,
            (Source::Memory, false) => &mut self.memory_fallback,
            (Source::Storage, true) => &mut self.storage_indexed,
            (Source::Storage, false) => &mut self.storage_fallback,
        };
        *counter += 1;
    }
}
