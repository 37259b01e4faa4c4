//! A fake NIC for both ends: READs return their cache lines one at a time, in any order, while the
//! tree changes. Work requests other than READs are dropped. Fake switches, if present, answer
//! queries: READs with rkey 0.

use rackweave_base::{Qpn, Rkey, Rng};
use rackweave_verbs::scripted::{ScriptedNic, Tables};
use rackweave_verbs::{
    CompletionOpcode, CompletionStatus, Operation, PostError, Region, WorkRequest,
};
use std::collections::VecDeque;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A READ in flight.
struct Read {
    request: WorkRequest,
    qpn: Qpn,
    remote: Region,
    offset: usize,
    bytes: Vec<u8>,
    /// Lines that have not arrived.
    lines: Vec<usize>,
}

/// What the switches know: the region and offset for a key.
pub type Network = Box<dyn FnMut(u64) -> (Rkey, u64)>;

/// The NIC of both ends.
pub struct FakeNic {
    /// Without it a query reaches the endpoint, where no region has its key.
    pub network: Option<Network>,

    tables: Tables,
    reads: VecDeque<Read>,
    pub rng: Rng,
    room: usize,
    broken: bool,
}

impl FakeNic {
    pub fn new(seed: u64, room: usize) -> Self {
        Self {
            network: None,
            tables: Tables::default(),
            reads: VecDeque::new(),
            rng: Rng::new(seed),
            room,
            broken: false,
        }
    }

    /// Delivers a line of some READ. READs complete in the order in which they were posted. False
    /// if there are none.
    pub fn step(&mut self) -> bool {
        if self.reads.is_empty() {
            return false;
        }
        let at = self.rng.below(self.reads.len() as u64) as usize;
        let read = &mut self.reads[at];
        if !read.lines.is_empty() {
            let line = self.rng.below(read.lines.len() as u64) as usize;
            let from = read.lines.swap_remove(line) * LINE;
            let to = (from + LINE).min(read.bytes.len());
            let block = &read.remote.block;
            block.read(read.offset + from, &mut read.bytes[from..to]);
        }
        while self.reads.front().is_some_and(|read| read.lines.is_empty()) {
            let Some(read) = self.reads.pop_front() else {
                break;
            };
            let (local, offset) = self.tables.local(read.request.segments()[0]);
            local.write(offset, &read.bytes);
            self.complete(read.qpn, &read.request, CompletionStatus::Success);
        }
        true
    }

    fn complete(&mut self, qpn: Qpn, request: &WorkRequest, status: CompletionStatus) {
        let (opcode, length) = (CompletionOpcode::Read, request.segments()[0].length);
        self.tables
            .complete(qpn, request.id, opcode, status, length);
    }

    /// Queue pairs created from now on work, whatever happened to earlier ones.
    pub fn mend(&mut self) {
        self.broken = false;
    }

    /// The peer has failed: all pending READs fail.
    pub fn break_off(&mut self) {
        self.broken = true;
        for read in core::mem::take(&mut self.reads) {
            self.complete(read.qpn, &read.request, CompletionStatus::RetriesExceeded);
        }
    }
}

impl ScriptedNic for FakeNic {
    fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn on_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        if self.broken {
            self.complete(qpn, &request, CompletionStatus::Flushed);
            return Ok(());
        }
        if self.reads.len() >= self.room {
            return Err(PostError::Full(qpn));
        }
        let Operation::Read { address, rkey } = request.operation else {
            return Ok(());
        };
        let (address, rkey) = match &mut self.network {
            Some(network) if rkey == Rkey(0) => {
                let (rkey, offset) = network(address);
                let region = self.tables.region(rkey).unwrap();
                (region.address + offset, rkey)
            }
            _ => (address, rkey),
        };
        let Some(remote) = self.tables.region(rkey) else {
            self.complete(qpn, &request, CompletionStatus::RemoteAccess);
            self.break_off();
            return Ok(());
        };
        let (offset, len) = (address - remote.address, request.segments()[0].length);
        assert!(
            offset + u64::from(len) <= remote.block.len() as u64,
            "a READ beyond the region"
        );
        self.reads.push_back(Read {
            remote: remote.clone(),
            offset: offset as usize,
            bytes: vec![0; len as usize],
            lines: (0..(len as usize).div_ceil(LINE)).collect(),
            qpn,
            request,
        });
        Ok(())
    }
}
