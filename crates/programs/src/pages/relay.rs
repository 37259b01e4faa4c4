//! The node's side of an I/O queue: its answers to the target's WRITEs and READs are passed back.

use super::registers::{ACTIVE, PENDING, PSN};
use super::{Digests, PageTask, Pages, Tasks};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_switch::DropReason;
use rackweave_switch::Pass;
use rackweave_switch::transfer::{Engine, emit};
use rackweave_wire::{Extension, Headers, Opcode, Syndrome, Verdict, icrc};

impl Pages {
    /// Handles a node's packet about a request passed on to it.
    pub(super) fn node_says<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, slot): (PortId, u16),
        headers: &Headers,
        mut packet: Packet,
    ) {
        let opcode = headers.bth.opcode;
        let is_data = matches!(
            opcode,
            Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
        );
        let is_news = matches!(opcode, Opcode::Acknowledge | Opcode::CongestionNotification);
        if !is_data && !is_news {
            return pass.drop(port, DropReason::UnexpectedOpcode, &packet);
        }
        let (config, memory) = (engine.config(), engine.memory());
        if is_news && config.check && icrc::verify(&packet, memory) != Verdict::Right {
            return pass.drop(port, DropReason::BadCheck, &packet);
        }
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let store = (registers.relay.read(cursor, usize::from(slot)) >> 24) as u8;
        let Some(queue) = self.queue_lane(engine, slot, store) else {
            return pass.drop(port, DropReason::StaleAcknowledge, &packet);
        };
        if opcode == Opcode::CongestionNotification {
            let notification = emit::congestion(config, memory, queue);
            return pass.forward(queue.port, notification);
        }
        let q = self.queue(slot, store);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let base = Psn::new(registers.base.read(cursor, q));
        let offset = registers.offset.read(cursor, q);
        let psn = Psn::new(headers.bth.psn.get().wrapping_sub(offset) & PSN);
        let distance = psn.distance_from(base);
        if is_data {
            let active = registers.acked.read(cursor, q) & ACTIVE != 0;
            if !active || distance >= super::queue::REQUESTS_MAX {
                return pass.drop(port, DropReason::StaleFragment, &packet);
            }
            emit::relay(config, queue, headers, psn, headers.extension, &mut packet);
            return pass.forward(queue.port, packet);
        }
        let Extension::Aeth(aeth) = headers.extension else {
            return pass.drop(port, DropReason::UnexpectedOpcode, &packet);
        };
        // An ACK confirms its PSN, a NAK everything before it.
        let confirmed = match aeth.syndrome {
            Syndrome::Ack { .. } => psn.add(1).distance_from(base),
            Syndrome::Nak(_) | Syndrome::ReceiverNotReady { .. } => distance,
        };
        let is_sound = confirmed <= super::queue::REQUESTS_MAX;
        let active = registers.acked.update(cursor, q, |acked| {
            let active = *acked & ACTIVE != 0;
            if active && is_sound && confirmed > *acked & PSN {
                *acked = ACTIVE | confirmed;
            }
            active
        });
        if !active || !is_sound {
            return pass.drop(port, DropReason::StaleAcknowledge, &packet);
        }
        let pending = registers.pending.read(cursor, q);
        let response = Psn::new(pending as u32 & PSN);
        if pending & PENDING != 0 && response.distance_from(base) == confirmed {
            return pass.recirculate(PageTask::Finish {
                slot,
                store,
                psn: response,
                relay: response.add(offset),
                status: (pending >> 24) as u16,
            });
        }
        emit::relay(config, queue, headers, psn, headers.extension, &mut packet);
        pass.forward(queue.port, packet);
    }
}
