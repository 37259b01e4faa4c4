//! The NVMe host's side of an I/O queue (NVMe over Fabrics 1.1; RDMA Transport 1.0).
//!
//! A queue belongs to one slot and carries one command at a time, so command id, submission queue
//! head and depth need no counting: the command id is the slot's number, and the queue is never
//! full. Data of a read arrives as the target's WRITEs, data of a write is fetched by its READs;
//! both address the data by the key in the command, which is the slot's number, and an offset from
//! zero. Here they get the address of the buffer frame and leave for the slot's node (`relay` has
//! the way back). The response capsule is acknowledged only when all data before it is in the
//! node's memory, since an acknowledgement covers everything before it.

use super::registers::{ACTIVE, BUSY, PENDING, PSN, TRIES_AT, TRIES_MAX, UNHEARD, operation};
use super::{Digests, End, PageDigest, PageTask, Pages, Tasks};
use rackweave_base::{Duration, Packet, PortId, Psn, Rkey};
use rackweave_switch::DropReason;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{Engine, Lane, LaneId, emit};
use rackweave_wire::fabric::page::request::FRAMES_MAX;
use rackweave_wire::fabric::page::{Operation, Outcome, PageId, PageSource};
use rackweave_wire::nvme::{self, BlockRange, Cqe, IoCommand, Sgl};
use rackweave_wire::{Extension, Headers, NakCode, Opcode, Reth, Syndrome, Verdict, icrc};

/// How long a target may work on one command before the controller is notified: longer than any
/// working SSD takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum packets of one command: those of the largest page at the smallest MTU, and the response.
pub(super) const REQUESTS_MAX: u32 = (1 << 20) / 256 + 1;

impl Pages {
    fn queue_key(&self, slot: u16, store: u8) -> u32 {
        self.first_key + self.queue(slot, store) as u32
    }

    /// The command capsule of the slot's request.
    fn capsule(&self, page: PageId, kind: u32, slot: u16) -> Option<[u8; nvme::sqe::LEN]> {
        let store = self.stores.lookup(usize::from(page.store()))?;
        let blocks = store.blocks_per_page;
        let range = BlockRange::new(page.index() * u64::from(blocks), blocks);
        let command = match operation(kind) {
            Some(Operation::Flush) => return Some(IoCommand::Flush.emit(slot, store.nsid).emit()),
            Some(Operation::Evict | Operation::WriteHome) => IoCommand::Write(range),
            _ => IoCommand::Read(range),
        };
        let data = Sgl::keyed(0, store.page_size, Rkey(u32::from(slot)));
        Some(command.emit(slot, store.nsid).with_data(data).emit())
    }

