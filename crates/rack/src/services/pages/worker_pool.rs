//! The pool of a node's workers.

use super::PageServiceError;
use crate::Rack;
use core::time::Duration;
use rackweave_base::{Block, NodeId};
use rackweave_controller::PageSpec;
use rackweave_endpoint::page_store::directory::{Channel, ChannelParts};
use rackweave_endpoint::page_store::{PageStore, Pool, PoolConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The worker pools of all nodes.
pub(super) type WorkerPools = Mutex<HashMap<NodeId, WorkerPool>>;

/// A node's pool, and its free workers.
#[derive(Debug)]
pub(super) struct WorkerPool {
    /// `None` until the first worker is wanted.
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) frames: Block,
    pub(super) config: PoolConfig,
    /// Bytes of each store's pages.
    pub(super) page_sizes: Vec<u32>,
    /// The pool from before the node rejoined, whose log the next one gets.
    pub(super) before: Option<Arc<Pool>>,
    pub(super) workers: usize,
    /// The channel of any of the workers: shows whether the node was declared dead.
    pub(super) any: ChannelParts,
    /// Channels of workers that were never lent, the first one last.
    pub(super) parts: Vec<ChannelParts>,
    pub(super) resting: Vec<PageStore<Channel>>,
}

impl WorkerPool {
    pub(in crate::services) fn new(
        rack: &Rack,
        node: NodeId,
        time_limit: Duration,
        spec: &PageSpec,
    ) -> Result<Self, PageServiceError> {
        let ends = rack.page_ends(node);
        let ends = ends.ok_or(PageServiceError::NoFrames(node))?;
        let any = ends.channels.first().cloned();
        Ok(Self {
            pool: None,
            config: PoolConfig {
                // Shorter than the time limit, so that calls end in time and name the peer that did
                // not answer.
                patience: (time_limit / 2).min(PoolConfig::PATIENCE.into()).into(),
                leases: spec.lease_after.is_some(),
                seed: rack.config().seed,
                ..PoolConfig::new(node.0, spec.frame_size, ends.count)
            },
            frames: ends.frames,
            page_sizes: spec.stores.iter().map(|store| store.page_size).collect(),
            before: None,
            any: any.ok_or(PageServiceError::NoFrames(node))?,
            workers: ends.channels.len(),
            parts: ends.channels.into_iter().rev().collect(),
            resting: Vec::new(),
        })
    }

    pub(in crate::services) fn pool(&mut self) -> Result<Arc<Pool>, PageServiceError> {
        if let Some(pool) = &self.pool {
            return Ok(Arc::clone(pool));
        }
        let pool = Pool::with_page_sizes(self.frames.clone(), self.config, &self.page_sizes)?;
        if let Some(log) = self.before.take().and_then(|before| before.log()) {
            pool.set_log(log);
        }
        Ok(Arc::clone(self.pool.insert(pool)))
    }
}
