//! A request's pass: a READ that the switch answers itself.
//!
//! The stages decide in this order: Is it the channel's next request? Is the page indexed? Which
//! node has the latch (`holder`), and what follows for the version (`latch`)? Where is the page
//! (`place`)? Is there a lane to move it on (`sources`)? In every case the response leaves in the
//! same pass; it is kept, so that a repeated request is answered again without further effect.

use super::movement::{From, Work};
use super::registers::{BUSY, DOUBTED, KEEP, MOVES_AT, NAK_SENT, PSN};
use super::{Digests, PageTask, Pages, SlotEntry, Tasks, sources};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_switch::DropReason;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{Engine, emit};
use rackweave_wire::fabric::page::request::RESPONSE_LEN;
use rackweave_wire::fabric::page::{LatchWord, Operation, PageLocation, Request, Response, Status};
use rackweave_wire::{Extension, Headers, NakCode, Opcode, Verdict, icrc};

/// How a request's PSN compares to the expected one.
enum Order {
    Next,
    Again,
    Early { expected: Psn, nak_sent: bool },
}

/// A request that is neither late nor early.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub slot: u16,
    pub psn: Psn,
    pub lanes: SlotEntry,
    pub request: Request,
}

/// The result of a request's pass.
struct Taken {
    status: Status,
    granted: bool,
    latch: LatchWord,
    work: Option<Work>,
    /// Number of moves of the page's place, if data moves from there.
    moves: u32,
}

impl Taken {
    const fn plain(status: Status, latch: LatchWord) -> Self {
        Self {
            status,
            granted: false,
            latch,
            work: None,
            moves: 0,
        }
    }
}

