//! Resending after timeouts, sequence errors, lost responses, and receiver-not-ready waits
//! (InfiniBand specification 1.4, 9.7.5.1 and 9.9.2.1).

use super::{Qp, state};
use crate::shared::{Core, Timer};
use rackweave_base::Instant;
use rackweave_verbs::CompletionStatus;
use rackweave_wire::aeth;

/// A retry count that means "for ever".
const NOT_READY_FOR_EVER: u8 = 7;

/// Maximum number of times that consecutive timeouts double the timeout.
const BACKOFF_MAX: u8 = 3;

/// Why requests are resent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The peer did not receive a request.
    SequenceError = 1,
    /// A response was lost.
    ImpliedNak = 2,
    /// No answer arrived within the timeout.
    Timeout = 4,
}

impl Qp {
    /// Schedules everything from the oldest unacknowledged PSN on to be resent. This uses a retry;
    /// if none is left, the oldest request fails.
    pub(super) fn send_again(&mut self, core: &mut Core, cause: Cause, now: Instant) {
        let requester = &mut self.requester;
        if !state::sends(self.state) || requester.outstanding() == 0 {
            return;
        }
        // Packets that were in flight at the last rewind still cause answers that report the same
        // loss: each cause other than a timeout may rewind to the same PSN only once.
        if cause != Cause::Timeout && requester.recovering & cause as u8 != 0 {
            return;
        }
        match cause {
            Cause::ImpliedNak => core.counters.implied_nak_seq_err += 1,
            Cause::Timeout => {
                core.counters.local_ack_timeout_err += 1;
                requester.recovering = 0;
            }
            Cause::SequenceError => {}
        }
        if requester.retries_left == 0 {
            core.counters.retry_exceeded_err += 1;
            let head = requester.queue.head;
            return self.fail(core, head, CompletionStatus::RetriesExceeded);
        }
        requester.retries_left -= 1;
        core.counters.completer_retry_err += 1;
        requester.recovering |= cause as u8;
        requester.restart_deadline(now);
        self.cursor_to_una();
    }

    /// Starts a wait: the peer has no receive request for the oldest request.
    pub(super) fn wait_not_ready(&mut self, core: &mut Core, timer: u8, now: Instant) {
        let requester = &mut self.requester;
        if !state::sends(self.state) || requester.waiting_not_ready {
            return;
        }
        if requester.not_ready_left == 0 {
            core.counters.retry_rnr_exceeded_err += 1;
            let head = requester.queue.head;
            return self.fail(core, head, CompletionStatus::RnrRetriesExceeded);
        }
        if requester.side.rnr_retries != NOT_READY_FOR_EVER {
            requester.not_ready_left -= 1;
        }
        core.counters.completer_retry_err += 1;
        requester.waiting_not_ready = true;
        // Set again when the request is sent.
        requester.deadline = Instant::FAR_FUTURE;
        core.timers
            .set(Timer::NotReady.key(self.index), now + aeth::rnr_wait(timer));
        self.cursor_to_una();
    }

    /// Handles the expiry of the retransmission timer. The timer is set once and not moved with
    /// every packet, so it may fire early.
    pub(super) fn handle_retransmit_timer(&mut self, core: &mut Core, now: Instant) {
        let requester = &mut self.requester;
        requester.timer_runs = false;
        let nothing_to_wait_for = requester.outstanding() == 0 || requester.waiting_not_ready;
        if !state::sends(self.state) || nothing_to_wait_for {
            return;
        }
        if requester.deadline <= now {
            if requester.next == requester.una || core.cables.holds(requester.cable) {
                // The request was scheduled to be resent but has not been sent: it is paced or
                // waits for a buffer. Or its cable is unplugged.
                requester.restart_deadline(now);
            } else {
                requester.backoff = (requester.backoff + 1).min(BACKOFF_MAX);
                self.send_again(core, Cause::Timeout, now);
            }
        }
        let requester = &mut self.requester;
        if state::sends(self.state) && requester.deadline != Instant::FAR_FUTURE {
            requester.timer_runs = true;
            core.timers
                .set(Timer::Retransmit.key(self.index), requester.deadline);
        }
    }
}
