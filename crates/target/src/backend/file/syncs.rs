//! Flushes of a file: one `fdatasync` for all that wait, and none after one that failed.
//!
//! While a sync runs, flushes that come wait, since it may have passed what they are to cover. When
//! it has ended, one more is made for all of them.
//!
//! After a failed sync the kernel may have marked pages as clean that it could not write; the next
//! sync succeeds and says nothing about them. So every flush fails from then on, until the file is
//! opened again: only then does what is read come from the medium.

use crate::{IoDone, IoError};

/// The flushes of a file.
#[derive(Default, Debug)]
pub(super) struct Syncs {
    /// The flushes that the sync under way is for. It bears the tag of the first.
    running: Vec<u64>,
    /// The flushes that came since it began.
    waiting: Vec<u64>,
    /// Syncs that have begun.
    begun: u64,
    failed: bool,
    /// Fault of tests: syncs fail.
    #[cfg(test)]
    pub(super) broken: bool,
}

/// What becomes of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flush {
    /// A sync is to be made for it.
    Begin,
    /// It waits for the next one.
    Wait,
    /// It fails.
    Fail,
}

impl Syncs {
    /// What becomes of a flush that has come.
    pub(super) fn come(&self) -> Flush {
        match (self.failed, self.running.is_empty()) {
            (true, _) => Flush::Fail,
            (false, true) => Flush::Begin,
            (false, false) => Flush::Wait,
        }
    }

    /// A sync with the tag of this flush has begun.
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

    /// Syncs that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Looks for the end of the sync under way in what has ended from `from` on, and appends the
    /// ends of the other flushes that it was for. Returns the tag of the sync that is to be made
    /// next, if there is one.
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