impl Pages {
    pub(super) fn request<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, number): (PortId, u16),
        headers: &Headers,
        packet: &Packet,
    ) {
        let at = usize::from(number);
        let Some(&channel) = self.channels.lookup(at) else {
            return pass.drop(port, DropReason::UnknownQp, packet);
        };
        let Some(&lane) = engine.lane(channel.lane) else {
            return pass.drop(port, DropReason::UnknownQp, packet);
        };
        let (config, memory) = (engine.config(), engine.memory());
        if config.check && icrc::verify(packet, memory) != Verdict::Right {
            return pass.drop(port, DropReason::BadCheck, packet);
        }
        let psn = headers.bth.psn;
        let (Opcode::ReadRequest, Extension::Reth(reth)) = (headers.bth.opcode, headers.extension)
        else {
            return pass.drop(port, DropReason::UnexpectedOpcode, packet);
        };
        let order = self.order(pass, at, psn);
        let messages = |psn: Psn| psn.distance_from(channel.first).wrapping_add(1);
        if let Order::Early { expected, nak_sent } = order {
            if nak_sent {
                return pass.drop(port, DropReason::StaleFragment, packet);
            }
            let answer = (expected, messages(expected).wrapping_sub(1));
            let code = NakCode::SequenceError;
            let refusal = emit::refuse(config, memory, &lane, answer, code);
            return pass.forward(lane.port, refusal);
        }
        let request = Request::parse(reth.address, reth.rkey.0);
        let request = request.filter(|request| {
            reth.length == RESPONSE_LEN && u16::from(request.slot) < channel.slots
        });
        let slot = request.map_or(0, |request| channel.first_slot + u16::from(request.slot));
        let lanes = self.slots.lookup(usize::from(slot)).copied();
        let (Some(request), Some(lanes)) = (request, lanes) else {
            let answer = (psn, messages(psn));
            let code = NakCode::InvalidRequest;
            let refusal = emit::refuse(config, memory, &lane, answer, code);
            return pass.forward(lane.port, refusal);
        };
        let asked = Asked {
            slot,
            psn,
            lanes,
            request,
        };
        let taken = match order {
            Order::Next => self.take(pass, &asked, psn),
            _ => match self.taken_before(pass, slot, psn) {
                Some(taken) => {
                    self.counters.repeated += 1;
                    taken
                }
                // The slot was in use when this request arrived first; any other answer has been
                // received if the slot is in use again.
                None => Taken::plain(Status::Busy, LatchWord::default()),
            },
        };
        let response = Response {
            status: taken.status,
            granted: taken.granted,
            command: command(psn),
            latch: taken.latch,
        };
        let answer = (psn, messages(psn));
        let bytes = response.emit();
        let answer = emit::read_response(config, memory, &lane, answer, &bytes);
        if let Some(work) = taken.work {
            work.recirculate(pass);
        }
        pass.forward(lane.port, answer);
    }

    /// Whether a request is the channel's next.
    fn order<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        channel: usize,
        psn: Psn,
    ) -> Order {
        let expected = &mut self.registers.expected;
        expected.update(&mut pass.cursor, channel, |expected| {
            let next = Psn::new(*expected & PSN);
            if psn == next {
                *expected = next.add(1).get();
                return Order::Next;
            }
            if next.distance_from(psn) < 1 << 23 {
                return Order::Again;
            }
            let nak_sent = *expected & NAK_SENT != 0;
            *expected |= NAK_SENT;
            Order::Early {
                expected: next,
                nak_sent,
            }
        })
    }

    /// The response to a repeated request, if it is the slot's last one.
    fn taken_before<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        slot: u16,
        psn: Psn,
    ) -> Option<Taken> {
        let (s, cursor) = (usize::from(slot), &mut pass.cursor);
        if self.registers.command.read(cursor, s) != psn.get() {
            return None;
        }
        let result = self.registers.result.read(cursor, s);
        let latch = self.registers.result_latch.read(cursor, s);
        let result = result & ((1 << MOVES_AT) - 1);
        let again = Response::parse(u64::from(result), latch)?;
        Some(Taken {
            granted: again.granted,
            ..Taken::plain(again.status, again.latch)
        })
    }

    /// Processes the slot's next request.
    fn take<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        psn: Psn,
    ) -> Taken {
        let s = usize::from(asked.slot);
        let Request {
            operation,
            page,
            frame,
            argument,
            ..
        } = asked.request;
        let keep = if argument == 1 { KEEP } else { 0 };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let may_move = operation.may_move();
        let is_free = registers.phase.update(cursor, s, |phase| {
            let is_free = *phase & BUSY == 0;
            if is_free && may_move {
                *phase |= BUSY;
            }
            is_free
        });
        if !is_free {
            // The movement in flight ends with the stored state of its own request.
            self.counters.slot_busy += 1;
            return Taken::plain(Status::Busy, LatchWord::default());
        }
        registers.page.write(cursor, s, page.number());
        let kind = (operation as u32) << 24 | keep | frame;
        registers.frame.write(cursor, s, kind);
        registers.command.write(cursor, s, psn.get());
        let node = self.nodes.lookup(usize::from(asked.lanes.node));
        let stored = self.stores.lookup(usize::from(page.store()));
        let exists = stored.is_some_and(|store| page.index() < store.pages);
        let is_member = node.is_some_and(|node| node.stores.has(page.store()));
        let fits = node.is_some_and(|node| frame < node.frames);
        let makes_sense = match operation {
            Operation::Aim => true,
            Operation::Quiesce => node.is_some(),
            Operation::Verify | Operation::Release | Operation::Disown | Operation::Flush => exists,
            _ => exists && fits,
        };
        let names_store = !matches!(operation, Operation::Aim | Operation::Quiesce);
        let mut taken = if !makes_sense {
            Taken::plain(Status::Invalid, LatchWord::default())
        } else if names_store && !is_member && !planted(Canary::PagesOpenToAll) {
            Taken::plain(Status::NotMember, LatchWord::default())
        } else if operation.needs_entry() {
            match self.index.lookup(page) {
                Some(entry) => self.take_indexed(pass, asked, entry),
                None => {
                    self.count(pass, page, operation);
                    Taken::plain(Status::NotIndexed, LatchWord::default())
                }
            }
        } else {
            self.take_explicit(pass, asked)
        };
        self.counters
            .count(operation, taken.status, taken.work.as_ref());
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let granted = u32::from(taken.granted) << 8;
        let result = taken.status as u32 | granted | taken.moves << MOVES_AT;
        registers.result.write(cursor, s, result);
        registers.result_latch.write(cursor, s, taken.latch.0);
        if may_move && taken.work.is_none() {
            let slot = asked.slot;
            taken.work = Some(Work::Page(PageTask::Idle { slot }));
        }
        taken
    }

    /// Processes a request about an entry of the directory.
    fn take_indexed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        entry: usize,
    ) -> Taken {
        let me = asked.lanes.node;
        let Request {
            operation,
            frame,
            argument,
            ..
        } = asked.request;
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let turn = registers
            .holder
            .update(cursor, entry, |holder| Turn::take(holder, me, operation));
        let Turn {
            is_mine, is_others, ..
        } = turn;
        let latch = registers.latch.update(cursor, entry, |latch| {
            let before = LatchWord(*latch);
            let after = match operation {
                Operation::Unfix | Operation::Own | Operation::Disown if is_mine => {
                    before.changed()
                }
                Operation::Release if is_mine => before.released(),
                _ if operation.is_exclusive() && is_mine => before.locked(),
                _ => before,
            };
            *latch = after.0;
            after
        });
        registers
            .since
            .write(cursor, usize::from(asked.slot), latch.0);
        let is_current = match operation {
            Operation::RefreshShared | Operation::RefreshExclusive => {
                argument == Request::have(latch)
            }
            _ => false,
        };
        let (place, moves) = registers.place.update(cursor, entry, |place| {
            let before = PageLocation(*place);
            let after = match operation {
                Operation::Unfix | Operation::Own if is_mine => before.moved(me, frame),
                Operation::Disown if is_mine => before.accepted(),
                Operation::Evict
                    if before.is_at(me, frame) && before.is_dirty() && !before.is_writing() =>
                {
                    before.writing()
                }
                // A request for a page that the node itself caches shows that the node has dropped
                // it.
                _ if operation.is_fix() && !is_others && !is_current => before.dropped_by(me),
                _ => before,
            };
            *place = after.0;
            (before, after.moves())
        });
        let taken = Indexed {
            turn,
            latch,
            is_current,
            place,
            moves,
        };
        let taken = self.answer_indexed(pass, asked, &taken);
        self.registers.touched.write(&mut pass.cursor, entry, 1);
        taken
    }

    /// The answer to a request about an entry of the directory, once the entry has changed.
    fn answer_indexed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        entry: &Indexed,
    ) -> Taken {
        let (me, frame) = (asked.lanes.node, asked.request.frame);
        let operation = asked.request.operation;
        let &Indexed {
            turn,
            latch,
            is_current,
            place,
            moves,
        } = entry;
        let Turn {
            is_mine,
            is_others,
            in_doubt,
        } = turn;
        let gives_back = matches!(
            operation,
            Operation::Unfix | Operation::Release | Operation::Own | Operation::Disown
        );
        let refused = Taken::plain(Status::Locked, latch);
        let done = Taken {
            granted: is_mine && !gives_back,
            ..Taken::plain(Status::Current, latch)
        };
        match operation {
            Operation::Verify => done,
            // The node has to determine that first.
            _ if in_doubt && !operation.is_fix() => refused,
            _ if gives_back && is_mine => done,
            _ if gives_back => Taken::plain(Status::NotHolder, latch),
            // The latch holder publishes the newest version, or it is lost with that node.
            Operation::Evict if place.is_lost() && latch.is_locked() => refused,
            Operation::Evict if place.is_lost() => Taken::plain(Status::Lost, latch),
            Operation::Evict if !place.is_at(me, frame) || !place.is_dirty() => {
                Taken::plain(Status::Superseded, latch)
            }
            Operation::Evict if place.is_writing() && planted(Canary::PagesOlderWriteLast) => {
                Taken::plain(Status::Superseded, latch)
            }
            Operation::Evict if place.is_writing() => Taken::plain(Status::Busy, latch),
            Operation::Evict => Taken {
                work: Some(self.storage_command(asked)),
                ..Taken::plain(Status::Moving, latch)
            },
            _ if is_others => refused,
            _ if place.is_lost() => Taken {
                status: Status::Lost,
                ..done
            },
            _ if is_current || place.is_at(me, frame) && place.is_dirty() => done,
            _ => {
                let from = match place.cached() {
                    Some((node, frame)) if node != me || place.is_dirty() => {
                        From::Frame(node, frame)
                    }
                    _ => From::Home,
                };
                let (status, work) = self.move_page(pass, asked, from);
                Taken {
                    status,
                    work,
                    moves,
                    ..done
                }
            }
        }
    }

    /// Processes a request that names places itself.
    fn take_explicit<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
    ) -> Taken {
        let (s, cursor) = (usize::from(asked.slot), &mut pass.cursor);
        let nothing = LatchWord::default();
        let operation = asked.request.operation;
        match operation {
            Operation::Aim => {
                let aim = asked.request.page.number();
                self.registers.since.write(cursor, s, aim);
                Taken::plain(Status::Current, nothing)
            }
            Operation::Quiesce => {
                let node = usize::from(asked.lanes.node);
                let ends = self
                    .registers
                    .sources
                    .update(cursor, node, sources::end_epoch);
                let status = if ends { Status::Current } else { Status::Busy };
                Taken::plain(status, nothing)
            }
            Operation::Flush => Taken {
                work: Some(self.storage_command(asked)),
                ..Taken::plain(Status::Moving, nothing)
            },
            _ => {
                let from = if operation == Operation::ReadFrame {
                    let aim = self.registers.since.read(cursor, s);
                    From::Frame((aim >> 24) as u16, aim as u32 & 0x00ff_ffff)
                } else {
                    From::Home
                };
                let (status, work) = self.move_page(pass, asked, from);
                Taken {
                    work,
                    ..Taken::plain(status, nothing)
                }
            }
        }
    }
}

