//! Verbs that note what using them costs a core, with doorbells for batches, and that hold what is
//! posted back until the core has done all of a turn.

use super::Core;
use super::tree::ENTRY_BYTES;
use rackweave_base::{Block, Duration, Qpn};
use rackweave_sim::devices;
use rackweave_verbs::{
    Access, Completion, CompletionOpcode, CqError, CqId, ModifyError, PdId, PostError,
    QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs,
    WorkRequest,
};

/// Work that a core has posted in a turn: it reaches the NIC when the turn is over.
#[derive(Debug, Default)]
pub struct Outbox(Vec<(Qpn, WorkRequest)>);

impl Outbox {
    /// The turn is over.
    ///
    /// # Errors
    /// If a queue pair does not take what was posted to it.
    pub fn flush(&mut self, verbs: &mut dyn Verbs) -> Result<(), String> {
        for (qpn, request) in self.0.drain(..) {
            let posted = verbs.post_send(qpn, request);
            posted.map_err(|error| format!("a request was not taken: {error}"))?;
        }
        Ok(())
    }
}

/// A node's verbs, and the time of the core that uses them.
///
/// A work request costs its building; those posted together share a doorbell. A completion costs
/// taking it; that of a receive also the loads of what came, that of a READ also verifying and
/// searching the tree node that came. A look in vain costs nothing, since the simulator has cores
/// spin.
pub struct Metered<'a> {
    verbs: &'a mut dyn Verbs,
    outbox: &'a mut Outbox,
    core: Core,
    spent: Duration,
}

impl<'a> Metered<'a> {
    /// Nothing is spent yet. Requests go to `outbox`.
    pub fn new(verbs: &'a mut dyn Verbs, outbox: &'a mut Outbox, core: Core) -> Self {
        Self {
            verbs,
            outbox,
            core,
            spent: Duration::ZERO,
        }
    }

    /// What the core has spent.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    fn posted(&mut self, requests: usize) {
        let cycles = devices::WORK_REQUEST_CYCLES * requests as u64 + devices::DOORBELL_CYCLES;
        self.spent += self.core.work(cycles);
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
        self.outbox.0.push((qpn, request));
        self.posted(1);
        Ok(())
    }

    fn post_sends(&mut self, qpn: Qpn, requests: &[WorkRequest]) -> Result<(), (usize, PostError)> {
        self.outbox
            .0
            .extend(requests.iter().map(|&request| (qpn, request)));
        if !requests.is_empty() {
            self.posted(requests.len());
        }
        Ok(())
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        let posted = self.verbs.post_receive(qpn, request);
        if posted.is_ok() {
            self.spent += self.core.work(devices::RECEIVE_REQUEST_CYCLES);
        }
        posted
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let count = self.verbs.poll_cq(cq, limit, completions);
        self.spent += self.core.cpu.poll_cost * count as u64;
        for completion in &completions[before..] {
            let bytes = u64::from(completion.length);
            match completion.opcode {
                CompletionOpcode::Receive => self.spent += self.core.arrived(bytes),
                // A tree node: verified and searched.
                CompletionOpcode::Read => {
                    self.spent += self.core.verified(bytes);
                    self.spent += self.core.searched(bytes / ENTRY_BYTES);
                }
                _ => {}
            }
        }
        count
    }
}
