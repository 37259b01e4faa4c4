//! Changes of state, and posting.

use super::queues::SendEntry;
use super::reads::READS_MAX;
use super::responder::{Responder, not_ready_wait_max};
use super::{Connection, Qp, ReceiveQueue, Requester, SendQueue, segments, state};
use crate::congestion::RateControl;
use crate::shared::Core;
use rackweave_base::Duration;
use rackweave_verbs::{
    Completion, CompletionOpcode, CompletionStatus, ModifyError, Operation, PostError, QpModify,
    QpState, ReceiveRequest, ReceiveSide, SendSide, WorkRequest,
};

/// The longest message (specification 1.4, 9.7.1).
const MESSAGE_MAX: u64 = super::responder::MESSAGE_MAX as u64;

/// Retry counts are 3 bits.
const RETRIES_MAX: u8 = 7;

/// The longest acknowledgement timeout: 4.096 µs times 2^31 (specification 1.4, 9.9.2.1).
const TIMEOUT_MAX: Duration = Duration::from_nanos(4096 << 31);

impl Qp {
    /// Performs a transition requested by the owner.
    pub(crate) fn modify(&mut self, core: &mut Core, modify: QpModify) -> Result<(), ModifyError> {
        let (qpn, state) = (self.qpn, self.state);
        let next = state::next(state, &modify).ok_or(ModifyError::Illegal { qpn, state })?;
        match &modify {
            QpModify::Reset => self.reset(core),
            QpModify::ReadyToReceive(side) => {
                check_receive_side(side).map_err(|what| ModifyError::OutOfRange { qpn, what })?;
                self.connection = Connection::with_peer(&core.config, qpn, &side.peer, side.mtu);
                self.responder.begin(side);
            }
            QpModify::ReadyToSend(side) => {
                check_send_side(side).map_err(|what| ModifyError::OutOfRange { qpn, what })?;
                let queue = SendQueue::new(self.capabilities.send_max);
                self.requester = Requester::with_side(queue, *side);
            }
            QpModify::Drain => self.requester.draining = true,
            QpModify::Resume => self.requester.draining = false,
            QpModify::Init => {}
            QpModify::Error => self.enter_error(core),
        }
        self.state = next;
        self.report_if_drained(core);
        self.wake(core);
        Ok(())
    }

    /// Resets everything except the queues' sizes and the mode of READ responses.
    fn reset(&mut self, core: &mut Core) {
        core.cancel_timers(self.index);
        core.egress.remove(self.index);
        core.forget_events(self.qpn);
        let by_reference = self.responder.by_reference;
        self.requester = Requester::new(SendQueue::new(self.capabilities.send_max));
        self.responder = Responder::new(ReceiveQueue::new(self.capabilities.receive_max));
        self.responder.by_reference = by_reference;
        self.connection = Connection::none();
        self.rate = RateControl::new();
    }

    /// Enters the Error state at once: all work is flushed, and nothing more is sent.
    pub(crate) fn enter_error(&mut self, core: &mut Core) {
        self.responder.silence();
        self.enter_error_answering(core);
    }

    /// Enters the Error state because of a request of the peer: all work is flushed, but pending
    /// responses to the peer are still sent, the NAK last.
    pub(super) fn enter_error_answering(&mut self, core: &mut Core) {
        if matches!(self.state, QpState::Error | QpState::Reset) {
            return;
        }
        self.state = QpState::Error;
        self.responder.held.clear();
        core.cancel_timers(self.index);
        while !self.requester.queue.is_empty() {
            self.retire(core, CompletionStatus::Flushed);
        }
        self.requester.queue.clear();
        self.requester.broken = None;
        self.requester.timer_runs = false;
        self.requester.waiting_not_ready = false;
        while let Some(receive) = self.responder.receives.pop() {
            self.flush_receive(core, &receive);
        }
    }

    fn flush_receive(&self, core: &mut Core, receive: &ReceiveRequest) {
        let completion = Completion {
            id: receive.id,
            qpn: self.qpn,
            status: CompletionStatus::Flushed,
            opcode: CompletionOpcode::Receive,
            length: 0,
            immediate: None,
        };
        core.complete_receive(self.receive_cq, completion);
    }

    /// Posts a request to the send queue.
    pub(crate) fn post_send(
        &mut self,
        core: &mut Core,
        request: WorkRequest,
    ) -> Result<(), PostError> {
        let (qpn, state) = (self.qpn, self.state);
        if matches!(
            state,
            QpState::Reset | QpState::Init | QpState::ReadyToReceive
        ) {
            return Err(PostError::BadState { qpn, state });
        }
        let segments_max = self.capabilities.segments_max;
        if request.segments().len() > segments_max as usize {
            return Err(PostError::Invalid {
                qpn,
                what: "more segments than it was made for",
            });
        }
        let length = segments::total(request.segments(), MESSAGE_MAX)
            .map_err(|len| PostError::TooLong { qpn, len })?;
        if let Operation::FetchAdd { address, .. } | Operation::CompareSwap { address, .. } =
            request.operation
        {
            if !address.is_multiple_of(8) {
                let what = "an atomic's address must be a multiple of eight";
                return Err(PostError::Invalid { qpn, what });
            }
            if length != 8 {
                let what = "an atomic needs exactly eight local bytes";
                return Err(PostError::Invalid { qpn, what });
            }
        }
        let entry = SendEntry::new(request, length);
        if !self.requester.queue.push(entry) {
            return Err(PostError::Full(qpn));
        }
        if state == QpState::Error {
            self.retire(core, CompletionStatus::Flushed);
            self.requester.queue.clear();
        }
        self.wake(core);
        Ok(())
    }

    /// Posts a request to the receive queue.
    pub(crate) fn post_receive(
        &mut self,
        core: &mut Core,
        request: ReceiveRequest,
    ) -> Result<(), PostError> {
        let (qpn, state) = (self.qpn, self.state);
        if state == QpState::Reset {
            return Err(PostError::BadState { qpn, state });
        }
        if request.segments().len() > self.capabilities.segments_max as usize {
            return Err(PostError::Invalid {
                qpn,
                what: "more segments than it was made for",
            });
        }
        segments::total(request.segments(), MESSAGE_MAX)
            .map_err(|len| PostError::TooLong { qpn, len })?;
        if state == QpState::Error {
            self.flush_receive(core, &request);
            return Ok(());
        }
        match self.responder.receives.push(request) {
            true => Ok(()),
            false => Err(PostError::Full(qpn)),
        }
    }
}

fn check_receive_side(side: &ReceiveSide) -> Result<(), &'static str> {
    if side.peer.qpn.0 >> 24 != 0 {
        return Err("the peer's queue pair number, 24 bits,");
    }
    if side.reads_in_flight_max == 0 || side.reads_in_flight_max > READS_MAX {
        return Err("reads_in_flight_max, 1 to 16,");
    }
    if side.rnr_wait > not_ready_wait_max() {
        return Err("rnr_wait, at most 655.36 ms,");
    }
    Ok(())
}

fn check_send_side(side: &SendSide) -> Result<(), &'static str> {
    if side.retries > RETRIES_MAX {
        return Err("retries, 0 to 7,");
    }
    if side.rnr_retries > RETRIES_MAX {
        return Err("rnr_retries, 0 to 7,");
    }
    if side.reads_in_flight_max == 0 || side.reads_in_flight_max > READS_MAX {
        return Err("reads_in_flight_max, 1 to 16,");
    }
    if side.timeout > TIMEOUT_MAX {
        return Err("timeout, at most 2.4 hours,");
    }
    Ok(())
}
