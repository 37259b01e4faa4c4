//! Requests to the engine's log, before changed pages leave the node.

use super::Worker;
use super::flush::FlushKey;
use crate::page_store::directory::Directory;
use rackweave_base::{Duration, Instant};

/// When to ask a log again that is behind: a drive may take this long to write a block.
const LOG_AGAIN: Duration = Duration::from_micros(20);
/// The interval doubles up to this power of two times [`LOG_AGAIN`].
const LOG_AGAIN_SHIFT: u32 = 6;

/// A worker's request to the engine's log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogQuestion {
    /// The LSN that was requested, if the log was behind.
    lsn: u64,
    attempts: u32,
    /// When to ask again.
    not_before: Instant,
}

impl<D: Directory> Worker<D> {
    /// Calls the engine's log, at most once, for all pages that are to leave the node now
    /// ([`RedoLog::make_durable`](crate::page_store::RedoLog::make_durable)).
    ///
    /// [`Self::poll`] does this by itself. A caller that holds the node's NIC while it polls should
    /// call this before it takes the NIC: the log may then block without keeping other threads from
    /// the NIC.
    #[inline]
    pub fn poll_log(&mut self, now: Instant) {
        if self.pool.has_log() {
            self.ask_log(now);
        }
    }

    /// The same if a log is installed.
    fn ask_log(&mut self, now: Instant) {
        self.now = now;
        self.collect_unfixes();
        let unfixes = self
            .unfixes
            .iter()
            .filter(|pending| pending.not_before <= now)
            .map(|pending| pending.unfix.lsn);
        let evictions = self
            .evictions
            .iter()
            .filter(|eviction| eviction.not_before <= now)
            .map(|eviction| eviction.lsn);
        let lsn = unfixes.chain(evictions).max().unwrap_or(0);
        let question = self.log_question;
        let is_repeated = lsn <= question.lsn && now < question.not_before;
        if self.pool.may_leave(lsn) || is_repeated {
            return;
        }
        if self.pool.ask_log(lsn, now) {
            self.log_question = LogQuestion::default();
            return;
        }
        self.statistics.log_behind += 1;
        let shift = question.attempts.min(LOG_AGAIN_SHIFT);
        self.log_question = LogQuestion {
            lsn,
            attempts: question.attempts + 1,
            not_before: self.later(Duration::from_nanos(LOG_AGAIN.as_nanos() << shift)),
        };
    }

    /// When a page with this LSN may leave the node, or the log is to be asked about it.
    pub(super) fn may_leave_at(&self, lsn: u64) -> Instant {
        let LogQuestion {
            lsn: asked,
            not_before,
            ..
        } = self.log_question;
        if lsn > asked || self.pool.may_leave(lsn) {
            Instant::ZERO
        } else {
            not_before
        }
    }

    /// Whether the log has made no progress for longer than this worker's patience. A flush counts
    /// from its own start.
    pub(super) fn is_log_stuck(&self, flush: Option<FlushKey>) -> bool {
        let Some(behind_since) = self.pool.log_behind_since() else {
            return false;
        };
        let flush = flush.and_then(|key| self.flushes.get(key));
        let since = behind_since.max(flush.map_or(Instant::ZERO, |flush| flush.began));
        self.now.since(since) >= self.pool.config.patience
    }
}
