//! The sending half: turns work requests into request packets.
//!
//! PSNs: `una` is the oldest that is not acknowledged, `next` is sent next, and `end` follows all
//! that were ever sent. When something must be resent, `next` goes back to `una`, and the queue's
//! cursor with it. A READ uses one PSN per response packet but is one request packet; the window
//! counts request packets.

use super::connection::{Connection, fields};
use super::cut_through::Route;
use super::plan::PacketPlan;
use super::queues::{Kind, SendEntry, SendQueue};
use super::segments::SegmentError;
use super::{Emission, Qp, state};
use crate::CableId;
use crate::shared::{Core, Timer};
use rackweave_base::{Duration, Instant, Packet, Psn};
use rackweave_verbs::{CompletionStatus, QpState, SendSide};
use rackweave_wire::PacketFields;

/// Maximum PSNs of one READ request. A longer READ is split into several requests, so that all
/// outstanding PSNs are within half of the PSN space, as their comparison requires.
const READ_PACKETS_MAX: u32 = 1 << 22;

/// The requester's state.
pub(crate) struct Requester {
    pub(crate) queue: SendQueue,
    pub(crate) una: Psn,
    pub(crate) next: Psn,
    pub(crate) end: Psn,
    /// Packets of the cursor's entry before `next`.
    pub(crate) cursor_packet: u32,
    /// Request packets in `una..next`.
    pub(crate) in_flight: u32,
    /// READ and atomic requests among them.
    pub(crate) reads_in_flight: u32,
    since_ack_request: u32,
    pub(crate) side: SendSide,
    pub(crate) retries_left: u8,
    pub(crate) not_ready_left: u8,
    /// Consecutive timeouts; each doubles the next one, up to a bound.
    pub(crate) backoff: u8,
    /// The time when the acknowledgement is overdue.
    pub(crate) deadline: Instant,
    /// Whether the retransmission timer runs. It may fire early: `deadline` decides.
    pub(crate) timer_runs: bool,
    pub(crate) waiting_not_ready: bool,
    /// The causes for which requests were resent since the last progress: bits of `Cause`.
    pub(crate) recovering: u8,
    /// The entry that cannot be sent, and the reason: it fails once it is the oldest.
    pub(crate) broken: Option<(u32, CompletionStatus)>,
    /// Whether `Drained` is still to be reported.
    pub(crate) draining: bool,
    /// The cable that its requests take.
    pub(crate) cable: CableId,
    /// Whether requests that have no PSN yet wait until nothing is outstanding, to take another
    /// cable.
    pub(crate) changes_cable: bool,
    /// How the next request that has no PSN yet reaches the peer.
    pub(crate) route: Route,
}

impl Requester {
    pub(crate) fn new(queue: SendQueue) -> Self {
        let side = SendSide {
            psn: Psn::new(0),
            timeout: Duration::ZERO,
            retries: 0,
            rnr_retries: 0,
            reads_in_flight_max: 1,
        };
        Self::with_side(queue, side)
    }

    /// A requester that starts at `side.psn`, with all entries of `queue` unsent.
    pub(crate) fn with_side(queue: SendQueue, side: SendSide) -> Self {
        Self {
            queue,
            una: side.psn,
            next: side.psn,
            end: side.psn,
            cursor_packet: 0,
            in_flight: 0,
            reads_in_flight: 0,
            since_ack_request: 0,
            side,
            retries_left: side.retries,
            not_ready_left: side.rnr_retries,
            backoff: 0,
            deadline: Instant::FAR_FUTURE,
            timer_runs: false,
            waiting_not_ready: false,
            recovering: 0,
            broken: None,
            draining: false,
            cable: CableId::SWITCH,
            changes_cable: false,
            route: Route::Any,
        }
    }

    /// Number of PSNs that were sent and not acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.end.distance_from(self.una)
    }

    /// Restarts the acknowledgement timeout at `now`.
    #[inline]
    pub(crate) fn restart_deadline(&mut self, now: Instant) {
        self.deadline = match self.side.timeout {
            Duration::ZERO => Instant::FAR_FUTURE,
            timeout => now + timeout * (1 << self.backoff),
        };
    }

    /// Number of packets, from packet `from` on, that the next request for `entry` covers.
    #[inline]
    pub(crate) fn span(entry: &SendEntry, from: u32) -> u32 {
        match entry.kind {
            Kind::Data | Kind::Atomic => 1,
            Kind::Read => {
                let left = entry.packets - from;
                left.min(READ_PACKETS_MAX - from % READ_PACKETS_MAX)
            }
        }
    }

    /// Whether the packets before `to` of a READ end one of its requests.
    #[inline]
    pub(crate) fn ends_span(entry: &SendEntry, to: u32) -> bool {
        to == entry.packets || to.is_multiple_of(READ_PACKETS_MAX)
    }
}

impl Qp {
    /// Whether there may be a request to send. May return true when there is none.
    #[inline]
    pub(super) fn may_request(&self, core: &Core) -> bool {
        let requester = &self.requester;
        let queue = &requester.queue;
        queue.cursor != queue.tail
            && state::sends(self.state)
            && !requester.waiting_not_ready
            && requester.in_flight < core.config.window_packets
            && !(self.state == QpState::SendQueueDrain && queue.cursor == queue.started)
    }

