//! The end of a command: its result becomes a completion entry, and its response is sent.

use super::Stage;
use crate::target::Target;
use crate::target::plan::{Keyed, Refusal};
use crate::target::queue::WorkId;
use crate::{IoError, IoKind};
use rackweave_verbs::{Operation, PostError, Verbs, WorkRequest};
use rackweave_wire::nvme::{Cqe, Status};

impl Target {
    /// Answers a completed command; `data` is the destination of its transfer buffer.
    pub(super) fn answer(
        &mut self,
        verbs: &mut dyn Verbs,
        queue: usize,
        slot: u16,
        result: Result<u64, Refusal>,
        data: Option<Keyed>,
    ) {
        let (status, result) = match result {
            Ok(result) => (Status::SUCCESS, result),
            Err(refusal) => (refusal.status, refusal.result),
        };
        let command = self.command(queue, slot);
        command.stage = Stage::Response {
            status,
            result,
            data,
        };
        if data.is_none()
            && let Some(buffer) = command.buffer.take()
        {
            self.buffers.give(buffer);
        }
        self.queues[queue].unanswered.push_back(slot);
        self.respond(verbs, queue);
    }

    /// Sends answers while there are free responses.
    pub(crate) fn respond(&mut self, verbs: &mut dyn Verbs, queue: usize) {
        while !self.queues[queue].unanswered.is_empty() {
            let Some(response) = self.queues[queue].responses_free.pop() else {
                return;
            };
            let slot = self.queues[queue].unanswered.pop_front();
            let slot = slot.expect("just seen");
            if self.send(verbs, queue, slot, response).is_err() {
                self.condemn(queue);
                return;
            }
        }
    }

    fn send(
        &mut self,
        verbs: &mut dyn Verbs,
        queue: usize,
        slot: u16,
        response: u16,
    ) -> Result<(), PostError> {
        let command = self.queues[queue].commands[usize::from(slot)].take();
        let command = command.expect("an unanswered slot has a command");
        let Stage::Response {
            status,
            result,
            data,
        } = command.stage
        else {
            unreachable!("only what is done is answered");
        };
        let cqe = self.complete(queue, command.id, status, result);
        let at = self.layout.cqe_at(queue, response);
        self.capsules.block.write(at, &cqe.emit());
        // The host may send the next command as soon as it has the answer, so the receive is posted
        // first.
        let layout = self.layout;
        let qpn = self.queues[queue].qpn;
        if let (Some(buffer), Some(to)) = (command.buffer, data) {
            self.queues[queue].giving.push(buffer);
            let write = Operation::Write {
                address: to.address,
                rkey: to.key,
                immediate: None,
            };
            let id = WorkId::Give(buffer).pack(queue);
            let segment = self.buffers.segment(buffer, to.length);
            verbs.post_send(qpn, WorkRequest::new(id, write, &[segment]))?;
        }
        let id = WorkId::Receive(slot).pack(queue);
        verbs.post_receive(qpn, layout.receive(&self.capsules, id, queue, slot))?;
        let id = WorkId::Respond(response).pack(queue);
        let segment = layout.response(&self.capsules, queue, response);
        let send = Operation::Send { immediate: None };
        verbs.post_send(qpn, WorkRequest::new(id, send, &[segment]))
    }

    /// The completion queue entry of a completed command; updates the counters.
    pub(crate) fn complete(&mut self, queue: usize, id: u16, status: Status, result: u64) -> Cqe {
        if !status.is_success() {
            let errors = &mut self.counters.errors;
            *errors.entry(status.without_hints()).or_default() += 1;
        }
        Cqe {
            result,
            sq_head: self.queues[queue].advance(),
            command_id: id,
            status,
        }
    }

    /// Drops a command and frees its buffer.
    pub(crate) fn drop_command(&mut self, queue: usize, slot: u16) {
        let command = self.queues[queue].commands[usize::from(slot)].take();
        if let Some(buffer) = command.and_then(|command| command.buffer) {
            self.buffers.give(buffer);
        }
    }
}

/// The status that reports a backend failure to the host.
pub(super) fn status(error: IoError, kind: IoKind) -> Status {
    match (error, kind) {
        (IoError::OutOfRange, _) => Status::LBA_OUT_OF_RANGE,
        (IoError::NoSpace, _) => Status::CAPACITY_EXCEEDED,
        (IoError::MediaError, IoKind::Read) => Status::READ_ERROR,
        (IoError::MediaError, _) => Status::WRITE_FAULT,
        (IoError::Other, _) => Status::INTERNAL,
    }
}
