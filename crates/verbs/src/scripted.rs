//! A NIC for tests: it keeps regions, queue pairs and completions; the test decides the result of
//! each work request.

use crate::{
    Access, Completion, CompletionOpcode, CompletionStatus, CqError, CqId, ModifyError, PdId,
    PostError, QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError,
    Segment, Verbs, WorkRequest,
};
use rackweave_base::{Block, Lkey, Qpn, Rkey};
use std::collections::VecDeque;

/// The state of a [`ScriptedNic`].
#[derive(Debug, Default)]
pub struct Tables {
    regions: Vec<Region>,
    /// By queue pair number: the completion queue of its sends.
    queue_pairs: Vec<CqId>,
    completions: VecDeque<(CqId, Completion)>,
    cqs: u32,
}

impl Tables {
    /// The region with this remote key.
    #[must_use]
    pub fn region(&self, rkey: Rkey) -> Option<&Region> {
        self.regions.iter().find(|region| region.rkey == rkey)
    }

    /// The memory of a segment: the block and the offset in it.
    ///
    /// # Panics
    /// If no region holds all of the segment.
    #[must_use]
    pub fn local(&self, segment: Segment) -> (&Block, usize) {
        let of_key = self.regions.iter().find(|it| it.lkey == segment.lkey);
        let region = of_key.expect("a registered region");
        let at = (segment.address - region.address) as usize;
        assert!(at + segment.length as usize <= region.block.len());
        (&region.block, at)
    }

    /// Adds a completion to the queue of `qpn`.
    pub fn complete(
        &mut self,
        qpn: Qpn,
        id: u64,
        opcode: CompletionOpcode,
        status: CompletionStatus,
        length: u32,
    ) {
        let completion = Completion {
            id,
            qpn,
            status,
            opcode,
            length,
            immediate: None,
        };
        let cq = self.queue_pairs[qpn.0 as usize];
        self.completions.push_back((cq, completion));
    }
}

/// The decisions of a test. Every implementation of this trait implements [`Verbs`].
pub trait ScriptedNic {
    /// The tables, which the implementation of [`Verbs`] uses.
    fn tables(&mut self) -> &mut Tables;

    /// Executes a work request of the send queue, now or later ([`Tables::complete`]).
    ///
    /// # Errors
    /// As the test decides.
    fn on_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError>;

    /// Called with a receive request.
    fn on_receive(&mut self, qpn: Qpn, request: ReceiveRequest) {
        let _ = (qpn, request);
    }

    /// Called after a queue pair was created.
    fn on_create(&mut self, qpn: Qpn) {
        let _ = qpn;
    }

    /// Called when a queue pair is to be modified.
    fn on_modify(&mut self, qpn: Qpn, modify: QpModify) {
        let _ = (qpn, modify);
    }

    /// Called after a queue pair was destroyed.
    fn on_destroy(&mut self, qpn: Qpn) {
        let _ = qpn;
    }

    /// The state of a queue pair.
    fn state(&self, qpn: Qpn) -> Option<QpState> {
        let _ = qpn;
        Some(QpState::ReadyToSend)
    }
}

impl<N: ScriptedNic> Verbs for N {
    fn create_pd(&mut self) -> PdId {
        PdId(0)
    }

    fn register(&mut self, pd: PdId, block: Block, _: Access) -> Result<Region, RegisterError> {
        let regions = &mut self.tables().regions;
        let key = regions.len() as u32 + 1;
        let region = Region {
            block,
            address: u64::from(key) << 32,
            lkey: Lkey(key),
            rkey: Rkey(key),
            pd,
        };
        regions.push(region.clone());
        Ok(region)
    }

    fn deregister(&mut self, _: &Region) -> bool {
        true
    }

    fn create_cq(&mut self, _: u32) -> Result<CqId, CqError> {
        let tables = self.tables();
        tables.cqs += 1;
        Ok(CqId(tables.cqs))
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
        let queue_pairs = &mut self.tables().queue_pairs;
        let qpn = Qpn(queue_pairs.len() as u32);
        queue_pairs.push(send);
        self.on_create(qpn);
        Ok(qpn)
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        self.on_modify(qpn, modify);
        Ok(())
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.state(qpn)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        self.on_destroy(qpn);
        Ok(())
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        self.on_send(qpn, request)
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        self.on_receive(qpn, request);
        Ok(())
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        self.tables().completions.retain(|&(of, completion)| {
            let takes = of == cq && completions.len() - before < limit;
            if takes {
                completions.push(completion);
            }
            !takes
        });
        completions.len() - before
    }
}
