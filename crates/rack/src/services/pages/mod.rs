//! Pages for a database: stores behind NVMe targets, buffer frames on nodes, the directory in the
//! switch, and workers for threads (Seamless, section 2; docs/pages.md).

mod error;
mod guard;
mod media;
mod options;
mod prepare;
mod waiting;
mod worker;
mod worker_pool;

pub use error::{PageError, PageServiceError};
pub use guard::{ReadGuard, WriteGuard};
#[cfg(feature = "hosted")]
pub(crate) use media::namespaces_of;
pub use options::{BLOCK, PageOptions, Prepare, StoreInfo, StoreMedium, StoreState};
pub use rackweave_endpoint::page_store::CommitError;
pub use worker::{PageWorker, Scan};

use crate::Rack;
use core::time::Duration;
use media::Medium;
use rackweave_base::NodeId;
use rackweave_controller::ask::PageSpecOf;
use rackweave_controller::{PageSetUpError, PageSpec};
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{PageStore, Pool, PoolConfig, Worker};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use waiting::Waiting;
use worker_pool::{WorkerPool, WorkerPools};

/// The pages of a rack. A process has at most one page service of a rack for its lifetime; clones
/// are the same service. In a rack of processes, the first service sets up the directory with all
/// its nodes, also those that have not joined yet; later ones find it.
///
/// A program's changes are in the memory of nodes until they are flushed or evicted: call
/// [`PageService::close`] before a program ends. Without it the stores are as after a power
/// failure, and what was not written to storage is lost.
#[derive(Clone, Debug)]
pub struct PageService(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    rack: Rack,
    stores: Vec<StoreInfo>,
    /// The nodes with buffer frames that are here.
    nodes: Vec<NodeId>,
    /// Whether these are all, so that no other process uses the stores.
    is_alone: bool,
    worker_pools: Arc<WorkerPools>,
    /// Whether workers find their store open.
    opens: bool,
    spec: PageSpec,
    time_limit: Duration,
}

impl PageService {
    /// Gives a rack pages, on the stores that its configuration names (`[[store]]`); if it names
    /// none, on one in memory, at the first storage node.
    ///
    /// # Errors
    /// If the rack has pages already or no page directory, a store cannot be opened, or there is no
    /// capacity. If the error is [`PageServiceError::AtStore`], the rack has a directory that
    /// cannot be used: build another rack.
    pub fn new(rack: &Rack, options: &PageOptions) -> Result<Self, PageServiceError> {
        Self::set_up(rack, options, || media::of_config(rack, options))
    }

    /// Gives a rack pages on these stores, numbered from 0 in this order.
    ///
    /// # Errors
    /// As for [`PageService::new`].
    pub fn with_stores(
        rack: &Rack,
        options: &PageOptions,
        stores: Vec<StoreMedium>,
    ) -> Result<Self, PageServiceError> {
        Self::set_up(rack, options, || {
            Ok(stores.into_iter().map(Medium::Here).collect())
        })
    }

    /// Media are opened once it is known that the rack can have pages.
    fn set_up(
        rack: &Rack,
        options: &PageOptions,
        media: impl FnOnce() -> Result<Vec<Medium>, PageServiceError>,
    ) -> Result<Self, PageServiceError> {
        let config = rack.config();
        if config.switch.page_entries == 0 {
            return Err(PageServiceError::NoDirectory);
        }
        // A second target would end the existing one; and of two concurrent callers one must come
        // first.
        let mut has_pages = rack.has_pages();
        if *has_pages {
            return Err(PageServiceError::Exists);
        }
        let (stores, spec, prepare, is_other) = Self::find_or_create(rack, options, media)?;
        *has_pages = true;
        let all = spec.nodes.len();
        let nodes = spec.nodes.iter().map(|member| member.node);
        let nodes: Vec<_> = nodes
            .filter(|&node| rack.node_here(node).is_some())
            .collect();
        let worker_pools = nodes.iter();
        let worker_pools = worker_pools.map(|&node| {
            // A node that joined after the set-up has no buffer frames yet.
            if rack.page_ends(node).is_none() {
                let rejoined = rack.rejoin_pages(node);
                rejoined.map_err(|source| PageServiceError::Rejoin { node, source })?;
            }
            Ok((
                node,
                WorkerPool::new(rack, node, options.time_limit, &spec)?,
            ))
        });
        let worker_pools: Result<_, PageServiceError> = worker_pools.collect();
        let mut service = Self(Arc::new(Directory {
            rack: rack.clone(),
            stores,
            is_alone: nodes.len() == all,
            nodes,
            worker_pools: Arc::new(Mutex::new(worker_pools?)),
            opens: options.prepare != Prepare::Leave,
            spec,
            time_limit: options.time_limit,
        }));
        let found = service.prepare_within(prepare, is_other)?;
        // The service has not been shared yet.
        if let Some(directory) = Arc::get_mut(&mut service.0) {
            for (store, found) in directory.stores.iter_mut().zip(found) {
                store.found = found;
            }
        }
        Ok(service)
    }

