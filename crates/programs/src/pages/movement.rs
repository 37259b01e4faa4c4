//! The start of a movement: a transfer out of a node's memory, or a command to its store.

use super::request::Asked;
use super::{Digests, End, PageTask, Pages, StoreEntry, Tasks, sources};
use rackweave_base::Psn;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{EngineTask, LaneId, Start};
use rackweave_wire::fabric::page::{Outcome, PageSource, Status};

/// The location of a request's data.
pub(super) enum From {
    Home,
    Frame(u16, u32),
}

/// The work that an accepted request starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A task of the directory.
    Page(PageTask),
    /// A transfer out of a node's memory.
    Transfer(Start),
}

impl Work {
    pub fn recirculate<T: Tasks, D>(self, pass: &mut Pass<'_, T, D>) {
        match self {
            Work::Page(task) => pass.mirror(task),
            Work::Transfer(start) => pass.mirror(EngineTask::Start(start)),
        }
    }
}

/// The cargo of a transfer: its slot in the low half, and its request.
pub const fn cargo(slot: u16, command: Psn) -> u32 {
    slot as u32 | command.get() << 16
}

impl Pages {
    pub(super) fn storage_command(&self, asked: &Asked) -> Work {
        Work::Page(PageTask::Command {
            slot: asked.slot,
            store: asked.request.page.store(),
        })
    }

    /// Starts the movement, if there is a lane.
    pub(super) fn move_page<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        from: From,
    ) -> (Status, Option<Work>) {
        let (node, frame) = match from {
            From::Home => return (Status::Moving, Some(self.storage_command(asked))),
            From::Frame(node, frame) => (node, frame),
        };
        let target = self.nodes.lookup(usize::from(asked.lanes.node));
        let (Some(&source), Some(&target)) = (self.nodes.lookup(usize::from(node)), target) else {
            // The node has died since the requester read the page's location.
            let (slot, end) = (
                asked.slot,
                End::new(Outcome::SourceGone, PageSource::Memory),
            );
            let work = Work::Page(PageTask::Complete { slot, end });
            return (Status::Moving, Some(work));
        };
        let stored = self.stores.lookup(usize::from(asked.request.page.store()));
        let Some(&StoreEntry {
            page_size, lanes, ..
        }) = stored.filter(|store| source.has(frame, store.page_size))
        else {
            return (Status::Invalid, None);
        };
        let cell = usize::from(node);
        let sources = &mut self.registers.sources;
        let turn = asked.psn.get();
        let taken = sources.update(&mut pass.cursor, cell, |cell| {
            sources::take(cell, turn, lanes)
        });
        let Some(bit) = taken else {
            return (Status::Busy, None);
        };
        let start = Start {
            source: LaneId(source.first_source.0 + u16::from(bit)),
            target: asked.lanes.target,
            source_address: source.frame(frame),
            source_rkey: source.rkey,
            target_address: target.frame(asked.request.frame),
            target_rkey: target.rkey,
            length: page_size,
            cookie: cargo(asked.slot, asked.psn),
            header: Some(asked.request.page.tag()),
        };
        (Status::Moving, Some(Work::Transfer(start)))
    }
}