    /// Sends the slot's command.
    pub(super) fn command<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        slot: u16,
        store: u8,
    ) {
        let lane = self.queue_lane(engine, slot, store);
        let Some(lane) = lane else {
            let end = End::new(Outcome::StorageGone, PageSource::Storage);
            return pass.recirculate(PageTask::Complete { slot, end });
        };
        let (s, q) = (usize::from(slot), self.queue(slot, store));
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        if registers.phase.read(cursor, s) & BUSY == 0 {
            return; // the controller has ended the request
        }
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        let relay = registers.relay.update(cursor, s, |relay| {
            *relay = *relay & PSN | u32::from(store) << 24;
            Psn::new(*relay & PSN)
        });
        let base = Psn::new(registers.base.read(cursor, q));
        registers.offset.write(cursor, q, relay.distance_from(base));
        registers.acked.write(cursor, q, ACTIVE);
        registers.pending.write(cursor, q, 0);
        let psn = registers.send.update(cursor, q, |send| {
            let psn = Psn::new(*send & PSN);
            *send = psn.add(1).get() | UNHEARD;
            psn
        });
        self.send_capsule(pass, engine, (slot, store), (page, kind), (lane, psn));
    }

    /// Sends a command capsule, and arms the packet generator for it.
    fn send_capsule<T: Tasks, D: Digests>(
        &self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (slot, store): (u16, u8),
        (page, kind): (PageId, u32),
        (lane, psn): (&Lane, Psn),
    ) {
        let Some(capsule) = self.capsule(page, kind, slot) else {
            return;
        };
        let packet = emit::send(engine.config(), engine.memory(), lane, psn, &capsule);
        pass.arm(self.queue_key(slot, store), engine.config().timeout);
        pass.forward(lane.port, packet);
    }

    /// Handles a command without an answer: it is sent again, until the time limit.
    pub(super) fn queue_timeout<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        slot: u16,
        store: u8,
    ) {
        let lane = self.queue_lane(engine, slot, store);
        let Some(lane) = lane else { return };
        let (s, q) = (usize::from(slot), self.queue(slot, store));
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let page = registers.page_of(cursor, s);
        let kind = registers.frame.read(cursor, s);
        if registers.acked.read(cursor, q) & ACTIVE == 0 {
            return;
        }
        let (send, tries) = registers.send.update(cursor, q, |send| {
            let tries = *send >> TRIES_AT & TRIES_MAX;
            if tries < TRIES_MAX {
                *send += 1 << TRIES_AT;
            }
            (*send, tries)
        });
        if send & UNHEARD == 0 || tries >= engine.config().retries.min(TRIES_MAX) {
            return pass.digest(PageDigest::StorageSilent { slot, store });
        }
        let psn = Psn::new(send.wrapping_sub(1) & PSN);
        self.send_capsule(pass, engine, (slot, store), (page, kind), (lane, psn));
    }

    /// Handles a packet from an NVMe target.
    pub(super) fn target_says<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, lane, slot, store): (PortId, LaneId, u16, u8),
        headers: &Headers,
        packet: Packet,
    ) {
        let from = (port, lane, slot, store);
        match headers.bth.opcode {
            Opcode::WriteFirst
            | Opcode::WriteMiddle
            | Opcode::WriteLast
            | Opcode::WriteOnly
            | Opcode::ReadRequest => self.pass_on(pass, engine, from, headers, packet),
            _ if engine.config().check
                && icrc::verify(&packet, engine.memory()) != Verdict::Right =>
            {
                pass.drop(port, DropReason::BadCheck, &packet);
            }
            Opcode::SendOnly => self.response(pass, engine, from, headers, &packet),
            Opcode::Acknowledge => self.command_acknowledged(pass, from, headers, &packet),
            _ => pass.drop(port, DropReason::UnexpectedOpcode, &packet),
        }
    }

    /// Handles the target's acknowledgement or refusal of a command.
    fn command_acknowledged<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (port, _, slot, store): (PortId, LaneId, u16, u8),
        headers: &Headers,
        packet: &Packet,
    ) {
        let Extension::Aeth(aeth) = headers.extension else {
            return pass.drop(port, DropReason::UnexpectedOpcode, packet);
        };
        let q = self.queue(slot, store);
        let psn = headers.bth.psn;
        let is_ack = matches!(aeth.syndrome, Syndrome::Ack { .. });
        let send = &mut self.registers.send;
        let is_heard = send.update(&mut pass.cursor, q, |send| {
            let is_last = psn.add(1) == Psn::new(*send & PSN);
            let is_heard = is_ack && is_last && *send & UNHEARD != 0;
            if is_heard {
                *send &= PSN;
            }
            is_heard
        });
        let key = self.queue_key(slot, store);
        match aeth.syndrome {
            Syndrome::Ack { .. } if is_heard => pass.arm(key, PATIENCE),
            Syndrome::Nak(NakCode::SequenceError) | Syndrome::ReceiverNotReady { .. } => {
                pass.hasten(key, Duration::from_micros(20));
            }
            Syndrome::Nak(_) => pass.digest(PageDigest::StorageSilent { slot, store }),
            Syndrome::Ack { .. } => pass.drop(port, DropReason::StaleAcknowledge, packet),
        }
    }

    /// Passes a WRITE or READ of the target on to the slot's node.
    fn pass_on<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, lane, slot, store): (PortId, LaneId, u16, u8),
        headers: &Headers,
        mut packet: Packet,
    ) {
        let (s, q) = (usize::from(slot), self.queue(slot, store));
        let slots = self.slots.lookup(s);
        let Some((lanes, node, size)) = slots.and_then(|lanes| {
            let node = self.nodes.lookup(usize::from(lanes.node))?;
            let stored = self.stores.lookup(usize::from(store))?;
            Some((lanes, node, u64::from(stored.page_size)))
        }) else {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let frame = registers.frame.read(cursor, s) & (FRAMES_MAX - 1);
        let base = Psn::new(registers.base.read(cursor, q));
        let offset = registers.offset.read(cursor, q);
        let active = registers.acked.read(cursor, q) & ACTIVE != 0;
        let psn = headers.bth.psn;
        let distance = psn.distance_from(base);
        if distance >= REQUESTS_MAX || !active {
            return self.answer_late(pass, engine, (port, lane), (psn, base), &packet);
        }
        let extension = match headers.extension {
            Extension::Reth(reth) => {
                let within = reth.address.checked_add(u64::from(reth.length));
                if within.is_none_or(|end| end > size) || reth.rkey.0 != u32::from(slot) {
                    return pass.drop(port, DropReason::Malformed, &packet);
                }
                Extension::Reth(Reth {
                    address: node.frame(frame) + reth.address,
                    rkey: node.rkey,
                    length: reth.length,
                })
            }
            other => other,
        };
        let Some(relay) = engine.lane(lanes.relay) else {
            return pass.drop(port, DropReason::StaleFragment, &packet);
        };
        let psn = psn.add(offset);
        emit::relay(engine.config(), relay, headers, psn, extension, &mut packet);
        pass.forward(relay.port, packet);
    }

    /// Handles a request of a command that has ended: the acknowledgement of its response was lost.
    fn answer_late<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, lane): (PortId, LaneId),
        (psn, base): (Psn, Psn),
        packet: &Packet,
    ) {
        let is_late = base.distance_from(psn).wrapping_sub(1) < 1 << 22;
        match engine.lane(lane) {
            Some(lane) if is_late => {
                let last = Psn::new(base.get().wrapping_sub(1) & PSN);
                let (config, memory) = (engine.config(), engine.memory());
                let answer = emit::acknowledge(config, memory, lane, last, 0);
                pass.forward(lane.port, answer);
            }
            _ => pass.drop(port, DropReason::StaleFragment, packet),
        }
    }

    /// Handles a response capsule.
    fn response<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, lane, slot, store): (PortId, LaneId, u16, u8),
        headers: &Headers,
        packet: &Packet,
    ) {
        let mut bytes = [0; nvme::cqe::LEN];
        let is_whole = packet.payload.len() == bytes.len();
        if !is_whole || !packet.payload.copy_to(engine.memory(), &mut bytes) {
            return pass.drop(port, DropReason::BadWord, packet);
        }
        let Ok(response) = Cqe::parse(&bytes) else {
            return pass.drop(port, DropReason::BadWord, packet);
        };
        let (s, q) = (usize::from(slot), self.queue(slot, store));
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let kind = registers.frame.read(cursor, s);
        let base = Psn::new(registers.base.read(cursor, q));
        let offset = registers.offset.read(cursor, q);
        let acked = registers.acked.read(cursor, q);
        let psn = headers.bth.psn;
        let distance = psn.distance_from(base);
        if distance >= REQUESTS_MAX || acked & ACTIVE == 0 {
            return self.answer_late(pass, engine, (port, lane), (psn, base), packet);
        }
        if response.command_id != slot {
            return pass.drop(port, DropReason::BadWord, packet);
        }
        // A target sends the response of a write after it has all the data.
        let is_complete = is_write(kind) || acked & PSN == distance;
        let status = response.status.0;
        let pending = if is_complete {
            0
        } else {
            PENDING | u64::from(status) << 24 | u64::from(psn.get())
        };
        registers.pending.write(cursor, q, pending);
        if is_complete {
            pass.recirculate(PageTask::Finish {
                slot,
                store,
                psn,
                relay: psn.add(offset),
                status,
            });
        }
    }

    /// Ends a command: acknowledges its response to the target, and completes the slot.
    pub(super) fn finish<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (slot, store): (u16, u8),
        (psn, relay): (Psn, Psn),
        status: u16,
    ) {
        let lane = self.queue_lane(engine, slot, store);
        let Some(lane) = lane else { return };
        let (s, q) = (usize::from(slot), self.queue(slot, store));
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        registers
            .relay
            .write(cursor, s, relay.get() | u32::from(store) << 24);
        registers.base.write(cursor, q, psn.add(1).get());
        let was_active = registers.acked.write(cursor, q, 0) & ACTIVE != 0;
        pass.disarm(self.queue_key(slot, store));
        if was_active {
            let end = End::storage(status);
            pass.mirror(PageTask::Complete { slot, end });
        }
        let (config, memory) = (engine.config(), engine.memory());
        let answer = emit::acknowledge(config, memory, lane, psn, 0);
        pass.forward(lane.port, answer);
    }
}

/// Whether a request writes its page's home.
fn is_write(kind: u32) -> bool {
    matches!(
        operation(kind),
        Some(Operation::Evict | Operation::WriteHome)
    )
}
