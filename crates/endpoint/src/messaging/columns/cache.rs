//! The compute node's cache of columns, for all its workers (communication tier, section 6: the
//! future work).

mod entries;
mod flight;

use super::{ColumnData, RequestError};
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use entries::{Entries, State};
use flight::Flight;
use rackweave_base::counters;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Columns in a compute node's memory, up to a number of bytes. Clones share it; any thread may use
/// it. Its lock is held only while its entries change, never during transfers or while memory is
/// freed.
///
/// A column stays while a [`Pinned`] of it exists. When space is needed, unpinned columns that have
/// not been requested since the last pass are evicted first (second chance).
#[derive(Clone)]
pub struct ColumnCache {
    entries: Arc<Mutex<Entries>>,
}

/// A column that stays in memory for the lifetime of this value. Clones share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pinned(Arc<ColumnData>);

impl Deref for Pinned {
    type Target = ColumnData;

    fn deref(&self) -> &ColumnData {
        &self.0
    }
}

impl Borrow<ColumnData> for Pinned {
    fn borrow(&self) -> &ColumnData {
        &self.0
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Why a column was not obtained.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CacheError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The worker that was to fetch it gave up.
    #[error("the worker that was to bring the column has given up; ask again")]
    Abandoned,
}

counters! {
    /// Counters of a cache, and its current contents.
    CacheCounters {
        /// Lookups that found the column.
        hits,
        /// Lookups that found nothing and started a fetch.
        misses,
        /// Lookups that found a fetch by another worker in progress.
        joined,
        /// Columns fetched or put.
        brought,
        /// Bytes of them.
        bytes_brought,
        /// Columns that could not be fetched.
        failures,
        /// Columns evicted to free space for others.
        evictions,
        /// Bytes of them.
        bytes_evicted,
        /// Columns not kept because the pinned ones left too little space.
        bypassed,
        /// Columns dropped or replaced because they had changed.
        invalidations,
        /// Columns not kept because they were invalidated during their fetch.
        stale,
        /// Columns held now.
        columns_held,
        /// Bytes held now.
        bytes_held,
    }
}

/// The result of a lookup.
#[derive(Debug)]
#[must_use]
pub enum Look {
    /// The column.
    Hit(Pinned),
    /// Not found: the caller must fetch it and report here. Others wait for it.
    Miss(Fetch),
    /// Another worker is fetching it.
    Joined(Waiter),
}

/// The obligation to fetch a column. Dropping it gives up, and the waiting workers are notified.
#[must_use = "others wait for the column"]
pub struct Fetch {
    cache: ColumnCache,
    name: Arc<str>,
    flight: Arc<Flight>,
    done: bool,
}

/// A wait for a column that another worker fetches.
#[derive(Clone)]
pub struct Waiter(Arc<Flight>);

impl ColumnCache {
    /// A cache that keeps at most `capacity` bytes. Columns being fetched, and invalidated columns
    /// that are still pinned, are not counted.
    pub fn new(capacity: u64) -> Self {
        Self {
            entries: Arc::new(Mutex::new(Entries::new(capacity))),
        }
    }

    /// Looks up a column. If several callers miss it concurrently, one of them gets the obligation
    /// to fetch it.
    pub fn look(&self, name: &str) -> Look {
        let mut entries = self.lock();
        match entries.look(name) {
            Some(State::Ready(data)) => Look::Hit(Pinned(data)),
            Some(State::Coming(flight)) => Look::Joined(Waiter(flight)),
            None => {
                let name: Arc<str> = name.into();
                let flight = entries.depart(name.clone());
                drop(entries);
                Look::Miss(Fetch {
                    cache: self.clone(),
                    name,
                    flight,
                    done: false,
                })
            }
        }
    }

    /// Returns the column from memory, from another worker's request, or from `bring`, which may
    /// take long: it delays only callers that want this column.
    ///
    /// # Errors
    /// The failure, here or of the worker that was joined.
    pub fn get(
        &self,
        name: &str,
        bring: impl FnOnce() -> Result<ColumnData, RequestError>,
    ) -> Result<Pinned, CacheError> {
        match self.look(name) {
            Look::Hit(pinned) => Ok(pinned),
            Look::Joined(waiter) => waiter.wait(),
            Look::Miss(fetch) => match bring() {
                Ok(data) => Ok(fetch.complete(data)),
                Err(error) => {
                    fetch.fail(error.clone());
                    Err(error.into())
                }
            },
        }
    }

    /// Returns the column if it is cached. Is not counted, and gives it no second chance.
    pub fn peek(&self, name: &str) -> Option<Pinned> {
        self.lock().peek(name).map(Pinned)
    }

    /// Keeps a column that was fetched without a lookup, replacing any previous one. Callers that
    /// wait for the previous one still get that.
    pub fn put(&self, name: &str, data: ColumnData) -> Pinned {
        let data = Arc::new(data);
        let mut entries = self.lock();
        entries.replace(name.into(), data.clone());
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        Pinned(data)
    }

    /// Invalidates a column because it has changed. Pinned copies stay valid; a fetch in progress
    /// reaches the callers that already wait for it, but none after them. False if there was none.
    pub fn invalidate(&self, name: &str) -> bool {
        let mut entries = self.lock();
        let any = entries.invalidate(name);
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        any
    }

    /// Invalidates a column unless it has this version, which is the one that its storage node
    /// serves. A fetch in progress has no known version and is invalidated too. False if there was
    /// none to invalidate.
    pub fn invalidate_unless(&self, name: &str, version: u64) -> bool {
        let mut entries = self.lock();
        let keeps = entries
            .peek(name)
            .is_some_and(|data| data.version() == version);
        let any = !keeps && entries.invalidate(name);
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        any
    }

    /// The counters, as a consistent snapshot.
    pub fn counters(&self) -> CacheCounters {
        self.lock().counters()
    }

    /// The maximum number of bytes kept.
    pub fn capacity(&self) -> u64 {
        self.lock().capacity()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // No operation of the entries can panic in an inconsistent state: they are numbers and
        // maps.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetch {
    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Completes the fetch. The column is kept if there is space, and all waiting callers get it.
    pub fn complete(mut self, data: ColumnData) -> Pinned {
        self.done = true;
        let data = Arc::new(data);
        let mut entries = self.cache.lock();
        entries.arrive(&self.name, &self.flight, data.clone());
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        self.flight.land(Ok(Pinned(data.clone())));
        Pinned(data)
    }

    /// Reports that the fetch failed. All waiting callers are notified; the next lookup tries
    /// again.
    pub fn fail(mut self, error: RequestError) {
        self.give_up(error.into());
    }

    fn give_up(&mut self, error: CacheError) {
        self.done = true;
        self.cache.lock().fail(&self.name, &self.flight);
        self.flight.land(Err(error));
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.done {
            self.give_up(CacheError::Abandoned);
        }
    }
}

impl Waiter {
    /// The result, if there is one.
    pub fn poll(&self) -> Option<Result<Pinned, CacheError>> {
        self.0.poll()
    }

    /// Sleeps until there is a result.
    ///
    /// # Errors
    /// As for the caller that was to fetch the column.
    pub fn wait(&self) -> Result<Pinned, CacheError> {
        self.0.wait()
    }
}

impl fmt::Debug for ColumnCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ColumnCache")
            .field(&self.counters())
            .finish()
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fetch").field(&self.name).finish()
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiter").field(&self.poll()).finish()
    }
}
