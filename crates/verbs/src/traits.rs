//! The seam between endpoints and whatever carries out their work requests.

use crate::{
    Access, Completion, CqError, CqId, Datagrams, ModifyError, PdId, PostError, QpCapabilities,
    QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError, WorkRequest,
};
use core::task::Waker;
use rackweave_base::{Block, Instant, Qpn};

/// What a NIC does for an endpoint.
pub trait Verbs {
    /// A new protection domain.
    fn create_pd(&mut self) -> PdId;

    /// Registers all of `block`. Keys are random.
    ///
    /// # Errors
    /// If the domain is unknown, the access contradictory, or the table full.
    fn register(&mut self, pd: PdId, block: Block, access: Access)
    -> Result<Region, RegisterError>;

    /// Forgets a region; work under way with it fails from now on. False if it is unknown.
    fn deregister(&mut self, region: &Region) -> bool;

    /// A completion queue of `capacity` entries.
    ///
    /// # Errors
    /// If the capacity is out of range or the table full.
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError>;

    /// Removes a completion queue that no queue pair uses.
    ///
    /// # Errors
    /// If it is unknown or in use.
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError>;

    /// A queue pair in state Reset.
    ///
    /// # Errors
    /// If a part is unknown, a size out of range, or the table full.
    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError>;

    /// Asks for a change of state.
    ///
    /// # Errors
    /// If the queue pair is unknown, the transition illegal or an attribute out of range.
    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError>;

    /// The state of a queue pair, or nothing if it is unknown.
    fn qp_state(&self, qpn: Qpn) -> Option<QpState>;

    /// Removes a queue pair; its completions not yet polled stay in the completion queues.
    ///
    /// # Errors
    /// If it is unknown.
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError>;

    /// A hint: answers to READs on this queue pair may refer to the region's bytes instead of
    /// copying them, where the link allows. The owner of the connection promises that nothing
    /// changes those bytes until the answer has arrived. Does nothing unless implemented.
    fn read_by_reference(&mut self, qpn: Qpn) {
        let _ = qpn;
    }

    /// Posts to the send queue.
    ///
    /// # Errors
    /// If the queue pair's state, its queue or the request does not allow it.
    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError>;

    /// Posts to the send queue, in order, with one doorbell.
    ///
    /// # Errors
    /// As for [`Verbs::post_send`], and how many were posted before the one that was refused.
    fn post_sends(&mut self, qpn: Qpn, requests: &[WorkRequest]) -> Result<(), (usize, PostError)> {
        for (posted, request) in requests.iter().enumerate() {
            self.post_send(qpn, *request)
                .map_err(|error| (posted, error))?;
        }
        Ok(())
    }

    /// Posts to the receive queue.
    ///
    /// # Errors
    /// As for [`Verbs::post_send`].
    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError>;

    /// Takes up to `limit` completions, oldest first, and appends them to `completions`. Returns
    /// how many.
    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize;

    /// Plain datagrams, where this sends any.
    fn datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        None
    }
}

/// A machine that lives behind a NIC and serves whoever asks it, such as an NVMe target. Whoever
/// drives the node drives it, too.
pub trait Service: Send {
    /// Does what there is to do. True if anything happened.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool;

    /// When [`Service::poll`] is due even if no completion comes.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// How one who waits helps: an embedded rack runs on the threads of those who wait for it.
pub trait Progress: Send + Sync {
    /// Drives the rack a little. True if anything happened.
    fn drive(&self) -> bool;

    /// Nothing happened for `idle_rounds` calls of [`Progress::drive`] in a row: spin, yield or
    /// sleep, ever longer.
    fn relax(&self, idle_rounds: u32);

    /// Has a task woken when it may be of use to drive the rack or to look again: when something
    /// has moved, if others drive the rack meanwhile, and else at once.
    fn wake_later(&self, waker: &Waker) {
        self.relax(0);
        waker.wake_by_ref();
    }
}

/// How one who waits reaches a node.
pub trait NodeAccess: Progress {
    /// Calls `act` with the node's verbs.
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs));

    /// The same without waking anybody up: for polling, which mostly finds nothing.
    fn peek(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.act(act);
    }

    /// The same unless somebody else is at it; then false, at once.
    fn try_act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.act(act);
        true
    }

    /// The time.
    fn now(&self) -> Instant;
}
