//! Finds workers, and channels to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SessionState, TaskContext};
use datafusion_distributed::{
    ChannelResolver, DistributedConfig, DistributedExt as _, WorkerChannel, WorkerQueryContext,
    WorkerResolver, WorkerSessionBuilder,
};
use rackweave::exchange::{Budget, Exchange};
use url::Url;
use uuid::Uuid;

use super::{RackweaveChannel, node_of, node_url};
use crate::codec::Compression;

/// A fixed list of workers.
#[derive(Clone, Debug)]
pub struct RackweaveWorkerResolver {
    urls: Vec<Url>,
}

impl RackweaveWorkerResolver {
    /// Workers at these nodes.
    ///
    /// # Errors
    ///
    /// A node whose name [can't be in a URL](node_url).
    pub fn new(nodes: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        let urls = nodes
            .into_iter()
            .map(|node| node_url(node.as_ref()))
            .collect::<Result<_>>()?;
        Ok(Self { urls })
    }
}

impl WorkerResolver for RackweaveWorkerResolver {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.urls.clone())
    }
}

/// Settings of the channels from a node.
#[derive(Clone, Debug, Default)]
pub struct ChannelOptions {
    /// How workers compress the batches that they send here. The `compression` of
    /// [`DistributedConfig`] isn't looked at: its default is made for slower networks.
    pub compression: Compression,
    /// Bytes of a query's batches that may have arrived here and wait to be taken; `None`: what
    /// `worker_connection_buffer_budget_bytes` of the query's [`DistributedConfig`] says. There it
    /// is the budget of a connection, here that of all streams of the query at this node.
    /// These bytes are not in `DataFusion`'s memory pool, as batches that were taken are not.
    pub budget_bytes: Option<u64>,
}

/// Gives out channels to workers over a node's exchange.
///
/// Coordinators and workers both need one: a worker pulls the partitions of other workers
/// ([`worker_session_builder`]).
#[derive(Clone)]
pub struct RackweaveChannelResolver {
    pub(super) shared: Arc<Shared>,
}

/// What the channels of a node share.
pub(super) struct Shared {
    pub(super) exchange: Exchange,
    pub(super) options: ChannelOptions,
    /// By query. The streams of a query hold its budget.
    budgets: Mutex<HashMap<Uuid, Weak<Budget>>>,
}

impl RackweaveChannelResolver {
    /// Channels over the exchange of a node.
    #[must_use]
    pub fn new(exchange: Exchange, options: ChannelOptions) -> Self {
        let budgets = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                exchange,
                options,
                budgets,
            }),
        }
    }
}

#[async_trait]
impl ChannelResolver for RackweaveChannelResolver {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let node = node_of(url)?.into();
        Ok(Box::new(RackweaveChannel {
            shared: Arc::clone(&self.shared),
            node,
        }))
    }
}

impl Shared {
    /// The budget of a query's streams of batches to this node.
    pub(super) fn budget(&self, query: Uuid, context: &Arc<TaskContext>) -> Result<Arc<Budget>> {
        let bytes = if let Some(bytes) = self.options.budget_bytes {
            bytes
        } else {
            let config = DistributedConfig::from_task_context(context)?;
            u64::try_from(config.worker_connection_buffer_budget_bytes).unwrap_or(u64::MAX)
        };
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = budgets.get(&query).and_then(Weak::upgrade) {
            return Ok(budget);
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        let budget = Arc::new(Budget::new(bytes));
        budgets.insert(query, Arc::downgrade(&budget));
        Ok(budget)
    }
}

/// Sessions for a worker whose tasks pull partitions of other workers over the same exchange.
///
/// Without a resolver in its sessions a worker panics when the first such task starts.
#[must_use]
pub fn worker_session_builder(
    resolver: RackweaveChannelResolver,
) -> impl WorkerSessionBuilder + Clone + Send + Sync + 'static {
    move |context: WorkerQueryContext| {
        let resolver = resolver.clone();
        async move {
            let builder = context.builder.with_distributed_channel_resolver(resolver);
            Ok::<SessionState, DataFusionError>(builder.build())
        }
    }
}
