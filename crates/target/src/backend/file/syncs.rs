//! Flushes of a file: one `fdatasync` for all waiting ones, and none after one that failed.
//!
//! Flushes that arrive while a sync runs wait, since the sync may have passed the writes that they
//! cover. When it has completed, one more sync is made for all of them.
//!
//! After a failed sync the kernel may have marked pages as clean that it could not write; the next
//! sync succeeds and does not report them. So every flush fails from then on, until the file is
//! opened again: only then do reads come from the medium.

use crate::{IoDone, IoError};

/// The flushes of a file.
#[derive(Default, Debug)]
pub(super) struct Syncs {
    /// The flushes covered by the sync in flight. It has the tag of the first.
    running: Vec<u64>,
    /// The flushes that arrived since it began.
    waiting: Vec<u64>,
    /// Syncs begun.
    begun: u64,
    failed: bool,
    /// Fault of tests: syncs fail.
    #[cfg(test)]
    pub(super) broken: bool,
}

/// How a flush is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flush {
    /// A sync is to be made for it.
    Begin,
    /// It waits for the next sync.
    Wait,
    /// It fails.
    Fail,
}

impl Syncs {
    /// How a new flush is handled.
    pub(super) fn come(&self) -> Flush {
        match (self.failed, self.running.is_empty()) {
            (true, _) => Flush::Fail,
            (false, true) => Flush::Begin,
            (false, false) => Flush::Wait,
        }
    }

    /// Records that a sync with the tag of this flush has begun.
    pub(super) fn begin(&mut self, tag: u64) {
        self.running.push(tag);
        self.begun += 1;
    }

    pub(super) fn wait(&mut self, tag: u64) {
        self.waiting.push(tag);
    }

    /// Flushes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Syncs begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Looks for the completion of the sync in flight in `done`, starting at `from`, and appends
    /// the completions of the other flushes that it covered. Returns the tag of the next sync to
    /// make, if there is one.
    pub(super) fn end(&mut self, done: &mut Vec<IoDone>, from: usize) -> Option<u64> {
        let tag = *self.running.first()?;
        let ended = done[from..].iter_mut().find(|ended| ended.tag == tag)?;
        #[cfg(test)]
        if self.broken {
            ended.result = Err(IoError::NoSpace);
        }
        let result = ended.result;
        let others = self.running.drain(..).skip(1);
        done.extend(others.map(|tag| IoDone { tag, result }));
        if result.is_err() {
            self.failed = true;
            let result = Err(IoError::MediaError);
            let waiting = self.waiting.drain(..);
            done.extend(waiting.map(|tag| IoDone { tag, result }));
        }
        core::mem::swap(&mut self.running, &mut self.waiting);
        self.begun += u64::from(!self.running.is_empty());
        self.running.first().copied()
    }
}
