//! The fake switch's answers.

use super::movement::{Kind, Transfer};
use super::{Entry, Event, FRAMES, Model, PAGES};
use rackweave_wire::fabric::page::{LatchWord, Operation, PageId, Request, Response, Status};

impl Model {
    /// Executes a request as far as one packet can.
    pub(super) fn asked(&mut self, node: u16, request: Request) -> Response {
        // Never zero, and different for a slot's next request.
        self.commands = self.commands.wrapping_add(1).max(1);
        let mut response = Response {
            status: Status::NotIndexed,
            granted: false,
            command: self.commands,
            latch: LatchWord(0),
            leased: false,
        };
        if request.operation.needs_entry() {
            let number = request.page.number();
            let Some(mut entry) = self.entries.get(&number).copied() else {
                return response;
            };
            self.with_entry(node, request, &mut entry, &mut response);
            self.entries.insert(number, entry);
        } else {
            response.status = self.without_entry(node, request, response.command);
        }
        response
    }

    fn with_entry(
        &mut self,
        node: u16,
        request: Request,
        entry: &mut Entry,
        response: &mut Response,
    ) {
        let mine = entry.holder == Some(node);
        response.status = match request.operation {
            Operation::Verify if entry.place.is_lost() => Status::Lost,
            Operation::Verify => Status::Current,
            Operation::Unfix | Operation::Release if !mine => Status::NotHolder,
            Operation::Unfix => {
                entry.holder = None;
                entry.latch = entry.latch.changed();
                entry.place = entry.place.moved(node, request.frame);
                Status::Current
            }
            Operation::Release => {
                entry.holder = None;
                entry.latch = entry.latch.released();
                Status::Current
            }
            Operation::Evict => {
                if !entry.place.is_at(node, request.frame) || !entry.place.is_dirty() {
                    Status::Superseded
                } else if entry.place.is_writing() || self.rng.chance(self.faults.busy) {
                    Status::Busy
                } else {
                    entry.place = entry.place.writing();
                    let keep = request.argument == 1;
                    self.start(node, request, response.command, Kind::Evict { keep }, entry);
                    Status::Moving
                }
            }
            _ => self.fix(node, request, entry, response),
        };
        response.latch = entry.latch;
    }

    fn fix(
        &mut self,
        node: u16,
        request: Request,
        entry: &mut Entry,
        response: &mut Response,
    ) -> Status {
        let exclusive = request.operation.is_exclusive();
        let mine = exclusive && entry.holder == Some(node);
        if entry.holder.is_some() && !mine {
            return Status::Locked;
        }
        if !mine && self.rng.chance(self.faults.locked) {
            return Status::Locked;
        }
        if entry.place.is_lost() {
            return Status::Lost;
        }
        if exclusive {
            entry.holder = Some(node);
            entry.latch = entry.latch.locked();
            response.granted = true;
        }
        let refresh = matches!(
            request.operation,
            Operation::RefreshShared | Operation::RefreshExclusive
        );
        if refresh && request.argument == Request::have(entry.latch) {
            return Status::Current;
        }
        if self.rng.chance(self.faults.busy) {
            return Status::Busy;
        }
        if entry.place.is_at(node, request.frame) {
            entry.place = entry.place.dropped(node, request.frame);
        }
        let kind = Kind::Fix { exclusive };
        self.start(node, request, response.command, kind, entry);
        Status::Moving
    }

    fn without_entry(&mut self, node: u16, request: Request, command: u32) -> Status {
        if request.operation == Operation::Quiesce {
            let node = &mut self.nodes[node as usize];
            if node.flying[1 - node.epoch] > 0 {
                return Status::Busy;
            }
            node.epoch = 1 - node.epoch;
            return Status::Current;
        }
        if request.operation == Operation::Aim {
            let key = (node, request.slot);
            self.aims.insert(key, request.page.number());
            return Status::Current;
        }
        if request.page.index() >= PAGES || request.page.store() != super::STORE {
            return Status::Invalid;
        }
        if self.rng.chance(self.faults.busy) {
            return Status::Busy;
        }
        let kind = match request.operation {
            Operation::ReadHome => Kind::ReadHome,
            Operation::ReadFrame => Kind::ReadFrame,
            Operation::Flush => Kind::Flush,
            _ => Kind::WriteHome,
        };
        let nowhere = Entry {
            holder: None,
            latch: LatchWord(0),
            place: rackweave_wire::fabric::page::PageLocation::HOME,
        };
        if kind == Kind::ReadFrame && !self.has_aim(node, request.slot) {
            return Status::Invalid;
        }
        self.start(node, request, command, kind, &nowhere);
        Status::Moving
    }

    /// Whether the buffer frame at which a slot aims exists.
    fn has_aim(&self, node: u16, slot: u8) -> bool {
        let aim = self.aims[&(node, slot)];
        aim >> 24 < self.nodes.len() as u64 && (aim as u32 & 0xff_ffff) < FRAMES
    }

    fn start(&mut self, node: u16, request: Request, command: u32, kind: Kind, entry: &Entry) {
        let source = match kind {
            Kind::Fix { .. } => entry.place.cached(),
            Kind::ReadHome | Kind::Flush => None,
            Kind::ReadFrame => {
                let aim = self.aims[&(node, request.slot)];
                Some(((aim >> 24) as u16, aim as u32 & 0xff_ffff))
            }
            Kind::Evict { .. } | Kind::WriteHome => Some((node, request.frame)),
        };
        let page: PageId = request.page;
        let mut transfer = Transfer {
            node,
            slot: request.slot,
            command,
            page,
            frame: request.frame,
            kind,
            source,
            epoch: 0,
            asked: entry.latch,
            piece: 0,
        };
        self.take_off(&mut transfer);
        let at = self.now + self.rng.between(500, 5_000);
        self.push(at, Event::Piece(transfer));
    }
}
