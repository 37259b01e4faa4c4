//! Determines the next packet of a work request (InfiniBand specification 1.4, 9.4).

use super::Qp;
use super::queues::SendEntry;
use super::requester::Requester;
use super::segments::{self, SegmentError};
use crate::shared::Core;
use rackweave_base::Payload;
use rackweave_verbs::{Access, Operation};
use rackweave_wire::{AtomicEth, Extension, Opcode, Reth};

/// The properties of one request packet.
pub(super) struct PacketPlan {
    pub(super) opcode: Opcode,
    pub(super) extension: Extension,
    pub(super) payload: Payload,
    /// Number of PSNs that it uses.
    pub(super) span: u32,
    pub(super) ends_message: bool,
    pub(super) solicited: bool,
}

impl Qp {
    pub(super) fn plan_data(
        &self,
        core: &Core,
        entry: &SendEntry,
    ) -> Result<PacketPlan, SegmentError> {
        let packet = self.requester.cursor_packet;
        let mtu = self.connection.mtu.bytes();
        let offset = packet * mtu;
        let span = self.train_len(core, entry);
        let len = (span * mtu).min(entry.length - offset);
        let (first, last) = (packet == 0, packet + 1 == entry.packets);
        let request = &entry.request;
        let payload = segments::gather(core, self.pd, request.segments(), offset, len)?;
        let (opcode, extension, immediate) = match request.operation {
            Operation::Send { immediate } => (
                send_opcode(first, last, immediate),
                Extension::None,
                immediate,
            ),
            Operation::Write {
                address,
                rkey,
                immediate,
            } => {
                let reth = Reth {
                    address,
                    rkey,
                    length: entry.length,
                };
                let extension = if first {
                    Extension::Reth(reth)
                } else {
                    Extension::None
                };
                (write_opcode(first, last, immediate), extension, immediate)
            }
            _ => unreachable!("SENDs and WRITEs alone are data"),
        };
        let extension = match (extension, immediate) {
            (Extension::Reth(reth), Some(value)) if last => Extension::RethImmediate(reth, value),
            (Extension::None, Some(value)) if last => Extension::Immediate(value),
            (extension, _) => extension,
        };
        let is_send = matches!(request.operation, Operation::Send { .. });
        let solicited = last && request.solicited && (is_send || immediate.is_some());
        Ok(PacketPlan {
            opcode,
            extension,
            payload,
            span,
            ends_message: last,
            solicited,
        })
    }

    /// Number of the entry's next fragments that may travel as one packet: Middles of a WRITE,
    /// where links carry trains, within the window and one segment.
    #[inline]
    fn train_len(&self, core: &Core, entry: &SendEntry) -> u32 {
        let (requester, most) = (&self.requester, core.config.train_max);
        let packet = requester.cursor_packet;
        let is_write = matches!(entry.request.operation, Operation::Write { .. });
        if most == 1 || !is_write || packet == 0 || packet + 2 >= entry.packets {
            return 1;
        }
        let mtu = self.connection.mtu.bytes();
        let middles = entry.packets - 1 - packet;
        let window = core.config.window_packets - requester.in_flight;
        let together = segments::neighbours(entry.request.segments(), packet * mtu) / mtu;
        middles.min(most).min(window).min(together).max(1)
    }

    pub(super) fn plan_read(
        &self,
        core: &Core,
        entry: &SendEntry,
    ) -> Result<PacketPlan, SegmentError> {
        let Operation::Read { address, rkey } = entry.request.operation else {
            unreachable!("a READ entry holds a READ")
        };
        self.check_result_place(core, entry)?;
        let from = self.requester.cursor_packet;
        let mtu = self.connection.mtu.bytes();
        let span = Requester::span(entry, from);
        let skipped = from * mtu;
        let length = (entry.length - skipped).min(span.saturating_mul(mtu));
        let address = address.wrapping_add(u64::from(skipped));
        Ok(PacketPlan {
            opcode: Opcode::ReadRequest,
            extension: Extension::Reth(Reth {
                address,
                rkey,
                length,
            }),
            payload: Payload::Empty,
            span,
            ends_message: true,
            solicited: false,
        })
    }

    pub(super) fn plan_atomic(
        &self,
        core: &Core,
        entry: &SendEntry,
    ) -> Result<PacketPlan, SegmentError> {
        self.check_result_place(core, entry)?;
        let (opcode, atomic) = match entry.request.operation {
            Operation::FetchAdd { address, rkey, add } => (
                Opcode::FetchAdd,
                AtomicEth {
                    address,
                    rkey,
                    swap_or_add: add,
                    compare: 0,
                },
            ),
            Operation::CompareSwap {
                address,
                rkey,
                compare,
                swap,
            } => (
                Opcode::CompareSwap,
                AtomicEth {
                    address,
                    rkey,
                    swap_or_add: swap,
                    compare,
                },
            ),
            _ => unreachable!("an atomic entry holds an atomic"),
        };
        Ok(PacketPlan {
            opcode,
            extension: Extension::AtomicEth(atomic),
            payload: Payload::Empty,
            span: 1,
            ends_message: true,
            solicited: false,
        })
    }

    /// Checks that the result of a READ or atomic may be stored at its destination.
    pub(super) fn check_result_place(
        &self,
        core: &Core,
        entry: &SendEntry,
    ) -> Result<(), SegmentError> {
        match segments::check(core, self.pd, entry.request.segments(), Access::LOCAL_WRITE) {
            true => Ok(()),
            false => Err(SegmentError::Protection),
        }
    }
}

const fn send_opcode(first: bool, last: bool, immediate: Option<u32>) -> Opcode {
    match (first, last, immediate.is_some()) {
        (true, true, false) => Opcode::SendOnly,
        (true, true, true) => Opcode::SendOnlyImmediate,
        (true, false, _) => Opcode::SendFirst,
        (false, false, _) => Opcode::SendMiddle,
        (false, true, false) => Opcode::SendLast,
        (false, true, true) => Opcode::SendLastImmediate,
    }
}

const fn write_opcode(first: bool, last: bool, immediate: Option<u32>) -> Opcode {
    match (first, last, immediate.is_some()) {
        (true, true, false) => Opcode::WriteOnly,
        (true, true, true) => Opcode::WriteOnlyImmediate,
        (true, false, _) => Opcode::WriteFirst,
        (false, false, _) => Opcode::WriteMiddle,
        (false, true, false) => Opcode::WriteLast,
        (false, true, true) => Opcode::WriteLastImmediate,
    }
}
