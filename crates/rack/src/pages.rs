//! The parts of a page store.

use rackweave_base::{Block, Duration, NodeId, Rkey};
use rackweave_controller::{PageChannel, PageNode, PagePool, PageSpec, PageStoreSpec};
use rackweave_endpoint::page_store::directory::{ChannelParts, FallbackParts, Owed};
use rackweave_target::TargetConfig;
use rackweave_verbs::Mtu;

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::config::RackConfig;
use crate::config::choices;

/// A node's end of the page directory: its buffer frames, and a channel for each of its workers.
#[derive(Clone, Debug)]
pub struct PageEnds {
    /// The buffer frames, stored consecutively.
    pub frames: Block,
    /// The number of frames, each of the smallest page size.
    pub count: u32,
    /// The channels, by worker.
    pub channels: Vec<ChannelParts>,
}

/// The size of an NVMe target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetOptions {
    /// Commands executed at a time: each has a transfer buffer of a page.
    pub commands: u32,
    /// Bytes of the largest page; `None`: of the largest in the rack's configuration.
    pub page_size: Option<u32>,
}

impl Default for TargetOptions {
    /// 128 commands, as in the paper's experiments (Seamless, section 3).
    fn default() -> Self {
        Self {
            commands: 128,
            page_size: None,
        }
    }
}

impl TargetOptions {
    /// A target for the page directory of this rack: an admin queue and a queue for each slot, for
    /// each of the stores that may be on it, and spare queues for those that broke while a command
    /// of theirs was at the backend: at most as many as there are buffers.
    pub(crate) fn config(self, config: &RackConfig) -> TargetConfig {
        let stores = u16::from(config.switch.page_stores.max(1));
        let slots = config.switch.page_slots.saturating_mul(stores);
        let draining = self.commands.min(u32::from(u16::MAX)) as u16;
        TargetConfig {
            queues_max: slots.saturating_add(draining).saturating_add(2 * stores),
            queue_entries: 2,
            in_capsule_max: 1024,
            transfer_max: self.page_size.unwrap_or(config.page_size_max()).max(4096),
            buffers: self.commands,
            ..TargetConfig::default()
        }
    }
}

/// A node's ends, as the controller has made them; `None` if their memory has been removed.
pub(crate) fn ends(
    pool: PagePool,
    channels: &[PageChannel],
    alarm: &Arc<AtomicBool>,
    block: impl Fn(Rkey) -> Option<Block>,
) -> Option<PageEnds> {
    let owed = Owed::default();
    let channels = channels.iter().map(|channel| {
        let fallback = channel.fallback.iter();
        Some(ChannelParts {
            node: channel.node.0,
            requests: channel.requests,
            cq: channel.cq,
            slots: channel.slots,
            control: block(channel.control.rkey)?,
            control_address: channel.control.address,
            control_lkey: channel.control.lkey,
            frames: pool.layout.frames,
            fallback: fallback
                .map(|fallback| FallbackParts {
                    qpn: fallback.qpn,
                    address: fallback.address,
                    rkey: fallback.rkey,
                    entries: fallback.entries,
                    store: fallback.store,
                })
                .collect(),
            alarm: Arc::clone(alarm),
            owed: owed.clone(),
        })
    });
    Some(PageEnds {
        frames: block(pool.region.rkey)?,
        count: pool.layout.frames,
        channels: channels.collect::<Option<_>>()?,
    })
}

/// A specification with a rack's settings: page size, as many indexed pages as fit, the timeout of
/// the switch's engine.
pub(crate) fn spec(
    config: &RackConfig,
    timeout: Duration,
    nodes: Vec<PageNode>,
    stores: Vec<PageStoreSpec>,
    fallback: Option<NodeId>,
) -> PageSpec {
    let mut spec = PageSpec {
        frame_size: config.switch.page_size,
        nodes,
        stores,
        fallback,
        standbys: Vec::new(),
        indexed: 0,
        timeout: timeout + timeout,
        mtu: Mtu::B4096,
        lease_after: None,
    };
    spec.indexed = choices::pages_indexed(config, spec.pages());
    spec
}
