//! A host of the target, and the NIC between them: posted requests are executed at once.

use rackweave_base::{Qpn, Rkey};
use rackweave_verbs::scripted::{ScriptedNic, Tables};
use rackweave_verbs::{
    CompletionOpcode, CompletionStatus, Operation, PostError, QpModify, QpState, ReceiveRequest,
    WorkRequest,
};
use rackweave_wire::nvme::{Cqe, Sgl, Sqe, Status, cqe, sqe};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The address of the host's memory for the target, and its only key.
pub const ADDRESS: u64 = 0x4000_0000;
pub const KEY: Rkey = Rkey(5);
pub const BYTES: usize = 16 << 10;

/// The command that may stay pending for ever: Asynchronous Event Request (Base 5.2).
const EVENT_REQUEST: u8 = 0x0c;
/// Set in the ids of such commands and in no others, so that an id says whether a response is
/// required.
const EVENT_ID: u16 = 1 << 8;

/// A command that has no response yet.
struct Outstanding {
    id: u16,
    /// Memory of the host that the command names.
    memory: Option<(u64, u32, Rkey)>,
}

#[derive(Default)]
struct Queue {
    receives: VecDeque<ReceiveRequest>,
    outstanding: Vec<Outstanding>,
    broken: bool,
}

pub struct Host {
    memory: Vec<u8>,
    /// The target's regions and completions.
    tables: Tables,
    queues: BTreeMap<u32, Queue>,
}

impl Host {
    pub fn new() -> Self {
        Self {
            memory: (0..BYTES).map(|at| at as u8).collect(),
            tables: Tables::default(),
            queues: BTreeMap::new(),
        }
    }

    /// Sends a capsule, cut to the size of the target's buffers. False if no buffer is free.
    pub fn send(&mut self, qpn: Qpn, capsule: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(&qpn.0) else {
            return false;
        };
        let Some(request) = queue.receives.pop_front().filter(|_| !queue.broken) else {
            return false;
        };
        let mut capsule = capsule.to_vec();
        if let [opcode, _, _, id_high, ..] = &mut capsule[..] {
            let id = u16::from(*id_high) << 8 & !EVENT_ID;
            let event = if *opcode == EVENT_REQUEST {
                EVENT_ID
            } else {
                0
            };
            *id_high = ((id | event) >> 8) as u8;
        }
        let mut rest = &capsule[..];
        for &segment in request.segments() {
            let (piece, behind) = rest.split_at(rest.len().min(segment.length as usize));
            let (block, at) = self.tables.local(segment);
            block.write(at, piece);
            rest = behind;
        }
        let capsule = &capsule[..capsule.len() - rest.len()];
        let id = capsule
            .get(2..4)
            .map_or(0xffff, |id| u16::from_le_bytes([id[0], id[1]]));
        let sqe = Sqe::parse(capsule).ok().map(|(sqe, _)| sqe);
        let memory = match sqe.map(|sqe| sqe.sgl()) {
            Some(Ok(Sgl::Keyed {
                address,
                length,
                key,
                ..
            })) => Some((address, length, key)),
            _ => None,
        };
        queue.outstanding.push(Outstanding { id, memory });
        let (opcode, status) = (CompletionOpcode::Receive, CompletionStatus::Success);
        let length = capsule.len() as u32;
        self.tables
            .complete(qpn, request.id, opcode, status, length);
        true
    }

    /// The connection fails: posted requests are flushed.
    pub fn break_off(&mut self, qpn: Qpn) {
        let Some(queue) = self.queues.get_mut(&qpn.0).filter(|queue| !queue.broken) else {
            return;
        };
        queue.broken = true;
        let flushed = CompletionStatus::Flushed;
        for request in core::mem::take(&mut queue.receives) {
            let opcode = CompletionOpcode::Receive;
            self.tables.complete(qpn, request.id, opcode, flushed, 0);
        }
    }

    /// Checks that every command of a working queue has its response, except those that may stay
    /// pending.
    pub fn check_answered(&self) {
        for queue in self.queues.values().filter(|queue| !queue.broken) {
            let mut held = BTreeSet::new();
            for Outstanding { id, .. } in &queue.outstanding {
                let is_held = id & EVENT_ID != 0 && held.insert(id);
                assert!(is_held, "command {id:#x} has no answer");
            }
        }
    }