/// The effect of a request's pass on an entry of the directory.
struct Indexed {
    turn: Turn,
    /// The latch after the pass.
    latch: LatchWord,
    /// The requester has this version and only needs a newer one.
    is_current: bool,
    /// The previous location of the page.
    place: PageLocation,
    /// Number of moves of its place.
    moves: u32,
}

/// The effect of a request's pass on the latch's holder.
#[derive(Clone, Copy)]
struct Turn {
    /// The requester holds the latch, or has just released it.
    is_mine: bool,
    is_others: bool,
    /// The requester holds it, and has to determine whether it has the newest version.
    in_doubt: bool,
}

impl Turn {
    /// Takes or releases the latch, if the operation does so and may.
    fn take(holder: &mut u16, me: u16, operation: Operation) -> Self {
        let (before, mine) = (*holder, me + 1);
        let was_mine = before == mine;
        let turn = |is_mine| Self {
            is_mine,
            is_others: before != 0 && !is_mine,
            in_doubt: false,
        };
        if before == mine | DOUBTED {
            if matches!(operation, Operation::Own | Operation::Disown) {
                *holder = 0;
                return turn(true);
            }
            return Self {
                in_doubt: true,
                ..turn(false)
            };
        }
        if operation.is_exclusive() && before == 0 {
            *holder = mine;
            return turn(true);
        }
        let anyone = planted(Canary::PagesUnlockAnyone) && before != 0;
        let gives_back = matches!(operation, Operation::Unfix | Operation::Release);
        if gives_back && (was_mine || anyone) {
            *holder = 0;
            return turn(true);
        }
        turn(was_mine && !matches!(operation, Operation::Own | Operation::Disown))
    }
}

/// The command id of the request with this PSN: never zero.
pub(super) const fn command(psn: Psn) -> u32 {
    psn.get() | 1 << 31
}
