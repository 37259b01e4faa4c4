//! Reports of a node about its buffer frames to the controller that rebuilds a lost directory, and
//! pages in doubt: those for which the node must determine whether it has the newest version.

use super::{Pool, VERSION_AT, lock};
use crate::page_store::pool::table::DIRTY;
use rackweave_wire::fabric::page::control::{DOUBT_VERSION_AT, Doubt, FOUND_OUT_AT};
use rackweave_wire::fabric::page::{FrameState, PageHeader, PageId};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Buffer frames with pages in doubt.
#[derive(Debug, Default)]
pub(in super::super) struct Doubts {
    frames: Mutex<VecDeque<u32>>,
    count: AtomicUsize,
    /// The spare buffer frame is in use.
    taken: AtomicBool,
}

impl Pool {
    /// The page directory's random number: versions of different directories are not comparable.
    pub(super) fn epoch(&self) -> u64 {
        let at = self.layout.epoch_at();
        u64::from_le(self.states.word(at as usize).load(Ordering::Acquire))
    }

    fn state_word(&self, frame: u32) -> &AtomicU64 {
        let at = self.layout.state_at(frame);
        self.states.word(at as usize)
    }

    /// The node's report about a buffer frame.
    pub(in super::super) fn state(&self, frame: u32) -> FrameState {
        FrameState(u64::from_le(self.state_word(frame).load(Ordering::Acquire)))
    }

    fn doubt_word(&self, frame: u32, at: u64) -> &AtomicU64 {
        let doubt = self.layout.doubt_at(frame);
        self.states.word((doubt + at) as usize)
    }

    /// The controller's doubt about a buffer frame, if the node has not resolved it. `None` while
    /// the controller writes: the node is notified when the directory is complete.
    pub(in super::super) fn doubt(&self, frame: u32) -> Option<Doubt> {
        let word = |at| u64::from_le(self.doubt_word(frame, at).load(Ordering::Acquire));
        let version = word(DOUBT_VERSION_AT);
        let words = [word(0), word(8), version, word(FOUND_OUT_AT)];
        let is_whole = word(DOUBT_VERSION_AT) == version;
        Doubt::parse(words).filter(|_| is_whole)
    }

    /// Whether the node must still resolve a doubt about this page, which is in the buffer frame.
    /// Its version number is about to change.
    pub(in super::super) fn is_in_doubt(&self, frame: u32, page: PageId) -> bool {
        let any = self.doubts_pending() || self.doubts.taken.load(Ordering::Acquire);
        any && self.doubt(frame).is_some_and(|doubt| doubt.page == page)
    }

    /// The node has resolved the doubt about this version.
    pub(in super::super) fn end_doubt(&self, frame: u32, version: u64) {
        let word = self.doubt_word(frame, FOUND_OUT_AT);
        word.store(version.to_le(), Ordering::Release);
    }

    /// Updates the report about a buffer frame. The caller holds its latch, or is the worker that
    /// resolves the doubt about it.
    pub(in super::super) fn set_state(&self, frame: u32, state: FrameState) {
        self.state_word(frame)
            .store(state.0.to_le(), Ordering::Release);
    }

    /// Whether a directory that was rebuilt after `beginning` may have missed the latest reports
    /// about buffer frames.
    pub(in super::super) fn is_surveyed_after(&self, beginning: u64) -> bool {
        // Either the controller sees the report, or the node sees this word.
        fence(Ordering::SeqCst);
        let at = self.layout.survey_at();
        u64::from_le(self.states.word(at as usize).load(Ordering::Acquire)) > beginning
    }

    /// Reports what remains after a latch was released, or was never granted.
    pub(in super::super) fn set_unlatched(&self, frame: u32) {
        let meta = self.table.meta(frame);
        let version = meta.version.load(Ordering::Acquire);
        self.set_state(
            frame,
            match meta.is(DIRTY) {
                true => FrameState::dirty(version),
                false => FrameState::NOTHING,
            },
        );
    }

    /// Finds the pages in doubt after the directory was rebuilt.
    pub(in super::super) fn look_for_doubts(&self) {
        let mut frames = lock(&self.doubts.frames);
        for frame in 0..self.config.frames {
            let is_new = self.doubt(frame).is_some();
            if is_new && !frames.contains(&frame) {
                frames.push_back(frame);
            }
        }
        self.doubts.count.store(frames.len(), Ordering::Release);
    }

    /// Whether there are pages in doubt that no worker handles yet.
    pub(in super::super) fn doubts_pending(&self) -> bool {
        self.doubts.count.load(Ordering::Acquire) > 0
    }

    /// Takes a page in doubt and the spare buffer frame, unless another worker has the latter.
    pub(in super::super) fn take_doubt(&self) -> Option<u32> {
        if !self.doubts_pending() || self.doubts.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut frames = lock(&self.doubts.frames);
        let frame = frames.pop_front();
        self.doubts.count.store(frames.len(), Ordering::Release);
        if frame.is_none() {
            self.doubts.taken.store(false, Ordering::Release);
        }
        frame
    }

    /// Frees the spare buffer frame; the page in `again` is still in doubt.
    pub(in super::super) fn put_doubt(&self, again: Option<u32>) {
        let mut frames = lock(&self.doubts.frames);
        frames.extend(again);
        self.doubts.count.store(frames.len(), Ordering::Release);
        self.doubts.taken.store(false, Ordering::Release);
    }

    /// Whether the home of a page, which is in the spare buffer frame, may be as new as the version
    /// that the node has reported. A damaged home may.
    pub(in super::super) fn may_home_be_as_new(&self, page: PageId, state: FrameState) -> bool {
        let mut home = vec![0; self.page_size(page.store()) as usize];
        let spare = self.layout.frame_at(self.config.frames);
        self.states.read(spare as usize, &mut home);
        let header = PageHeader::parse(&home).unwrap_or_default();
        let is_blank = || home.iter().all(|byte| *byte == 0);
        let is_ours = header.store == self.identity(page.store());
        match header.home_version(page, self.epoch(), is_blank) {
            Some(version) => is_ours && version >= state.content_version(),
            None => true,
        }
    }

    /// The version in the header of the page in a buffer frame.
    pub(in super::super) fn header_version(&self, frame: u32) -> u64 {
        let word = self.frames.header_word(frame, VERSION_AT);
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Gives the page in a buffer frame another version number: it is republished.
    pub(in super::super) fn renumber(&self, frame: u32, version: u64) {
        let word = self.frames.header_word(frame, VERSION_AT);
        word.store(version.to_le(), Ordering::Release);
    }
}