    /// The stores and the specification of the page directory, which is set up if there is none;
    /// how to prepare the stores, and whether another process does so as well.
    fn find_or_create(
        rack: &Rack,
        options: &PageOptions,
        media: impl FnOnce() -> Result<Vec<Medium>, PageServiceError>,
    ) -> Result<(Vec<StoreInfo>, PageSpec, Prepare, bool), PageServiceError> {
        let mut existing = rack.ask(PageSpecOf {})?;
        if existing.is_none() {
            match Self::create(rack, options, media) {
                // Another process was faster, or the controller has restored an earlier directory.
                Err(PageServiceError::SetUp(PageSetUpError::Exists)) => {
                    existing = rack.ask(PageSpecOf {})?;
                }
                created => {
                    let (stores, spec) = created?;
                    return Ok((stores, spec, options.prepare, false));
                }
            }
        }
        // Otherwise it has been removed since.
        let spec = existing.ok_or(PageSetUpError::Exists)?;
        let stores = media::known(rack, &spec);
        Ok((stores, spec, options.prepare.of_another()?, true))
    }

    /// Sets up the page directory.
    fn create(
        rack: &Rack,
        options: &PageOptions,
        media: impl FnOnce() -> Result<Vec<Medium>, PageServiceError>,
    ) -> Result<(Vec<StoreInfo>, PageSpec), PageServiceError> {
        let nodes = media::nodes_of(rack, options)?;
        let (stores, specs) = media::add_targets(rack, options, media()?)?;
        let memory = rack.config().nodes_of(crate::config::Role::Memory);
        let fallback = options.fallback.or(memory.first().copied());
        let mut spec = rack.page_spec(nodes, specs, fallback);
        spec.indexed = options.indexed.unwrap_or(spec.indexed);
        spec.standbys.extend(&options.standbys);
        spec.lease_after = options.lease_after;
        rack.create_pages(spec.clone())?;
        Ok((stores, spec))
    }

    /// A worker for the calling thread, at a node. Pages that it allocates are of store 0: open
    /// another one ([`PageStore::open`]) to allocate there.
    ///
    /// It opens the store, so no guard of the same thread may hold page 0 of it, or the last page
    /// exclusively.
    ///
    /// If the node was declared dead, which its workers notice by [`FixError::Fenced`], it rejoins
    /// with a new pool of empty buffer frames, which has the old one's [`Pool::log`]. Existing
    /// workers and guards still belong to the old pool.
    ///
    /// [`FixError::Fenced`]: rackweave_endpoint::page_store::FixError::Fenced
    ///
    /// # Errors
    /// If the node has no buffer frames, all its workers are taken, or it could not rejoin.
    pub fn worker(&self, node: impl Into<NodeId>) -> Result<PageWorker, PageServiceError> {
        let worker = self.unopened(node.into())?;
        if self.0.opens && worker.opened() != Some(0) {
            let opened = worker.open(0);
            opened.map_err(|error| self.at_store(0, error))?;
        }
        Ok(worker)
    }

    fn unopened(&self, node: NodeId) -> Result<PageWorker, PageServiceError> {
        let here = self.rack().node_here(node);
        let here = here.ok_or(PageServiceError::NoFrames(node))?;
        let mut worker_pools = self.worker_pools();
        let worker_pool = worker_pools
            .get_mut(&node)
            .ok_or(PageServiceError::NoFrames(node))?;
        if worker_pool.any.is_fenced() {
            self.0.come_back(node, worker_pool)?;
        }
        let store = match worker_pool.resting.pop() {
            Some(rested) => rested,
            None => {
                let workers = worker_pool.workers;
                let pool = worker_pool.pool()?;
                let parts = worker_pool.parts.pop();
                let parts = parts.ok_or(PageServiceError::AllTaken { node, workers })?;
                let worker = Worker::new(pool, Channel::new(parts));
                let waiting = Waiting::new(here.clone(), &self.0.worker_pools);
                PageStore::new(worker, Arc::new(waiting))
            }
        };
        drop(worker_pools);
        Ok(PageWorker::new(self.clone(), here, store))
    }

    fn take_back(&self, node: NodeId, store: PageStore<Channel>) {
        if let Some(worker_pool) = self.worker_pools().get_mut(&node)
            && worker_pool
                .pool
                .as_ref()
                .is_some_and(|pool| Arc::ptr_eq(pool, store.pool()))
        {
            worker_pool.resting.push(store);
        }
    }

