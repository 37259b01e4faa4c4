//! The path of a command through the target: buffer, data, backend, answer.
//!
//! A read is a request to the backend, then a WRITE of the transfer buffer and a SEND of the answer
//! on the same queue pair, so that the data arrives before the answer. A write is a READ into a
//! transfer buffer, unless its data came in the capsule, then a request to the backend and a SEND.
//! A transfer buffer is reused only when the WRITE that reads it has completed. Requests for the
//! same blocks keep their order at the backend (`namespace`).

mod response;

use super::Target;
use super::fabrics::CONNECT_BYTES;
use super::plan::{CommandPlan, DataSource, IoPlan, Keyed};
use super::queue::{QueueState, WorkId, tag, untag};
use crate::namespace::Wait;
use crate::{Io, IoDone, IoKind, RegionRange};
use rackweave_base::memory::BLOCK_ALIGNMENT;
use rackweave_verbs::{Operation, Verbs, WorkRequest};
use rackweave_wire::nvme::{Sqe, Status, sqe};
use response::status;

/// The command id reported for capsules too short to have one; hosts should not use it (Base
/// 3.3.3.1).
pub(crate) const NO_COMMAND: u16 = 0xffff;

/// The command in a slot.
pub(crate) struct Command {
    /// The command id that the host assigned.
    pub(crate) id: u16,
    plan: CommandPlan,
    buffer: Option<u32>,
    pub(crate) stage: Stage,
}

impl Command {
    /// Whether the backend accesses memory or blocks for it.
    pub(crate) fn is_read_or_written(&self) -> bool {
        let is_flush = matches!(&self.plan, CommandPlan::NoData(io) if io.kind == IoKind::Flush);
        self.stage == Stage::Backend && !is_flush
    }
}

/// What a command waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Processing; precedes all other stages.
    New,
    /// A transfer buffer.
    Buffer,
    /// Its data from the host.
    Fetch,
    /// The backend.
    Backend,
    /// The backend, which makes what was written durable.
    Force,
    /// An event of the controller.
    Held,
    /// A free response.
    Response {
        status: Status,
        result: u64,
        /// Destination of the transfer buffer, written before the answer.
        data: Option<Keyed>,
    },
}

impl Target {
    /// Handles a capsule of `len` bytes that has arrived in a slot.
    pub(crate) fn arrive(&mut self, verbs: &mut dyn Verbs, queue: usize, slot: u16, len: u32) {
        let mut bytes = [0; sqe::LEN];
        let at = self.layout.sqe_at(queue, slot);
        self.capsules.block.read(at, &mut bytes);
        let present = (len as usize).min(sqe::LEN);
        let planned = match Sqe::parse(&bytes[..present]) {
            Ok((sqe, _)) if self.queues[queue].has_command(sqe.command_id) => {
                (sqe.command_id, Err(Status::COMMAND_ID_CONFLICT.into()))
            }
            Ok((sqe, _)) => {
                let data = len as usize - sqe::LEN;
                (sqe.command_id, self.plan(queue, &sqe, data))
            }
            Err(_) => {
                self.counters.unknown += 1;
                let id = [bytes[2], bytes[3]];
                let id = (present >= 4).then(|| u16::from_le_bytes(id));
                let refusal = Status::INVALID_FIELD.permanent().into();
                (id.unwrap_or(NO_COMMAND), Err(refusal))
            }
        };
        let (id, plan) = planned;
        let (plan, refusal) = match plan {
            Ok(plan) => (plan, None),
            Err(refusal) => (CommandPlan::Answer(0), Some(refusal)),
        };
        self.queues[queue].commands[usize::from(slot)] = Some(Command {
            id,
            plan,
            buffer: None,
            stage: Stage::New,
        });
        match refusal {
            None => self.begin(verbs, queue, slot),
            Some(refusal) => self.answer(verbs, queue, slot, Err(refusal), None),
        }
    }

    fn command(&mut self, queue: usize, slot: u16) -> &mut Command {
        let command = self.queues[queue].commands[usize::from(slot)].as_mut();
        command.expect("the slot of something under way has a command")
    }

    fn begin(&mut self, verbs: &mut dyn Verbs, queue: usize, slot: u16) {
        match self.command(queue, slot).plan {
            CommandPlan::Answer(result) => self.answer(verbs, queue, slot, Ok(result), None),
            CommandPlan::Hold => self.command(queue, slot).stage = Stage::Held,
            CommandPlan::Connect(connect, DataSource::Capsule { offset }) => {
                let mut data = [0; CONNECT_BYTES as usize];
                let at = self.layout.data_at(queue, slot) + offset;
                self.capsules.block.read(at, &mut data);
                let result = self.connect(queue, connect, &data);
                self.answer(verbs, queue, slot, result, None);
            }
            CommandPlan::Write(io, DataSource::Capsule { offset }) => {
                let place = self.aligned(queue, slot, offset, io.bytes as usize);
                self.submit(queue, slot, io, Some(place));
            }
            CommandPlan::NoData(io) => self.submit(queue, slot, io, None),
            CommandPlan::Give(..)
            | CommandPlan::Read(..)
            | CommandPlan::Connect(_, DataSource::Keyed(_))
            | CommandPlan::Write(_, DataSource::Keyed(_)) => match self.turn() {
                Some(buffer) => self.use_buffer(verbs, queue, slot, buffer),
                None => {
                    self.counters.buffer_waits += 1;
                    self.command(queue, slot).stage = Stage::Buffer;
                    self.waiting.push_back((queue, slot));
                }
            },
        }
    }

