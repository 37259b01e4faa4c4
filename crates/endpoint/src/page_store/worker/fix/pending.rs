//! A pending fix: what was asked for, and its state.

use crate::page_store::FixError;
use crate::page_store::directory::Mode;
use crate::page_store::guard::PageGuard;
use crate::page_store::pool::LeaseRequest;
use rackweave_base::memory::{FrameRead, FrameWrite};
use rackweave_base::{Duration, Instant};
use rackweave_wire::fabric::page::PageId;

/// A fix in flight.
#[derive(Debug)]
pub(in crate::page_store::worker) struct Pending {
    pub page: PageId,
    pub mode: Mode,
    pub state: State,
    /// The result will not be taken.
    pub is_abandoned: bool,
    pub is_prefetch: bool,
    /// Whether the page must match its checksum.
    pub checked: bool,
    /// Whether the page is to be rewritten.
    pub restores: bool,
    pub not_before: Instant,
    pub attempts: u32,
    pub gone_since: Option<Instant>,
    /// The time of its first poll, and its limit from then on.
    pub(super) began: Option<Instant>,
    pub limit: Option<Duration>,
    /// Since when there was no free buffer frame, and how many had been freed by then.
    pub(super) frame_wait: Option<(Instant, u64)>,
    pub(super) stepped_back: Option<Instant>,
    /// Another fix was already fetching the page.
    pub joined: bool,
    /// The page was moved for this fix.
    pub fetched: bool,
    /// Whether the pool counts it in `moving`.
    pub moves: bool,
    /// Whether a request to the directory is unanswered.
    pub asked: bool,
}

#[derive(Debug)]
pub(in crate::page_store::worker) enum State {
    Seek,
    /// To be verified, or being verified.
    Verify {
        read: FrameRead,
        version: u64,
        lease: Option<LeaseRequest>,
    },
    /// To be fetched, or being fetched.
    Fetch {
        write: FrameWrite,
        have: Option<u64>,
    },
    /// An old version is in this buffer frame, and is being read.
    Replace {
        frame: u32,
        version: u64,
    },
    Ready(Result<PageGuard, FixError>),
}

impl Pending {
    pub fn new(page: PageId, mode: Mode) -> Self {
        Self {
            page,
            mode,
            state: State::Seek,
            is_abandoned: false,
            is_prefetch: false,
            checked: true,
            restores: false,
            not_before: Instant::ZERO,
            attempts: 0,
            gone_since: None,
            began: None,
            limit: None,
            frame_wait: None,
            stepped_back: None,
            joined: false,
            fetched: false,
            moves: false,
            asked: false,
        }
    }

    /// The deadline at which it ends for its caller.
    pub fn ends_at(&self) -> Option<Instant> {
        let waits = !self.is_abandoned && !matches!(self.state, State::Ready(_));
        let ends = self
            .began
            .zip(self.limit)
            .map(|(began, limit)| began + limit);
        ends.filter(|_| waits)
    }

    /// Whether it waits for a latch that is held elsewhere.
    pub fn is_latched_out(&self) -> bool {
        !matches!(self.state, State::Ready(_)) && self.gone_since.is_none() && !self.asked
    }
}
