//! What a command needs, or why it is refused. All checks precede any data transfer.

use super::Target;
use super::fabrics;
use crate::IoKind;
use rackweave_base::Rkey;
use rackweave_wire::nvme::fabrics::{Connect, OPCODE};
use rackweave_wire::nvme::sqe::PSDT_SGL;
use rackweave_wire::nvme::{FabricsCommand, IoCommand, NvmeError, Sgl, Sqe, Status, identify};

/// Memory of the host, with its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keyed {
    pub(crate) address: u64,
    pub(crate) key: Rkey,
    pub(crate) length: u32,
}

/// Where the data that a host sends is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataSource {
    /// In the capsule, at this offset.
    Capsule { offset: usize },
    /// In the host's memory.
    Keyed(Keyed),
}

/// A request to a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoPlan {
    /// Index of the namespace.
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
pub(crate) enum CommandPlan {
    /// It is complete, with this result.
    Answer(u64),
    /// These bytes are written to the host.
    Give(Box<[u8; identify::LEN]>, Keyed),
    /// Its data must be available first.
    Connect(Connect, DataSource),
    /// Blocks are written to the host.
    Read(IoPlan, Keyed),
    /// Data of the host is written to blocks.
    Write(IoPlan, DataSource),
    /// The backend carries it out, and no data moves.
    NoData(IoPlan),
    /// It is not answered until an event occurs.
    Hold,
}

/// A refused command.
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

/// The host memory that receives `length` bytes.
pub(crate) fn sink(sqe: &Sqe, length: u32) -> Result<Keyed, Status> {
    match source(sqe, length, 0) {
        Ok(DataSource::Keyed(keyed)) => Ok(keyed),
        // A command capsule cannot carry data back to the host.
        Ok(DataSource::Capsule { .. }) | Err(Status::SGL_OFFSET) => Err(Status::SGL_TYPE),
        Err(status) => Err(status),
    }
}

/// The location of `length` bytes, given `present` bytes of data in the capsule.
pub(crate) fn source(sqe: &Sqe, length: u32, present: usize) -> Result<DataSource, Status> {
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
        } => Ok(DataSource::Keyed(Keyed {
            address,
            key,
            length,
        })),
        Sgl::InCapsule { offset, length } => {
            let end = offset.checked_add(length.into());
            if end.is_none_or(|end| end > present as u64) {
                return Err(Status::SGL_OFFSET);
            }
            Ok(DataSource::Capsule {
                offset: offset as usize,
            })
        }
    }
}

impl Target {
    /// The plan for the command `sqe` on this queue, with `present` bytes of data in its capsule.
    pub(crate) fn plan(
        &mut self,
        queue: usize,
        sqe: &Sqe,
        present: usize,
    ) -> Result<CommandPlan, Refusal> {
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
                    Ok(CommandPlan::Connect(connect, source(sqe, length, present)?))
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

    /// The index of a namespace.
    pub(crate) fn namespace(&self, nsid: u32) -> Result<usize, Status> {
        let at = (nsid as usize).wrapping_sub(1);
        let known = at < self.namespaces.len();
        known.then_some(at).ok_or(Status::INVALID_NAMESPACE)
    }

    fn plan_io(&mut self, sqe: &Sqe, present: usize) -> Result<CommandPlan, Status> {
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
            return Ok(CommandPlan::NoData(io));
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
            return Ok(CommandPlan::NoData(io));
        }
        io.bytes = bytes as u32;
        match kind {
            IoKind::Read => Ok(CommandPlan::Read(io, sink(sqe, io.bytes)?)),
            _ => Ok(CommandPlan::Write(io, source(sqe, io.bytes, present)?)),
        }
    }
}
