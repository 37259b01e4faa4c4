//! The owner's directory: which nodes have which page.
//!
//! A state machine without input or output of its own. Pages never change, so any number of nodes
//! may have one. A page that no node has is loaded for the first requester, and later requesters
//! wait meanwhile.

use super::message::{Fetch, Holder, Message};
use crate::harness::prelude::*;

/// The destination of an answer: the connection of the request, its node, and its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    pub node: u16,
    pub channel: u32,
    pub tag: u16,
}

/// A page to be read from storage and written into a frame of the requester, which then is to be
/// notified; then [`Directory::handle_loaded`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub page: u64,
    pub to: Asker,
    pub frame: u32,
}

#[derive(Clone, Default, Debug)]
struct Entry {
    holders: Vec<Holder>,
    is_loading: bool,
    waiting: VecDeque<(Asker, Fetch)>,
}

#[derive(Debug)]
pub struct Directory {
    entries: Vec<Entry>,
    pub answers: VecDeque<(Asker, Message)>,
    pub loads: VecDeque<Load>,
}

impl Entry {
    /// A node no longer holds the page; if an id is given, only the copy of that request is
    /// dropped.
    fn forget(&mut self, node: u16, id: Option<u64>) {
        let is_it = |holder: &Holder| holder.node == node && id.is_none_or(|id| holder.id == id);
        if let Some(at) = self.holders.iter().position(is_it) {
            self.holders.swap_remove(at);
        }
    }
}

impl Directory {
    pub fn new(pages: u64) -> Self {
        Self {
            entries: vec![Entry::default(); pages as usize],
            answers: VecDeque::new(),
            loads: VecDeque::new(),
        }
    }

    /// Handles a request.
    pub fn handle_request(&mut self, asker: Asker, message: Message) -> Result<(), Failure> {
        match message {
            Message::Fetch(fetch) => {
                let entry = self.entry(fetch.page)?;
                entry.waiting.push_back((asker, fetch));
                self.go_on(fetch.page)
            }
            Message::Drop(copies) => {
                for (page, id) in copies {
                    self.entry(page)?.forget(asker.node, Some(id));
                }
                self.answers.push_back((asker, Message::Dropped));
                Ok(())
            }
            _ => Err("a message came that is no request".into()),
        }
    }

    /// Handles the completed load of a page into a frame.
    pub fn handle_loaded(&mut self, page: u64) -> Result<(), Failure> {
        let entry = self.entry(page)?;
        if !core::mem::take(&mut entry.is_loading) {
            return Err(format!("page {page}: a load ended that had not begun"));
        }
        self.go_on(page)
    }

    fn entry(&mut self, page: u64) -> Result<&mut Entry, Failure> {
        let entry = self.entries.get_mut(page as usize);
        entry.ok_or_else(|| format!("page {page} does not exist"))
    }

    /// Handles the waiting requests until one of them has to wait.
    fn go_on(&mut self, page: u64) -> Result<(), Failure> {
        let entry = &mut self.entries[page as usize];
        while !entry.is_loading
            && let Some((asker, fetch)) = entry.waiting.pop_front()
        {
            // It requests the page because it has none: a drop of its former copy is still in
            // flight.
            entry.forget(asker.node, None);
            let first = entry.holders.first().copied();
            let holder = first.filter(|_| !fetch.from_storage);
            entry.is_loading = holder.is_none();
            entry.holders.push(Holder {
                node: asker.node,
                frame: fetch.frame,
                id: fetch.id,
            });
            match holder {
                Some(holder) => {
                    let redirect = Message::Redirect(holder);
                    self.answers.push_back((asker, redirect));
                }
                None => self.loads.push_back(Load {
                    page,
                    to: asker,
                    frame: fetch.frame,
                }),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
