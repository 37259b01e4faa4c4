//! A queue: a queue pair, its slots for commands, and its slots for responses.
//!
//! Every command slot is a receive request: the submission queue entry goes to one segment and the
//! in-capsule data to another, which is aligned so that a backend can write from it in place. A
//! slot is free for the next capsule when its command has been answered; the response is stored
//! elsewhere, since the NIC needs it until the host has acknowledged it.

use super::flow::Command;
use crate::{RegionRange, TargetConfig};
use rackweave_base::Qpn;
use rackweave_base::memory::BLOCK_ALIGNMENT;
use rackweave_verbs::{QpCapabilities, ReceiveRequest, Region, Segment};
use rackweave_wire::nvme::{cqe, sqe};
use std::collections::VecDeque;

/// The layout of the queues' slots in the region of all capsules.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    entries: usize,
    in_capsule: usize,
    /// Bytes of a slot for in-capsule data: a multiple of the alignment.
    data_stride: usize,
    /// Bytes of a queue; a multiple of the alignment.
    queue_stride: usize,
}

impl Layout {
    pub(crate) fn new(config: &TargetConfig) -> Self {
        let entries = usize::from(config.queue_entries);
        let in_capsule = config.in_capsule_max as usize;
        let data_stride = in_capsule.next_multiple_of(BLOCK_ALIGNMENT);
        let slots = entries * (data_stride + sqe::LEN) + Self::responses_of(entries) * cqe::LEN;
        Self {
            entries,
            in_capsule,
            data_stride,
            queue_stride: slots.next_multiple_of(BLOCK_ALIGNMENT),
        }
    }

    /// Responses that may be unacknowledged while all slots have commands: a host may send the next
    /// command as soon as it has seen a response, before its NIC's acknowledgement arrives.
    fn responses_of(entries: usize) -> usize {
        2 * entries
    }

    pub(crate) fn responses(&self) -> u16 {
        Self::responses_of(self.entries) as u16
    }

    /// Bytes of all queues.
    pub(crate) fn bytes(&self, queues: u16) -> usize {
        self.queue_stride * usize::from(queues)
    }

    /// Queue pair capacity: a READ per command, a WRITE and a SEND per response.
    pub(crate) fn capabilities(&self) -> QpCapabilities {
        QpCapabilities {
            send_max: (self.entries + 2 * Self::responses_of(self.entries)) as u32,
            receive_max: self.entries as u32,
            segments_max: 2,
        }
    }

    /// Completions that one queue can leave in the completion queue.
    pub(crate) fn completions(&self) -> u32 {
        let capabilities = self.capabilities();
        capabilities.send_max + capabilities.receive_max
    }

    /// Where the in-capsule data of a slot begins.
    pub(crate) fn data_at(&self, queue: usize, slot: u16) -> usize {
        queue * self.queue_stride + usize::from(slot) * self.data_stride
    }

    /// Where the submission queue entry of a slot begins.
    pub(crate) fn sqe_at(&self, queue: usize, slot: u16) -> usize {
        let entries = queue * self.queue_stride + self.entries * self.data_stride;
        entries + usize::from(slot) * sqe::LEN
    }

    /// Where a response begins.
    pub(crate) fn cqe_at(&self, queue: usize, response: u16) -> usize {
        self.sqe_at(queue, 0) + self.entries * sqe::LEN + usize::from(response) * cqe::LEN
    }

    pub(crate) fn receive(
        &self,
        region: &Region,
        id: u64,
        queue: usize,
        slot: u16,
    ) -> ReceiveRequest {
        let at = |offset: usize, len: usize| region.segment(offset as u64, len as u32);
        let entry = at(self.sqe_at(queue, slot), sqe::LEN);
        let data = at(self.data_at(queue, slot), self.in_capsule);
        let segments = [entry, data];
        let used = if self.in_capsule == 0 { 1 } else { 2 };
        ReceiveRequest::new(id, &segments[..used])
    }

    pub(crate) fn response(&self, region: &Region, queue: usize, response: u16) -> Segment {
        region.segment(self.cqe_at(queue, response) as u64, cqe::LEN as u32)
    }

    pub(crate) fn data(&self, region: &Region, queue: usize, slot: u16) -> RegionRange {
        RegionRange {
            block: region.block.clone(),
            offset: self.data_at(queue, slot),
        }
    }
}

/// The state of a queue after Connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Connected {
    pub(crate) controller: u16,
    /// Queue id; 0 is the admin queue.
    pub(crate) queue_id: u16,
    /// Entries of the submission queue.
    pub(crate) entries: u32,
    /// Whether responses carry the submission queue's head (they do not if the host turned flow
    /// control off; Fabrics 2.2).
    pub(crate) flow_control: bool,
}

/// The state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueState {
    /// It has no queue pair and no command.
    Free,
    /// It has a queue pair.
    Open,
    /// Its queue pair is to be moved to the error state; no more commands are taken from it.
    Condemned,
    /// Its queue pair failed, and its owner has not closed it yet.
    Broken,
    /// Its queue pair is gone, but the backend still has commands of it.
    Draining,
}

pub(crate) struct Queue {
    pub(crate) qpn: Qpn,
    pub(crate) state: QueueState,
    /// How often it was opened: a backend completion may be of an earlier life of the queue.
    pub(crate) life: u32,
    pub(crate) connected: Option<Connected>,
    pub(crate) sq_head: u32,
    /// Commands by slot.
    pub(crate) commands: Vec<Option<Command>>,
    pub(crate) responses_free: Vec<u16>,
    /// Slots whose commands are done and wait for a free response.
    pub(crate) unanswered: VecDeque<u16>,
    /// Transfer buffers being written to the host.
    pub(crate) giving: Vec<u32>,
}

