//! State shared by the queue pairs of a NIC.

use crate::cables::Cables;
use crate::congestion::Dcqcn;
use crate::cq::CqTable;
use crate::egress::Egress;
use crate::region_table::RegionTable;
use crate::{Counters, NicConfig};
use rackweave_base::packet::Pool;
use rackweave_base::{Memory, Packet, Payload, Qpn, Timers};
use rackweave_verbs::{Completion, CompletionStatus, CqId, QpEvent};
use rackweave_wire::{PacketFields, Template, icrc};
use std::collections::VecDeque;

/// The deadlines of one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// An acknowledgement is overdue.
    Retransmit,
    /// The wait after a receiver-not-ready NAK is over.
    NotReady,
    /// The rate allows another packet.
    Pace,
    /// DCQCN's alpha decays.
    Alpha,
    /// DCQCN's rate is raised.
    Raise,
}

impl Timer {
    pub(crate) const ALL: [Timer; 5] = [
        Timer::Retransmit,
        Timer::NotReady,
        Timer::Pace,
        Timer::Alpha,
        Timer::Raise,
    ];

    /// The key of this deadline of the queue pair at `index`.
    #[inline]
    pub(crate) fn key(self, index: u32) -> u32 {
        index * Self::ALL.len() as u32 + self as u32
    }

    /// The queue pair's index and the deadline that a key stands for.
    pub(crate) fn of_key(key: u32) -> (u32, Timer) {
        let count = Self::ALL.len() as u32;
        (key / count, Self::ALL[(key % count) as usize])
    }
}

/// Everything in a NIC except its queue pairs.
pub(crate) struct Core {
    pub(crate) config: NicConfig,
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    pub(crate) regions: RegionTable,
    pub(crate) cqs: CqTable,
    pub(crate) counters: Counters,
    pub(crate) timers: Timers,
    pub(crate) egress: Egress,
    pub(crate) events: VecDeque<QpEvent>,
    /// The IPv4 identification, incremented with every packet sent.
    pub(crate) identification: u16,
    /// Whether the caller that takes the packets copies the bytes of READ responses.
    pub(crate) reads_deferred: bool,
    pub(crate) cables: Cables,
    /// Whether requests may cut through.
    pub(crate) cuts_through: bool,
}

impl Core {
    pub(crate) fn new(config: NicConfig, memory: Memory, pool: Pool) -> Self {
        let timers = Timers::new(config.qps_max as usize * Timer::ALL.len());
        Self {
            regions: RegionTable::new(config.regions_max),
            cqs: CqTable::new(config.cqs_max, config.cq_entries_max),
            egress: Egress::new(config.qps_max),
            timers,
            config,
            memory,
            pool,
            counters: Counters::default(),
            events: VecDeque::new(),
            identification: 0,
            reads_deferred: false,
            cables: Cables::default(),
            cuts_through: false,
        }
    }

    /// The parameters of rate control.
    #[inline]
    pub(crate) fn dcqcn(&self) -> Option<&Dcqcn> {
        self.config.congestion.as_ref()
    }

    /// Writes a packet to `out`.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        out: &mut Option<Packet>,
        template: &Template,
        mut fields: PacketFields,
        payload: Payload,
    ) {
        self.identification = self.identification.wrapping_add(1);
        fields.identification = self.identification;
        let packet = out.insert(Packet::with_payload(payload));
        template.write_to(&fields, packet);
        if self.config.check {
            let sealed = icrc::seal(packet, &self.memory);
            assert!(sealed, "payloads of our own refer to registered regions");
        }
    }

    /// Writes a packet to `out`: a train of fragments of `mtu` bytes, if the payload is longer.
    #[inline]
    pub(crate) fn emit_fragments(
        &mut self,
        out: &mut Option<Packet>,
        template: &Template,
        mut fields: PacketFields,
        payload: Payload,
        mtu: u32,
    ) {
        if payload.len() <= mtu as usize {
            return self.emit(out, template, fields, payload);
        }
        let first = self.identification.wrapping_add(1);
        fields.identification = first;
        let packet = out.insert(Packet::with_payload(payload));
        packet.make_train(mtu);
        self.identification = first.wrapping_add(packet.fragments() as u16 - 1);
        template.write_to(&fields, packet);
    }

    /// Completes a request of the send queue.
    pub(crate) fn complete_send(&mut self, cq: CqId, completion: Completion) {
        match completion.status {
            CompletionStatus::Success => {}
            CompletionStatus::Flushed => self.counters.req_cqe_flush_error += 1,
            _ => self.counters.req_cqe_error += 1,
        }
        self.complete(cq, completion);
    }

    /// Completes a request of the receive queue.
    pub(crate) fn complete_receive(&mut self, cq: CqId, completion: Completion) {
        match completion.status {
            CompletionStatus::Success => {}
            CompletionStatus::Flushed => self.counters.resp_cqe_flush_error += 1,
            _ => self.counters.resp_cqe_error += 1,
        }
        self.complete(cq, completion);
    }

    fn complete(&mut self, cq: CqId, completion: Completion) {
        if !self.cqs.push(cq, completion) {
            self.counters.cq_overflows += 1;
        }
    }

    /// Reports an event. An event that has not been taken yet is not repeated, so the number of
    /// events is bounded by the numbers of queue pairs and completion queues.
    pub(crate) fn report(&mut self, event: QpEvent) {
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    /// Removes the events of a queue pair that no longer exists.
    pub(crate) fn forget_events(&mut self, qpn: Qpn) {
        self.events.retain(
            |event| !matches!(event, QpEvent::Drained(of) | QpEvent::Fatal(of) if *of == qpn),
        );
    }

    /// Cancels all deadlines of a queue pair.
    pub(crate) fn cancel_timers(&mut self, index: u32) {
        for timer in Timer::ALL {
            self.timers.cancel(timer.key(index));
        }
    }
}
