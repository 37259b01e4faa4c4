//! The directory in a memory server: entries of the pages that the switch does not index.

use super::registry::NodeRegistry;
use super::set_up::make;
use super::{PageFallback, PageSetUpError};
use crate::connect::PairAttributes;
use crate::{Controller, LaneError, RegionName, RegionPurpose, Site};
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_programs::pages::EntryState;
use rackweave_verbs::{Access, CqId, PdId, QpCapabilities, QpModify};
use rackweave_wire::fabric::page::{FallbackLatch, PageId, control};

/// Bytes of an entry in a server's memory: latch and place.
pub(super) const ENTRY_LEN: u64 = 16;

/// The place word of an entry in a server's memory while the switch has the entry: no node's
/// comparison succeeds.
pub(super) const TAKEN: u64 = u64::MAX;

impl Controller {
    /// Makes the entries of all pages in the server's memory.
    pub(super) fn make_fallback(&mut self, site: &mut dyn Site) -> Result<(), PageSetUpError> {
        let registry = self.pages.as_ref().expect("pages are being set up");
        let Some(server) = registry.server else {
            return Ok(());
        };
        let sizes: Vec<u64> = registry
            .spec
            .stores
            .iter()
            .map(|store| store.pages)
            .collect();
        let (pd, _) = self.home(site, server)?;
        for pages in sizes {
            let (bytes, purpose) = (pages * ENTRY_LEN, RegionPurpose::Pages);
            let region = make(site, server, pd, bytes, region_access(), purpose)?;
            self.pages.as_mut().expect("as above").fallback.push(region);
        }
        Ok(())
    }

    /// Marks in the server's memory that the switch has the entry.
    pub(super) fn mark_indexed(&self, site: &mut dyn Site, page: PageId) {
        if let Some((server, rkey, offset)) = self.fallback_entry(page) {
            let latch = FallbackLatch::INDEXED.0.to_le_bytes();
            site.store_word(server, rkey, offset, latch);
            site.store_word(server, rkey, offset + 8, TAKEN.to_le_bytes());
        }
    }

    /// The location of a page's entry in the server's memory.
    pub(super) fn fallback_entry(&self, page: PageId) -> Option<(NodeId, Rkey, u64)> {
        let registry = self.pages.as_ref()?;
        let region = registry.fallback.get(usize::from(page.store()))?;
        Some((registry.server?, region.rkey, page.index() * ENTRY_LEN))
    }

    /// Connects a channel to the memory server, with its queue pair or a new one.
    pub(super) fn connect_fallback(
        &mut self,
        site: &mut dyn Site,
        registry: &mut NodeRegistry,
        worker: usize,
    ) -> Result<(), PageSetUpError> {
        let pages = self.pages.as_ref().expect("pages are set up");
        let Some(server) = pages.server else {
            return Ok(());
        };
        let (timeout, mtu) = (pages.spec.timeout, pages.spec.mtu);
        let regions: Vec<(RegionName, u64)> = pages
            .fallback
            .iter()
            .zip(&pages.spec.stores)
            .map(|(&region, store)| (region, store.pages))
            .collect();
        let (node, channel) = (registry.pool.node, &registry.channels[worker]);
        let open = pages.index(node).map(|index| pages.members[index]);
        let (slots, cq) = (channel.slots, channel.cq);
        let (pd, _) = self.home(site, node)?;
        let (server_pd, server_cq) = self.home(site, server)?;
        let near = match registry.fallback.get(worker).copied() {
            Some((near, old_server, far)) => {
                site.node(old_server, &mut |verbs| {
                    let _gone = verbs.destroy_qp(far);
                });
                site.node(node, &mut |verbs| {
                    let _gone = verbs.modify_qp(near, QpModify::Reset);
                });
                near
            }
            None => create_qp(site, (node, pd, cq), slots)?,
        };
        let far = create_qp(site, (server, server_pd, server_cq), slots)?;
        let attributes = PairAttributes {
            mtu,
            timeout,
            ..PairAttributes::default()
        };
        self.connect_pair(site, (node, near), (server, far), &attributes)?;
        match registry.fallback.get_mut(worker) {
            Some(pair) => *pair = (near, server, far),
            None => registry.fallback.push((near, server, far)),
        }
        let control = registry.channels[worker].control;
        let fallback = (0u8..).zip(&regions).map(|(store, (region, entries))| {
            let at = control::entries_at(slots, store);
            // Without a key, a node that ignores the protocol cannot reach the entries.
            let (address, rkey) = match open.is_some_and(|open| open.has(store)) {
                true => (region.address, region.rkey),
                false => (control::NO_ENTRIES, Rkey(0)),
            };
            site.store_word(node, control.rkey, at, address.to_le_bytes());
            site.store_word(node, control.rkey, at + 8, u64::from(rkey.0).to_le_bytes());
            PageFallback {
                store,
                qpn: near,
                address,
                rkey,
                entries: *entries,
            }
        });
        registry.channels[worker].fallback = fallback.collect();
        Ok(())
    }
}

/// Nodes' access rights to a region of entries: READ and compare-and-swap, no WRITE.
pub(super) fn region_access() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

/// The first word of an entry in a server's memory.
pub(super) fn word(state: &EntryState) -> FallbackLatch {
    let word = FallbackLatch::new(state.latch, state.holder);
    match state.doubted {
        true => word.doubted(),
        false => word,
    }
}

/// Writes an entry with known state: the place first, so that a node that sees the latch open sees
/// it, too.
pub(super) fn store(
    site: &mut dyn Site,
    (server, rkey, offset): (NodeId, Rkey, u64),
    state: &EntryState,
) {
    let place = state.place.0.to_le_bytes();
    site.store_word(server, rkey, offset + 8, place);
    site.store_word(server, rkey, offset, word(state).0.to_le_bytes());
}

/// A queue pair for a channel's operations on entries, at either end.
fn create_qp(
    site: &mut dyn Site,
    (node, pd, cq): (NodeId, PdId, CqId),
    slots: u16,
) -> Result<Qpn, LaneError> {
    let capabilities = QpCapabilities {
        send_max: u32::from(slots) * 2,
        receive_max: 1,
        segments_max: 1,
    };
    let mut made = Err(LaneError::NoNode(node));
    site.node(node, &mut |verbs| {
        let qpn = verbs.create_qp(pd, cq, cq, capabilities);
        made = qpn.map_err(|error| LaneError::Qp { node, error });
    });
    made
}
