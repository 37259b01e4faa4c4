//! One queue pair: state, connection, the requester and responder halves.
//!
//! The halves share only the connection and the rate. `requester` sends work requests, `completer`
//! handles the responses, `recovery` resends; `responder` executes the peer's requests, `responses`
//! answers them.

mod completer;
mod connection;
pub(crate) mod cut_through;
mod execute;
mod held;
mod lifecycle;
mod plan;
mod queues;
mod reads;
mod recovery;
mod requester;
mod responder;
mod responses;
mod segments;
mod state;

use crate::DropReason;
use crate::congestion::RateControl;
use crate::egress::EgressQueue;
use crate::shared::{Core, Timer};
use connection::Connection;
use queues::{ReceiveQueue, SendEntry, SendQueue};
use rackweave_base::{Instant, Packet, Qpn};
use rackweave_verbs::{CqId, PdId, QpCapabilities, QpState, ReceiveRequest};
use requester::Requester;
use responder::Responder;

/// The result of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Emission {
    /// A packet has been written to the output.
    Packet,
    /// There is nothing to send until an event arrives.
    Idle,
    /// There is something to send, but no buffer for it.
    Stalled,
    /// There is a request that waits for the peer's NIC, to cut through.
    Waits,
}

/// One queue pair.
pub(crate) struct Qp {
    pub(crate) qpn: Qpn,
    /// Its index in the NIC's table.
    pub(crate) index: u32,
    pub(crate) state: QpState,
    pub(crate) pd: PdId,
    pub(crate) send_cq: CqId,
    pub(crate) receive_cq: CqId,
    pub(crate) capabilities: QpCapabilities,
    pub(crate) connection: Connection,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) rate: RateControl,
    /// Whether its packets take the cable to the switch although there is one to the peer.
    pub(crate) keeps_to_switch: bool,
    /// Whether the responder, rather than the requester, sends next.
    responder_next: bool,
}

/// Upper bound on the bytes of a queue pair whose queues have `entries` entries each.
pub(crate) fn bytes_max(entries: u32) -> usize {
    let capabilities = QpCapabilities {
        send_max: entries,
        receive_max: entries,
        segments_max: 4,
    };
    bytes(&capabilities)
}

/// Bytes of a queue pair, including those that it uses only when requests are held back.
fn bytes(capabilities: &QpCapabilities) -> usize {
    let slots = |entries: u32| entries.next_power_of_two() as usize;
    size_of::<Qp>()
        + slots(capabilities.send_max) * size_of::<SendEntry>()
        + slots(capabilities.receive_max) * size_of::<ReceiveRequest>()
        + reads::bytes_max()
        + held::bytes_max()
}

impl Qp {
    pub(crate) fn new(
        qpn: Qpn,
        index: u32,
        pd: PdId,
        (send_cq, receive_cq): (CqId, CqId),
        capabilities: QpCapabilities,
    ) -> Self {
        Self {
            qpn,
            index,
            state: QpState::Reset,
            pd,
            send_cq,
            receive_cq,
            capabilities,
            connection: Connection::none(),
            requester: Requester::new(SendQueue::new(capabilities.send_max)),
            responder: Responder::new(ReceiveQueue::new(capabilities.receive_max)),
            rate: RateControl::new(),
            keeps_to_switch: false,
            responder_next: true,
        }
    }

    /// Upper bound on the bytes of this queue pair.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.capabilities)
    }

    /// Puts the queue pair into the rings for which it has something to send. Called after every
    /// event.
    #[inline]
    pub(crate) fn wake(&self, core: &mut Core) {
        let answers = self.responder.reads_pending();
        if self.responder.notify || (self.responder.has_answer() && !answers) {
            core.egress.wake(EgressQueue::Control, self.index);
        }
        if answers || self.may_request(core) {
            core.egress.wake(EgressQueue::Bulk, self.index);
        }
    }

    /// The next control packet.
    pub(crate) fn poll_control(&mut self, core: &mut Core, out: &mut Option<Packet>) -> Emission {
        if core.cables.holds(self.responder.cable) {
            return Emission::Idle;
        }
        let emission = self.emit_control(core, out);
        if emission == Emission::Packet {
            core.cables.to = self.responder.cable;
            self.wake(core);
        }
        emission
    }

    /// The next request or READ response, if the rate allows it.
    pub(crate) fn poll_bulk(
        &mut self,
        core: &mut Core,
        now: Instant,
        out: &mut Option<Packet>,
    ) -> Emission {
        if let Some(at) = self.rate.wait_until(now) {
            core.timers.set(Timer::Pace.key(self.index), at);
            return Emission::Idle;
        }
        let mut result = Emission::Idle;
        for _ in 0..2 {
            let responder = self.responder_next;
            self.responder_next = !responder;
            if !responder {
                self.choose_cable(core);
            }
            let cable = match responder {
                true => self.responder.cable,
                false => self.requester.cable,
            };
            let emission = match responder {
                _ if core.cables.holds(cable) => Emission::Idle,
                true => self.emit_response(core, out),
                false => self.emit_request(core, now, out),
            };
            match emission {
                Emission::Packet => {
                    core.cables.to = cable;
                    self.sent_bulk(core, out, now);
                    self.wake(core);
                    return Emission::Packet;
                }
                Emission::Idle => {}
                // A stall has a timer, which a wait does not have.
                Emission::Waits if result == Emission::Stalled => {}
                Emission::Stalled | Emission::Waits => result = emission,
            }
        }
        result
    }

    #[inline]
    fn sent_bulk(&mut self, core: &Core, out: &Option<Packet>, now: Instant) {
        if let (Some(dcqcn), Some(packet)) = (core.dcqcn(), out) {
            self.rate.sent(dcqcn, packet.wire_len(), now);
        }
    }

    /// Whether packets are accepted at all.
    #[inline]
    pub(crate) fn receives(&self) -> bool {
        state::receives(self.state)
    }

    /// Handles a congestion notification: a receiver reports congestion on the path of this queue
    /// pair's data.
    pub(crate) fn handle_notification(
        &mut self,
        core: &mut Core,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Some(dcqcn) = core.config.congestion else {
            core.counters.rp_cnp_ignored += 1;
            return Err(DropReason::CnpIgnored);
        };
        core.counters.rp_cnp_handled += 1;
        self.rate.cut(&dcqcn);
        core.timers
            .set(Timer::Alpha.key(self.index), now + dcqcn.alpha_interval);
        core.timers
            .set(Timer::Raise.key(self.index), now + dcqcn.raise_interval);
        Ok(())
    }

    /// Handles a deadline that has passed.
    pub(crate) fn handle_timer(&mut self, core: &mut Core, timer: Timer, now: Instant) {
        match timer {
            Timer::Retransmit => self.handle_retransmit_timer(core, now),
            Timer::NotReady => self.requester.waiting_not_ready = false,
            Timer::Pace => {}
            Timer::Alpha | Timer::Raise => self.handle_rate_timer(core, timer, now),
        }
        self.wake(core);
    }

    fn handle_rate_timer(&mut self, core: &mut Core, timer: Timer, now: Instant) {
        let Some(dcqcn) = core.config.congestion else {
            return;
        };
        if !self.rate.is_limited() {
            return;
        }
        let interval = match timer {
            Timer::Alpha => {
                self.rate.decay(&dcqcn);
                dcqcn.alpha_interval
            }
            _ => {
                self.rate.raise_by_time(&dcqcn);
                dcqcn.raise_interval
            }
        };
        if self.rate.is_limited() {
            core.timers.set(timer.key(self.index), now + interval);
        }
    }
}
