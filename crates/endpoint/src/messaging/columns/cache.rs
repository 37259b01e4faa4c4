//! The compute unit's cache of columns, for all its workers (communication tier, section 6: the
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

/// Columns in a compute unit's memory, up to a number of bytes. Clones share it; any thread may use
/// it. Its lock is held for as long as it takes to change its entries, never while data travel or
/// memory is given back.
///
/// A column stays while somebody has a [`Pinned`] of it. When room is needed, those that nobody has
/// and nobody asked for since the last time go first (second chance).
#[derive(Clone)]
pub struct ColumnCache {
    entries: Arc<Mutex<Entries>>,
}

/// A column that stays in memory for as long as this is there. Clones share it.
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

/// Why a column did not come.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CacheError {
    /// It was asked for, and that failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The worker that was to bring it has gone without.
    #[error("the worker that was to bring the column has given up; ask again")]
    Abandoned,
}

counters! {
    /// What a cache has done, and what it holds.
    CacheCounters {
        /// Looks that found the column.
        hits,
        /// Looks that found nothing and led to its being brought.
        misses,
        /// Looks that found that another worker was bringing it.
        joined,
        /// Columns brought or put.
        brought,
        /// Bytes of them.
        bytes_brought,
        /// Columns that could not be brought.
        failures,
        /// Columns that made room for others.
        evictions,
        /// Bytes of them.
        bytes_evicted,
        /// Columns that were not kept, as there was no room beside those that are pinned.
        bypassed,
        /// Columns dropped or replaced because they had changed.
        invalidations,
        /// Columns that were not kept, as they had been invalidated while they came.
        stale,
        /// Columns held now.
        columns_held,
        /// Bytes held now.
        bytes_held,
    }
}

/// What a look found.
#[derive(Debug)]
#[must_use]
pub enum Look {
    /// The column.
    Hit(Pinned),
    /// Nothing: bring it, and say so here. Others wait for it.
    Miss(Fetch),
    /// Another worker is bringing it.
    Joined(Waiter),
}

/// The duty to bring a column. Who drops it gives up, and those who wait are told.
#[must_use = "others wait for the column"]
pub struct Fetch {
    cache: ColumnCache,
    name: Arc<str>,
    flight: Arc<Flight>,
    done: bool,
}

/// One who waits for a column that another one brings.
#[derive(Clone)]
pub struct Waiter(Arc<Flight>);

impl ColumnCache {
    /// A cache that keeps at most `capacity` bytes. Columns that are on the way, and those that
    /// were invalidated while somebody has them, come on top.
    pub fn new(capacity: u64) -> Self {
        Self {
            entries: Arc::new(Mutex::new(Entries::new(capacity))),
        }
    }

    /// Looks for a column. Of several who look at the same time and do not find it, one gets the
    /// duty to bring it.
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

    /// The column from memory, from another worker's request, or from `bring`, which may take its
    /// time: only who wants this column waits for it.
    ///
    /// # Errors
    /// Whatever failed, here or for the worker that was joined.
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

    /// The column if it is there. Counts as nothing, and gives it no second chance.
    pub fn peek(&self, name: &str) -> Option<Pinned> {
        self.lock().peek(name).map(Pinned)
    }

    /// Keeps a column that was brought without a look, in place of whatever is there. Whoever waits
    /// for the one before still gets that.
    pub fn put(&self, name: &str, data: ColumnData) -> Pinned {
        let data = Arc::new(data);
        let mut entries = self.lock();
        entries.replace(name.into(), data.clone());
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        Pinned(data)
    }

    /// Forgets a column because it has changed. Whoever has it keeps it; what is on the way reaches
    /// those who wait for it already, and nobody after them. False if there was none.
    pub fn invalidate(&self, name: &str) -> bool {
        let mut entries = self.lock();
        let any = entries.invalidate(name);
        let gone = entries.gone();
        drop(entries);
        drop(gone);
        any
    }

    /// Forgets a column unless it has this version, which is the one that its storage unit serves.
    /// What is on the way is not known and goes, too. False if nothing was forgotten.
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

    /// What has been counted, all of one moment.
    pub fn counters(&self) -> CacheCounters {
        self.lock().counters()
    }

    /// The bytes that it keeps at most.
    pub fn capacity(&self) -> u64 {
        self.lock().capacity()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing that the entries do can panic half-way and be left so: they are numbers and maps.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetch {
    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The column has come. It is kept if there is room, and everybody who waits gets it.
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

    /// The column does not come. Everybody who waits is told; whoever looks next tries again.
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
    /// How it ended, if it has.
    pub fn poll(&self) -> Option<Result<Pinned, CacheError>> {
        self.0.poll()
    }

    /// Sleeps until it has ended.
    ///
    /// # Errors
    /// As for the one who was to bring the column.
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
