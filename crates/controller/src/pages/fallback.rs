//! The directory in a memory server: entries of the pages that the switch does not index.

use super::book::NodeBook;
use super::set_up::make;
use super::{PageFallback, PageSetUpError};
use crate::connect::PairAttributes;
use crate::{Controller, LaneError, RegionName, Site};
use rackweave_base::{Duration, NodeId, Rkey};
use rackweave_verbs::{Access, CqId, QpCapabilities};
use rackweave_wire::fabric::page::{FallbackLatch, PageId};

/// Bytes of an entry in a server's memory: latch and place.
pub(super) const ENTRY_LEN: u64 = 16;

/// What the place of an entry is in a server's memory while the switch has it: nobody's comparison
/// succeeds.
pub(super) const TAKEN: u64 = u64::MAX;

impl Controller {
    /// The entries of all pages in the server's memory.
    pub(super) fn make_fallback(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let book = self.pages.as_ref().expect("pages are being set up");
        let Some(server) = book.spec.fallback else {
            return Ok(());
        };
        let sizes: Vec<u64> = book.spec.stores.iter().map(|store| store.pages).collect();
        let (pd, _) = self.home(site, server)?;
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_WRITE
            | Access::REMOTE_ATOMIC;
        for pages in sizes {
            let region = make(site, server, pd, pages * ENTRY_LEN, access)?;
            self.pages.as_mut().expect("as above").fallback.push(region);
        }
        Ok(())
    }

    /// Says in the server's memory that the switch has the entry.
    pub(super) fn mark_indexed(&self, site: &mut dyn Site, page: PageId) {
        if let Some((server, rkey, offset)) = self.fallback_entry(page) {
            let latch = FallbackLatch::INDEXED.0.to_le_bytes();
            site.store_word(server, rkey, offset, latch);
            site.store_word(server, rkey, offset + 8, TAKEN.to_le_bytes());
        }
    }

    /// Where the entry of a page is in the server's memory.
    pub(super) fn fallback_entry(&self, page: PageId) -> Option<(NodeId, Rkey, u64)> {
        let book = self.pages.as_ref()?;
        let region = book.fallback.get(usize::from(page.store()))?;
        Some((book.spec.fallback?, region.rkey, page.index() * ENTRY_LEN))
    }

    /// A queue pair from a channel to the memory server.
    pub(super) fn connect_fallback(
        &mut self,
        site: &mut dyn Site,
        book: &mut NodeBook,
        (cq, slots): (CqId, u16),
        timeout: Duration,
    ) -> Result<Vec<PageFallback>, PageSetUpError> {
        let pages = self.pages.as_ref().expect("pages are set up");
        let Some(server) = pages.spec.fallback else {
            return Ok(Vec::new());
        };
        let regions: Vec<(RegionName, u64)> = pages
            .fallback
            .iter()
            .zip(&pages.spec.stores)
            .map(|(&region, store)| (region, store.pages))
            .collect();
        let node = book.pool.node;
        let (pd, _) = self.home(site, node)?;
        let (server_pd, server_cq) = self.home(site, server)?;
        let capabilities = QpCapabilities {
            send_max: u32::from(slots) * 2,
            receive_max: 1,
            segments_max: 1,
        };
        let mut create = |node: NodeId, pd, cq: CqId| {
            let mut made = Err(LaneError::NoNode(node));
            site.node(node, &mut |verbs| {
                let qpn = verbs.create_qp(pd, cq, cq, capabilities);
                made = qpn.map_err(|error| LaneError::Qp { node, error });
            });
            made
        };
        let near = create(node, pd, cq)?;
        let far = create(server, server_pd, server_cq)?;
        let attributes = PairAttributes {
            timeout,
            ..PairAttributes::default()
        };
        self.connect_pair(site, (node, near), (server, far), &attributes)?;
        book.fallback.push((near, server, far));
        let fallback = regions.iter().enumerate();
        Ok(fallback
            .map(|(store, (region, entries))| PageFallback {
                store: store as u8,
                qpn: near,
                address: region.address,
                rkey: region.rkey,
                entries: *entries,
            })
            .collect())
    }
}
