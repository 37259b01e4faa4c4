//! One request, executed at the peer's queue pair without packets; see `crate::cut_through`.
//!
//! Only what succeeds is done here. A request that the peer would refuse, or for which it is not
//! ready, changes nothing that a completion vouches for and is sent in packets, which find the same
//! error again and report it.

use super::queues::{Kind, SendEntry};
use super::responder::{Answer, Incoming};
use super::segments::{self, SegmentError};
use super::{Qp, state};
use crate::shared::Core;
use rackweave_base::{Payload, Psn, Rkey};
use rackweave_verbs::{Access, CompletionOpcode, CompletionStatus, Operation, QpState};
use rackweave_wire::Reth;

/// The longest request that cuts through, in bytes: both NICs are locked while it is copied.
const LENGTH_MAX: u32 = 1 << 20;

/// How the next request that has no PSN yet reaches the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// By cut-through, if the NIC allows that and nothing is outstanding, else in packets.
    Any,
    /// By cut-through, once the peer's NIC is free.
    Waits,
    /// In packets.
    Packets,
}

/// A request that a queue pair executed for its peer without packets.
struct Executed {
    packets: u32,
    /// Whether bytes were copied from the peer.
    reads: bool,
    /// What completes a receive request: the opcode, and the immediate.
    receive: Option<(CompletionOpcode, Option<u32>)>,
}

impl Qp {
    /// The peer's NIC, if the next request may cut through to it: there is one, and nothing is
    /// outstanding that it would overtake.
    #[inline]
    pub(crate) fn cut_through_peer(&self) -> Option<u16> {
        let requester = &self.requester;
        let peer = self.connection.peer_nic?;
        let may = requester.queue.head != requester.queue.tail
            && requester.outstanding() == 0
            && requester.route != Route::Packets
            && requester.broken.is_none()
            && self.state == QpState::ReadyToSend
            && !self.keeps_to_switch
            && !self.rate.is_limited();
        may.then_some(peer)
    }

    /// Whether the next request, which has no PSN yet, must not leave in a packet now: it may cut
    /// through, once what is outstanding is acknowledged and the peer's NIC is free.
    #[inline]
    pub(super) fn waits_to_cut_through(&self, core: &Core) -> bool {
        let requester = &self.requester;
        core.cuts_through
            && self.connection.peer_nic.is_some()
            && !self.keeps_to_switch
            && (requester.outstanding() > 0 || requester.route == Route::Waits)
    }

    /// Executes the next request at `peer`. Returns its length, or `None` if it has to be sent in
    /// packets.
    pub(crate) fn cut_through(
        &mut self,
        core: &mut Core,
        peer: &mut Qp,
        peer_core: &mut Core,
    ) -> Option<u32> {
        let psn = self.requester.next;
        if !peer.admits_cut_through(self, core, psn) {
            return None;
        }
        let entry = self.requester.queue.get(self.requester.queue.head);
        let length = entry.length;
        let executed = self.execute_at(core, entry, (peer, peer_core))?;
        let next = psn.add(executed.packets);
        peer.message_ended();
        peer.responder.expected = next;
        peer.responder.unacknowledged = 0;
        if let Some((opcode, immediate)) = executed.receive {
            let status = CompletionStatus::Success;
            peer.complete_receive(peer_core, status, opcode, length, immediate);
        }
        let requester = &mut self.requester;
        (requester.una, requester.next, requester.end) = (next, next, next);
        requester.queue.skip();
        self.retire(core, CompletionStatus::Success);
        core.counters.cut_through_requests += 1;
        let (from, to) = match executed.reads {
            true => (peer_core, core),
            false => (core, peer_core),
        };
        from.counters.cut_through_tx_bytes += u64::from(length);
        to.counters.cut_through_rx_bytes += u64::from(length);
        Some(length)
    }

    /// Whether a request at `psn` may be executed as if its packets had just arrived: it is the
    /// expected one, and nothing is pending that would have to be answered or executed before.
    #[inline]
    fn admits_cut_through(&self, from: &Qp, from_core: &Core, psn: Psn) -> bool {
        let responder = &self.responder;
        responder.expected == psn
            && responder.answer == Answer::None
            && responder.incoming == Incoming::Nothing
            && !responder.nak_sent
            && !responder.reads.is_pending()
            && responder.held.is_empty()
            && state::receives(self.state)
            && self.connection.peer_ip == from_core.config.ip
            && self.connection.peer_qpn == from.qpn
            && self.connection.mtu == from.connection.mtu
    }

