//! What a command needs, or why it is refused: all checks before anything moves.

use super::Target;
use super::fabrics;
use crate::IoKind;
use rackweave_base::Rkey;
use rackweave_wire::nvme::fabrics::{Connect, OPCODE};
use rackweave_wire::nvme::sqe::PSDT_SGL;
use rackweave_wire::nvme::{FabricsCommand, IoCommand, NvmeError, Sgl, Sqe, Status, identify};

/// Memory of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keyed {
    pub(crate) address: u64,
    pub(crate) key: Rkey,
    pub(crate) length: u32,
}

/// Where the data that a host sends is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// In the capsule, from this offset on.
    Capsule { offset: usize },
    /// In the host's memory.
    Keyed(Keyed),
}

/// A request to a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoPlan {
    /// Its place among the namespaces.
    pub(crate) namespace: usize,
    pub(crate) kind: IoKind,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Whether what was written must be on the medium before the answer.
    pub(crate) force: bool,
    /// Bytes of data.
    pub(crate) bytes: u32,
}

/// What a command needs.
pub(crate) enum Plan {
    /// It is done; this is the result.
    Answer(u64),
    /// These bytes go to the host.
    Give(Box<[u8; identify::LEN]>, Keyed),
    /// Its data must be had first.
    Connect(Connect, Source),
    /// Blocks go to the host.
    Read(IoPlan, Keyed),
    /// Data of the host goes to blocks.
    Write(IoPlan, Source),
    /// The backend has it to do, and no data moves.
    NoData(IoPlan),
    /// It is not answered before something happens that it waits for.
    Hold,
}

/// A command that is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) result: u64,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, result: 0 }
    }
}

/// The host memory that `length` bytes go to.
pub(crate) fn sink(sqe: &Sqe, length: u32) -> Result<Keyed, Status> {
    match source(sqe, length, 0) {
        Ok(Source::Keyed(keyed)) => Ok(keyed),
        // Nothing comes back in the capsule of the command.
        Ok(Source::Capsule { .. }) | Err(Status::SGL_OFFSET) => Err(Status::SGL_TYPE),
        Err(status) => Err(status),
    }
}

/// Where `length` bytes are, of which a capsule with `present` bytes of data may have some.
pub(crate) fn source(sqe: &Sqe, length: u32, present: usize) -> Result<Source, Status> {
    let sgl = sqe.sgl().map_err(|_| Status::SGL_TYPE)?;
    if let Sgl::Keyed {
        invalidate: true, ..
    } = sgl
    {
        return Err(Status::SGL_TYPE);
    }
    if sgl.length() != length {
        return Err(Status::SGL_LENGTH);
    }
    match sgl {
        Sgl::Keyed {
            address,
            length,
            key,
            ..
        } => Ok(Source::Keyed(Keyed {
            address,
            key,
            length,
        })),
        Sgl::InCapsule { offset, length } => {
            let end = offset.checked_add(length.into());
            if end.is_none_or(|end| end > present as u64) {
                return Err(Status::SGL_OFFSET);
            }
            Ok(Source::Capsule {
                offset: offset as usize,
            })
        }
    }
}

impl Target {
    /// What the command `sqe`, with `present` bytes of data in its capsule, needs on this queue.
    pub(crate) fn plan(
        &mut self,
        queue: usize,
        sqe: &Sqe,
        present: usize,
    ) -> Result<Plan, Refusal> {
        let connected = self.queues[queue].connected;
        if sqe.opcode == OPCODE {
            self.counters.fabrics += 1;
            let command = FabricsCommand::parse(sqe).map_err(|error| match error {
                NvmeError::RecordFormat(_) => Status::CONNECT_FORMAT,
                _ => Status::INVALID_FIELD,
            })?;
            return match (command, connected) {
                (FabricsCommand::Connect(connect), None) => {
                    let length = fabrics::CONNECT_BYTES;
                    Ok(Plan::Connect(connect, source(sqe, length, present)?))
                }
                (_, None) | (FabricsCommand::Connect(_), Some(_)) => {
                    Err(Status::COMMAND_SEQUENCE.into())
                }
                (command, Some(connected)) => self.plan_fabrics(queue, connected, command),
            };
        }
        let Some(connected) = connected else {
            self.counters.unknown += 1;
            return Err(Status::COMMAND_SEQUENCE.into());
        };
        self.count(connected.queue_id, sqe.opcode);
        let controller = self.controllers.get_mut(&connected.controller);
        let controller = controller.ok_or(Status::INTERNAL)?;
        controller.traffic = true;
        if !controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE.into());
        }
        if sqe.fuse != 0 || sqe.psdt != PSDT_SGL {
            return Err(Status::INVALID_FIELD.into());
        }
        if connected.queue_id == 0 {
            self.plan_admin(queue, connected.controller, sqe)
        } else {
            Ok(self.plan_io(sqe, present)?)
        }
    }

    fn count(&mut self, queue_id: u16, opcode: u8) {
        use rackweave_wire::nvme::io;
        let counters = &mut self.counters;
        *match (queue_id, opcode) {
            (0, _) => &mut counters.admin,
            (_, io::READ) => &mut counters.reads,
            (_, io::WRITE) => &mut counters.writes,
            (_, io::FLUSH) => &mut counters.flushes,
            (_, io::WRITE_ZEROES) => &mut counters.write_zeroes,
            _ => &mut counters.unknown,
        } += 1;
    }

    /// The place of a namespace.
    pub(crate) fn namespace(&self, nsid: u32) -> Result<usize, Status> {
        let at = (nsid as usize).wrapping_sub(1);
        let known = at < self.namespaces.len();
        known.then_some(at).ok_or(Status::INVALID_NAMESPACE)
    }

    fn plan_io(&mut self, sqe: &Sqe, present: usize) -> Result<Plan, Status> {
        let command = IoCommand::parse(sqe).map_err(|_| Status::INVALID_OPCODE)?;
        let at = self.namespace(sqe.nsid)?;
        let namespace = &self.namespaces[at];
        let kind = match command {
            IoCommand::Flush => IoKind::Flush,
            IoCommand::Write(_) => IoKind::Write,
            IoCommand::Read(_) => IoKind::Read,
            IoCommand::WriteZeroes(_) => IoKind::WriteZeroes,
        };
        let mut io = IoPlan {
            namespace: at,
            kind,
            first: 0,
            count: 0,
            force: false,
            bytes: 0,
        };
        let Some(range) = command.range() else {
            return Ok(Plan::NoData(io));
        };
        io.first = range.first;
        io.count = range.count;
        io.force = range.force && kind != IoKind::Read;
        let bytes = u64::from(range.count) << namespace.shift;
        let moves_data = matches!(kind, IoKind::Read | IoKind::Write);
        if moves_data && bytes > u64::from(self.config.transfer_max) {
            return Err(Status::INVALID_FIELD);
        }
        let end = range.first.checked_add(range.count.into());
        if end.is_none_or(|end| end > namespace.blocks) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if !moves_data {
            return Ok(Plan::NoData(io));
        }
        io.bytes = bytes as u32;
        match kind {
            IoKind::Read => Ok(Plan::Read(io, sink(sqe, io.bytes)?)),
            _ => Ok(Plan::Write(io, source(sqe, io.bytes, present)?)),
        }
    }
}
