//! Cut-through: a request is executed at the peer's NIC in one call, without packets.
//!
//! Where both NICs are in one process and only plain forwarding lies between them, the packets of a
//! request carry nothing that the two NICs could not tell each other directly. [`Nic::cut_through`]
//! takes both queue pairs from the state before the request to the one after its acknowledgement,
//! as if its packets had passed without a loss and at once. Packets are the fallback: for requests
//! that fail or find no receive request, for those of over 1 MiB, and while anything of the queue
//! pair is still outstanding.
//!
//! While cut-through is on, a queue pair begins no request in packets as long as an earlier one is
//! outstanding; otherwise, with requests posted all the time, it would never change back.
//!
//! The caller decides whether the path is plain and undisturbed, and reaches the other NIC.

use crate::Nic;
use crate::egress::EgressQueue;
use crate::qp::cut_through::Route;

/// The result of an attempt to reach a peer's NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// It was reached.
    Reached,
    /// Another thread has it: try again soon.
    Busy,
    /// It cannot be reached: the request goes in packets.
    Unreachable,
}

/// What one call of [`Nic::cut_through`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CutThrough {
    /// Requests executed, plus one per KiB copied.
    pub work: u32,
    /// Whether requests are left that wait for the next call.
    pub waits: bool,
}

impl Nic {
    /// Allows cut-through, or stops it. It is off at first.
    #[inline]
    pub fn set_cut_through(&mut self, on: bool) {
        self.core.cuts_through = on;
    }

    /// Executes requests at the NICs of their peers, if that is on, until their work reaches
    /// `limit`. `reach` gets the number of a peer, and calls its argument with that NIC.
    pub fn cut_through(
        &mut self,
        limit: u32,
        mut reach: impl FnMut(u16, &mut dyn FnMut(&mut Nic)) -> Reach,
    ) -> CutThrough {
        let mut done = CutThrough::default();
        if !self.core.cuts_through {
            return done;
        }
        for _ in 0..self.core.egress.waiting(EgressQueue::Bulk) {
            let Some(index) = self.core.egress.next(EgressQueue::Bulk) else {
                break;
            };
            let qp = self
                .qps
                .at(index)
                .expect("queue pairs leave the rings before they go");
            let mut route = Route::Any;
            match qp.cut_through_peer() {
                None => {
                    self.core.egress.wake(EgressQueue::Bulk, index);
                    continue;
                }
                Some(_) if done.work >= limit => route = Route::Waits,
                Some(peer) => {
                    let mut act = |other: &mut Nic| {
                        route = self.cut_through_to(other, index, limit, &mut done.work);
                    };
                    match reach(peer, &mut act) {
                        Reach::Reached => {}
                        Reach::Busy => route = Route::Waits,
                        Reach::Unreachable => route = Route::Packets,
                    }
                }
            }
            done.waits |= route == Route::Waits;
            let qp = self.qps.at(index).expect("nothing destroys it meanwhile");
            qp.requester.route = route;
            qp.wake(&mut self.core);
        }
        done
    }

    /// Executes the requests of a queue pair at `other`. Returns how the next one goes.
    fn cut_through_to(&mut self, other: &mut Nic, index: u32, limit: u32, work: &mut u32) -> Route {
        loop {
            let Self { qps, core, .. } = self;
            let qp = qps.at(index).expect("nothing destroys it meanwhile");
            if qp.cut_through_peer().is_none() {
                return Route::Any;
            }
            if *work >= limit {
                return Route::Waits;
            }
            let Some(peer) = other.qps.get_mut(qp.connection.peer_qpn) else {
                return Route::Packets;
            };
            let Some(length) = qp.cut_through(core, peer, &mut other.core) else {
                return Route::Packets;
            };
            *work += 1 + (length >> 10);
            self.settle_overflows();
            other.settle_overflows();
        }
    }
}
