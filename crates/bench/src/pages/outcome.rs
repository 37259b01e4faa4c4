//! Results of a run specific to pages.

use rackweave_endpoint::page_store::Statistics;
use serde::Serialize;

/// Results of a run specific to pages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PagesOutcome {
    /// Pages of the store.
    pub store_pages: u64,
    /// Pages of the heap, at the end.
    pub heap_pages: u64,
    /// Pages that the switch indexed at the start.
    #[serde(rename = "indexed_pages")]
    pub indexed: u64,
    /// Counts of the pools during the run.
    pub pages: PageCounts,
    /// Pages that were written to storage after the run.
    #[serde(rename = "flushed_pages")]
    pub flushed: u64,
}

/// The sources of pages, and what happened to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PageCounts {
    /// Pages that operations got.
    pub fixes: u64,
    /// The newest version was in the node's pool.
    pub local_hits: u64,
    /// Another operation of the node was already fetching the page.
    pub joined: u64,
    /// From another node's memory, found by the switch.
    pub memory_indexed: u64,
    /// From another node's memory, found in the memory server.
    pub memory_fallback: u64,
    /// From the SSD, found by the switch.
    pub storage_indexed: u64,
    /// From the SSD, found in the memory server.
    pub storage_fallback: u64,
    /// Copies in a pool that turned out to be stale.
    pub stale_copies: u64,
    /// Times that a page was latched by another node, or changed while it moved.
    pub conflicts: u64,
    /// Times that no answer came.
    pub gone: u64,
    /// Pages dropped that were unchanged since they were read from storage.
    pub evicted_clean: u64,
    /// Pages dropped after they were written.
    pub evicted_dirty: u64,
    /// Pages written to storage.
    pub written: u64,
}

impl PageCounts {
    /// The difference between two statistics.
    pub fn between(before: Statistics, after: Statistics) -> Self {
        Self {
            fixes: after.fixes - before.fixes,
            local_hits: after.local_hits - before.local_hits,
            joined: after.joined - before.joined,
            memory_indexed: after.memory_indexed - before.memory_indexed,
            memory_fallback: after.memory_fallback - before.memory_fallback,
            storage_indexed: after.storage_indexed - before.storage_indexed,
            storage_fallback: after.storage_fallback - before.storage_fallback,
            stale_copies: after.stale_copies - before.stale_copies,
            conflicts: after.conflicts - before.conflicts,
            gone: after.gone - before.gone,
            evicted_clean: after.evicted_clean - before.evicted_clean,
            evicted_dirty: after.evicted_dirty - before.evicted_dirty,
            written: after.written - before.written,
        }
    }
}
