//! A NIC that the tests play: READs bring their cache lines one at a time, in any order, while the
//! tree changes.

use rackweave_base::{Block, Qpn, Rkey, Rng};
use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CompletionStatus, CqError, CqId, ModifyError, Operation,
    PdId, PostError, QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region,
    RegisterError, Verbs, WorkRequest,
};
use std::collections::VecDeque;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A READ under way.
struct Read {
    request: WorkRequest,
    remote: Region,
    offset: usize,
    bytes: Vec<u8>,
    /// Lines that have not come.
    lines: Vec<usize>,
}

/// Both ends' NIC.
pub struct Played {
    regions: Vec<Region>,
    reads: VecDeque<Read>,
    completions: VecDeque<Completion>,
    pub rng: Rng,
    room: usize,
    broken: bool,
}

impl Played {
    pub fn new(seed: u64, room: usize) -> Self {
        Self {
            regions: Vec::new(),
            reads: VecDeque::new(),
            completions: VecDeque::new(),
            rng: Rng::new(seed),
            room,
            broken: false,
        }
    }

    /// Lets a line of some READ come. READs end in the order in which they were posted. False if
    /// there are none.
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
            let segment = read.request.segments()[0];
            let local = self
                .regions
                .iter()
                .find(|r| r.lkey == segment.lkey)
                .unwrap();
            let offset = (segment.address - local.address) as usize;
            local.block.write(offset, &read.bytes);
            self.complete(&read.request, CompletionStatus::Success);
        }
        true
    }

    fn complete(&mut self, request: &WorkRequest, status: CompletionStatus) {
        self.completions.push_back(Completion {
            id: request.id,
            qpn: Qpn(7),
            status,
            opcode: CompletionOpcode::Read,
            length: request.segments()[0].length,
            immediate: None,
        });
    }

    /// The peer is gone: everything under way fails.
    pub fn break_off(&mut self) {
        self.broken = true;
        for read in core::mem::take(&mut self.reads) {
            self.complete(&read.request, CompletionStatus::RetriesExceeded);
        }
    }
}

impl Verbs for Played {
    fn create_pd(&mut self) -> PdId {
        PdId(0)
    }

    fn register(&mut self, pd: PdId, block: Block, _: Access) -> Result<Region, RegisterError> {
        let key = self.regions.len() as u32 + 1;
        let region = Region {
            block,
            address: u64::from(key) << 32,
            lkey: rackweave_base::Lkey(key),
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
        Ok(Qpn(7))
    }

    fn modify_qp(&mut self, _: Qpn, _: QpModify) -> Result<(), ModifyError> {
        Ok(())
    }

    fn qp_state(&self, _: Qpn) -> Option<QpState> {
        Some(QpState::ReadyToSend)
    }

    fn destroy_qp(&mut self, _: Qpn) -> Result<(), QpError> {
        Ok(())
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        if self.broken {
            self.complete(&request, CompletionStatus::Flushed);
            return Ok(());
        }
        if self.reads.len() >= self.room {
            return Err(PostError::Full(qpn));
        }
        let Operation::Read { address, rkey } = request.operation else {
            panic!("a reader posts nothing but READs");
        };
        let remote = self.regions.iter().find(|r| r.rkey == rkey).unwrap();
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
            request,
        });
        Ok(())
    }

    fn post_receive(&mut self, _: Qpn, _: ReceiveRequest) -> Result<(), PostError> {
        Ok(())
    }

    fn poll_cq(&mut self, _: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let count = limit.min(self.completions.len());
        completions.extend(self.completions.drain(..count));
        count
    }
}
