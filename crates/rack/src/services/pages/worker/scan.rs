//! Reads of many pages, several at a time.

use super::PageWorker;
use super::fixing::Fixing;
use crate::services::call::Call;
use crate::services::pages::{PageError, ReadGuard};
use core::fmt;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_endpoint::page_store::{Fix, FixError, Mode, Worker};
use rackweave_wire::fabric::page::PageId;
use std::collections::VecDeque;
use std::iter::Fuse;
use std::sync::Arc;

/// Begins a fix.
type Begin = Box<dyn FnMut(&mut Worker<Channel>) -> Result<Fix, FixError> + Send>;

/// Pages that are read one after the other, with the next ones on their way ([`PageWorker::scan`]).
pub struct Scan<I: Iterator> {
    worker: PageWorker,
    pages: Fuse<I>,
    ahead: usize,
    /// The next pages, in their order.
    window: VecDeque<Part>,
}

enum Part {
    Ended(Result<ReadGuard, PageError>),
    Fixing(Fixing<Begin>),
}

impl PageWorker {
    /// Reads pages one after the other, in their order. While one is used, up to `ahead` of the
    /// next ones, at most a quarter of the node's buffer frames of a size, are requested or present
    /// already.
    /// Each page is a version that was the newest at some moment between its request and the end of
    /// its step; at its time limit, counted from its request, its step ends with an error, and the
    /// scan continues with the next.
    ///
    /// Pages ahead occupy buffer frames as guards do. A page that another worker of this node holds
    /// for changing is waited for; one that a guard of this worker holds gives
    /// [`FixError::Conflict`].
    ///
    /// ```
    /// use rackweave_rack::Rack;
    /// use rackweave_rack::services::{PageOptions, PageService};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = rackweave_rack::config::RackConfig::default();
    /// config.switch.page_entries = 1024;
    /// (config.switch.consumer_rings, config.switch.producer_rings) = (0, 0);
    /// let rack = Rack::builder().config(config).build()?;
    /// let pages = PageService::new(&rack, &PageOptions::default())?;
    /// let worker = pages.worker(&rack.node("compute0")?)?;
    /// let table: Vec<_> = (0..10).map(|_| worker.allocate()).collect::<Result<_, _>>()?;
    /// for page in worker.scan(table, 4) {
    ///     assert!(page?.data().is_all(0));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<I: IntoIterator<Item = PageId>>(
        &self,
        pages: I,
        ahead: usize,
    ) -> Scan<I::IntoIter> {
        let frames = self.pool().frames_of_any() as usize;
        self.in_order(pages, ahead.min(frames / 4))
    }

    fn in_order<I: IntoIterator<Item = PageId>>(
        &self,
        pages: I,
        ahead: usize,
    ) -> Scan<I::IntoIter> {
        Scan {
            worker: PageWorker(Arc::clone(&self.0)),
            pages: pages.into_iter().fuse(),
            ahead,
            window: VecDeque::new(),
        }
    }

    /// Reads several pages in one wait: all are requested before the first is waited for. The
    /// guards are in the order of the pages.
    ///
    /// # Errors
    /// The first error of [`PageWorker::read`].
    pub fn read_many(&self, pages: &[PageId]) -> Result<Vec<ReadGuard>, PageError> {
        self.in_order(pages.iter().copied(), pages.len()).collect()
    }

    fn begin(&self, page: PageId) -> Part {
        if let Some(guard) = self.leased(page) {
            return Part::Ended(Ok(guard));
        }
        let begin = move |worker: &mut Worker<Channel>| worker.try_fix(page, Mode::Shared);
        let mut fixing = Fixing::new(&self.0, self.0.time_limit(), Box::new(begin) as Begin);
        match fixing.ask() {
            Some(ended) => Part::Ended(ended.map(|guard| ReadGuard::new(guard, &self.0))),
            None => Part::Fixing(fixing),
        }
    }
}

impl<I: Iterator<Item = PageId>> Iterator for Scan<I> {
    type Item = Result<ReadGuard, PageError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.window.len() <= self.ahead
            && let Some(page) = self.pages.next()
        {
            self.window.push_back(self.worker.begin(page));
        }
        Some(match self.window.pop_front()? {
            Part::Ended(result) => result,
            Part::Fixing(mut fixing) => {
                let lent = &self.worker.0;
                let (access, limit) = (lent.access(), lent.time_limit());
                let guard = Call::new(access, limit, move |_| fixing.ask()).wait();
                guard.map(|guard| ReadGuard::new(guard, lent))
            }
        })
    }
}

impl<I: Iterator> fmt::Debug for Scan<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("ahead", &self.ahead)
            .field("window", &self.window.len())
            .finish_non_exhaustive()
    }
}
