//! The owner of all pages: who holds which page, and what must happen before somebody else may.
//!
//! A machine without input or output of its own: requests come in, [`Task`]s come out. A page is
//! stored only (invalid), held by some nodes that only read it (shared), or by one that may change
//! it (exclusive). At most one request per page is worked on; the others wait in order.
//!
//! The *keeper* of a page is the holder whose copy may differ from what is stored; as long as there
//! is one, what is stored is not given to anybody.

mod entry;

use super::message::{Message, Place};
use entry::{Busy, Entry, Fetch, Holder, Request};
use std::collections::VecDeque;

/// Whom to answer: the connection that a request came over, its node, and its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The node.
    pub node: u16,
    /// The connection.
    pub channel: u32,
    /// The request's tag.
    pub tag: u16,
}

/// What the owner's node has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Send an answer.
    Answer {
        /// To whom.
        to: Asker,
        /// What.
        message: Message,
    },
    /// Read a page from storage, write it into a frame of the asker, send the answer; then
    /// `Directory::loaded`.
    Load {
        /// The page.
        page: u64,
        /// To whom.
        to: Asker,
        /// Into which frame.
        frame: u32,
        /// The answer.
        answer: Message,
    },
    /// Read a page from a frame and store it; then `Directory::stored`.
    Store {
        /// The page.
        page: u64,
        /// Where it lies.
        from: Place,
    },
    /// Send an order to a node; then `Directory::complied`.
    Order {
        /// The node.
        node: u16,
        /// What.
        message: Message,
    },
}

/// What nobody who keeps to the protocol says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// A message that is no request.
    #[error("a message came that is no request")]
    NoRequest,
    /// A page that does not exist.
    #[error("page {0} does not exist")]
    NoPage(u64),
    /// An end of something that had not begun.
    #[error("page {0}: something ended that had not begun")]
    NotBegun(u64),
}

/// The directory of all pages.
#[derive(Debug)]
pub struct Directory {
    entries: Vec<Entry>,
    tasks: VecDeque<Task>,
}

impl Directory {
    /// A directory of `pages` pages that are stored and held by nobody.
    pub fn new(pages: u64) -> Self {
        let entry = |_| Entry {
            version: 0,
            exclusive: false,
            keeper: None,
            holders: Vec::new(),
            busy: Busy::No,
            waiting: VecDeque::new(),
        };
        Self {
            entries: (0..pages).map(entry).collect(),
            tasks: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub fn poll_task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// A request has come.
    ///
    /// # Errors
    /// If it is none, or about a page that does not exist.
    pub fn handle_request(&mut self, asker: Asker, message: Message) -> Result<(), Breach> {
        match message {
            Message::Fetch {
                page,
                id,
                kept,
                frame,
                exclusive,
                from_home,
            } => {
                let fetch = Fetch {
                    asker,
                    id,
                    kept,
                    frame,
                    exclusive,
                    from_home,
                };
                self.admit(page, Request::Fetch(fetch))
            }
            Message::WriteBack { page, id, frame } => {
                self.admit(page, Request::WriteBack { asker, id, frame })
            }
            Message::Drop(pages) => {
                for (page, id) in pages {
                    self.entry(page)?.forget(asker.node, Some(id));
                }
                let message = Message::Done { written: false };
                self.tasks.push_back(Task::Answer { to: asker, message });
                Ok(())
            }
            _ => Err(Breach::NoRequest),
        }
    }

    /// A page lies in the frame that it was loaded for.
    ///
    /// # Errors
    /// If none was to be loaded.
    pub fn handle_loaded(&mut self, page: u64) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        if !matches!(entry.busy, Busy::Loading) {
            return Err(Breach::NotBegun(page));
        }
        entry.busy = Busy::No;
        self.go_on(page)
    }

    /// A page is stored that was to be.
    ///
    /// # Errors
    /// If none was to be.
    pub fn handle_stored(&mut self, page: u64) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let Busy::Storing { asker } = entry.busy else {
            return Err(Breach::NotBegun(page));
        };
        entry.busy = Busy::No;
        entry.forget(asker.node, None);
        let message = Message::Done { written: true };
        self.tasks.push_back(Task::Answer { to: asker, message });
        self.go_on(page)
    }

