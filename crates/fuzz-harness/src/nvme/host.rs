//! A host of the target, and the NIC between them: what is posted is carried out at once.

use rackweave_base::{Block, Lkey, Qpn, Rkey};
use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CompletionStatus, CqError, CqId, ModifyError, Operation,
    PdId, PostError, QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region,
    RegisterError, Segment, Verbs, WorkRequest,
};
use rackweave_wire::nvme::{Cqe, Sgl, Sqe, Status, cqe, sqe};
use std::collections::{BTreeMap, VecDeque};

/// Where the host's memory is for the target, and the only key of it.
pub(super) const ADDRESS: u64 = 0x4000_0000;
pub(super) const KEY: Rkey = Rkey(5);
pub(super) const BYTES: usize = 16 << 10;

/// The command that may be held for ever: Asynchronous Event Request (Base 5.2).
const EVENT_REQUEST: u8 = 0x0c;

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
    /// The ids of commands that may be held for ever.
    holdable: Vec<u16>,
    broken: bool,
}

pub(super) struct Host {
    memory: Vec<u8>,
    /// The target's.
    regions: Vec<Region>,
    queues: BTreeMap<u32, Queue>,
    completions: VecDeque<Completion>,
    last: u32,
}

impl Host {
    pub fn new() -> Self {
        Self {
            memory: (0..BYTES).map(|at| at as u8).collect(),
            regions: Vec::new(),
            queues: BTreeMap::new(),
            completions: VecDeque::new(),
            last: 0,
        }
    }

    /// Sends a capsule, as far as it fits the target's buffers. False if there is none for it.
    pub fn send(&mut self, qpn: Qpn, capsule: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(&qpn.0) else {
            return false;
        };
        let Some(request) = queue.receives.pop_front().filter(|_| !queue.broken) else {
            return false;
        };
        let mut rest = capsule;
        for &segment in request.segments() {
            let (piece, behind) = rest.split_at(rest.len().min(segment.length as usize));
            place(&self.regions, segment, |block, at| block.write(at, piece));
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
        if sqe.is_some_and(|sqe| sqe.opcode == EVENT_REQUEST) {
            queue.holdable.push(id);
        }
        let length = capsule.len() as u32;
        let opcode = CompletionOpcode::Receive;
        self.complete(request.id, qpn, CompletionStatus::Success, opcode, length);
        true
    }

    /// The connection fails: what is posted comes back.
    pub fn break_off(&mut self, qpn: Qpn) {
        let Some(queue) = self.queues.get_mut(&qpn.0).filter(|queue| !queue.broken) else {
            return;
        };
        queue.broken = true;
        let flushed = CompletionStatus::Flushed;
        for request in core::mem::take(&mut queue.receives) {
            self.complete(request.id, qpn, flushed, CompletionOpcode::Receive, 0);
        }
    }

    /// Every command of a queue that works has its response, but for those that may be held.
    pub fn check_answered(&self) {
        for queue in self.queues.values().filter(|queue| !queue.broken) {
            for Outstanding { id, .. } in &queue.outstanding {
                let left = queue.outstanding.iter().filter(|it| it.id == *id);
                let holdable = queue.holdable.iter().filter(|it| *it == id);
                assert!(left.count() <= holdable.count(), "{id} has no answer");
            }
        }
    }

    fn complete(
        &mut self,
        id: u64,
        qpn: Qpn,
        status: CompletionStatus,
        opcode: CompletionOpcode,
        length: u32,
    ) {
        self.completions.push_back(Completion {
            id,
            qpn,
            status,
            opcode,
            length,
            immediate: None,
        });
    }

    /// The place of an access to the host's memory, which a command of the queue must have named.
    /// Nothing if there is no such memory.
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

/// Acts on the place of a segment, which must lie in a region of the target.
fn place<R>(regions: &[Region], segment: Segment, act: impl FnOnce(&Block, usize) -> R) -> R {
    let region = regions.iter().find(|region| region.lkey == segment.lkey);
    let region = region.expect("a region of the target");
    let at = (segment.address - region.address) as usize;
    assert!(at + segment.length as usize <= region.block.len());
    act(&region.block, at)
}

impl Verbs for Host {
    fn create_pd(&mut self) -> PdId {
        PdId(0)
    }

    fn register(&mut self, pd: PdId, block: Block, _: Access) -> Result<Region, RegisterError> {
        let key = self.regions.len() as u32 + 1;
        let region = Region {
            block,
            address: 0,
            lkey: Lkey(key),
            rkey: Rkey(key),
            pd,
        };
        self.regions.push(region.clone());
        Ok(region)
    }

    fn deregister(&mut self, _: &Region) -> bool {
        true
    }

    fn create_cq(&mut self, _: u32) -> Result<CqId, CqError> {
        Ok(CqId(0))
    }

    fn destroy_cq(&mut self, _: CqId) -> Result<(), CqError> {
        Ok(())
    }

    fn create_qp(&mut self, _: PdId, _: CqId, _: CqId, _: QpCapabilities) -> Result<Qpn, QpError> {
        self.last += 1;
        self.queues.insert(self.last, Queue::default());
        Ok(Qpn(self.last))
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        if matches!(modify, QpModify::Error) {
            self.break_off(qpn);
        }
        Ok(())
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        let queue = self.queues.get(&qpn.0)?;
        Some(match queue.broken {
            true => QpState::Error,
            false => QpState::ReadyToSend,
        })
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        self.queues.remove(&qpn.0);
        self.completions.retain(|completion| completion.qpn != qpn);
        Ok(())
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
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
                    place(&self.regions, segment, |block, at| {
                        block.read(at, &mut bytes)
                    });
                    match self.remote(qpn, address, rkey, len) {
                        Some(at) => self.memory[at..at + len].copy_from_slice(&bytes),
                        None => status = CompletionStatus::RemoteAccess,
                    }
                }
                Operation::Read { address, rkey } => match self.remote(qpn, address, rkey, len) {
                    Some(at) => place(&self.regions, segment, |block, to| {
                        block.write(to, &self.memory[at..at + len]);
                    }),
                    None => status = CompletionStatus::RemoteAccess,
                },
                _ => {
                    place(&self.regions, segment, |block, at| {
                        block.read(at, &mut bytes)
                    });
                    self.answered(qpn, &bytes);
                }
            }
        }
        if request.signaled || status != CompletionStatus::Success {
            self.complete(request.id, qpn, status, opcode, segment.length);
        }
        if status == CompletionStatus::RemoteAccess {
            self.break_off(qpn);
        }
        Ok(())
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
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
                self.complete(request.id, qpn, flushed, receive, 0);
            }
        }
        Ok(())
    }

    fn poll_cq(&mut self, _: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let count = limit.min(self.completions.len());
        completions.extend(self.completions.drain(..count));
        count
    }
}
