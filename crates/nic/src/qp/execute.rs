//! Executing the peer's requests: SEND, WRITE, READ, atomics (InfiniBand specification 1.4, 9.7.4.1
//! and 9.7.5.2).
//!
//! A request is checked completely before any part of it is executed, so a request that is refused,
//! or must be resent, has changed nothing.
//!
//! SEND with invalidate is refused as invalid: the specification lets a peer invalidate only memory
//! windows and fast-registered regions, and this NIC has neither.

use super::Qp;
use super::responder::{Incoming, MESSAGE_MAX, Refusal};
use super::segments::{self, SegmentError};
use crate::DropReason;
use crate::received::Received;
use crate::shared::Core;
use rackweave_base::{BlockRef, Packet, Payload, Psn, Rkey};
use rackweave_verbs::{Access, Completion, CompletionOpcode, CompletionStatus};
use rackweave_wire::{AtomicEth, Extension, NakCode, Opcode, Reth};

impl Qp {
    pub(super) fn execute_write(
        &mut self,
        core: &mut Core,
        headers: &Received,
        packet: &Packet,
    ) -> Result<u32, Refusal> {
        let (opcode, payload) = (headers.bth.opcode, &packet.payload);
        let ends = opcode.ends_message();
        let fragments = packet.fragments();
        if fragments > 1 && opcode != Opcode::WriteMiddle {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        self.check_payload_len(opcode, packet.fragment_len())?;
        let (address, rkey, left, length) = match (headers.extension, self.responder.incoming) {
            (Extension::Reth(reth) | Extension::RethImmediate(reth, _), Incoming::Nothing) => {
                self.permitted(core, &reth, Access::REMOTE_WRITE)?;
                (reth.address, reth.rkey, reth.length, reth.length)
            }
            (
                Extension::None | Extension::Immediate(_),
                Incoming::Write {
                    address,
                    rkey,
                    left,
                    length,
                },
            ) => (address, rkey, left, length),
            _ => return Err(Refusal::Nak(NakCode::InvalidRequest)),
        };
        let len = payload.len() as u32;
        if len > left || (ends && len != left) || (!ends && len == left) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let immediate = immediate_of(headers);
        if immediate.is_some() && self.responder.receives.oldest().is_none() {
            return Err(Refusal::NotReady);
        }
        if len > 0 {
            self.store_write(core, address, rkey, payload)?;
        }
        if !ends {
            let address = address.wrapping_add(u64::from(len));
            self.responder.incoming = Incoming::Write {
                address,
                rkey,
                left: left - len,
                length,
            };
            return Ok(fragments);
        }
        self.message_ended();
        core.counters.rx_write_requests += 1;
        if immediate.is_some() {
            let opcode = CompletionOpcode::ReceiveWithImmediate;
            self.complete_receive(core, CompletionStatus::Success, opcode, length, immediate);
        }
        Ok(1)
    }

    /// The range of a READ or WRITE of the peer, checked as a whole when the request begins; `None`
    /// if it is empty.
    #[inline]
    pub(super) fn permitted(
        &self,
        core: &Core,
        reth: &Reth,
        access: Access,
    ) -> Result<Option<BlockRef>, Refusal> {
        if !self.responder.access.contains(access) || reth.length > MESSAGE_MAX {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        self.range(core, reth, access)
    }

    /// A range in a request of the peer. An empty range is in every region (specification 1.4,
    /// 9.7.5.2.4).
    #[inline]
    pub(super) fn range(
        &self,
        core: &Core,
        reth: &Reth,
        access: Access,
    ) -> Result<Option<BlockRef>, Refusal> {
        if reth.length == 0 {
            return Ok(None);
        }
        let (address, rkey, length) = (reth.address, reth.rkey, reth.length);
        let range = core.regions.remote(self.pd, rkey, address, length, access);
        range
            .map(Some)
            .map_err(|_| Refusal::Nak(NakCode::RemoteAccess))
    }

    #[inline]
    pub(super) fn store_write(
        &self,
        core: &Core,
        address: u64,
        rkey: Rkey,
        payload: &Payload,
    ) -> Result<(), Refusal> {
        let len = payload.len() as u32;
        let target = core
            .regions
            .remote(self.pd, rkey, address, len, Access::REMOTE_WRITE);
        let target = target.map_err(|_| Refusal::Nak(NakCode::RemoteAccess))?;
        match payload.store(&core.memory, target) {
            true => Ok(()),
            false => Err(Refusal::Drop(DropReason::PayloadGone)),
        }
    }

    pub(super) fn execute_send(
        &mut self,
        core: &mut Core,
        headers: &Received,
        payload: &Payload,
    ) -> Result<u32, Refusal> {
        let opcode = headers.bth.opcode;
        self.check_payload_len(opcode, payload.len())?;
        let received = match (opcode.begins_message(), self.responder.incoming) {
            (true, Incoming::Nothing) => 0,
            (false, Incoming::Send { received }) => received,
            _ => return Err(Refusal::Nak(NakCode::InvalidRequest)),
        };
        if matches!(headers.extension, Extension::Invalidate(_)) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let len = payload.len() as u32;
        if len > MESSAGE_MAX - received {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let receive = self.responder.receives.oldest().ok_or(Refusal::NotReady)?;
        segments::scatter(core, self.pd, receive.segments(), received, payload).map_err(
            |error| match error {
                SegmentError::TooShort => {
                    Refusal::Receive(CompletionStatus::LocalLength, NakCode::InvalidRequest)
                }
                SegmentError::Protection => {
                    Refusal::Receive(CompletionStatus::LocalProtection, NakCode::RemoteOperation)
                }
                SegmentError::PayloadGone | SegmentError::NoBuffer => {
                    Refusal::Drop(DropReason::PayloadGone)
                }
            },
        )?;
        let received = received + len;
        if !opcode.ends_message() {
            self.responder.incoming = Incoming::Send { received };
            return Ok(1);
        }
        self.message_ended();
        core.counters.rdma_recvs += 1;
        let (status, kind) = (CompletionStatus::Success, CompletionOpcode::Receive);
        self.complete_receive(core, status, kind, received, immediate_of(headers));
        Ok(1)
    }

    pub(super) fn execute_read(
        &mut self,
        core: &mut Core,
        headers: &Received,
    ) -> Result<u32, Refusal> {
        let Extension::Reth(reth) = headers.extension else {
            unreachable!("a parsed READ request has a RETH")
        };
        if self.responder.incoming != Incoming::Nothing || !self.responder.reads.has_room() {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        self.permitted(core, &reth, Access::REMOTE_READ)?;
        self.message_ended();
        core.counters.rx_read_requests += 1;
        let (mtu, msn) = (self.connection.mtu, self.responder.msn);
        self.responder
            .reads
            .admit_read(headers.bth.psn, &reth, mtu, msn);
        Ok(mtu.packets(reth.length))
    }

    pub(super) fn execute_atomic(
        &mut self,
        core: &mut Core,
        headers: &Received,
    ) -> Result<u32, Refusal> {
        let Extension::AtomicEth(atomic) = headers.extension else {
            unreachable!("a parsed atomic request has an AtomicETH")
        };
        let AtomicEth {
            address,
            rkey,
            swap_or_add,
            compare,
        } = atomic;
        if self.responder.incoming != Incoming::Nothing || !self.responder.reads.has_room() {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let opcode = headers.bth.opcode;
        let before = self.update_word(core, address, rkey, |value| match opcode {
            Opcode::FetchAdd => Some(value.wrapping_add(swap_or_add)),
            _ => (value == compare).then_some(swap_or_add),
        })?;
        self.message_ended();
        core.counters.rx_atomic_requests += 1;
        self.responder
            .reads
            .admit_atomic(headers.bth.psn, before, self.responder.msn);
        Ok(1)
    }

    /// Performs an atomic of the peer. Returns the word's old value.
    pub(super) fn update_word(
        &self,
        core: &Core,
        address: u64,
        rkey: Rkey,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Refusal> {
        let access = Access::REMOTE_ATOMIC;
        if !self.responder.access.contains(access) || !address.is_multiple_of(8) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let word = core.regions.remote(self.pd, rkey, address, 8, access);
        let word = word.map_err(|_| Refusal::Nak(NakCode::RemoteAccess))?;
        let before = core.memory.update_word(word, update);
        Ok(before.expect("registered words are there, and regions begin at a page"))
    }

    /// All packets but the last of a message have the size of the MTU; the last is not empty unless
    /// it is the only one, and none exceeds the MTU.
    #[inline]
    fn check_payload_len(&self, opcode: Opcode, len: usize) -> Result<(), Refusal> {
        let (len, mtu) = (len as u32, self.connection.mtu.bytes());
        let right = match opcode.ends_message() {
            true => len <= mtu && (len > 0 || opcode.begins_message()),
            false => len == mtu,
        };
        if right {
            Ok(())
        } else {
            Err(Refusal::Nak(NakCode::InvalidRequest))
        }
    }

    pub(super) fn message_ended(&mut self) {
        self.responder.incoming = Incoming::Nothing;
        self.responder.msn = (self.responder.msn + 1) % Psn::SPACE;
    }

    /// Completes the oldest receive request.
    pub(super) fn complete_receive(
        &mut self,
        core: &mut Core,
        status: CompletionStatus,
        opcode: CompletionOpcode,
        length: u32,
        immediate: Option<u32>,
    ) {
        self.responder.incoming = Incoming::Nothing;
        let receive = self
            .responder
            .receives
            .pop()
            .expect("its presence was checked");
        let (id, qpn) = (receive.id, self.qpn);
        let completion = Completion {
            id,
            qpn,
            status,
            opcode,
            length,
            immediate,
        };
        core.complete_receive(self.receive_cq, completion);
    }
}

fn immediate_of(headers: &Received) -> Option<u32> {
    match headers.extension {
        Extension::Immediate(value) | Extension::RethImmediate(_, value) => Some(value),
        _ => None,
    }
}