    /// A node has complied with an order: it had the page or not, changed or not.
    ///
    /// # Errors
    /// If nothing was ordered.
    pub fn handle_complied(
        &mut self,
        node: u16,
        page: u64,
        had: bool,
        was_dirty: bool,
    ) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let Busy::Recalling {
            left,
            fetch,
            source,
            has_data,
            dirty,
        } = &mut entry.busy
        else {
            return Err(Breach::NotBegun(page));
        };
        *left -= 1;
        *dirty |= was_dirty;
        *has_data |= had && *source == Some(node);
        let (fetch, left) = (*fetch, *left);
        if !had || fetch.exclusive {
            entry.forget(node, None);
        } else {
            // What was exclusive is shared now, and stays with whoever has changed it.
            entry.exclusive = false;
            entry.keeper = was_dirty.then_some(node);
        }
        if left == 0 {
            self.recalled(page)?;
        }
        Ok(())
    }

    /// All orders for a fetch have been complied with.
    fn recalled(&mut self, page: u64) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let Busy::Recalling {
            fetch,
            has_data,
            dirty,
            ..
        } = entry.busy
        else {
            return Err(Breach::NotBegun(page));
        };
        entry.busy = Busy::No;
        if has_data {
            let message = entry.grant(&fetch, fetch.exclusive && dirty, false);
            let to = fetch.asker;
            self.tasks.push_back(Task::Answer { to, message });
            self.go_on(page)
        } else {
            self.load(page, fetch)
        }
    }

    fn entry(&mut self, page: u64) -> Result<&mut Entry, Breach> {
        let at = usize::try_from(page).map_err(|_| Breach::NoPage(page))?;
        self.entries.get_mut(at).ok_or(Breach::NoPage(page))
    }

    fn admit(&mut self, page: u64, request: Request) -> Result<(), Breach> {
        self.entry(page)?.waiting.push_back(request);
        self.go_on(page)
    }

    /// Works on the requests that wait until one of them has to.
    fn go_on(&mut self, page: u64) -> Result<(), Breach> {
        loop {
            let entry = self.entry(page)?;
            if !matches!(entry.busy, Busy::No) {
                return Ok(());
            }
            match entry.waiting.pop_front() {
                None => return Ok(()),
                Some(Request::Fetch(fetch)) if fetch.exclusive => {
                    self.fetch_exclusive(page, fetch)?;
                }
                Some(Request::Fetch(fetch)) => self.fetch_shared(page, fetch)?,
                Some(Request::WriteBack { asker, id, frame }) => {
                    self.write_back(page, asker, id, frame)?;
                }
            }
        }
    }

    fn fetch_shared(&mut self, page: u64, fetch: Fetch) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        // It asks because it has none: a drop of what it had is still on its way.
        entry.forget(fetch.asker.node, None);
        let Some(&first) = entry.holders.first() else {
            return self.load(page, fetch);
        };
        if entry.exclusive {
            return self.recall(page, fetch, true);
        }
        let keeper = entry.keeper;
        if fetch.from_home && keeper.is_none() {
            return self.load(page, fetch);
        }
        let of_keeper = |holder: &&Holder| Some(holder.place.node) == keeper;
        let holder = *entry.holders.iter().find(of_keeper).unwrap_or(&first);
        let message = Message::Redirect {
            version: entry.version,
            place: holder.place,
            id: holder.id,
        };
        entry.admit(&fetch);
        let to = fetch.asker;
        self.tasks.push_back(Task::Answer { to, message });
        Ok(())
    }

    fn fetch_exclusive(&mut self, page: u64, fetch: Fetch) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let node = fetch.asker.node;
        let own = entry.holders.iter().find(|h| h.place.node == node);
        let keeps = own.is_some_and(|own| own.id == fetch.kept);
        if !keeps {
            entry.forget(node, None);
        }
        let others = entry.holders.len() - usize::from(keeps);
        if others > 0 {
            return self.recall(page, fetch, !keeps);
        }
        if !keeps {
            return self.load(page, fetch);
        }
        let message = entry.grant(&fetch, false, false);
        let to = fetch.asker;
        self.tasks.push_back(Task::Answer { to, message });
        Ok(())
    }

    /// Has all other holders give up what the fetch does not allow them, one of them writing the
    /// page into the asker's frame if it needs that.
    fn recall(&mut self, page: u64, fetch: Fetch, needs_data: bool) -> Result<(), Breach> {
        let node = fetch.asker.node;
        let entry = self.entry(page)?;
        let others = || entry.holders.iter().filter(|h| h.place.node != node);
        let keeper = others().find(|h| Some(h.place.node) == entry.keeper);
        let source = keeper.or(others().next()).map(|holder| holder.place.node);
        let source = source.filter(|_| needs_data);
        let frame = Place {
            node,
            frame: fetch.frame,
        };
        let orders: Vec<(u16, Message)> = others()
            .map(|holder| {
                let push = (source == Some(holder.place.node)).then_some(frame);
                let message = Message::Revoke {
                    page,
                    id: holder.id,
                    downgrade: !fetch.exclusive,
                    push,
                };
                (holder.place.node, message)
            })
            .collect();
        entry.busy = Busy::Recalling {
            left: orders.len() as u32,
            fetch,
            source,
            has_data: !needs_data,
            dirty: false,
        };
        let orders = orders.into_iter();
        let orders = orders.map(|(node, message)| Task::Order { node, message });
        self.tasks.extend(orders);
        Ok(())
    }

    fn load(&mut self, page: u64, fetch: Fetch) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let answer = entry.grant(&fetch, false, true);
        entry.busy = Busy::Loading;
        self.tasks.push_back(Task::Load {
            page,
            to: fetch.asker,
            frame: fetch.frame,
            answer,
        });
        Ok(())
    }

    fn write_back(&mut self, page: u64, asker: Asker, id: u64, frame: u32) -> Result<(), Breach> {
        let entry = self.entry(page)?;
        let node = asker.node;
        let is_holder = entry
            .holders
            .iter()
            .any(|h| h.place.node == node && h.id == id);
        let task = if is_holder && entry.keeper == Some(node) {
            entry.busy = Busy::Storing { asker };
            let from = Place { node, frame };
            Task::Store { page, from }
        } else {
            let message = Message::Done { written: false };
            Task::Answer { to: asker, message }
        };
        self.tasks.push_back(task);
        Ok(())
    }

    /// Whether nothing is under way and nothing waits; for tests.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        let is_idle = |entry: &Entry| matches!(entry.busy, Busy::No) && entry.waiting.is_empty();
        self.tasks.is_empty() && self.entries.iter().all(is_idle)
    }
}

#[cfg(test)]
mod tests;
