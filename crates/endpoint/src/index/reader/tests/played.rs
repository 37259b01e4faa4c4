//! A NIC that the tests play: READs bring their cache lines one at a time, in any order, while the
//! tree changes. What is not a READ is lost. Switches between them, if there are any, answer
//! queries: READs with rkey 0.

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
    qpn: Qpn,
    remote: Region,
    offset: usize,
    bytes: Vec<u8>,
    /// Lines that have not come.
    lines: Vec<usize>,
}

/// What the switches know: which region and offset a key leads to.
pub type Network = Box<dyn FnMut(u64) -> (Rkey, u64)>;

/// Both ends' NIC.
pub struct Played {
    /// Without one a query gets to the endpoint, where no region has its key.
    pub network: Option<Network>,

    regions: Vec<Region>,
    reads: VecDeque<Read>,
    /// By queue pair, its completion queue for what is sent.
    queues: Vec<CqId>,
    completions: VecDeque<(CqId, Completion)>,
    cqs: u32,
    pub rng: Rng,
    room: usize,
    broken: bool,
}

impl Played {
    pub fn new(seed: u64, room: usize) -> Self {
        Self {
            network: None,
            regions: Vec::new(),
            reads: VecDeque::new(),
            queues: Vec::new(),
            completions: VecDeque::new(),
            cqs: 0,
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
            self.complete(read.qpn, &read.request, CompletionStatus::Success);
        }
        true
    }

    fn complete(&mut self, qpn: Qpn, request: &WorkRequest, status: CompletionStatus) {
        let completion = Completion {
            id: request.id,
            qpn,
            status,
            opcode: CompletionOpcode::Read,
            length: request.segments()[0].length,
            immediate: None,
        };
        let queue = self.queues[qpn.0 as usize];
        self.completions.push_back((queue, completion));
    }

    /// Queue pairs that are made from now on work, whatever became of those before.
    pub fn mend(&mut self) {
        self.broken = false;
    }

    /// The peer is gone: everything under way fails.
    pub fn break_off(&mut self) {
        self.broken = true;
        for read in core::mem::take(&mut self.reads) {
            self.complete(read.qpn, &read.request, CompletionStatus::RetriesExceeded);
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
        self.cqs += 1;
        Ok(CqId(self.cqs))
    }

    fn destroy_cq(&mut self, _: CqId) -> Result<(), CqError> {
        Ok(())
    }

    fn create_qp(
        &mut self,
        _: PdId,
        send: CqId,
        _: CqId,
        _: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        self.queues.push(send);
        Ok(Qpn(self.queues.len() as u32 - 1))
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
                let region = self.regions.iter().find(|r| r.rkey == rkey).unwrap();
                (region.address + offset, rkey)
            }
            _ => (address, rkey),
        };
        let Some(remote) = self.regions.iter().find(|r| r.rkey == rkey) else {
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

    fn post_receive(&mut self, _: Qpn, _: ReceiveRequest) -> Result<(), PostError> {
        Ok(())
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        self.completions.retain(|&(of, completion)| {
            let takes = of == cq && completions.len() - before < limit;
            if takes {
                completions.push(completion);
            }
            !takes
        });
        completions.len() - before
    }
}