impl Queue {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            qpn: Qpn(0),
            state: QueueState::Free,
            life: 0,
            connected: None,
            sq_head: 0,
            commands: (0..layout.entries).map(|_| None).collect(),
            responses_free: (0..layout.responses()).rev().collect(),
            unanswered: VecDeque::new(),
            giving: Vec::new(),
        }
    }

    /// Opens the queue on `qpn`.
    pub(crate) fn open(&mut self, qpn: Qpn, layout: &Layout) {
        debug_assert_eq!(self.state, QueueState::Free);
        let life = self.life.wrapping_add(1);
        *self = Self::new(layout);
        self.life = life;
        self.qpn = qpn;
        self.state = QueueState::Open;
    }

    /// The controller and the queue's id there.
    pub(crate) fn is_admin(&self) -> bool {
        self.connected
            .is_some_and(|connected| connected.queue_id == 0)
    }

    pub(crate) fn is_of(&self, controller: u16) -> bool {
        self.connected
            .is_some_and(|connected| connected.controller == controller)
    }

    /// Takes an entry off the submission queue. Returns the head to report in the response.
    pub(crate) fn advance(&mut self) -> u16 {
        let Some(connected) = self.connected else {
            return 0;
        };
        self.sq_head = (self.sq_head + 1) % connected.entries;
        if connected.flow_control {
            self.sq_head as u16
        } else {
            0xffff
        }
    }

    /// Whether a command with this id is in flight.
    pub(crate) fn has_command(&self, command_id: u16) -> bool {
        let mut commands = self.commands.iter().flatten();
        commands.any(|command| command.id == command_id)
    }
}

/// The purpose of a work request; packed into its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkId {
    /// A command capsule goes to this slot.
    Receive(u16),
    /// The command's data is read from the host.
    Fetch(u16),
    /// This transfer buffer is written to the host.
    Give(u32),
    /// This response is sent to the host.
    Respond(u16),
}

impl WorkId {
    /// The work request id for the queue with this index.
    pub(crate) fn pack(self, queue: usize) -> u64 {
        let (kind, index) = match self {
            Self::Receive(slot) => (0, u32::from(slot)),
            Self::Fetch(slot) => (1, u32::from(slot)),
            Self::Give(buffer) => (2, buffer),
            Self::Respond(response) => (3, u32::from(response)),
        };
        kind << 48 | (queue as u64) << 32 | u64::from(index)
    }

    /// The queue's index and the purpose of the request.
    pub(crate) fn unpack(id: u64) -> (usize, Self) {
        let index = id as u32;
        let work = match id >> 48 {
            0 => Self::Receive(index as u16),
            1 => Self::Fetch(index as u16),
            2 => Self::Give(index),
            _ => Self::Respond(index as u16),
        };
        ((id >> 32 & 0xffff) as usize, work)
    }
}

/// The backend tag of a command.
pub(crate) fn tag(life: u32, queue: usize, slot: u16) -> u64 {
    u64::from(life) << 32 | (queue as u64) << 16 | u64::from(slot)
}

/// The life, queue and slot of a tag.
pub(crate) fn untag(tag: u64) -> (u32, usize, u16) {
    (
        (tag >> 32) as u32,
        usize::from((tag >> 16) as u16),
        tag as u16,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_packed_and_unpacked() {
        for work in [
            WorkId::Receive(3),
            WorkId::Fetch(u16::MAX),
            WorkId::Give(u32::MAX),
            WorkId::Respond(0),
        ] {
            assert_eq!(WorkId::unpack(work.pack(65_535)), (65_535, work));
        }
        assert_eq!(untag(tag(u32::MAX, 7, 9)), (u32::MAX, 7, 9));
    }

    #[test]
    fn slots_do_not_overlap_and_data_is_aligned() {
        for in_capsule_max in [0, 16, 4096, 4112] {
            let config = TargetConfig {
                in_capsule_max,
                queue_entries: 3,
                ..TargetConfig::default()
            };
            let layout = Layout::new(&config);
            let mut ranges = Vec::new();
            for queue in 0..2 {
                for slot in 0..3 {
                    let data = layout.data_at(queue, slot);
                    assert!(data.is_multiple_of(4096));
                    ranges.push((data, data + layout.in_capsule));
                    let entry = layout.sqe_at(queue, slot);
                    ranges.push((entry, entry + sqe::LEN));
                }
                for response in 0..layout.responses() {
                    let at = layout.cqe_at(queue, response);
                    ranges.push((at, at + cqe::LEN));
                }
            }
            ranges.sort_unstable();
            assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0), "{ranges:?}");
            assert!(ranges.last().unwrap().1 <= layout.bytes(2));
        }
    }

    #[test]
    fn the_head_wraps_at_the_size_that_the_host_chose() {
        let mut queue = Queue::new(&Layout::new(&TargetConfig::default()));
        queue.connected = Some(Connected {
            controller: 1,
            queue_id: 1,
            entries: 3,
            flow_control: true,
        });
        let heads: Vec<u16> = (0..4).map(|_| queue.advance()).collect();
        assert_eq!(heads, [1, 2, 0, 1]);
    }
}
