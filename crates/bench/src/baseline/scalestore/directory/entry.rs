//! What the directory keeps about one page.

use super::Asker;
use crate::baseline::scalestore::message::{Message, Place};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) place: Place,
    pub(super) id: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) asker: Asker,
    pub(super) id: u64,
    pub(super) kept: u64,
    pub(super) frame: u32,
    pub(super) exclusive: bool,
    pub(super) from_home: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Fetch(Fetch),
    WriteBack { asker: Asker, id: u64, frame: u32 },
}

/// What is under way for a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Busy {
    No,
    Loading,
    /// Orders to so many holders.
    Recalling {
        left: u32,
        fetch: Fetch,
        /// Who was told to write the page into the frame.
        source: Option<u16>,
        /// Whether the frame holds the page.
        has_data: bool,
        /// Whether a holder had changed it.
        dirty: bool,
    },
    Storing {
        asker: Asker,
    },
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) version: u64,
    pub(super) exclusive: bool,
    pub(super) keeper: Option<u16>,
    pub(super) holders: Vec<Holder>,
    pub(super) busy: Busy,
    pub(super) waiting: VecDeque<Request>,
}

impl Entry {
    /// A node holds the page no more; if an id is given, only what it held by that request.
    pub(super) fn forget(&mut self, node: u16, id: Option<u64>) {
        let is_it = |h: &Holder| h.place.node == node && id.is_none_or(|id| h.id == id);
        let Some(at) = self.holders.iter().position(is_it) else {
            return;
        };
        self.holders.swap_remove(at);
        self.exclusive &= !self.holders.is_empty();
        if self.keeper == Some(node) {
            self.keeper = None;
        }
    }

    /// The asker holds the page from now on.
    pub(super) fn admit(&mut self, fetch: &Fetch) {
        let place = Place {
            node: fetch.asker.node,
            frame: fetch.frame,
        };
        self.holders.push(Holder {
            place,
            id: fetch.id,
        });
    }

    /// The asker holds the page as it wished; returns the answer.
    pub(super) fn grant(&mut self, fetch: &Fetch, dirty: bool, from_home: bool) -> Message {
        self.forget(fetch.asker.node, None);
        if fetch.exclusive {
            debug_assert!(self.holders.is_empty(), "all others were recalled");
            self.version += 1;
            self.exclusive = true;
            self.keeper = Some(fetch.asker.node);
        }
        self.admit(fetch);
        Message::Granted {
            version: self.version,
            dirty,
            from_home,
        }
    }
}
