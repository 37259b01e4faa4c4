//! A request's pass: a READ that the switch answers itself.
//!
//! The stages decide in this order: Is it the channel's next request? Is the page indexed? Which
//! node has the latch (`holder`), and what follows for the version (`latch`)? Where is the page
//! (`place`)? Is there a lane to move it on (`sources`)? In every case the response leaves in the
//! same pass; it is kept, so that a repeated request is answered again without further effect.

mod indexed;

use super::movement::{From, Work};
use super::registers::{BUSY, KEEP, MOVES_AT, NAK_SENT, PSN, operation};
use super::{Digests, PageTask, Pages, SlotEntry, Tasks, sources};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_switch::DropReason;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{Engine, emit};
use rackweave_wire::fabric::page::request::RESPONSE_LEN;
use rackweave_wire::fabric::page::{LatchWord, Operation, Request, Response, Status};
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
    /// See [`Response::leased`].
    leased: bool,
}

impl Taken {
    const fn plain(status: Status, latch: LatchWord) -> Self {
        Self {
            status,
            granted: false,
            latch,
            work: None,
            moves: 0,
            leased: false,
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
            leased: taken.leased,
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
        let kind = self.registers.frame.read(cursor, s);
        if self.registers.command.read(cursor, s) != psn.get() {
            return None;
        }
        // Whether there are leases is known too late in the pass to be kept. Revoking none costs
        // little, and reading without a lease, too.
        let may_be_leased = operation(kind).is_some_and(Operation::is_exclusive);
        let result = self.registers.result.read(cursor, s);
        let latch = self.registers.result_latch.read(cursor, s);
        let result = result & ((1 << MOVES_AT) - 1);
        let again = Response::parse(u64::from(result), latch)?;
        Some(Taken {
            granted: again.granted,
            leased: may_be_leased,
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
        let size = stored.map_or(0, |store| store.page_size);
        let fits = node.is_some_and(|node| node.has(frame, size));
        let makes_sense = match operation {
            Operation::Aim => true,
            Operation::Quiesce => node.is_some(),
            Operation::Verify
            | Operation::Release
            | Operation::Disown
            | Operation::Flush
            | Operation::Revoke => exists,
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

/// The command id of the request with this PSN: never zero.
pub(super) const fn command(psn: Psn) -> u32 {
    psn.get() | 1 << 31
}