    /// All workers of a node, for programs that poll them themselves, such as actors in virtual
    /// time. `change` makes final changes to the configuration of the node's pool. Such workers do
    /// not go back to the service: the node has no others until it rejoins
    /// ([`PageService::rejoin`]).
    ///
    /// # Errors
    /// If the node has no buffer frames, or a worker of it was ever taken.
    pub fn polled_workers(
        &self,
        node: impl Into<NodeId>,
        change: impl FnOnce(&mut PoolConfig),
    ) -> Result<Vec<Worker<Channel>>, PageServiceError> {
        let node = node.into();
        let mut worker_pools = self.worker_pools();
        let worker_pool = worker_pools
            .get_mut(&node)
            .ok_or(PageServiceError::NoFrames(node))?;
        if worker_pool.pool.is_some() {
            let workers = worker_pool.workers;
            return Err(PageServiceError::AllTaken { node, workers });
        }
        change(&mut worker_pool.config);
        let pool = worker_pool.pool()?;
        let parts = worker_pool.parts.drain(..).rev();
        Ok(parts
            .map(|parts| Worker::new(Arc::clone(&pool), Channel::new(parts)))
            .collect())
    }

    /// Brings a node back that was declared dead, or that has crashed and was revived, with empty
    /// buffer frames. [`PageService::worker`] does that itself for a node that was declared dead
    /// and has noticed it.
    ///
    /// # Errors
    /// If the node has no buffer frames, is dead, or lacks capacity.
    pub fn rejoin(&self, node: impl Into<NodeId>) -> Result<(), PageServiceError> {
        let node = node.into();
        let mut worker_pools = self.worker_pools();
        let worker_pool = worker_pools
            .get_mut(&node)
            .ok_or(PageServiceError::NoFrames(node))?;
        self.0.come_back(node, worker_pool)
    }

    /// Writes all changes to storage, and marks every store as closed, unless other processes may
    /// use it. All workers and guards have to be dropped first. The service can be used again
    /// afterwards.
    ///
    /// # Errors
    /// If workers are in use, or not everything could be written: what could be has been.
    pub fn close(&self) -> Result<(), PageServiceError> {
        let in_use = |worker_pool: &WorkerPool| {
            worker_pool.workers - worker_pool.parts.len() - worker_pool.resting.len()
        };
        let in_use = self.worker_pools().values().map(in_use).sum();
        if in_use > 0 {
            return Err(PageServiceError::InUse(in_use));
        }
        for &node in &self.0.nodes {
            let worker = self.unopened(node)?;
            let flushed = worker.flush();
            flushed.map_err(|error| PageServiceError::Flush { node, error })?;
        }
        if !self.0.opens || !self.0.is_alone {
            return Ok(());
        }
        // A worker that is taken afterwards reopens the store, which marks it open.
        for worker_pool in self.worker_pools().values_mut() {
            worker_pool.resting.iter_mut().for_each(PageStore::leave);
        }
        for &StoreInfo { number: store, .. } in &self.0.stores {
            let first = self.0.nodes.first().copied().unwrap_or_default();
            let worker = self.unopened(first)?;
            let closed = worker.open(store).and_then(|_| worker.close());
            closed.map_err(|error| self.at_store(store, error))?;
        }
        Ok(())
    }

    fn at_store(&self, store: u8, error: PageError) -> PageServiceError {
        let found = self.0.stores.iter().find(|it| it.number == store);
        let name = found.map_or_else(String::new, |it| it.name.clone());
        PageServiceError::AtStore { name, error }
    }

    /// The rack.
    pub fn rack(&self) -> &Rack {
        &self.0.rack
    }

    /// The nodes here that have buffer frames.
    pub fn nodes(&self) -> &[NodeId] {
        &self.0.nodes
    }

    /// The stores, by number.
    pub fn stores(&self) -> &[StoreInfo] {
        &self.0.stores
    }

    /// Default time limit of workers' calls.
    pub fn time_limit(&self) -> Duration {
        self.0.time_limit
    }

    /// The buffer frames of a node; `None` if it has none, or no worker was ever taken there.
    pub fn pool(&self, node: NodeId) -> Option<Arc<Pool>> {
        self.worker_pools().get(&node)?.pool.clone()
    }

    fn worker_pools(&self) -> MutexGuard<'_, HashMap<NodeId, WorkerPool>> {
        self.0
            .worker_pools
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directory {
    /// Gives a node that was declared dead a new pool and new workers.
    fn come_back(
        &self,
        node: NodeId,
        worker_pool: &mut WorkerPool,
    ) -> Result<(), PageServiceError> {
        let rejoined = self.rack.rejoin_pages(node);
        rejoined.map_err(|source| PageServiceError::Rejoin { node, source })?;
        let new = WorkerPool::new(&self.rack, node, self.time_limit, &self.spec)?;
        let before = worker_pool.pool.take();
        *worker_pool = WorkerPool { before, ..new };
        Ok(())
    }
}
