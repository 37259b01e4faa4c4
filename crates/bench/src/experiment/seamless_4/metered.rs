//! Verbs that note what using them costs a core.

use rackweave_base::{Block, Duration, Qpn};
use rackweave_sim::CpuModel;
use rackweave_verbs::{
    Access, Completion, CqError, CqId, ModifyError, PdId, PostError, QpCapabilities, QpError,
    QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs, WorkRequest,
};

/// A node's verbs, and the time of the core that uses them: so much for each work request posted
/// and each completion taken. A look in vain costs nothing here, since the simulator has cores
/// spin.
pub struct Metered<'a> {
    verbs: &'a mut dyn Verbs,
    cpu: CpuModel,
    spent: Duration,
}

impl<'a> Metered<'a> {
    /// Nothing is spent yet.
    pub fn new(verbs: &'a mut dyn Verbs, cpu: CpuModel) -> Self {
        Self {
            verbs,
            cpu,
            spent: Duration::ZERO,
        }
    }

    /// What the core has spent.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// A completion was taken that no queue told of: a word that the switch has written.
    pub fn word_taken(&mut self) {
        self.spent += self.cpu.poll_cost;
    }
}

impl Verbs for Metered<'_> {
    fn create_pd(&mut self) -> PdId {
        self.verbs.create_pd()
    }

    fn register(
        &mut self,
        pd: PdId,
        block: Block,
        access: Access,
    ) -> Result<Region, RegisterError> {
        self.verbs.register(pd, block, access)
    }

    fn deregister(&mut self, region: &Region) -> bool {
        self.verbs.deregister(region)
    }

    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError> {
        self.verbs.create_cq(capacity)
    }

    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError> {
        self.verbs.destroy_cq(cq)
    }

    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        self.verbs.create_qp(pd, send_cq, receive_cq, capabilities)
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        self.verbs.modify_qp(qpn, modify)
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.verbs.qp_state(qpn)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        self.verbs.destroy_qp(qpn)
    }

    fn read_by_reference(&mut self, qpn: Qpn) {
        self.verbs.read_by_reference(qpn);
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        let posted = self.verbs.post_send(qpn, request);
        if posted.is_ok() {
            self.spent += self.cpu.post_cost;
        }
        posted
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        let posted = self.verbs.post_receive(qpn, request);
        if posted.is_ok() {
            self.spent += self.cpu.post_cost;
        }
        posted
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let count = self.verbs.poll_cq(cq, limit, completions);
        self.spent += self.cpu.poll_cost * count as u64;
        count
    }
}