    /// The next request packet.
    pub(super) fn emit_request(
        &mut self,
        core: &mut Core,
        now: Instant,
        out: &mut Option<Packet>,
    ) -> Emission {
        if !self.may_request(core) {
            return Emission::Idle;
        }
        let number = self.requester.queue.cursor;
        if number == self.requester.queue.started {
            if self.waits_to_cut_through(core) {
                return match self.requester.outstanding() {
                    0 => Emission::Waits,
                    _ => Emission::Idle,
                };
            }
            let requester = &mut self.requester;
            let queue = &mut requester.queue;
            if requester.changes_cable && !self.keeps_to_switch {
                return Emission::Idle;
            }
            assert_eq!(
                requester.next, requester.end,
                "what has PSNs is sent before what has none"
            );
            let (mtu, next) = (self.connection.mtu, requester.next);
            let entry = queue.get_mut(number);
            entry.first_psn = next;
            entry.packets = match entry.kind {
                Kind::Atomic => 1,
                Kind::Data | Kind::Read => mtu.packets(entry.length),
            };
        }
        let entry = self.requester.queue.get(number);
        if !self.may_send(entry) {
            return Emission::Idle;
        }
        let kind = entry.kind;
        let plan = match kind {
            Kind::Data => self.plan_data(core, entry),
            Kind::Read => self.plan_read(core, entry),
            Kind::Atomic => self.plan_atomic(core, entry),
        };
        match plan {
            Ok(plan) => {
                self.send(core, plan, kind, now, out);
                Emission::Packet
            }
            Err(SegmentError::NoBuffer) => {
                core.counters.pool_stalls += 1;
                Emission::Stalled
            }
            Err(error) => {
                let status = match error {
                    SegmentError::TooShort => CompletionStatus::LocalLength,
                    _ => CompletionStatus::LocalProtection,
                };
                self.requester.broken = Some((number, status));
                self.fail_if_broken(core);
                Emission::Idle
            }
        }
    }

    /// Chooses the cable for the next request, if none is outstanding.
    #[inline]
    pub(super) fn choose_cable(&mut self, core: &mut Core) {
        let is_free = self.requester.outstanding() == 0 && !self.keeps_to_switch;
        if is_free && self.may_request(core) {
            self.requester.changes_cable = false;
            self.requester.cable = core.cables.towards(self.connection.peer_ip);
        }
    }

    /// Whether the limits on READs and on PSNs, and the fence, allow the entry's next packet. On a
    /// direct cable every request that may change memory has a fence: responses of READs refer to
    /// the memory there, and take its bytes only when they arrive.
    #[inline]
    fn may_send(&self, entry: &SendEntry) -> bool {
        let requester = &self.requester;
        if requester.broken.is_some() {
            return false;
        }
        let changes = requester.cable != CableId::SWITCH && entry.kind != Kind::Read;
        let is_fenced = entry.request.fence || changes;
        if requester.cursor_packet == 0 && is_fenced && requester.reads_in_flight > 0 {
            return false;
        }
        let limit = u32::from(requester.side.reads_in_flight_max);
        if entry.kind != Kind::Data && requester.reads_in_flight >= limit {
            return false;
        }
        let span = Requester::span(entry, requester.cursor_packet);
        requester.next.distance_from(requester.una) + span < Psn::SPACE / 2
    }

    fn send(
        &mut self,
        core: &mut Core,
        plan: PacketPlan,
        kind: Kind,
        now: Instant,
        out: &mut Option<Packet>,
    ) {
        let requester = &mut self.requester;
        let psn = requester.next;
        // A READ is one packet, however many packets its response has.
        let packets = if kind == Kind::Data { plan.span } else { 1 };
        requester.since_ack_request += packets;
        requester.in_flight += packets;
        let window = core.config.window_packets;
        // Requesting an acknowledgement at least twice per window keeps it moving, even if the peer
        // sends none unsolicited.
        let ack_request = plan.ends_message
            || requester.since_ack_request >= (window / 2).clamp(1, 16)
            || requester.in_flight >= window;
        if ack_request {
            requester.since_ack_request = 0;
        }
        if kind != Kind::Data {
            requester.reads_in_flight += 1;
        }
        if psn == requester.una {
            requester.restart_deadline(now);
        }
        let queue = &mut requester.queue;
        if queue.cursor == queue.started {
            queue.started = queue.started.wrapping_add(1);
        }
        requester.next = psn.add(plan.span);
        requester.cursor_packet += plan.span;
        if requester.cursor_packet == queue.get(queue.cursor).packets {
            queue.cursor = queue.cursor.wrapping_add(1);
            requester.cursor_packet = 0;
        }
        if requester.end.is_before(requester.next) {
            requester.end = requester.next;
        }
        if !requester.timer_runs && requester.deadline != Instant::FAR_FUTURE {
            requester.timer_runs = true;
            core.timers
                .set(Timer::Retransmit.key(self.index), requester.deadline);
        }
        let PacketPlan {
            opcode,
            extension,
            payload,
            solicited,
            ..
        } = plan;
        let fields = PacketFields {
            ack_request,
            solicited,
            ..fields(opcode, psn, extension)
        };
        let Connection { template, mtu, .. } = &self.connection;
        core.emit_fragments(out, template, fields, payload, mtu.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rkey;
    use rackweave_verbs::{Operation, WorkRequest};

    #[test]
    fn a_read_of_more_than_a_quarter_of_all_psns_is_asked_for_in_several_requests() {
        let operation = Operation::Read {
            address: 0,
            rkey: Rkey(0),
        };
        let mut entry = SendEntry::new(WorkRequest::new(0, operation, &[]), 1 << 31);
        entry.packets = 1 << 23;
        assert_eq!(Requester::span(&entry, 0), 1 << 22);
        assert_eq!(
            Requester::span(&entry, 5),
            (1 << 22) - 5,
            "after a loss, up to the same end"
        );
        assert_eq!(Requester::span(&entry, 1 << 22), 1 << 22);
        assert!(Requester::ends_span(&entry, 1 << 22));
        assert!(Requester::ends_span(&entry, 1 << 23));
        assert!(!Requester::ends_span(&entry, (1 << 22) + 1));
    }
}