    /// The offset of an access to the host's memory, which a command of the queue must have named.
    /// `None` if there is no such memory.
    fn remote(&self, qpn: Qpn, address: u64, rkey: Rkey, len: usize) -> Option<usize> {
        let named = |(from, length, key): (u64, u32, Rkey)| {
            let offset = address.checked_sub(from);
            let inside = offset.is_some_and(|at| at + len as u64 <= u64::from(length));
            key == rkey && inside
        };
        let commands = &self.queues[&qpn.0].outstanding;
        let is_named = commands.iter().filter_map(|it| it.memory).any(named);
        assert!(is_named, "no command has named {len} bytes at {address:#x}");
        let at = usize::try_from(address.checked_sub(ADDRESS)?).ok()?;
        let end = at.checked_add(len)?;
        (rkey == KEY && end <= BYTES).then_some(at)
    }

    fn answered(&mut self, qpn: Qpn, bytes: &[u8]) {
        assert_eq!(bytes.len(), cqe::LEN);
        let cqe = Cqe::parse(bytes).expect("a response is whole");
        let queue = self.queues.get_mut(&qpn.0).expect("a queue that is there");
        let mut commands = queue.outstanding.iter();
        let is_it = |command: &Outstanding| command.id == cqe.command_id;
        // Of two with one id, the second is refused.
        let at = match cqe.status == Status::COMMAND_ID_CONFLICT {
            true => commands.rposition(is_it),
            false => commands.position(is_it),
        };
        queue
            .outstanding
            .remove(at.expect("an answer to a command"));
    }
}

impl ScriptedNic for Host {
    fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn on_create(&mut self, qpn: Qpn) {
        self.queues.insert(qpn.0, Queue::default());
    }

    fn on_modify(&mut self, qpn: Qpn, modify: QpModify) {
        if matches!(modify, QpModify::Error) {
            self.break_off(qpn);
        }
    }

    fn state(&self, qpn: Qpn) -> Option<QpState> {
        let queue = self.queues.get(&qpn.0)?;
        Some(match queue.broken {
            true => QpState::Error,
            false => QpState::ReadyToSend,
        })
    }

    fn on_destroy(&mut self, qpn: Qpn) {
        self.queues.remove(&qpn.0);
    }

    fn on_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        let opcode = match request.operation {
            Operation::Send { .. } => CompletionOpcode::Send,
            Operation::Write { .. } => CompletionOpcode::Write,
            Operation::Read { .. } => CompletionOpcode::Read,
            other => panic!("no target does that: {other:?}"),
        };
        let [segment] = request.segments() else {
            panic!("one segment: {request:?}");
        };
        let (segment, len) = (*segment, segment.length as usize);
        let mut status = CompletionStatus::Success;
        if self.queues.get(&qpn.0).is_none_or(|queue| queue.broken) {
            status = CompletionStatus::Flushed;
        } else {
            let mut bytes = vec![0; len];
            match request.operation {
                Operation::Write { address, rkey, .. } => {
                    let (block, at) = self.tables.local(segment);
                    block.read(at, &mut bytes);
                    match self.remote(qpn, address, rkey, len) {
                        Some(at) => self.memory[at..at + len].copy_from_slice(&bytes),
                        None => status = CompletionStatus::RemoteAccess,
                    }
                }
                Operation::Read { address, rkey } => match self.remote(qpn, address, rkey, len) {
                    Some(at) => {
                        let (block, to) = self.tables.local(segment);
                        block.write(to, &self.memory[at..at + len]);
                    }
                    None => status = CompletionStatus::RemoteAccess,
                },
                _ => {
                    let (block, at) = self.tables.local(segment);
                    block.read(at, &mut bytes);
                    self.answered(qpn, &bytes);
                }
            }
        }
        if request.signaled || status != CompletionStatus::Success {
            self.tables
                .complete(qpn, request.id, opcode, status, segment.length);
        }
        if status == CompletionStatus::RemoteAccess {
            self.break_off(qpn);
        }
        Ok(())
    }

    fn on_receive(&mut self, qpn: Qpn, request: ReceiveRequest) {
        let length: u32 = request
            .segments()
            .iter()
            .map(|segment| segment.length)
            .sum();
        assert!(length as usize >= sqe::LEN);
        match self.queues.get_mut(&qpn.0) {
            Some(queue) if !queue.broken => queue.receives.push_back(request),
            _ => {
                let (flushed, receive) = (CompletionStatus::Flushed, CompletionOpcode::Receive);
                self.tables.complete(qpn, request.id, receive, flushed, 0);
            }
        }
    }
}
