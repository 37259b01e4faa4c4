//! A NIC that counts its resources.

use rackweave_base::{Block, Qpn};
use rackweave_nic::Nic;
use rackweave_verbs::{
    Access, Completion, CqError, CqId, ModifyError, PdId, PostError, QpCapabilities, QpError,
    QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs, WorkRequest,
};

/// A NIC that counts the resources in use, and may refuse from some call on.
pub struct Counting {
    pub nic: Nic,
    pub held: Held,
    /// Changes of queue pairs that are executed before one is refused.
    pub modifies_left: u32,
}

/// Resources created and not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    pub regions: i64,
    pub cqs: i64,
    pub qps: i64,
}

impl Verbs for Counting {
    fn create_pd(&mut self) -> PdId {
        self.nic.create_pd()
    }

    fn register(
        &mut self,
        pd: PdId,
        block: Block,
        access: Access,
    ) -> Result<Region, RegisterError> {
        let made = self.nic.register(pd, block, access);
        self.held.regions += i64::from(made.is_ok());
        made
    }

    fn deregister(&mut self, region: &Region) -> bool {
        let was_there = self.nic.deregister(region);
        self.held.regions -= i64::from(was_there);
        was_there
    }

    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError> {
        let made = self.nic.create_cq(capacity);
        self.held.cqs += i64::from(made.is_ok());
        made
    }

    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError> {
        let gone = self.nic.destroy_cq(cq);
        self.held.cqs -= i64::from(gone.is_ok());
        gone
    }

    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        let made = self.nic.create_qp(pd, send_cq, receive_cq, capabilities);
        self.held.qps += i64::from(made.is_ok());
        made
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        let Some(left) = self.modifies_left.checked_sub(1) else {
            return Err(ModifyError::OutOfRange {
                qpn,
                what: "the number of calls in this test",
            });
        };
        self.modifies_left = left;
        self.nic.modify_qp(qpn, modify)
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.nic.qp_state(qpn)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let gone = self.nic.destroy_qp(qpn);
        self.held.qps -= i64::from(gone.is_ok());
        gone
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        self.nic.post_send(qpn, request)
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        self.nic.post_receive(qpn, request)
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        self.nic.poll_cq(cq, limit, completions)
    }
}
