//! The interface between endpoints and the implementations that execute their work requests.

use crate::{
    Access, Completion, ConnectionManager, CqError, CqId, Datagrams, ModifyError, PdId, PostError,
    QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError, WorkRequest,
};
use core::task::Waker;
use rackweave_base::{Block, Instant, Qpn};

/// The operations of a NIC for an endpoint.
pub trait Verbs {
    /// Creates a protection domain.
    fn create_pd(&mut self) -> PdId;

    /// Registers all of `block`. Keys are random.
    ///
    /// # Errors
    /// If the domain is unknown, the access rights contradictory, or the table full.
    fn register(&mut self, pd: PdId, block: Block, access: Access)
    -> Result<Region, RegisterError>;

    /// Removes a region; work in flight that uses it fails from now on. Returns false if it is
    /// unknown.
    fn deregister(&mut self, region: &Region) -> bool;

    /// Creates a completion queue of `capacity` entries.
    ///
    /// # Errors
    /// If the capacity is out of range or the table full.
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError>;

    /// Removes a completion queue that is not used by any queue pair.
    ///
    /// # Errors
    /// If it is unknown or in use.
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError>;

    /// Creates a queue pair in state Reset.
    ///
    /// # Errors
    /// If the protection domain or a completion queue is unknown, a size is out of range, or the
    /// table is full.
    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError>;

    /// Requests a change of state.
    ///
    /// # Errors
    /// If the queue pair is unknown, the transition illegal or an attribute out of range.
    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError>;

    /// The state of a queue pair, or `None` if it is unknown.
    fn qp_state(&self, qpn: Qpn) -> Option<QpState>;

    /// Removes a queue pair; its completions that have not been polled remain in the completion
    /// queues.
    ///
    /// # Errors
    /// If it is unknown.
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError>;

    /// A hint: responses to READs on this queue pair may refer to the region's bytes instead of
    /// copying them, where the link allows it. The owner of the connection promises that nothing
    /// changes those bytes until the response has arrived. The default has no effect.
    fn read_by_reference(&mut self, qpn: Qpn) {
        let _ = qpn;
    }

    /// Has the requests of this queue pair pass the switch, whose programs act on them, even if
    /// there is a direct cable to the peer. The default, for NICs with one cable, has no effect.
    fn keep_to_switch(&mut self, qpn: Qpn) {
        let _ = qpn;
    }

    /// Posts to the send queue.
    ///
    /// # Errors
    /// If the queue pair's state, its queue or the request does not allow the request.
    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError>;

    /// Posts to the send queue, in order, with one doorbell.
    ///
    /// # Errors
    /// As for [`Verbs::post_send`], with the number of requests that were posted before the refused
    /// one.
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

    /// Removes up to `limit` completions, oldest first, and appends them to `completions`. Returns
    /// their number.
    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize;

    /// The interface for plain datagrams, if supported.
    fn datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        None
    }

    /// The interface for connections to peers that no controller connects, if supported.
    fn connections(&mut self) -> Option<&mut dyn ConnectionManager> {
        None
    }
}

/// A machine behind a NIC that serves requests, such as an NVMe target. The thread that drives the
/// node also drives the service.
pub trait Service: Send {
    /// Advances all pending work. Returns true if anything happened.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool;

    /// The time when [`Service::poll`] is due even without a completion.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Lets a waiting thread drive the rack: an embedded rack runs on the threads that wait for it.
pub trait Progress: Send + Sync {
    /// Performs one step of the rack. Returns true if anything happened.
    fn drive(&self) -> bool;

    /// Backs off after `idle_rounds` consecutive calls of [`Progress::drive`] without progress:
    /// spins, yields or sleeps, longer each time.
    fn relax(&self, idle_rounds: u32);

    /// Says whether the calling thread drives the node from now on, and sleeps only in
    /// [`Self::sleep`]. The rack's own thread for the node then leaves it alone: two threads would
    /// both wake up for whatever happens.
    fn set_driven(&self, _is_driven: bool) {}

    /// Sleeps until something happens at the node, or `limit` has passed. For a thread that moves
    /// data for others, whose cores it must not take while it waits.
    fn sleep(&self, _limit: core::time::Duration) {
        self.relax(u32::MAX);
    }

    /// Wakes a task when driving the rack or checking again may make progress: after progress, if
    /// other threads drive the rack meanwhile; otherwise at once.
    fn wake_later(&self, waker: &Waker) {
        self.relax(0);
        waker.wake_by_ref();
    }
}

/// Gives a waiting thread access to a node.
pub trait NodeAccess: Progress {
    /// Calls `act` with the node's verbs.
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs));

    /// As [`Self::act`], but wakes no other thread: for polling, which mostly finds nothing.
    fn peek(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.act(act);
    }

    /// As [`Self::act`], but returns false at once if another thread has access.
    fn try_act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.act(act);
        true
    }

    /// The current time.
    fn now(&self) -> Instant;
}