    /// Executes the entry, or returns `None`. All its checks precede its effects, except that parts
    /// of a SEND or READ may be stored where a failed request may leave anything.
    fn execute_at(
        &self,
        core: &Core,
        entry: &SendEntry,
        (peer, peer_core): (&Qp, &mut Core),
    ) -> Option<Executed> {
        let length = entry.length;
        if length > LENGTH_MAX {
            return None;
        }
        let mut receive = None;
        let range = |address, rkey| Reth {
            address,
            rkey,
            length,
        };
        match entry.request.operation {
            Operation::Send { immediate } => {
                peer.has_receive(peer_core)?;
                self.copy_to_receive(core, entry, (peer, peer_core))?;
                receive = Some((CompletionOpcode::Receive, immediate));
                peer_core.counters.rdma_recvs += 1;
            }
            Operation::Write {
                address,
                rkey,
                immediate,
            } => {
                if immediate.is_some() {
                    peer.has_receive(peer_core)?;
                    receive = Some((CompletionOpcode::ReceiveWithImmediate, immediate));
                }
                self.copy_to_range(core, entry, (peer, peer_core), &range(address, rkey))?;
                peer_core.counters.rx_write_requests += 1;
            }
            Operation::Read { address, rkey } => {
                let (reth, access) = (range(address, rkey), Access::REMOTE_READ);
                if let Some(source) = peer.permitted(peer_core, &reth, access).ok()? {
                    // A word is loaded as a word, whatever the segments.
                    let payload = segments::reference_or_inline(peer_core, source).ok()?;
                    let segments = entry.request.segments();
                    segments::scatter(core, self.pd, segments, 0, &payload).ok()?;
                }
                peer_core.counters.rx_read_requests += 1;
            }
            Operation::FetchAdd { address, rkey, add } => {
                let update = |value: u64| Some(value.wrapping_add(add));
                self.update_at(core, entry, (peer, peer_core), (address, rkey), update)?;
            }
            Operation::CompareSwap {
                address,
                rkey,
                compare,
                swap,
            } => {
                let update = |value| (value == compare).then_some(swap);
                self.update_at(core, entry, (peer, peer_core), (address, rkey), update)?;
            }
        }
        Some(Executed {
            packets: self.connection.mtu.packets(length),
            reads: entry.kind != Kind::Data,
            receive,
        })
    }

    /// Whether a receive request is posted, and its completion can be.
    #[inline]
    fn has_receive(&self, core: &Core) -> Option<()> {
        self.responder.receives.oldest()?;
        core.cqs.has_space(self.receive_cq).then_some(())
    }

    /// Copies the bytes of a SEND to the peer's oldest receive request.
    #[inline]
    fn copy_to_receive(
        &self,
        core: &Core,
        entry: &SendEntry,
        (peer, peer_core): (&Qp, &Core),
    ) -> Option<()> {
        let into = peer.responder.receives.oldest()?.segments();
        self.copy_pieces(core, entry, |at, payload| {
            segments::scatter(peer_core, peer.pd, into, at, &payload)
        })
    }

    /// Copies the bytes of a WRITE to a range at the peer.
    #[inline]
    fn copy_to_range(
        &self,
        core: &Core,
        entry: &SendEntry,
        (peer, peer_core): (&Qp, &Core),
        reth: &Reth,
    ) -> Option<()> {
        let target = peer.permitted(peer_core, reth, Access::REMOTE_WRITE);
        let Some(target) = target.ok()? else {
            return Some(());
        };
        self.copy_pieces(core, entry, |at, payload| {
            let part = target.part(at, payload.len() as u32);
            segments::stored(payload.store(&core.memory, part))
        })
    }

    /// Passes the bytes of a SEND or WRITE to `store`, with their offsets. Bytes of several
    /// segments that fit a packet are one piece, so that a word is stored as by a packet.
    #[inline]
    fn copy_pieces(
        &self,
        core: &Core,
        entry: &SendEntry,
        mut store: impl FnMut(u32, Payload) -> Result<(), SegmentError>,
    ) -> Option<()> {
        let (segments, length) = (entry.request.segments(), entry.length);
        if segments.len() > 1 && length <= self.connection.mtu.bytes() {
            let payload = segments::gather(core, self.pd, segments, 0, length).ok()?;
            return store(0, payload).ok();
        }
        let mut at = 0;
        let copied = segments::for_each_source(core, self.pd, segments, length, |source| {
            store(at, Payload::Region(source))?;
            at += source.len();
            Ok(())
        });
        copied.ok()
    }

    /// Performs an atomic at the peer, and stores its result.
    #[inline]
    fn update_at(
        &self,
        core: &Core,
        entry: &SendEntry,
        (peer, peer_core): (&Qp, &mut Core),
        (address, rkey): (u64, Rkey),
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Option<()> {
        self.check_result_place(core, entry).ok()?;
        let before = peer.update_word(peer_core, address, rkey, update).ok()?;
        let payload = Payload::inline(&before.to_ne_bytes());
        let stored = segments::scatter(core, self.pd, entry.request.segments(), 0, &payload);
        assert!(stored.is_ok(), "its place was checked");
        peer_core.counters.rx_atomic_requests += 1;
        Some(())
    }
}