    /// Takes a buffer for a new command, unless earlier ones wait.
    fn turn(&mut self) -> Option<u32> {
        if self.waiting.is_empty() {
            self.buffers.take()
        } else {
            None
        }
    }

    /// In-capsule data, moved to the start of its slot if it is unaligned.
    fn aligned(&self, queue: usize, slot: u16, offset: usize, len: usize) -> RegionRange {
        let mut place = self.layout.data(&self.capsules, queue, slot);
        if offset.is_multiple_of(BLOCK_ALIGNMENT) {
            place.offset += offset;
        } else {
            let mut bytes = vec![0; len];
            place.block.read(place.offset + offset, &mut bytes);
            place.block.write(place.offset, &bytes);
        }
        place
    }

    /// Gives buffers to waiting commands, in order.
    pub(crate) fn grant(&mut self, verbs: &mut dyn Verbs) {
        while !self.waiting.is_empty() {
            let Some(buffer) = self.buffers.take() else {
                return;
            };
            let first = self.waiting.pop_front();
            let (queue, slot) = first.expect("just seen");
            self.use_buffer(verbs, queue, slot, buffer);
        }
    }

    fn use_buffer(&mut self, verbs: &mut dyn Verbs, queue: usize, slot: u16, buffer: u32) {
        let place = self.buffers.place(buffer);
        let command = self.command(queue, slot);
        command.buffer = Some(buffer);
        match &command.plan {
            CommandPlan::Give(bytes, to) => {
                let to = *to;
                place.block.write(place.offset, &bytes[..]);
                self.answer(verbs, queue, slot, Ok(0), Some(to));
            }
            CommandPlan::Read(io, _) => {
                let io = *io;
                self.submit(queue, slot, io, Some(place));
            }
            CommandPlan::Connect(_, DataSource::Keyed(from))
            | CommandPlan::Write(_, DataSource::Keyed(from)) => {
                let from = *from;
                command.stage = Stage::Fetch;
                let read = Operation::Read {
                    address: from.address,
                    rkey: from.key,
                };
                let id = WorkId::Fetch(slot).pack(queue);
                let segment = self.buffers.segment(buffer, from.length);
                let request = WorkRequest::new(id, read, &[segment]);
                let qpn = self.queues[queue].qpn;
                if verbs.post_send(qpn, request).is_err() {
                    self.condemn(queue);
                }
            }
            _ => unreachable!("only transfers take buffers"),
        }
    }

    /// Continues a command whose data has arrived.
    pub(crate) fn fetched(&mut self, verbs: &mut dyn Verbs, queue: usize, slot: u16) {
        let command = self.command(queue, slot);
        debug_assert_eq!(command.stage, Stage::Fetch);
        let buffer = command.buffer.expect("it was fetched into one");
        match command.plan {
            CommandPlan::Connect(connect, _) => {
                let mut data = [0; CONNECT_BYTES as usize];
                let place = self.buffers.place(buffer);
                place.block.read(place.offset, &mut data);
                let result = self.connect(queue, connect, &data);
                self.answer(verbs, queue, slot, result, None);
            }
            CommandPlan::Write(io, _) => {
                let place = self.buffers.place(buffer);
                self.submit(queue, slot, io, Some(place));
            }
            _ => unreachable!("only writes and Connect fetch data"),
        }
    }

    fn submit(&mut self, queue: usize, slot: u16, io: IoPlan, buffer: Option<RegionRange>) {
        self.command(queue, slot).stage = Stage::Backend;
        let request = Io {
            tag: tag(self.queues[queue].life, queue, slot),
            kind: io.kind,
            block: io.first,
            blocks: io.count,
            buffer,
        };
        self.hand_over(io.namespace, request);
    }

    /// Passes a request to the backend, in order with conflicting ones.
    fn hand_over(&mut self, namespace: usize, io: Io) {
        match self.namespaces[namespace].hand_over(self.now, io) {
            None => {}
            Some(Wait::Room) => self.counters.backend_waits += 1,
            Some(Wait::Order) => self.counters.order_waits += 1,
        }
    }

    /// Handles a completion of the backend.
    pub(crate) fn ended(&mut self, verbs: &mut dyn Verbs, done: IoDone) {
        let (life, queue, slot) = untag(done.tag);
        if self.queues[queue].life != life {
            return;
        }
        if self.queues[queue].state != QueueState::Open {
            self.drop_command(queue, slot);
            self.settle(queue);
            return;
        }
        let command = self.command(queue, slot);
        let (io, data) = match command.plan {
            CommandPlan::Read(io, to) => (io, Some(to)),
            CommandPlan::Write(io, _) | CommandPlan::NoData(io) => (io, None),
            _ => unreachable!("only I/O commands go to a backend"),
        };
        match done.result {
            Err(error) => {
                let refusal = status(error, io.kind).into();
                self.answer(verbs, queue, slot, Err(refusal), None);
            }
            Ok(()) if io.force && command.stage == Stage::Backend => {
                command.stage = Stage::Force;
                let flush = Io {
                    tag: done.tag,
                    kind: IoKind::Flush,
                    block: 0,
                    blocks: 0,
                    buffer: None,
                };
                self.hand_over(io.namespace, flush);
            }
            Ok(()) => {
                match io.kind {
                    IoKind::Read => self.counters.bytes_read += u64::from(io.bytes),
                    IoKind::Write => self.counters.bytes_written += u64::from(io.bytes),
                    IoKind::Flush | IoKind::WriteZeroes => {}
                }
                self.answer(verbs, queue, slot, Ok(0), data);
            }
        }
    }
}
